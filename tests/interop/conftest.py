# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests against eclipse-zenoh: the marker, the TLS settings of both ends, and free ports."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MULTICAST = (
    "ip link set lo up",
    "ip link set lo multicast on",
    "ip route add 224.0.0.0/4 dev lo",
    # IPv6 has no multicast on loopback: a pair of its own
    "ip link add pair0 type veth peer name pair1",
    "ip link set pair0 addrgenmode none up",
    "ip link set pair1 up",
    "ip addr add fe80::1/64 dev pair0 nodad",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def wheel_tls(certificates: Path) -> dict[str, object]:
    """Return the same settings as a configuration of the wheel."""
    return {
        "transport/link/tls/root_ca_certificate": str(certificates / "ca.pem"),
        "transport/link/tls/listen_certificate": str(certificates / "server.pem"),
        "transport/link/tls/listen_private_key": str(certificates / "server.key"),
    }


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    """Return ports that were free a moment ago, each once."""

    def free() -> Iterator[int]:
        while True:
            with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                tcp.bind(("127.0.0.1", 0))
                port = tcp.getsockname()[1]
                udp.bind(("127.0.0.1", port))
            yield port

    return free()


@pytest.fixture
def namespace() -> Iterator[tuple[str, ...]]:
    """Return the command prefix that runs a command in its own network namespace, with multicast on loopback."""
    with apart(MULTICAST) as prefix:
        yield prefix


@pytest.fixture
def only_loopback() -> Iterator[tuple[str, ...]]:
    """Return the same for a machine with only a loopback interface, whose only flag is that it is up."""
    with apart(MULTICAST[:1]) as prefix:
        yield prefix


@contextmanager
def apart(commands: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    holder = subprocess.Popen(
        ["unshare", "--net", "--", "sh", "-c", f"{' && '.join(commands)} && echo up && exec cat"],
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
