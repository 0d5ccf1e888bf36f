# SPDX-License-Identifier: Apache-2.0
"""A multicast group of the real Zenoh and us, in a network namespace of its own."""

import contextlib
import json
import queue
import time

import pytest

from tests.interop.nodes import Theirs, until
from tests.interop.partner import Process, Wheel
from tests.versions.environments import YARDSTICK
from tests.versions.matrix import OURS, run_topology
from tests.versions.topologies import LINKS, Network

GROUP = "udp/224.0.0.225:7448#iface=lo"
LEASE = 3.0  # of both; seconds. A busy machine may leave a process without CPU for one


@pytest.mark.parametrize("qos", ["qos", "plain"])
def test_multicast_with_the_wheel_survives_two_idle_leases(namespace: tuple[str, ...], qos: str) -> None:
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
def test_a_session_in_a_group_exchanges_samples_with_the_wheel(
    namespace: tuple[str, ...], where: str, wheel_first: bool
) -> None:
    """Only the group connects the nodes. The wheel sends received samples back."""
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


def test_our_router_forwards_between_a_group_and_its_clients(namespace: tuple[str, ...]) -> None:
    [topology] = [each for each in LINKS if "multicast group, their client, our router" in each.name]
    cell = run_topology(topology, lambda: Network(OURS, YARDSTICK, namespace), YARDSTICK, OURS)
    assert cell.failed == {}
    assert cell.passed == 2


def test_two_connected_routers_in_a_group_deliver_everything_once(namespace: tuple[str, ...]) -> None:
    """1.7.2 routers forward in circles here: more than 700 copies of each sample in a second."""
    network = Network(OURS, YARDSTICK, namespace)
    join = {"transport/multicast/join_interval": 100}
    first, second = ("tcp/127.0.0.1:7461",), ("tcp/127.0.0.1:7462",)
    try:
        nodes = {
            "router": network.open("ours", "router", (), (*first, GROUP), **join),
            "other router": network.open("ours", "router", first, (*second, GROUP), **join),
            "third router": network.open("theirs", "router", (*first, *second), ("tcp/127.0.0.1:0",)),
            "member": network.open("theirs", "peer", (), (GROUP,), **join),
            "client": network.open("theirs", "client", first),
            "other client": network.open("theirs", "client", second),
        }
        for node in nodes.values():
            node.do("sub", "s", "k/**")
        number = 0

        def seen(node: Theirs) -> list[str]:
            return sorted(event[2] for event in node.events.of("sample", "s") if event[0] == f"k/{number}")

        def publish() -> bool:
            nonlocal number
            number += 1
            for name, node in nodes.items():
                node.do("put", f"k/{number}", name)
            time.sleep(0.3)
            return all(set(seen(node)) == set(nodes) for node in nodes.values())

        until(publish, "some node does not hear all others")
        assert {name: seen(node) for name, node in nodes.items()} == {name: sorted(nodes) for name in nodes}
    finally:
        network.close()
