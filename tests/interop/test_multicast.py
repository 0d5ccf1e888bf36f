# SPDX-License-Identifier: Apache-2.0
"""A multicast group of the real Zenoh and us, in a network namespace of its own."""

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
        ours.quiet(2.2 * LEASE)  # nobody leaves, nobody joins a second time
        ours.tell("again")
        ours.expect("GOT back/to/x small")
        ours.expect("GOT back/to/y large")
    theirs.close()
    ours.expect("LEFT GENERIC")
    ours.close()
    ours.expect("CLOSED")
