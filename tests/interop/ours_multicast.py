# SPDX-License-Identifier: Apache-2.0
"""Our member of a multicast group, in a process of its own so that it can live in another network namespace.

`python ours_multicast.py ENDPOINT`: joins, sends a message on `to/x` and a large one to each new member, prints received
messages and members that leave, sends both again for each line `again`, and leaves after any other line.
"""

import os
import sys

from zenlake.core.enums import WhatAmI
from zenlake.runtime.connection import ConnectionOwner
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.runtime.multicast_connection import MulticastConnection, MulticastListener
from zenlake.transport.multicast import Peer, PeerLeft
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

LARGE = bytes(range(256)) * 120


def say(*words: object) -> None:
    print(*words, flush=True)


class Echoes(Sink):
    def __init__(self, member: "Member") -> None:
        self.member = member

    def on_message(self, kind: int, reader: object) -> int:
        message = reader.record(kind)
        if isinstance(message, Declare) and isinstance(message.body, DeclareEntity):
            if message.body.key.suffix.text == "to/**":
                say("SUBSCRIBED")
                self.member.speak()
        elif isinstance(message, Push):
            payload = message.put.payload.value
            say("GOT", message.key.suffix.text, "large" if payload == LARGE else payload.decode())
        return 0


class Member(MulticastListener):
    group: MulticastConnection

    def sink(self, peer: Peer) -> Sink:
        return Echoes(self)

    def on_join(self, peer: Peer) -> None:
        say("JOINED", peer.zid[::-1].hex())
        subscribe = DeclareEntity(kind=2, id=1, key="back/**")
        self.group.send(Declare(qos=0x08, body=subscribe), 0, congestion=1)

    def on_leave(self, event: PeerLeft) -> None:
        say("LEFT", event.reason.name)

    def speak(self) -> None:
        self.group.send(Push(key="to/x", body=Put(payload=b"small")))
        self.group.send(Push(key="to/y", body=Put(payload=LARGE)))


def main() -> None:
    qos = sys.argv[2] == "qos"
    settings = Settings(os.urandom(15) + b"\x01", WhatAmI.PEER, join_interval=0.2, lease=3.0, multicast_qos=qos)
    runtime = ConnectionManager(settings, ConnectionOwner())
    member = Member()
    # Joining and remembering the group happen in the loop, before anything can arrive.
    member.group = runtime.join(sys.argv[1], member)
    say("READY")
    while sys.stdin.readline() == "again\n":
        member.speak()
    runtime.close()
    say("CLOSED")


main()
