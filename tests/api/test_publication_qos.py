# SPDX-License-Identifier: Apache-2.0
"""`qos/publication` overrides the QoS that a program gives its samples, as in eclipse-zenoh."""

import subprocess
import sys

import pytest

PROGRAM = """
import importlib, json, sys
zenoh = importlib.import_module(sys.argv[1])
rules = [
    {"key_exprs": ["a/*"], "config": {"congestion_control": "block", "priority": "real_time", "express": True,
                                      "reliability": "best_effort"}},
    {"key_exprs": ["b/**", "c"], "config": {"priority": "data_low"}},
    {"key_exprs": ["c"], "config": {"priority": "background"}},
    {"key_exprs": ["r"], "config": {"allowed_destination": "remote"}},
]
config = zenoh.Config()
for name, value in {"listen/endpoints": ["tcp/127.0.0.1:0"], "scouting/multicast/enabled": False, "qos/publication": rules}.items():
    config.insert_json5(name, json.dumps(value))
with zenoh.open(config) as session:
    subscriber = session.declare_subscriber("**", zenoh.handlers.FifoChannel(100))
    session.put("a/b", "1")
    session.put("a/b", b"2", priority=zenoh.Priority.BACKGROUND)
    session.delete("a/b")
    for key in ("a/*", "**", "b/**", "c"):
        publisher = session.declare_publisher(key)
        print(key, publisher.priority, publisher.congestion_control, publisher.reliability)
        publisher.put(b"3")
    for key in ("c", "r", "last"):
        session.put(key, b"4")
    for sample in subscriber:
        print(sample.key_expr, sample.kind, sample.priority, sample.congestion_control, sample.express)
        if str(sample.key_expr) == "last":
            break
"""


def run_program(package):
    command = [sys.executable, "-c", PROGRAM, package]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()


def test_rules_override_the_arguments_of_the_program():
    lines = run_program("zenlake")
    everything = "Priority.REAL_TIME CongestionControl.BLOCK"
    assert lines[0] == f"a/* {everything} Reliability.BEST_EFFORT"
    assert lines.count(f"a/b SampleKind.PUT {everything} True") == 2
    assert "c SampleKind.PUT Priority.BACKGROUND CongestionControl.DROP False" in lines
    assert not any(line.startswith("r ") for line in lines)


@pytest.mark.interop
def test_rules_behave_as_in_eclipse_zenoh():
    assert run_program("zenlake") == run_program("zenoh")
