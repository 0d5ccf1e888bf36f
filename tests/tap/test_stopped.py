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
from zenlake.runtime.connections import ConnectionManager, new_zid
from zenlake.transport.settings import Settings

TAP = """
import sys
from zenlake.tap.tap import Tap
from zenlake.runtime.connections import Backoff
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
        node.opened_faces.get(timeout=30.0)
        until(lambda: router.faces)
    finally:
        tap.communicate(timeout=30.0)
        router.close()
    events = zenlake.read(tmp_path / "log", "events").to_pylist()
    (detail,) = [row["detail"] for row in events if row["kind"] == "reconnected"]
    found = re.search(r"([\d.]+) s", detail)
    assert found is not None
    assert float(found[1]) > STOPPED - 0.5
