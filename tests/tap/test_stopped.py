# SPDX-License-Identifier: Apache-2.0
"""A tap whose process was stopped for longer than the lease."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import zenlake
from tests.runtime.nodes import Recorder, until
from zenlake.core.enums import WhatAmI
from zenlake.runtime.connection_manager import ConnectionManager, new_zid
from zenlake.transport.settings import Settings

TAP = """
import sys
from zenlake.tap.tap import Tap
from zenlake.runtime.connection_manager import Backoff
with Tap(sys.argv[1], ["**"], connect=[sys.argv[2]], transport={"lease": 1.0}, backoff=Backoff(0.1, 2.0, 0.2)) as tap:
    sys.stdin.read()
"""
STOPPED = 3.0


def test_the_gap_is_measured_from_the_last_batch(tmp_path: Path) -> None:
    node = Recorder()
    router = ConnectionManager(Settings(new_zid(), WhatAmI.ROUTER, lease=1.0), node)
    where = router.listen("tcp/127.0.0.1:0")
    tap = subprocess.Popen([sys.executable, "-c", TAP, str(tmp_path / "log"), where], stdin=subprocess.PIPE)
    try:
        node.opened_faces.get(timeout=30.0)
        time.sleep(0.5)
        tap.send_signal(signal.SIGSTOP)
        time.sleep(STOPPED)
        tap.send_signal(signal.SIGCONT)
        # The router opens the face before the tap writes the event: wait for the event.
        until(lambda: gaps(tmp_path / "log"))
    finally:
        tap.communicate(timeout=30.0)
        router.close()
    # A busy machine can miss the short lease a second time. The first gap is the one of the stop.
    assert gaps(tmp_path / "log")[0] > STOPPED - 0.5


def gaps(log: Path) -> list[float]:
    """Return the seconds of each gap that the log records."""
    details = [row["detail"] for row in zenlake.read(log, "events").to_pylist() if row["kind"] == "reconnected"]
    return [float(seconds) for detail in details for seconds in re.findall(r"([\d.]+) s", detail)[:1]]
