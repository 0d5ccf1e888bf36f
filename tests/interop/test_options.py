# SPDX-License-Identifier: Apache-2.0
"""All options that INIT and OPEN negotiate, with eclipse-zenoh, in both roles."""

import random
from collections.abc import Callable, Iterator

import pytest

from tests.interop.partner import PATIENCE, Ours, Wheel
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason, LocalError, RemoteError
from zenlake.runtime.connection import Connection

# Our settings, those of the wheel, and the expected properties of the session.
OPTIONS: dict[str, tuple[dict[str, object], dict[str, object], Callable[[Connection], bool]]] = {
    "qos": ({}, {}, lambda face: face.session.qos and face.session.patch == 1),
    "no qos, by our wish": ({"qos": False}, {}, lambda face: not face.session.qos),
    "no qos, by theirs": ({}, {"transport/unicast/qos/enabled": False}, lambda face: not face.session.qos),
    "low latency": (
        {"low_latency": True, "qos": False},
        {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
        lambda face: face.session.low_latency,
    ),
    "compression": (
        {"compression": True},
        {"transport/unicast/compression/enabled": True},
        lambda face: face.session.compression,
    ),
    "compression, asked in vain": ({"compression": True}, {}, lambda face: not face.session.compression),
    "batches of 300": ({"batch_size": 300}, {}, lambda face: face.session.batch_size == 300),
    "batches of 300, by theirs": (
        {},
        {"transport/link/tx/batch_size": 300},
        lambda face: face.session.batch_size == 300,
    ),
    "8-bit numbers": ({"resolution": 8}, {}, lambda face: face.session.resolution & 3 == 0),
    "16-bit numbers": ({"resolution": 16}, {}, lambda face: face.session.resolution & 3 == 1),
    "16-bit numbers, by theirs": (
        {},
        {"transport/link/tx/sequence_number_resolution": "16bit"},
        lambda face: face.session.resolution & 3 == 1,
    ),
}
LARGE = random.Random(7).randbytes(30_000) + bytes(30_000)


def exchange(ours: Ours, face: Connection) -> None:
    """Send small and large messages on every priority, with more frames than a 7-bit sequence number has values."""
    for number in range(150):
        payload = b"%d" % number
        assert ours.probe.echo(face, payload) == payload
    assert ours.probe.echo(face, LARGE) == LARGE if not face.session.low_latency else True
    for priority in range(1, 8):
        assert ours.probe.echo(face, b"urgent", priority=priority) == b"urgent"
    assert face.transport.rx.missing <= 1  # 1.10.2 skips a number after the last fragment of a message
    assert face.transport.rx.old == face.transport.rx.lost == 0


@pytest.mark.parametrize("option", OPTIONS)
def test_we_open(option: str, ports: Iterator[int]) -> None:
    ours_say, theirs_say, agreed = OPTIONS[option]
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    router = Wheel({"mode": "router", "listen/endpoints": [endpoint], **theirs_say})
    router.expect("READY")
    with Ours(**ours_say) as ours:
        face = ours.open(endpoint)
        assert agreed(face)
        exchange(ours, face)
    router.close()


@pytest.mark.parametrize("option", OPTIONS)
def test_we_accept(option: str, ports: Iterator[int]) -> None:
    ours_say, theirs_say, agreed = OPTIONS[option]
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    with Ours(whatami=WhatAmI.ROUTER, **ours_say) as ours:
        ours.runtime.listen(endpoint)
        wheel = Wheel({"mode": "client", "connect/endpoints": [endpoint], **theirs_say})
        wheel.expect("READY")
        face = ours.probe.faces.get(timeout=PATIENCE)
        assert ours.probe.subscribed.wait(PATIENCE)
        assert agreed(face)
        exchange(ours, face)
        wheel.close()


@pytest.mark.parametrize("bits", [16, 32])
def test_sequence_numbers_wrap(bits: int, ports: Iterator[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin near the end of the space and cross it. (The seven bits of "8" wrap in every exchange above.)"""
    largest = {16: 0x3FFF, 32: 0x0FFFFFFF}[bits]
    monkeypatch.setattr("zenlake.transport.handshake.initial_sn", lambda own, peer, mask: largest - 20)
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    router = Wheel({"mode": "router", "listen/endpoints": [endpoint]})
    router.expect("READY")
    with Ours(resolution=bits) as ours:
        face = ours.open(endpoint)
        for number in range(60):
            assert ours.probe.echo(face, b"%d" % number) == b"%d" % number
        assert face.transport.queue.next_sns()[5][0] == 60 - 21
    router.close()


def test_the_wheels_numbers_wrap(ports: Iterator[int]) -> None:
    """Each echo is one frame, and "8 bits" has 128 sequence numbers: those of the wheel wrap twice."""
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    router = Wheel({"mode": "router", "listen/endpoints": [endpoint]})
    router.expect("READY")
    with Ours(resolution=8) as ours:
        face = ours.open(endpoint)
        first = face.session.sides[1].initial_sn
        for number in range(300):
            assert ours.probe.echo(face, b"%d" % number) == b"%d" % number
        assert face.transport.rx.batches > 300
        assert 0 <= first <= 0x7F
    router.close()


def test_low_latency_reports_a_message_that_is_too_large(ports: Iterator[int]) -> None:
    endpoint = f"tcp/127.0.0.1:{next(ports)}"
    theirs = {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False}
    router = Wheel({"mode": "router", "listen/endpoints": [endpoint], **theirs})
    router.expect("READY")
    with Ours(low_latency=True, qos=False) as ours:
        face = ours.open(endpoint)
        with pytest.raises(LocalError, match="of a low-latency session"):
            ours.probe.echo(face, bytes(70_000))
        assert ours.probe.echo(face, b"and goes on") == b"and goes on"
        largest = bytes(face.session.batch_size - 100)
        assert ours.probe.echo(face, largest) == largest
    router.close()


class TestPasswords:
    @pytest.fixture
    def dictionary(self, tmp_path: object) -> str:
        path = f"{tmp_path}/users"
        with open(path, "w") as file:
            file.write("alice:wonderland\n")
        return path

    def test_the_wheel_lets_us_in_or_not(self, ports: Iterator[int], dictionary: str) -> None:
        endpoint = f"tcp/127.0.0.1:{next(ports)}"
        router = Wheel(
            {"mode": "router", "listen/endpoints": [endpoint], "transport/auth/usrpwd/dictionary_file": dictionary}
        )
        router.expect("READY")
        with Ours(user="alice", password=b"wonderland") as ours:
            assert ours.probe.echo(ours.open(endpoint), b"hello") == b"hello"
        for wrong in ({"user": "alice", "password": b"guess"}, {"user": "bob", "password": b"wonderland"}, {}):
            with Ours(**wrong) as ours, pytest.raises(RemoteError) as refusal:
                ours.open(endpoint)
            assert refusal.value.reason == CloseReason.GENERIC
        router.close()

    def test_we_let_the_wheel_in_or_not(self, ports: Iterator[int]) -> None:
        endpoint = f"tcp/127.0.0.1:{next(ports)}"
        with Ours(whatami=WhatAmI.ROUTER, users={"alice": b"wonderland"}) as ours:
            ours.runtime.listen(endpoint)
            client = {"mode": "client", "connect/endpoints": [endpoint]}
            right = {"transport/auth/usrpwd/user": "alice", "transport/auth/usrpwd/password": "wonderland"}
            wheel = Wheel(client | right)
            wheel.expect("READY")
            face = ours.probe.faces.get(timeout=PATIENCE)
            assert ours.probe.subscribed.wait(PATIENCE)
            assert ours.probe.echo(face, b"hello") == b"hello"
            wheel.close()
            for wrong in ({"transport/auth/usrpwd/password": "guess"}, {"transport/auth/usrpwd/user": "bob"}):
                stranger = Wheel(client | right | wrong)
                stranger.expect("FAILED")
                refusal = ours.probe.failures.get(timeout=PATIENCE)
                assert "unknown user or wrong password" in str(refusal.error)
                stranger.close()
            rejected = Wheel(client)
            rejected.expect("FAILED")
            assert "required" in str(ours.probe.failures.get(timeout=PATIENCE).error)
            rejected.close()


def test_a_link_for_some_messages_only(ports: Iterator[int]) -> None:
    """QoSLink: the endpoint's metadata, proposed and confirmed (vector qoslink)."""
    port = next(ports)
    router = Wheel({"mode": "router", "listen/endpoints": [f"tcp/127.0.0.1:{port}"]})
    router.expect("READY")
    with Ours() as ours:
        face = ours.open(f"tcp/127.0.0.1:{port}?prio=1-3;rel=1")
        assert face.session.qos
        assert ours.probe.echo(face, b"hello", priority=2) == b"hello"
    router.close()
