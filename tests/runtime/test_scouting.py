# SPDX-License-Identifier: Apache-2.0
import socket
from queue import SimpleQueue

import pytest

from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.runtime.event_loop import EventLoop
from zenlake.runtime.scouting import ScoutGroup, ScoutReplies, ScoutRounds
from zenlake.wire.scouting import Hello

GROUP = ScoutGroup("224.0.0.224:17463", "127.0.0.1")


def test_replies_that_arrive_before_the_event_loop_starts_are_handled() -> None:
    answering, asking = ScoutReplies(GROUP), ScoutRounds(GROUP, WhatAmIMatcher("peer"))
    asking.send_scout()
    hellos: SimpleQueue[Hello] = SimpleQueue()
    engine = EventLoop()
    engine.start()
    engine.run(lambda: answering.begin(engine, b"\x01\x02", WhatAmI.PEER, lambda: ["tcp/127.0.0.1:4711"]))
    engine.run(lambda: asking.begin(engine, hellos.put))
    hello = hellos.get(timeout=0.9)  # of the first question: the next one is asked after a second
    assert (hello.zid.value, hello.locators) == (b"\x01\x02", ["tcp/127.0.0.1:4711"])
    engine.run(asking.close)
    engine.run(answering.close)
    engine.stop()


def test_scouting_that_never_begins_closes_its_sockets() -> None:
    for each in (ScoutReplies(GROUP), ScoutRounds(GROUP, WhatAmIMatcher("peer"))):
        each.close()
        each.close()


@pytest.mark.parametrize(("locator", "known"), [("tcp/127.0.0.1:4711", True), ("tcp/0.0.0.0:4711", False)])
def test_a_repeated_question_has_the_same_reply(locator: str, known: bool) -> None:
    """The HELLO is not encoded again, unless it has addresses that may change."""
    answering = ScoutReplies(GROUP)
    engine = EventLoop()
    engine.start()
    engine.run(lambda: answering.begin(engine, b"\x01\x02", WhatAmI.PEER, lambda: [locator]))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(5)
        asking.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        asking.bind(("127.0.0.1", 0))
        replies = []
        for datagram in (b"", b"\xff", *[b"\x01\x09\x07"] * 3):  # bytes that are no question get no reply
            asking.sendto(datagram, ("224.0.0.224", 17463))
            if datagram.startswith(b"\x01"):
                replies.append(asking.recv(200))
    assert len(set(replies)) == 1
    assert bool(answering._port.known) is known
    engine.run(answering.close)
    engine.stop()
