# SPDX-License-Identifier: Apache-2.0
"""A multicast group of the real Zenoh and us, in a network namespace of its own."""

import contextlib
import json
import queue

import pytest

from tests.interop.partner import Process, Wheel

GROUP = "udp/224.0.0.225:7448#iface=lo"
LEASE = 1.0  # of both; seconds


@pytest.mark.parametrize("qos", ["qos", "plain"])
def test_we_and_the_wheel_hear_each_other_also_after_two_idle_leases(namespace: tuple[str, ...], qos: str) -> None:
    ours = Process("ours_multicast.py", GROUP, qos, prefix=namespace)
    ours.expect("READY")
    theirs = Wheel(
        {
            "mode": "peer",
            "listen/endpoints": [GROUP],
            "transport/multicast/qos/enabled": qos == "qos",
            "transport/multicast/join_interval": 200,
            "transport/link/tx/lease": int(1000 * LEASE),
        },
        namespace,
    )
    zid = theirs.expect("READY").split()[1]
    assert ours.expect("JOINED").split()[1].lstrip("0") == zid
    ours.expect("SUBSCRIBED")
    ours.expect("GOT back/to/x small")
    ours.expect("GOT back/to/y large")
    if qos == "qos":
        ours.quiet(2.2 * LEASE)  # no member leaves or joins again
        ours.send_line("again")
        ours.expect("GOT back/to/x small")
        ours.expect("GOT back/to/y large")
    theirs.close()
    ours.expect("LEFT GENERIC")
    ours.close()
    ours.expect("CLOSED")


@pytest.mark.parametrize("where", ["listen", "connect"])
@pytest.mark.parametrize("wheel_first", [True, False])
def test_a_session_of_ours_in_a_group_publishes_to_the_wheel_and_hears_it(
    namespace: tuple[str, ...], where: str, wheel_first: bool
) -> None:
    """The group is all that connects them; the wheel sends back what it hears."""
    common = {"mode": "peer", "scouting/multicast/enabled": False, "transport/multicast/join_interval": 100}
    theirs = {**common, "listen/endpoints": [GROUP]}
    own = {**common, "listen/endpoints": [], f"{where}/endpoints": [GROUP]}
    if wheel_first:
        wheel = Wheel(theirs, namespace)
        wheel.expect("READY")
    ours = Process("ours_member.py", json.dumps(own), prefix=namespace)
    ours.expect("READY")
    if not wheel_first:
        wheel = Wheel(theirs, namespace)
        wheel.expect("READY")
    for _ in range(50):  # until each has received the JOIN and the subscriber of the other
        ours.send_line("again")
        with contextlib.suppress(queue.Empty):
            # The subscriber can arrive between the two puts, so the first line can be the large one.
            if ours.lines.get(timeout=0.2) == "GOT back/to/x SampleKind.PUT small":
                break
    else:
        pytest.fail("the wheel sent nothing back")
    ours.expect("GOT back/to/y SampleKind.PUT large")
    for process in (ours, wheel):
        process.close()
