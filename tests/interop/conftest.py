# SPDX-License-Identifier: Apache-2.0
"""What the tests against the real Zenoh share: their marker, both ends' TLS settings and free ports."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenlake.link import Tls

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)


@pytest.fixture(scope="session")
def our_tls(certificates: Path) -> Tls:
    return Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
    )


@pytest.fixture(scope="session")
def wheel_tls(certificates: Path) -> dict[str, object]:
    """The same, as the wheel's configuration says it."""
    return {
        "transport/link/tls/root_ca_certificate": str(certificates / "ca.pem"),
        "transport/link/tls/listen_certificate": str(certificates / "server.pem"),
        "transport/link/tls/listen_private_key": str(certificates / "server.key"),
    }


@pytest.fixture(scope="session")
def ports() -> Iterator[int]:
    """Ports that were free a moment ago, each handed out once."""

    def free() -> Iterator[int]:
        while True:
            with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
                tcp.bind(("127.0.0.1", 0))
                port = tcp.getsockname()[1]
                udp.bind(("127.0.0.1", port))
            yield port

    return free()
