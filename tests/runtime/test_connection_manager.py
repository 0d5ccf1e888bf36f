# SPDX-License-Identifier: Apache-2.0
"""Connections, reconnections, many connections, error messages, and a stop that leaves nothing behind."""

import itertools
import os
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.runtime.nodes import PATIENCE, Recorder, until
from tests.transport.ends import push
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason, EndpointError, LinkError, LocalError
from zenlake.link import Tls
from zenlake.runtime.connection import Connection
from zenlake.runtime.connection_manager import Backoff, ConnectionManager, new_zid
from zenlake.runtime.event_loop import EventLoop
from zenlake.transport.settings import Settings
from zenlake.wire.raw_memory import COMPILED

SOON = Backoff(0.02, 2.0, 0.08)


def zid() -> bytes:
    return os.urandom(15) + b"\x01"


def runtime(node: Recorder | None = None, tls: Tls | None = None, **settings: object) -> ConnectionManager:
    return ConnectionManager(Settings(**{"zid": zid(), "lease": 30.0, **settings}), node or Recorder(), tls)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_both_ends_hear_of_opening_messages_and_closing() -> None:
    here, there = Recorder(), Recorder()
    one, two = runtime(here), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)
    assert here.opened_faces.get(timeout=PATIENCE) is face
    assert there.opened_faces.get(timeout=PATIENCE).zid == one.settings.zid
    for number in range(1000):
        assert face.send(push(f"k/{number}", b"x"), congestion=1)
    assert [there.messages.get(timeout=PATIENCE)[0] for _ in range(1000)] == [f"k/{number}" for number in range(1000)]
    one.close()
    assert here.closings.get_nowait()[1].by_peer is False
    assert there.closings.get(timeout=PATIENCE)[1].by_peer is True
    with pytest.raises(LocalError, match="closed"):
        face.send(push("k", b""))
    two.close()


def test_stopping_leaves_no_thread_and_no_descriptor(tmp_path: Path) -> None:
    before, threads = descriptors(), threading.active_count()
    two = runtime(whatami=WhatAmI.ROUTER)
    wheres = [two.listen("tcp/127.0.0.1:0"), two.listen("udp/127.0.0.1:0"), two.listen(f"unixsock-stream/{tmp_path}/z")]
    ones = [runtime() for _ in wheres]
    for one, where in zip(ones, wheres, strict=True):
        one.open(where, PATIENCE)
        one.connect("tcp/127.0.0.1:1", SOON)
    for each in (two, *ones):  # the listening nodes first, while their links are open
        each.close()
    assert (descriptors(), threading.active_count()) == (before, threads)
    assert not (tmp_path / "z").exists()


def test_a_listener_returns_its_port_and_uses_loopback_by_default() -> None:
    one = runtime()
    assert one.listen("tcp/localhost:0").startswith(("tcp/127.0.0.1:", "tcp/[::1]:"))
    one.close()


def test_eleven_hundred_connections_on_a_fixed_number_of_threads() -> None:
    there = Recorder()
    two = ConnectionManager(Settings(zid(), WhatAmI.ROUTER, lease=60.0), there, max_sessions=2000)
    where = two.listen("tcp/127.0.0.1:0")
    threads = threading.active_count()
    ones = ConnectionManager(Settings(zid(), lease=60.0), Recorder())
    faces: list[Connection] = []
    # One id may have one session, so the crowd changes its id for each connection.
    count = 1100 if COMPILED else 110  # the runtime is the same in both
    for number in range(count):
        object.__setattr__(ones.settings, "zid", number.to_bytes(4, "little") + b"\x01")
        ones.faces.clear()
        faces.append(ones.open(where, PATIENCE))
    assert threading.active_count() == threads + 1
    assert len(two.faces) == count
    for number, face in enumerate(faces):
        assert face.send(push(f"k/{number}", b""), congestion=1)
    assert {there.messages.get(timeout=PATIENCE)[0] for _ in faces} == {f"k/{number}" for number in range(count)}
    ones.close()
    two.close()


def test_a_connector_connects_and_reconnects_when_the_listener_appears() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        where = f"tcp/127.0.0.1:{probe.getsockname()[1]}"
    here = Recorder()
    one = runtime(here)
    connection = one.connect(where, SOON)
    until(lambda: connection.error)
    assert "connection refused" in str(connection.error)
    for _ in range(2):
        two = runtime(whatami=WhatAmI.ROUTER)
        two.listen(where)
        face = here.opened_faces.get(timeout=PATIENCE)
        assert face.zid == two.settings.zid
        two.close()
        here.closings.get(timeout=PATIENCE)
    connection.stop()
    one.close()


def test_attempts_grow_rarer(monkeypatch: pytest.MonkeyPatch) -> None:
    one = runtime()
    times: list[float] = []
    resolve = one.resolve
    monkeypatch.setattr(one, "resolve", lambda *how: (times.append(time.monotonic()), resolve(*how)))
    one.connect("tcp/127.0.0.1:1", Backoff(0.05, 2.0, 0.2))
    until(lambda: len(times) == 5)
    one.close()
    gaps = [later - sooner for sooner, later in itertools.pairwise(times)]
    for gap, least in zip(gaps, (0.05, 0.1, 0.2, 0.2), strict=True):
        assert gap >= least


@pytest.mark.parametrize("protocol", ["tcp", "udp"])
def test_every_address_of_a_host_is_tried(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = runtime(), runtime(whatami=WhatAmI.ROUTER)
    port = int(two.listen(f"{protocol}/127.0.0.1:0").rpartition(":")[2])
    found = [(socket.AF_INET, (host, port)) for host in ("127.0.0.2", "127.0.0.3", "127.0.0.1")]
    monkeypatch.setattr("zenlake.link.addresses", lambda *_: found)
    assert one.open(f"{protocol}/host.test:{port}", PATIENCE).zid == two.settings.zid
    one.close()
    two.close()


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [("tcp/127.0.0.1:1", "connection refused"),
     ("unixsock-stream//nowhere/z", "socket not found"),
     ("udp/127.0.0.1:1", "connection refused"),
     ("memory/unused", "connection refused"),
     ("tcp/no-such-host.invalid:7447", "unknown host `no-such-host.invalid`"),
     ("ws/127.0.0.1:1", "connection refused"),
     ("quic/127.0.0.1:1", "connection refused")],
)  # fmt: skip
def test_an_address_that_cannot_be_reached(endpoint: str, message: str) -> None:
    one = runtime()
    with pytest.raises(LinkError, match=message):
        one.open(endpoint, PATIENCE)
    one.close()


def test_a_protocol_that_we_cannot_speak_or_do_not_know() -> None:
    one = runtime()
    with pytest.raises(EndpointError, match="unsupported protocol `vsock`"):
        one.open("vsock/2:7447", PATIENCE)
    with pytest.raises(EndpointError, match="unknown protocol `tpc`; did you mean `tcp`"):
        one.open("tpc/127.0.0.1:7447", PATIENCE)
    with pytest.raises(EndpointError, match="use quic/"):
        one.open("udp/127.0.0.1:7447?rel=1", PATIENCE)
    with pytest.raises(EndpointError, match="invalid metadata"):
        one.open("tcp/127.0.0.1:7447?prio=9", PATIENCE)
    one.close()


def test_an_address_that_is_taken_or_not_ours() -> None:
    one = runtime()
    where = one.listen("tcp/127.0.0.1:0")
    with pytest.raises(LinkError, match="address already in use"):
        one.listen(where)
    with pytest.raises(LinkError, match="not an address of this machine"):
        one.listen("tcp/192.0.2.1:7447")
    with pytest.raises(LinkError, match="requires `listen_certificate`"):
        one.listen("tls/localhost:0")
    one.close()


@pytest.mark.parametrize("link", ["tls", "quic", "wss"])
def test_a_certificate_that_is_not_trusted_and_a_name_that_is_not_its(link: str, certificates: Path) -> None:
    server = Tls(
        listen_certificate=str(certificates / "server.pem"), listen_private_key=str(certificates / "server.key")
    )
    two = runtime(tls=server, whatami=WhatAmI.ROUTER)
    port = two.listen(f"{link}/127.0.0.1:0").rpartition(":")[2]
    trusting = Tls(root_ca_certificate=str(certificates / "ca.pem"))
    one = runtime(tls=trusting)
    assert one.open(f"{link}/localhost:{port}", PATIENCE).is_open
    one.close()
    suspicious = runtime(tls=Tls(root_ca_certificate=str(certificates / "impostor.pem")))
    with pytest.raises(LinkError, match="certificate verification failed"):
        suspicious.open(f"{link}/localhost:{port}", PATIENCE)
    suspicious.close()
    two.close()


def test_files_that_are_no_certificates() -> None:
    one = runtime(tls=Tls(root_ca_certificate="/nowhere"))
    for link in ("tls", "quic"):
        with pytest.raises(LinkError, match="invalid certificate or key"):
            one.open(f"{link}/localhost:1", PATIENCE)
    one.close()


def test_too_many_sessions() -> None:
    two = ConnectionManager(Settings(zid(), WhatAmI.ROUTER), Recorder(), max_sessions=1)
    where = two.listen("tcp/127.0.0.1:0")
    one, other = runtime(), runtime()
    one.open(where, PATIENCE)
    with pytest.raises(Exception, match="MAX_SESSIONS"):
        other.open(where, PATIENCE)
    for each in (one, other, two):
        each.close()


def test_a_single_message_is_written_immediately_on_the_callers_thread() -> None:
    """No turn of the loop is needed: the loop is held while the message arrives."""
    there = Recorder()
    one, two = runtime(), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)
    held, go = threading.Event(), threading.Event()
    one.engine.call_soon(lambda: (held.set(), go.wait(PATIENCE)))
    held.wait(PATIENCE)
    face.send(push("alone", b""))
    assert there.messages.get(timeout=PATIENCE)[0] == "alone"
    go.set()
    one.close()
    two.close()


def test_many_threads_may_send() -> None:
    there = Recorder()
    one, two = runtime(), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)

    def speak(name: int) -> None:
        for number in range(500):
            assert face.send(push(f"{name}/{number}", bytes(100)), congestion=1)

    speakers = [threading.Thread(target=speak, args=(name,)) for name in range(4)]
    for speaker in speakers:
        speaker.start()
    got = [there.messages.get(timeout=PATIENCE)[0].split("/") for _ in range(2000)]
    for speaker in speakers:
        speaker.join()
    for name in range(4):
        assert [int(number) for who, number in got if who == str(name)] == [*range(500)]
    one.close()
    two.close()


def test_a_paused_reader_stops_the_sender_until_it_resumes() -> None:
    there = Recorder()
    one, two = runtime(wait_before_drop=0.05), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)
    reader = there.opened_faces.get(timeout=PATIENCE)
    two.engine.run(reader.pause)
    sent = 0
    while face.send(push(f"k/{sent}", bytes(50_000))):
        sent += 1
    two.engine.run(reader.resume)
    assert [there.messages.get(timeout=PATIENCE)[0] for _ in range(sent)] == [f"k/{number}" for number in range(sent)]
    one.close()
    two.close()


def test_closing_abandons_peers_that_do_not_read() -> None:
    there = Recorder()
    one, two = runtime(), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)
    reader = there.opened_faces.get(timeout=PATIENCE)
    two.engine.run(reader.pause)
    while face.send(push("k", bytes(50_000))):
        pass
    began = time.monotonic()
    one.close(timeout=0.5)
    assert time.monotonic() - began < 2
    two.close()


@pytest.mark.parametrize("link", ["tcp", "udp", "quic"])
def test_a_sink_that_fails_ends_its_face_only(link: str, caplog: pytest.LogCaptureFixture, certificates: Path) -> None:
    """Also where the links of a listener share one socket."""
    tls = Tls(
        root_ca_certificate=str(certificates / "ca.pem"),
        listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"),
    )

    class Clumsy(Recorder):
        def sink(self, face: Connection):
            sink = super().sink(face)
            self.count = getattr(self, "count", 0) + 1
            if self.count > 1:
                return sink

            class Trap(type(sink)):
                def on_message(self, kind, reader):
                    raise KeyError("clumsy")

            return Trap(self)

    there = Clumsy()
    two = runtime(there, tls=tls, whatami=WhatAmI.ROUTER)
    where = two.listen(f"{link}/127.0.0.1:0")
    one = runtime(tls=tls)
    one.open(where, PATIENCE).send(push("k", b""))
    _, end = there.closings.get(timeout=PATIENCE)
    assert "KeyError" in str(end.error)
    assert "clumsy" in caplog.text
    another = runtime(tls=tls)
    another.open(where, PATIENCE).send(push("fine", b""))
    assert there.messages.get(timeout=PATIENCE)[0] == "fine"
    for each in (one, another, two):
        each.close()


class TestEngine:
    def test_calls_come_in_order_and_timers_in_time(self) -> None:
        engine = EventLoop()
        engine.start()
        seen: list[object] = []
        done = threading.Event()
        now = time.monotonic()
        engine.call_soon(lambda: engine.call_at(now + 0.06, lambda: (seen.append("late"), done.set())))
        engine.call_soon(lambda: engine.call_at(now + 0.03, lambda: seen.append("soon")))
        cancelled = engine.run(lambda: engine.call_at(now + 0.04, lambda: seen.append("never")))
        engine.call_soon(cancelled.cancel)
        for number in range(3):
            engine.call_soon(lambda number=number: seen.append(number))
        assert done.wait(PATIENCE)
        assert seen == [0, 1, 2, "soon", "late"]
        engine.stop()

    def test_an_error_is_raised_in_the_calling_thread(self) -> None:
        engine = EventLoop()
        engine.start()
        with pytest.raises(ZeroDivisionError):
            engine.run(lambda: 1 // 0)
        engine.stop()
        with pytest.raises(RuntimeError, match="has stopped"):
            engine.run(lambda: None)

    def test_a_call_that_fails_does_not_end_the_loop(self, caplog: pytest.LogCaptureFixture) -> None:
        engine = EventLoop()
        engine.start()
        engine.call_soon(lambda: 1 // 0)
        assert engine.run(lambda: "alive") == "alive"
        assert "ZeroDivisionError" in caplog.text
        engine.stop()


def test_both_ends_know_the_reason() -> None:
    here, there = Recorder(), Recorder()
    one, two = runtime(here), runtime(there, whatami=WhatAmI.ROUTER)
    face = one.open(two.listen("tcp/127.0.0.1:0"), PATIENCE)
    face.close(CloseReason.UNSUPPORTED)
    for node, by_peer in ((here, False), (there, True)):
        end = node.closings.get(timeout=PATIENCE)[1]
        assert (end.reason, end.by_peer) == (CloseReason.UNSUPPORTED, by_peer)
    one.close()
    two.close()


def test_a_new_id_is_random_in_all_its_bytes_and_sixteen_long():
    made = [new_zid() for _ in range(2000)]
    assert all(len({zid[i] for zid in made}) > 200 for i in range(16))
    assert {len(zid) for zid in made} == {16}
    assert all(zid[-1] for zid in made)  # a trailing zero byte would shorten the id


def test_two_nodes_that_connect_simultaneously_have_one_session() -> None:
    nodes = Recorder(), Recorder()
    for _ in range(20):
        managers = [runtime(node) for node in nodes]
        locators = [manager.listen("tcp/127.0.0.1:0") for manager in managers]
        # Both begin to connect before either event loop reads the INIT of the other.
        held = [threading.Event() for _ in managers]
        for manager, event in zip(managers, held, strict=True):
            manager.engine.call_soon(lambda event=event: event.wait(PATIENCE))
        connectors = [manager.connect(where) for manager, where in zip(managers, reversed(locators), strict=True)]
        for event in held:
            event.set()
        for connector in connectors:
            connector.tried.result(PATIENCE)
        for manager in managers:
            until(lambda manager=manager: manager.faces)
        faces = [node.opened_faces.get(timeout=PATIENCE) for node in nodes]
        for manager in managers:
            until(lambda manager=manager: manager.engine.run(lambda: len(manager._all)) == 1)
        assert {face.transport.is_opener for face in faces} == {True, False}
        assert faces[0].send(push("still/open", b""), congestion=1)
        assert nodes[1].messages.get(timeout=PATIENCE)[0] == "still/open"
        for manager in managers:
            manager.close()
        assert [node.opened_faces.qsize() for node in nodes] == [0, 0]
