# SPDX-License-Identifier: Apache-2.0
"""Peers that stop in the middle of a handshake: of TLS, of WebSocket, or of a session.

Each connection ends at its timeout, for every kind of link, and no longer counts as a pending handshake.
"""

import base64
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.runtime.nodes import PATIENCE, Recorder, until
from tests.transport.ends import framed, push
from zenlake.core.endpoint import EndPoint
from zenlake.core.enums import WhatAmI
from zenlake.errors import LocalError
from zenlake.link import Tls
from zenlake.runtime.connection import Connection
from zenlake.runtime.connection_manager import Backoff, ConnectionManager
from zenlake.transport.settings import Settings
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Init, Open

STREAMS = ["tcp", "tls", "ws", "wss", "unixsock-stream"]
TIMEOUT = 0.8


def settings(**values: object) -> Settings:
    return Settings(**{"zid": os.urandom(15) + b"\x01", "lease": 30.0, **values})


@pytest.fixture
def router(tls: Tls) -> Iterator[ConnectionManager]:
    runtime = ConnectionManager(
        settings(whatami=WhatAmI.ROUTER, accept_timeout=TIMEOUT), Recorder(), tls, max_pending=10
    )
    yield runtime
    runtime.close()


def listen(runtime: ConnectionManager, protocol: str, folder: Path) -> str:
    where = f"{folder}/socket" if protocol == "unixsock-stream" else "127.0.0.1:0"
    return runtime.listen(f"{protocol}/{where}")


def dial(where: str) -> socket.socket:
    endpoint = EndPoint.parse(where)
    if endpoint.protocol == "unixsock-stream":
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(endpoint.address)
    else:
        sock = socket.create_connection(endpoint.host_and_port())
    sock.settimeout(PATIENCE)
    return sock


def encrypt(sock: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context.wrap_socket(sock)


def upgrade(sock: socket.socket) -> socket.socket:
    """Open a WebSocket by hand."""
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
    sock.sendall(f"{head}Sec-WebSocket-Version: 13\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += sock.recv(1)
    assert b" 101 " in answer
    return sock


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked WebSocket frame; the mask is zero."""
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else bytes([0xFE]) + len(payload).to_bytes(2, "big")
    return bytes([0x80 | opcode]) + size + bytes(4) + payload


def client(where: str) -> socket.socket:
    """A socket whose link is ready: encrypted, upgraded or both."""
    sock = dial(where)
    protocol = where.partition("/")[0]
    if protocol in ("tls", "wss"):
        sock = encrypt(sock)
    return upgrade(sock) if protocol in ("ws", "wss") else sock


def batch(where: str, data: bytes) -> bytes:
    return frame(2, data) if where.startswith("ws") else framed(data)


def is_ended(sock: socket.socket) -> bool:
    """Return whether the router ends the connection. Read everything before that."""
    with suppress(ConnectionError, ssl.SSLError):
        while sock.recv(4096):
            pass
    return True


def drip(sock: socket.socket, stopped: threading.Event) -> None:
    """Send one byte at a time of a handshake that never ends."""
    head = b"\x16\x03\x01\x40\x00\x01\x00\x3f\xfc\x03\x03" + bytes(1000)
    if sock.family == socket.AF_UNIX:
        head = b"\xff\x7f" + bytes(1000)
    for byte in head:
        with suppress(OSError):
            sock.sendall(bytes([byte]))
        if stopped.wait(0.05):
            return


def drip_http(sock: socket.socket, stopped: threading.Event) -> None:
    for byte in b"GET / HTTP/1.1\r\nHost: " + b"x" * 1000:
        with suppress(OSError):
            sock.sendall(bytes([byte]))
        if stopped.wait(0.05):
            return


@pytest.mark.parametrize("protocol", STREAMS)
def test_silent_connections_give_their_places_back(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    where = listen(router, protocol, tmp_path)
    with ExitStack() as stack:
        crowd = [stack.enter_context(dial(where)) for _ in range(router.max_pending)]
        until(lambda: router._pending == router.max_pending)
        until(lambda: router._pending == 0)
        assert all(is_ended(sock) for sock in crowd)
        assert opens(where, tls)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("protocol", "send"), [("tls", drip), ("ws", drip_http), ("wss", drip), ("unixsock-stream", drip)]
)
def test_a_byte_now_and_then_keeps_no_place(
    router: ConnectionManager,
    tls: Tls,
    tmp_path: Path,
    protocol: str,
    send: Callable[[socket.socket, threading.Event], None],
) -> None:
    where = listen(router, protocol, tmp_path)
    stopped = threading.Event()
    with dial(where) as sock:
        thread = threading.Thread(target=send, args=(sock, stopped))
        thread.start()
        until(lambda: router._pending == 1)
        until(lambda: router._pending == 0)
        stopped.set()
        thread.join()
    assert opens(where, tls)


@pytest.mark.parametrize("initialised", [False, True], ids=["link ready", "after InitSyn"])
@pytest.mark.parametrize("protocol", STREAMS)
def test_a_session_that_is_half_open_gives_its_place_back(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str, initialised: bool
) -> None:
    where = listen(router, protocol, tmp_path)
    with client(where) as sock:
        if initialised:
            sock.sendall(batch(where, Init(whatami=2, zid=b"half", patch=1).encode()))
        until(lambda: router._pending == 1)
        until(lambda: router._pending == 0)
        assert is_ended(sock)
    assert opens(where, tls)


@pytest.mark.parametrize("protocol", ["tls", "wss", "ws"])
def test_a_peer_that_vanishes_in_its_handshake_gives_its_place_back(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str
) -> None:
    where = listen(router, protocol, tmp_path)
    for _ in range(3):
        dial(where).close()
    until(lambda: router._pending == 0)
    assert opens(where, tls)


def test_an_initial_of_quic_gives_its_place_back(router: ConnectionManager, tls: Tls, tmp_path: Path) -> None:
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection

    where = listen(router, "quic", tmp_path)
    target = EndPoint.parse(where).host_and_port()
    for _ in range(router.max_pending):
        quic = QuicConnection(configuration=QuicConfiguration(is_client=True, alpn_protocols=["zenoh"]))
        quic.connect(target, now=0.0)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(target)
            for data, _ in quic.datagrams_to_send(now=0.0):
                sock.send(data)
    until(lambda: router._pending == 0)
    assert opens(where, tls)


def opens(where: str, tls: Tls) -> bool:
    """Return whether an honest client can connect. On a slow machine the short timeout may require a second attempt."""
    honest = ConnectionManager(settings(), Recorder(), tls)
    try:
        return honest.connect_first([where], PATIENCE, None, retry_for=PATIENCE).first.result().is_open
    finally:
        honest.close()


@pytest.mark.parametrize("replies", [True, False], ids=["at a reply", "at the timeout"])
@pytest.mark.parametrize("step", ["write", "close"])
def test_an_error_of_the_link_ends_the_connection(
    router: ConnectionManager,
    tmp_path: Path,
    step: str,
    replies: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No error of a link can leave a connection without an end."""
    from zenlake.link.stream import LayeredLink

    close = LayeredLink.close

    def fail(link: LayeredLink, *_: object) -> int:
        if step == "close":
            close(link)
        raise RuntimeError("a defect")

    monkeypatch.setattr(LayeredLink, step, fail)
    where = listen(router, "ws", tmp_path)
    with client(where) as sock:
        until(lambda: router._pending == 1)
        if replies:
            sock.sendall(frame(2, Init(whatami=2, zid=b"half", patch=1).encode()))
        until(lambda: router._pending == 0)
    assert not router._all
    assert "Traceback" not in caplog.text


class Silent:
    """A listener that accepts and sends nothing at first. Later it forwards connections to a real listener."""

    def __init__(self, target: str) -> None:
        self._target = EndPoint.parse(target).host_and_port()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "{}:{}".format(*self._server.getsockname())
        self.count = 0
        self._held: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                sock = self._server.accept()[0]
                self._held.append(sock)
                self.count += 1
                if self.count > 1:
                    other = socket.create_connection(self._target)
                    self._held.append(other)
                    for one, two in ((sock, other), (other, sock)):
                        threading.Thread(target=self._copy, args=(one, two), daemon=True).start()

    def _copy(self, one: socket.socket, two: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(65536):
                two.sendall(data)

    def close(self) -> None:
        self._server.close()
        for sock in self._held:
            sock.close()


@pytest.mark.parametrize("protocol", ["tls", "ws", "wss"])
def test_a_client_reconnects_after_a_stalled_handshake(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str
) -> None:
    silent = Silent(listen(router, protocol, tmp_path))
    one = ConnectionManager(settings(open_timeout=0.3), Recorder(), tls)
    connection = one.connect(f"{protocol}/{silent.address}", Backoff(0.05, 2.0, 0.1))
    assert connection.first.result(PATIENCE).is_open
    assert silent.count == 2
    one.close()
    silent.close()


def test_a_node_that_fails_to_hear_of_an_end_still_connects_again(router: ConnectionManager, tmp_path: Path) -> None:
    class Clumsy(Recorder):
        def on_open_failed(self, face: Connection, event: object) -> None:
            raise KeyError("a defect")

    silent = Silent(listen(router, "tcp", tmp_path))
    one = ConnectionManager(settings(open_timeout=0.3), Clumsy())
    connection = one.connect(f"tcp/{silent.address}", Backoff(0.05, 2.0, 0.1))
    assert connection.first.result(PATIENCE).is_open
    one.close()
    silent.close()


def open_session(where: str, lease: int = 30_000) -> socket.socket:
    """A WebSocket with an open session."""
    sock = client(where)
    sock.sendall(frame(2, Init(whatami=2, zid=os.urandom(15) + b"\x01", qos=True, patch=1).encode()))
    ack = messages(receive_frame(sock))[0]
    assert isinstance(ack, Init)
    sock.sendall(frame(2, Open(lease=lease, initial_sn=0, cookie=ack.cookie.value).encode()))
    assert isinstance(messages(receive_frame(sock))[0], Open)
    return sock


def receive_frame(sock: socket.socket) -> bytes:
    head = exactly(sock, 2)
    size = head[1]
    if size == 126:
        size = int.from_bytes(exactly(sock, 2), "big")
    return exactly(sock, size)


def exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        assert piece
        data += piece
    return data


@pytest.mark.parametrize("protocol", ["ws", "wss"])
def test_a_close_frame_ends_the_link_although_the_socket_stays_open(
    router: ConnectionManager, tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    where = listen(router, protocol, tmp_path)
    with open_session(where) as sock:
        until(lambda: router.faces)
        face = next(iter(router.faces.values()))
        sock.sendall(frame(8, b"\x03\xe8"))  # CLOSE, code 1000
        until(lambda: not router.faces)
        with pytest.raises(LocalError):
            face.send(push("to/the/gone", b""))
        assert is_ended(sock)
    assert not caplog.records


def test_a_close_alert_of_tls_ends_the_link_although_the_socket_stays_open(
    router: ConnectionManager, tmp_path: Path
) -> None:
    where = listen(router, "tls", tmp_path)
    with client(where) as sock:
        until(lambda: router._pending == 1)
        began = time.monotonic()
        sock.settimeout(0.0)
        with suppress(ssl.SSLError):
            sock.unwrap()
        until(lambda: router._pending == 0)
        assert time.monotonic() - began < TIMEOUT / 2


def test_a_plain_http_request_is_closed_immediately(router: ConnectionManager, tmp_path: Path) -> None:
    where = listen(router, "ws", tmp_path)
    with dial(where) as sock:
        began = time.monotonic()
        sock.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b" 426 " in sock.recv(4096)
        assert is_ended(sock)
        assert time.monotonic() - began < TIMEOUT


def test_empty_frames_of_one_message_cost_no_memory(router: ConnectionManager, tmp_path: Path) -> None:
    from zenlake.link.websocket import ServerProtocol, WebSocketLayer

    layer = WebSocketLayer(ServerProtocol(max_size=65535))
    key = base64.b64encode(os.urandom(16)).decode()
    head = f"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
    list(layer.feed(f"{head}Sec-WebSocket-Version: 13\r\n\r\n".encode()))
    list(layer.feed(b"\x02\x80" + bytes(4)))  # BINARY, not the last
    for _ in range(100):
        list(layer.feed((b"\x00\x80" + bytes(4)) * 100))  # CONT, empty, not the last
    assert sys.getsizeof(layer._partial) < 1000
