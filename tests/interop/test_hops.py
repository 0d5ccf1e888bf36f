# SPDX-License-Identifier: Apache-2.0
"""Latencies of hops along a chain of routers of both kinds, compared with the clocks of programs at its ends."""

import json
import statistics
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import zenlake
from tests.interop.nodes import Theirs
from tests.versions.topologies import free_port
from zenlake.tap.tap import Tap

PROGRAM = Path(__file__).with_name("hop_clocks.py")
TOLERANCE = 1000  # microseconds


@pytest.mark.parametrize(
    "chain", [("zenlake", "", "zenlake"), ("", "zenlake", "")], ids=["ours outside", "ours inside"]
)
def test_the_latencies_of_hops_agree_with_the_clocks_of_the_ends(chain, tmp_path):
    endpoints, routers = [], []
    try:
        for implementation in chain:
            endpoint = f"tcp/127.0.0.1:{free_port()}"
            routers.append(Theirs("router", tuple(endpoints[-1:]), (endpoint,), implementation))
            endpoints.append(endpoint)
        with Tap(tmp_path / "log", ["hops/**"], connect=[endpoints[-1]]):
            done = subprocess.run(
                [sys.executable, str(PROGRAM), *endpoints], capture_output=True, text=True, timeout=120, check=True
            )
    finally:
        for router in routers:
            router.kill()
    seen = json.loads(done.stdout)
    sent, *received = zip(*seen["rows"], strict=True)
    samples = zenlake.read(tmp_path / "log", columns=["payload", "received_ns", "timestamp_stack"]).to_pylist()
    recorded = {int(row["payload"]): row["received_ns"] for row in samples if row["timestamp_stack"]}
    assert len(recorded) == len(sent)

    nodes = [seen["sender"], *(router.zid for router in routers)]
    rows = {(row["from_node"], row["to_node"]): row for row in zenlake.read(tmp_path / "log", "hops").to_pylist()}
    way = [*pairwise(nodes), (nodes[-1], None)]
    assert set(rows) == set(way)
    assert {row["samples"] for row in rows.values()} == {len(sent)}
    hops = [rows[each]["latency_p50_us"] for each in way]

    def median(late, early):
        return statistics.median((b - a) / 1000 for a, b in zip(early, late, strict=True))

    # From router to router: the clients of two neighbours.
    for hop, (near, far) in zip(hops[1:-1], pairwise(received), strict=True):
        assert abs(hop - median(far, near)) < TOLERANCE
    # The whole way: the publisher and the recorder.
    assert abs(sum(hops) - median([recorded[number] for number in range(len(sent))], sent)) < TOLERANCE
