# SPDX-License-Identifier: Apache-2.0
"""Every kind of link, in both roles, with the real Zenoh at the other end."""

import queue
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.partner import PATIENCE, Ours, Wheel, subscribe
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason, LinkError, RemoteError
from zenlake.link import Tls

LINKS = ("tcp", "tls", "quic", "udp", "unixsock-stream", "ws")
LARGE = 10_000_000
LEASE = {"transport/link/tx/lease": 3000}  # a busy machine may leave a process without CPU for a second


@pytest.fixture(scope="session")
def endpoints(ports: Iterator[int], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("sockets")
    found = {link: f"{link}/localhost:{next(ports)}" for link in ("tls", "quic")}
    found |= {link: f"{link}/127.0.0.1:{next(ports)}" for link in ("tcp", "udp", "ws")}
    return found | {"unixsock-stream": f"unixsock-stream/{folder}/z.sock"}


@pytest.fixture(scope="session")
def router(endpoints: dict[str, str], wheel_tls: dict[str, object]) -> Iterator[Wheel]:
    """One real router that listens on every kind of link."""
    wheel = Wheel({"mode": "router", "listen/endpoints": list(endpoints.values()), **LEASE, **wheel_tls})
    wheel.expect("READY")
    yield wheel
    wheel.close()


class Mutual(NamedTuple):
    """The settings of both ends for mutual TLS."""

    ours: Tls
    theirs: dict[str, object]


@pytest.fixture(scope="session")
def mutual(certificates: Path, wheel_tls: dict[str, object]) -> Mutual:
    ours = Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
        connect_certificate=str(certificates / "client.pem"),
        connect_private_key=str(certificates / "client.key"),
        enable_mtls=True,
    )
    theirs = wheel_tls | {
        "transport/link/tls/enable_mtls": True,
        "transport/link/tls/connect_certificate": str(certificates / "client.pem"),
        "transport/link/tls/connect_private_key": str(certificates / "client.key"),
    }
    return Mutual(ours, theirs)


def payload(link: str) -> bytes:
    """Send many fragments. On UDP, where nothing is resent, send no more than the buffer of the socket holds."""
    return bytes(range(256)) * (LARGE // 256 if link != "udp" else 400)


@pytest.mark.parametrize("link", LINKS)
def test_we_open_and_large_messages_go_both_ways(link: str, router: Wheel, endpoints: dict[str, str], tls: Tls) -> None:
    with Ours(tls) as ours:
        face = ours.open(endpoints[link])
        assert ours.probe.echo(face, b"small") == b"small"
        assert ours.probe.echo(face, b"light", "to/best-effort", reliable=False) == b"light"
        large = payload(link)
        assert ours.probe.echo(face, large) == large
        assert face.transport.rx.missing == 0 or ours.probe.lost


@pytest.mark.parametrize("link", LINKS)
def test_we_accept_and_large_messages_go_both_ways(
    link: str, ports: Iterator[int], tls: Tls, wheel_tls: dict[str, object], tmp_path: Path
) -> None:
    listen = f"{link}/{tmp_path}/z.sock" if link == "unixsock-stream" else f"{link}/localhost:{next(ports)}"
    with Ours(tls, whatami=WhatAmI.ROUTER, lease=10.0) as ours:
        ours.runtime.listen(listen)
        wheel = Wheel({"mode": "client", "connect/endpoints": [listen], **wheel_tls})
        wheel.expect("READY")
        face = ours.probe.faces.get(timeout=PATIENCE)
        assert ours.probe.subscribed.wait(PATIENCE)
        assert ours.probe.echo(face, b"small") == b"small"
        large = payload(link)
        assert ours.probe.echo(face, large) == large
        wheel.close()
        end = ours.probe.closings.get(timeout=PATIENCE)
        assert (end.reason, end.by_peer) == (CloseReason.GENERIC, True)


def test_idle_sessions_that_we_opened_outlive_two_leases_on_every_link(
    router: Wheel, endpoints: dict[str, str], tls: Tls, mutual: Mutual, ports: Iterator[int]
) -> None:
    """With short leases, both ends must send KEEP_ALIVE messages and receive those of the other."""
    strict = f"tls/localhost:{next(ports)}"
    strict_router = Wheel({"mode": "router", "listen/endpoints": [strict], **LEASE, **mutual.theirs})
    strict_router.expect("READY")
    everyone = [(Ours(tls), endpoints[link]) for link in LINKS] + [(Ours(mutual.ours), strict)]
    try:
        faces = [ours.open(endpoint) for ours, endpoint in everyone]
        nothing_happens(everyone[0][0])
        for (ours, endpoint), face in zip(everyone, faces, strict=True):
            assert ours.probe.closings.empty(), endpoint
            assert ours.probe.echo(face, b"still here") == b"still here"
            assert face.transport.rx.batches > 2
    finally:
        for ours, _ in everyone:
            ours.runtime.close()
        strict_router.close()


def test_idle_wheels_that_came_to_us_stay_on_every_link(
    ports: Iterator[int], tls: Tls, wheel_tls: dict[str, object], mutual: Mutual, tmp_path: Path
) -> None:
    everyone = []
    for link in (*LINKS, "mutual"):
        own, config = (mutual.ours, mutual.theirs) if link == "mutual" else (tls, wheel_tls)
        protocol = "tls" if link == "mutual" else link
        where = f"{tmp_path}/z.sock" if link == "unixsock-stream" else f"localhost:{next(ports)}"
        ours = Ours(own, whatami=WhatAmI.ROUTER)
        ours.runtime.listen(f"{protocol}/{where}")
        wheel = Wheel({"mode": "client", "connect/endpoints": [f"{protocol}/{where}"], **LEASE, **config})
        everyone.append((link, ours, wheel))
    try:
        for _, ours, wheel in everyone:
            wheel.expect("READY")
            assert ours.probe.subscribed.wait(PATIENCE)
        nothing_happens(everyone[0][1])
        for link, ours, _ in everyone:
            assert ours.probe.closings.empty(), link
            face = ours.probe.faces.get(timeout=PATIENCE)
            assert ours.probe.echo(face, b"still here") == b"still here"
    finally:
        for _, ours, wheel in everyone:
            wheel.close()
            ours.runtime.close()


def nothing_happens(ours: Ours) -> None:
    """Wait for a little more than two leases."""
    with pytest.raises(queue.Empty):
        ours.probe.closings.get(timeout=6.6)


@pytest.mark.parametrize("link", LINKS)
def test_the_router_removes_a_closed_session_immediately(
    link: str, router: Wheel, endpoints: dict[str, str], tls: Tls
) -> None:
    """The same id may connect again only after the router dropped the first session (otherwise MAX_LINKS). Our lease would
    expire too late. On UDP an InitSyn from another port may overtake a CLOSE, and is then repeated."""
    zid = b"\x17" * 15 + bytes([LINKS.index(link) + 1])
    for _ in range(2):
        with Ours(tls, zid=zid, lease=60.0) as ours:
            deadline = time.monotonic() + PATIENCE
            while True:
                try:
                    face = ours.open(endpoints[link])
                    break
                except RemoteError as error:
                    if error.reason is not CloseReason.MAX_LINKS or link != "udp" or time.monotonic() > deadline:
                        raise
            assert ours.probe.echo(face, b"hello") == b"hello"
        assert ours.probe.closings.get_nowait().by_peer is False


@pytest.mark.parametrize("link", ["tls", "quic"])
def test_mutual_tls_in_both_roles(
    link: str, ports: Iterator[int], certificates: Path, wheel_tls: dict[str, object], mutual: Mutual
) -> None:
    theirs = mutual.theirs
    endpoint = f"{link}/localhost:{next(ports)}"
    router = Wheel({"mode": "router", "listen/endpoints": [endpoint], **theirs})
    router.expect("READY")
    with Ours(mutual.ours) as ours:
        assert ours.probe.echo(ours.open(endpoint), b"mutual") == b"mutual"
    no_certificate = Tls(root_ca_certificate=str(certificates / "ca.pem"))
    with Ours(no_certificate) as ours, pytest.raises(LinkError, match="requires a client certificate"):
        ours.open(endpoint)
    router.close()

    endpoint = f"{link}/localhost:{next(ports)}"
    with Ours(mutual.ours, whatami=WhatAmI.ROUTER) as ours:
        ours.runtime.listen(endpoint)
        wheel = Wheel({"mode": "client", "connect/endpoints": [endpoint], **theirs})
        wheel.expect("READY")
        face = ours.probe.faces.get(timeout=PATIENCE)
        assert ours.probe.subscribed.wait(PATIENCE)
        assert ours.probe.echo(face, b"mutual") == b"mutual"
        assert face.link.common_name == "client"
        wheel.close()
        bare = Wheel({"mode": "client", "connect/endpoints": [endpoint], **wheel_tls})
        bare.expect("FAILED")
        assert "no certificate" in str(ours.probe.failures.get(timeout=PATIENCE).error)
        bare.close()
        strange = theirs | {
            "transport/link/tls/connect_certificate": str(certificates / "impostor.pem"),
            "transport/link/tls/connect_private_key": str(certificates / "impostor.key"),
        }
        impostor = Wheel({"mode": "client", "connect/endpoints": [endpoint], **strange})
        impostor.expect("FAILED")
        assert "certificate verification failed" in str(ours.probe.failures.get(timeout=PATIENCE).error)
        impostor.close()


@pytest.mark.parametrize("link", ["tls", "quic"])
def test_a_certificate_of_an_unknown_authority_is_refused(
    link: str, endpoints: dict[str, str], router: Wheel, certificates: Path
) -> None:
    strangers = Tls(root_ca_certificate=str(certificates / "impostor.pem"))
    with Ours(strangers) as ours, pytest.raises(LinkError, match="certificate verification failed"):
        ours.open(endpoints[link])


def test_the_wheel_refuses_our_impostor(ports: Iterator[int], certificates: Path, wheel_tls: dict[str, object]) -> None:
    impostor = Tls(
        listen_certificate=str(certificates / "impostor.pem"), listen_private_key=str(certificates / "impostor.key")
    )
    endpoint = f"tls/localhost:{next(ports)}"
    with Ours(impostor, whatami=WhatAmI.ROUTER) as ours:
        ours.runtime.listen(endpoint)
        wheel = Wheel({"mode": "client", "connect/endpoints": [endpoint], **wheel_tls})
        wheel.expect("FAILED")
        assert "certificate" in str(ours.probe.failures.get(timeout=PATIENCE).error)
        wheel.close()


def test_the_subscription_helper_reaches_the_router(router: Wheel, endpoints: dict[str, str]) -> None:
    """Without the subscription no message returns, so the echoes of other tests depend on it."""
    with Ours() as ours:
        face = ours.runtime.open(endpoints["tcp"], PATIENCE)
        subscribe(face, "back/to/only")
        assert ours.probe.echo(face, b"1", "to/only") == b"1"
        face.send(b"\x7d\x00\x08to/other\x01\x01x")  # PUSH M=1 N=1, scope 0, key, PUT, one byte
        assert ours.probe.echo(face, b"2", "to/only") == b"2"
        assert ours.probe.messages.empty()
