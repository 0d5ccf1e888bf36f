# SPDX-License-Identifier: Apache-2.0
from queue import SimpleQueue

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
