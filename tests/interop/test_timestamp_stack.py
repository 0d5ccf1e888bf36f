# SPDX-License-Identifier: Apache-2.0
"""Every node on the way adds a record of the point *routed* to a timestamp stack, as in 1.10."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("stack_program.py")


def run_program(*arguments: str) -> list[str]:
    command = [sys.executable, str(PROGRAM), *arguments]
    lines = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True).stdout.splitlines()
    return list(dict.fromkeys(lines))  # a sample is published until it arrives


@pytest.mark.parametrize("mode", ["router", "peer"])
def test_a_message_has_the_records_of_1_10(mode: str) -> None:
    expected = run_program(mode, *("zenoh",) * 3)
    assert expected[0] == "sample send0 route0 route1 route2 receive2 increasing"
    assert run_program(mode, *("zenlake",) * 3) == expected


def test_a_chain_of_our_routers_and_a_real_one_has_a_record_of_each() -> None:
    chain = ("zenoh", "zenlake", "zenoh", "zenlake", "zenoh")
    assert run_program("router", *chain) == run_program("router", *("zenoh",) * 5)
