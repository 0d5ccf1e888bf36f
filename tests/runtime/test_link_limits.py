# SPDX-License-Identifier: Apache-2.0
"""Limits of listeners and links: pending handshakes, forged datagrams, bytes that a link holds for its peer."""

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection

from tests.runtime.nodes import Recorder, until
from tests.runtime.test_stalled_handshakes import client, dial, frame, listen, open_session, opens, settings
from tests.transport.ends import framed, push
from zenlake.core.endpoint import EndPoint
from zenlake.core.enums import WhatAmI
from zenlake.core.peer_limits import DEFAULT_LIMITS, Resource
from zenlake.link import Tls
from zenlake.link.base import Port
from zenlake.link.quic import QuicLink
from zenlake.link.stream import LayeredLink
from zenlake.runtime.connection_manager import HANDSHAKE_SIZE, ConnectionManager
from zenlake.runtime.event_loop import EventLoop
from zenlake.runtime.multicast_connection import MulticastConnection, MulticastListener
from zenlake.transport.multicast import Multicast
from zenlake.transport.rx import RxArena
from zenlake.wire.handshake import Init


@pytest.fixture
def router(tls: Tls) -> Iterator[ConnectionManager]:
    runtime = ConnectionManager(settings(whatami=WhatAmI.ROUTER, accept_timeout=20.0), Recorder(), tls, max_pending=10)
    yield runtime
    runtime.close()


def test_a_flood_at_one_listener_leaves_the_others_open(
    router: ConnectionManager, tls: Tls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zenlake.runtime.connection_manager.GRACE", 0.0)
    flooded, other = listen(router, "tls", tmp_path), listen(router, "tcp", tmp_path)
    with ExitStack() as stack:
        for _ in range(router.max_pending + 5):
            stack.enter_context(dial(flooded))
        until(lambda: router.refused == 5)
        until(lambda: router.budget.held == router.max_pending * HANDSHAKE_SIZE)  # ended handshakes close their links
        assert opens(other, tls)
    until(lambda: router._pending == 0)
    assert router.budget.held == 0
    assert router.engine.peer_errors.counts["connections refused: handshake limit"] == 5


def test_initials_without_a_token_hold_no_handshake(router: ConnectionManager, tls: Tls, tmp_path: Path) -> None:
    """The source of an Initial may be forged: until a Retry token comes back, nothing is stored."""
    where = listen(router, "quic", tmp_path)
    target = EndPoint.parse(where).host_and_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(10.0)
        sock.connect(target)
        for _ in range(2 * router.max_pending):
            quic = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["zenoh"]))
            quic.connect(target, now=0.0)
            data = quic.datagrams_to_send(now=0.0)[0][0]
            sock.send(data)
            reply = sock.recv(2000)
            assert reply[0] & 0xF0 == 0xF0  # a Retry packet
            assert len(reply) < len(data)
    assert router._pending == 0
    assert not router.listeners[-1]._links
    assert opens(where, tls)


def test_a_forged_token_gets_no_handshake(router: ConnectionManager, tls: Tls, tmp_path: Path) -> None:
    where = listen(router, "quic", tmp_path)
    target = EndPoint.parse(where).host_and_port()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect(target)
        for token in (b"x", os.urandom(12), os.urandom(90)):
            quic = QuicConnection(
                configuration=QuicConfiguration(is_client=True, alpn_protocols=["zenoh"], token=token)
            )
            quic.connect(target, now=0.0)
            sock.send(quic.datagrams_to_send(now=0.0)[0][0])
    assert opens(where, tls)
    assert router._pending == 0


def flood_with_pings(sock: socket.socket, link: LayeredLink) -> None:
    """Send pings and read nothing, until the peer reads no more of them."""
    pings = frame(9, bytes(125)) * 400
    deadline = time.monotonic() + 60.0
    sock.settimeout(0.2)
    with suppress(OSError):
        while link.wants_read and time.monotonic() < deadline:
            with suppress(TimeoutError):
                sock.send(pings)
    assert not link.wants_read


@pytest.mark.parametrize("session", [False, True], ids=["before the session", "in a session"])
@pytest.mark.parametrize("protocol", ["ws", "wss"])
def test_pongs_for_a_peer_that_does_not_read_are_bounded(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str, session: bool
) -> None:
    where = listen(router, protocol, tmp_path)
    with (open_session if session else client)(where) as sock:
        until(lambda: router.faces if session else router._pending)
        face = next(iter(router._all))
        flood_with_pings(sock, face.link)
        assert 0 < len(face.link._out) < DEFAULT_LIMITS[Resource.LINK_BUFFERS]
        assert face.account.used[Resource.LINK_BUFFERS] == len(face.link._out)
        assert opens(where, tls)
    until(lambda: not router._all)
    assert router.budget.held == 0


def test_a_peer_that_reads_again_is_read_again(router: ConnectionManager, tmp_path: Path) -> None:
    where = listen(router, "ws", tmp_path)
    with client(where) as sock:
        until(lambda: router._pending)
        face = next(iter(router._all))
        flood_with_pings(sock, face.link)
        sock.settimeout(1.0)
        while not face.link.wants_read:
            sock.recv(1 << 16)


@contextmanager
def dial_quic(where: str, tls: Tls) -> Iterator[tuple[QuicConnection, Callable[[], None]]]:
    """Begin a QUIC connection. The second value is a function that sends and receives pending datagrams."""
    target = EndPoint.parse(where).host_and_port()
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["zenoh"])
    configuration.load_verify_locations(cafile=tls.root_ca_certificate)
    quic = QuicConnection(configuration=configuration)
    quic.connect(target, now=time.monotonic())
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(0.05)
        sock.connect(target)

        def turn() -> None:
            for data, _ in quic.datagrams_to_send(time.monotonic()):
                sock.send(data)
            with suppress(TimeoutError):
                while True:
                    quic.receive_datagram(sock.recv(2000), target, time.monotonic())

        yield quic, turn


def test_stream_data_of_quic_that_waits_for_a_gap_is_bounded(
    router: ConnectionManager, tls: Tls, tmp_path: Path
) -> None:
    with dial_quic(listen(router, "quic", tmp_path), tls) as (quic, turn):
        until(lambda: turn() or router._pending)
        stream = quic.get_next_available_stream_id()
        quic.send_stream_data(stream, bytes(8 << 20))
        sender = quic._streams[stream].sender
        sender._pending.subtract(0, 1000)  # the first bytes are never sent
        deadline = time.monotonic() + 20
        while router._pending and time.monotonic() < deadline:
            turn()
    assert router._pending == 0
    assert router.engine.peer_errors.counts == {"handshakes closed: link": 1}


def test_unused_streams_of_quic_are_bounded(router: ConnectionManager, tls: Tls, tmp_path: Path) -> None:
    """The window for new streams grows without a limit. Each stream costs memory, and time with each datagram."""
    with dial_quic(listen(router, "quic", tmp_path), tls) as (quic, turn):
        until(lambda: turn() or router._pending)
        (face,) = router._all
        assert isinstance(face.link, QuicLink)
        deadline = time.monotonic() + 20
        while router._pending and time.monotonic() < deadline:
            for _ in range(50):
                quic.send_stream_data(quic.get_next_available_stream_id(), b"x")
            turn()
            assert len(face.link._quic._streams) < 500
    assert router._pending == 0
    assert router.engine.peer_errors.counts == {"handshakes closed: link": 1}


@pytest.mark.parametrize("protocol", ["tcp", "ws", "udp", "quic", "memory"])
def test_bytes_that_have_arrived_count_before_the_lease(tls: Tls, tmp_path: Path, protocol: str) -> None:
    """After a stop of the process the timers can come first."""
    there, here = Recorder(), Recorder()
    two = ConnectionManager(settings(whatami=WhatAmI.ROUTER), there, tls)
    where = two.listen("memory/lease" if protocol == "memory" else f"{protocol}/127.0.0.1:0")
    one = ConnectionManager(settings(lease=0.6), here, tls)
    sender = one.open(where, 10.0)
    face = there.opened_faces.get(timeout=10.0)

    def stop() -> None:
        time.sleep(0.2)
        sender.send(push("late", b""))
        time.sleep(0.7)  # more than the lease; what was sent is in the socket
        face._on_timer()

    two.engine.run(stop)
    assert there.messages.get(timeout=10.0)[0] == "late"
    assert face.is_open
    one.close()
    two.close()


def test_a_face_that_we_paused_does_not_expire(tls: Tls) -> None:
    there = Recorder()
    two = ConnectionManager(settings(whatami=WhatAmI.ROUTER), there)
    one = ConnectionManager(settings(lease=0.3), Recorder())
    one.open(two.listen("tcp/127.0.0.1:0"), 10.0)
    face = there.opened_faces.get(timeout=10.0)
    two.engine.run(face.pause)
    time.sleep(0.8)
    assert face.is_open
    two.engine.run(face.resume)
    time.sleep(0.1)
    assert face.is_open
    one.close()
    two.close()


def test_silence_still_ends_a_session(router: ConnectionManager, tmp_path: Path) -> None:
    where = listen(router, "ws", tmp_path)
    with open_session(where, lease=300):
        until(lambda: router.faces)
        until(lambda: not router.faces)
    assert router.engine.peer_errors.counts == {"sessions closed: expired": 1}


def test_an_init_of_one_link_may_not_hold_more_than_a_batch(router: ConnectionManager, tmp_path: Path) -> None:
    where = listen(router, "tcp", tmp_path)
    with dial(where) as sock:
        sock.sendall(framed(Init(whatami=2, zid=b"half", patch=1).encode()) * 2000)
        until(lambda: router._pending == 1)
        assert router.budget.held == HANDSHAKE_SIZE


def test_a_timeout_that_moves_with_each_datagram_leaves_one_timer() -> None:
    class Moving(Port):
        when = time.monotonic() + 60.0

        def fileno(self) -> int:
            return -1

        def on_readable(self, now: float) -> None: ...

        def next_timeout(self) -> float:
            self.when += 0.001
            return self.when

        def close(self) -> None: ...

    engine = EventLoop()
    engine.start()
    port = Moving()
    port.wants_read = False
    engine.run(lambda: engine.add(port))
    before = engine.run(lambda: len(engine._timers))
    engine.run(lambda: [port.on_change() for _ in range(1000)])
    assert engine.run(lambda: len(engine._timers)) == before
    engine.stop()


def test_a_datagram_of_a_member_does_not_cost_a_look_at_all_members() -> None:
    engine = EventLoop()
    engine.start()
    link = SimpleNamespace(mtu=65000, remote="udp/group", write=len, close=lambda: None)
    group = MulticastConnection(engine, link, settings(whatami=WhatAmI.PEER), MulticastListener(), RxArena())
    other = Multicast(settings(whatami=WhatAmI.PEER), initial_sn=1, now=0.0)
    join = other.data(1.0)
    assert join is not None
    looks = []
    expire = group.transport.on_timeout
    group.transport.on_timeout = lambda now: looks.append(now) or expire(now)
    engine.run(group.begin)
    for _ in range(100):
        engine.run(lambda: group._receive(join, ("127.0.0.1", 5000)))
    assert len(group.transport.peers) == 1
    assert len(looks) < 5
    engine.stop()
