# SPDX-License-Identifier: Apache-2.0
"""SCOUT and HELLO between the real Zenoh and us, in a network namespace of its own."""

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


def test_a_group_of_ipv6_is_asked_and_answered(namespace: tuple[str, ...]) -> None:
    ours = Process("ours_scouting.py", "[ff02::224]:7446", "pair0", prefix=namespace)
    own = ours.expect("READY").split()[1]
    assert ours.expect("HELLO").split()[1:] == [own, "router", LOCATOR]  # who asks is on this machine
    ours.close()
