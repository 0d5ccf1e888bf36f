# SPDX-License-Identifier: Apache-2.0
"""Lost frames beside fragmented messages of the real Zenoh, which skips a number after each of them.

A publisher on UDP sends large and small messages through a relay that drops some datagrams. Its counts are the reference.
"""

import json
import os
from pathlib import Path

import pytest

import zenlake
from tests.interop.conftest import apart
from tests.interop.test_truth import Process, dropped_by_the_kernel, our_router

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for a network namespace")
ROUTER, RELAY = "127.0.0.1:7447", "127.0.0.1:7448"
LARGE = 40


def test_frames_lost_beside_fragmented_messages_are_counted_once(tmp_path: Path) -> None:
    with apart(("ip link set lo up",)) as prefix:
        with our_router(prefix, tmp_path / "log", f"udp/{ROUTER}"):
            relay = Process(prefix, "tests.interop.lossy_relay", RELAY, ROUTER, "0.25")
            relay.read_line("READY")
            options = json.dumps({"count": LARGE})
            publisher = Process(prefix, "tests.interop.fleet_node", "mapper", "robot00", f"udp/{RELAY}", options)
            publisher.read_line("READY")
            publisher.send_line("go")
            publisher.read_line("DONE")
            account = relay.account()
            for each in (publisher, relay):
                each.send_line("close")
                each.end()
        assert dropped_by_the_kernel(prefix) == 0, "the machine is too busy: a socket lost datagrams"
    lost = {kind: len(numbers) for kind, numbers in account["dropped"]["robot00"].items()}
    assert min(lost["map"], lost["status"]) > 0
    gaps = zenlake.read(tmp_path / "log", "gaps").to_pylist()
    missing = dict.fromkeys(("network", "skip"), 0)
    for gap in gaps:
        missing[gap["cause"]] += gap["missing"]
        assert gap["harmless"] == (gap["cause"] == "skip")
    assert missing == {"network": account["frames"]["robot00"], "skip": LARGE}
    whole = LARGE - len(set(account["dropped"]["robot00"]["map"]))
    samples = zenlake.read(tmp_path / "log", columns=["key", "fragments"]).to_pylist()
    assert sum(row["fragments"] is not None for row in samples) == whole
