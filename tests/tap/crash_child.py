# SPDX-License-Identifier: Apache-2.0
"""A tap or a recording router in its own process, which ends at a named point of its log by SIGKILL or a simulated power cut.

    python -m tests.tap.crash_child (tap|router) ENDPOINT LOG SYNC POINT AFTER POWER

The points are those of `tests.log.storm`, and those of the copy that it makes of sealed segments, in LOG.copy.
"""

import sys
import threading
from functools import partial

import pyarrow.fs as pafs

from tests.log.storm import Failing
from zenlake.core.enums import WhatAmI
from zenlake.log import Mirror, Writer, block, writer
from zenlake.log.recorder import Recorder
from zenlake.runtime.live_node import NodeConfig, open_node
from zenlake.tap import tap as tap_module
from zenlake.tap.connection_recorder import ConnectionRecorder
from zenlake.tap.tap import Tap


def main(role, endpoint, log, sync, point, after, power):
    disk = Failing(point, int(after), power == "1")
    sync = sync if sync in ("block", "sealed") else float(sync)
    small = partial(Writer, segment_size=100_000, disk=disk)
    writer.MIN_DIRECT, block.LARGE = 0, 4096
    tap_module.BLOCK_SIZE = 20_000
    if role == "tap":
        tap_module.Writer = small
        running = Tap(log, ["**"], connect=[endpoint], name="w", sync=sync, when_full="block")
        recorder = running.recorder
    else:
        recorder = Recorder(small(log, "w", sync=sync, block_size=20_000), when_full="block")
        running = open_node(NodeConfig(WhatAmI.ROUTER, listen=(endpoint,), recording=ConnectionRecorder(recorder)))
        running.declare_subscriber(b"**", None)
    copy = Mirror(log, "w", f"{log}.copy", pafs.LocalFileSystem(), disk)
    recorder.writer.on_seal = lambda segment: copy.catch_up() and None
    print("ready", flush=True)
    threading.Event().wait(120)  # it dies before that


if __name__ == "__main__":
    main(*sys.argv[1:])
