# SPDX-License-Identifier: Apache-2.0
"""Attacks by link states, gossip, scouting and multicast groups."""

import itertools
import os
import random
import socket
from collections.abc import Iterator

from tests.hostile.catalogue import (
    FOREVER,
    KINDS,
    Steps,
    Target,
    attack,
    read_available,
    subscribe,
)
from tests.hostile.client import CONTROL, PEER, ROUTER, Raw, pack
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.wire import linkstate
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.handshake import Close, Join
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam
from zenlake.wire.scouting import Hello, Scout
from zenlake.wire.transport import Fragment, Frame


def node_id(number: int) -> ZenohId:
    """Return the id of an invented node."""
    return ZenohId.from_wire(number.to_bytes(15, "little") + b"\x01")


def invent(link: Raw, shape: str, count: int, sn: int, source: random.Random) -> bytes:
    """Return a link state with `count` routers in a shape; the sender is number 0 and its neighbour 1."""
    if shape == "chain":
        links = [[n - 1, n + 1] for n in range(count)]
        links[-1] = [count - 2]
    elif shape == "star":
        links = [[0] for _ in range(count)]
        links[0] = list(range(1, count))
    else:
        links = [source.sample(range(count), min(count, 4)) for _ in range(count)]
    links[0] = [1, *(n for n in links[0] if n > 1)]
    ids = [ZenohId.from_wire(link.zid), ZenohId.from_wire(link.peer_zid), *map(node_id, range(2, count))]
    role = WhatAmI.ROUTER
    nodes = [
        LinkState(
            n, sn, ids[n], role, ("tcp/127.0.0.1:9",) if n % 2 else (), tuple(m for m in links[n] if 0 <= m < count)
        )
        for n in range(count)
    ]
    return bytes(Oam(id=linkstate.OAM_ID, body=linkstate.encode(nodes)).encode())


@attack("chain", "star", "random", sessions=1)
def link_states(target: Target, shape: str) -> Steps:
    """Claim to be a router and send graphs of invented routers, each newer than the one before."""
    link = target.open(ROUTER)
    for sn in itertools.count(10):
        for payload in fragment(link, invent(link, shape, int(1000 * target.scale), sn, target.random)):
            link.send(payload)
        read_available(link)
        yield


def fragment(link: Raw, message: bytes) -> Iterator[bytes]:
    """Split one message into batches of the control lane."""
    if len(message) < 60_000:
        yield link.frame(message, priority=CONTROL)
        return
    pieces = [message[at : at + 60_000] for at in range(0, len(message), 60_000)]
    for number, piece in enumerate(pieces):
        sn = link.next_sn.get((CONTROL, True), 0)
        link.next_sn[CONTROL, True] = (sn + 1) & 0xFFFFFFF
        more = number < len(pieces) - 1
        yield Fragment(reliable=True, more=more, sn=sn, priority=CONTROL, first=number == 0, payload=piece).encode()


@attack(sessions=1)
def link_state_growth(target: Target) -> Steps:
    """Claim to be a router and report new routers without end."""
    link = target.open(ROUTER)
    for start in itertools.count(2, 300):
        nodes = [
            LinkState(n, 1, node_id(n), WhatAmI.ROUTER, ("tcp/127.0.0.1:9",) * 5, (0,))
            for n in range(start, start + 300)
        ]
        link.say(Oam(id=linkstate.OAM_ID, body=linkstate.encode(nodes)), priority=CONTROL)
        read_available(link)
        yield


@attack(sessions=1)
def gossip(target: Target) -> Steps:
    """Claim to be a peer and report peers without end, with addresses to connect to."""
    link = target.open(PEER)
    for start in itertools.count(2, 200):
        nodes = [
            LinkState(n, 1, node_id(n), WhatAmI.PEER, (f"tcp/127.0.0.1:{n % 60000 + 1}",), ())
            for n in range(start, start + 200)
        ]
        link.say(Oam(id=linkstate.OAM_ID, body=linkstate.encode(nodes)), priority=CONTROL)
        read_available(link)
        yield


@attack(sessions=1, refusal="declarations")
def router_declarations(target: Target) -> Steps:
    """Claim to be a router, join the graph and declare for invented routers."""
    link = target.open(ROUTER)
    link.say(invent(link, "star", 10, 10, target.random), priority=CONTROL)
    for payload in pack(
        Declare(node_id=n % 10, body=DeclareEntity(kind=KINDS[n % 3], id=n, key=f"router/{n}")) for n in range(FOREVER)
    ):
        link.say(payload, priority=CONTROL)
        read_available(link)
        yield


@attack(sessions=200)
def routers(target: Target) -> Steps:
    """Open many sessions, all as routers, each with a graph of its own."""
    for _ in target.times(100):
        link = target.open(ROUTER)
        link.say(invent(link, "random", 50, 10, target.random), priority=CONTROL)
        yield


@attack(needs=("scouting",), sessions=0)
def scouting(target: Target) -> Steps:
    """Send SCOUT and HELLO messages and garbage to the scouting group."""
    host, port = target.endpoints["scouting"].split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        while True:
            for _ in range(20):
                zid = os.urandom(15) + b"\x01"
                link.sendto(Scout(what=7, zid=zid).encode(), (host, int(port)))
                hello = Hello(whatami=0, zid=zid, locators=["tcp/127.0.0.1:9"] * 20)
                link.sendto(hello.encode(), (host, int(port)))
                link.sendto(target.random.randbytes(50), (host, int(port)))
            yield


@attack("members", "frames", needs=("group",), sessions=0)
def joins(target: Target, what: str) -> Steps:
    """Join a multicast group from many addresses; `frames` sends messages and partial messages as well."""
    host, port = target.endpoints["group"].removeprefix("udp/").split(":")
    for number in itertools.count():
        link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        link.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        target.links.append(link)
        if len(target.links) > 500:
            target.links.pop(0).close()
        zid = os.urandom(15) + b"\x01"
        join = Join(whatami=1, zid=zid, lease=3600, seconds=True, sized=True, batch_size=8192, patch=1)
        link.sendto(join.encode(), (host, int(port)))
        if what == "frames":
            frame = bytes(Frame(sn=0, reliable=True).encode())
            link.sendto(frame + subscribe(1, f"group/{number}/" + "x" * 5_000), (host, int(port)))
            part = Fragment(reliable=False, more=True, sn=0, first=True, payload=bytes(8_000)).encode()
            link.sendto(part, (host, int(port)))
            link.sendto(Close(reason=0).encode() if number % 7 == 0 else target.random.randbytes(30), (host, int(port)))
        yield
