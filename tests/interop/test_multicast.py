# SPDX-License-Identifier: Apache-2.0
"""A multicast group of the real Zenoh and us, in a network namespace of its own."""

import subprocess
from collections.abc import Iterator

import pytest

from tests.interop.partner import Process, Wheel

GROUP = "udp/224.0.0.225:7448#iface=lo"
SETUP = ("ip link set lo up multicast on", "ip route add 224.0.0.0/4 dev lo")


@pytest.fixture
def namespace() -> Iterator[tuple[str, ...]]:
    """What to put before a command so that it runs where multicast on loopback works and nobody else is."""
    holder = subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", f"{' && '.join(SETUP)} && echo up && exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    up = holder.stdout.readline().strip() == "up"
    try:
        if not up:
            pytest.skip(f"no network namespace here: {holder.stderr.read().strip()}")
        yield ("nsenter", f"--net=/proc/{holder.pid}/ns/net", "--")
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
        holder.stderr.close()


@pytest.mark.parametrize("qos", ["qos", "plain"])
def test_we_and_the_wheel_hear_each_other(namespace: tuple[str, ...], qos: str) -> None:
    ours = Process("ours_multicast.py", GROUP, qos, prefix=namespace)
    ours.expect("READY")
    theirs = Wheel(
        {
            "mode": "peer",
            "listen/endpoints": [GROUP],
            "transport/multicast/qos/enabled": qos == "qos",
            "transport/multicast/join_interval": 200,
            "transport/link/tx/lease": 1000,
        },
        namespace,
    )
    zid = theirs.expect("READY").split()[1]
    assert ours.expect("JOINED").split()[1].lstrip("0") == zid
    ours.expect("SUBSCRIBED")
    ours.expect("GOT back/to/x small")
    ours.expect("GOT back/to/y large")
    theirs.close()
    ours.expect("LEFT GENERIC")
    ours.close()
    ours.expect("CLOSED")
