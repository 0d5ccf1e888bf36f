# SPDX-License-Identifier: Apache-2.0
"""Our end of scouting, in a process of its own so that it can live in another network namespace.

`python ours_scouting.py ADDRESS INTERFACES`: replies as a router that listens on `LOCATOR`, requests routers and peers,
and prints each node that replies, once, until it reads a line.
"""

import os
import sys

from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.runtime.event_loop import EventLoop
from zenlake.runtime.scouting import ScoutGroup, ScoutReplies, ScoutThread
from zenlake.wire.scouting import Hello

LOCATOR = "tcp/127.0.0.1:4711"


def main() -> None:
    group = ScoutGroup(sys.argv[1], sys.argv[2])
    zid = os.urandom(15) + b"\x01"
    engine = EventLoop()
    engine.start()
    answering = ScoutReplies(group)
    engine.run(lambda: answering.begin(engine, zid, WhatAmI.ROUTER, lambda: [LOCATOR]))
    print("READY", zid[::-1].hex().lstrip("0"), flush=True)
    seen = set()

    def report(hello: Hello) -> None:
        if hello.zid.value not in seen:
            seen.add(hello.zid.value)
            role = str(WhatAmI.from_wire(hello.whatami))
            print("HELLO", hello.zid.value[::-1].hex().lstrip("0"), role, *hello.locators, flush=True)

    lookout = ScoutThread(group, WhatAmIMatcher("router|peer"), report)
    sys.stdin.readline()
    lookout.close()
    engine.run(answering.close)
    engine.stop()


if __name__ == "__main__":
    main()
