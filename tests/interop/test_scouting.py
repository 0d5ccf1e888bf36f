# SPDX-License-Identifier: Apache-2.0
"""SCOUT and HELLO between the real Zenoh and us, in a network namespace of its own."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.interop.conftest import apart
from tests.interop.ours_scouting import LOCATOR
from tests.interop.partner import Process, Wheel

ADDRESS = "224.0.0.224:7446"


def test_each_finds_the_other(namespace: tuple[str, ...]) -> None:
    ours = Process("ours_scouting.py", ADDRESS, "lo", prefix=namespace)
    own = ours.expect("READY").split()[1]
    assert ours.expect("HELLO").split()[1:] == [own, "router", LOCATOR]

    theirs = Wheel(
        {
            "mode": "peer",
            "listen/endpoints": ["tcp/127.0.0.1:0"],
            "scouting/multicast/enabled": True,
            "scouting/multicast/address": ADDRESS,
            "scouting/multicast/interface": "lo",
            "scouting/multicast/autoconnect": [],
        },
        namespace,
    )
    zid = theirs.expect("READY").split()[1]
    _, found, role, locator = ours.expect("HELLO").split()
    assert (found, role) == (zid, "peer")
    assert locator.startswith("tcp/127.0.0.1:")

    asking = Process("wheel_scouting.py", ADDRESS, "lo", prefix=namespace)
    assert {asking.expect("HELLO").split()[1] for _ in range(2)} == {own, zid}
    for process in (asking, theirs, ours):
        process.close()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_the_command(namespace: tuple[str, ...], number: int, code: int) -> None:
    ours = Process("ours_scouting.py", ADDRESS, "lo", prefix=namespace)
    own = ours.expect("READY").split()[1]
    command = [str(Path(sys.executable).with_name("zenlake")), "scout", "--seconds", "0"]
    settings = ["--set", f'scouting/multicast/address="{ADDRESS}"', "--set", 'scouting/multicast/interface="lo"']
    scouting = subprocess.Popen(
        [*namespace, *command, *settings], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert scouting.stdout is not None
    assert own in scouting.stdout.readline()
    scouting.send_signal(number)
    assert (*scouting.communicate(timeout=30), scouting.returncode) == ("", "", code)
    ours.close()


def test_a_group_of_ipv6_is_asked_and_answered(namespace: tuple[str, ...]) -> None:
    ours = Process("ours_scouting.py", "[ff02::224]:7446", "pair0", prefix=namespace)
    own = ours.expect("READY").split()[1]
    assert ours.expect("HELLO").split()[1:] == [own, "router", LOCATOR]  # the scouting node is on this machine
    ours.close()


def test_nodes_discover_each_other_on_loopback_by_default(
    only_loopback: tuple[str, ...],
) -> None:
    """The wheel finds no node there unless its interface is configured."""
    ours = [Process("ours_scouting.py", ADDRESS, "auto", prefix=only_loopback) for _ in range(2)]
    zids = [process.expect("READY").split()[1] for process in ours]
    for process in ours:
        assert {process.expect("HELLO").split()[1] for _ in range(2)} == set(zids)  # each receives its own SCOUT too
    asking = Process("wheel_scouting.py", ADDRESS, "lo", prefix=only_loopback)
    assert {asking.expect("HELLO").split()[1] for _ in range(2)} == set(zids)
    for process in (asking, *ours):
        process.close()


def test_a_real_node_is_found_where_only_loopback_has_a_route_for_multicast() -> None:
    """For a SCOUT without a source address, the reply would lack the loopback locators."""
    commands = ("ip link set lo up", "ip link set lo multicast on", "ip route add 224.0.0.0/4 dev lo")
    with apart(commands) as prefix:
        config = {"mode": "peer", "scouting/multicast/enabled": True, "scouting/multicast/autoconnect": []}
        theirs = Wheel(config, prefix)
        zid = theirs.expect("READY").split()[1]
        ours = Process("ours_open.py", ADDRESS, "auto", prefix=prefix)
        assert ours.expect("OPEN").split()[2:] == [zid]
        for process in (ours, theirs):
            process.close()


def test_all_replying_nodes_receive_the_first_put(namespace: tuple[str, ...]) -> None:
    """`open` waits for every node, not only for the first, whichever end connects."""
    config = {
        "listen/endpoints": ["tcp/127.0.0.1:0"],
        "scouting/multicast/enabled": True,
        "scouting/multicast/address": ADDRESS,
        "scouting/multicast/interface": "lo",
    }
    theirs = [Wheel(config, namespace) for _ in range(2)]
    for process in theirs:
        process.expect("READY")
    ours = Process("ours_first_put.py", ADDRESS, "lo", "4", prefix=namespace)
    assert [ours.expect("ECHOES").split()[1] for _ in range(4)] == ["2"] * 4
    for process in (ours, *theirs):
        process.close()


def test_two_nodes_that_start_together_discover_each_other(namespace: tuple[str, ...]) -> None:
    """A node receives the SCOUT of the other before it can reply. (The first SCOUT may have found no node yet.)"""
    ours = [Process("ours_open.py", ADDRESS, "lo", prefix=namespace) for _ in range(2)]
    openings = [process.expect("OPEN").split()[1:] for process in ours]
    assert max(openings, key=len) in ([openings[0][0], openings[1][0]], [openings[1][0], openings[0][0]])
    for process in ours:
        process.close()
