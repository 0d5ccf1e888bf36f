# SPDX-License-Identifier: Apache-2.0
"""Log messages about peers: one line with the peer, the reason and a counter, and never a traceback."""

import logging
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.nodes import Recorder, until
from tests.runtime.test_stalled_handshakes import client, dial, listen, opens, settings
from zenlake.core.endpoint import EndPoint
from zenlake.core.enums import WhatAmI
from zenlake.link import Tls
from zenlake.runtime import peer_errors
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.runtime.event_loop import EventLoop
from zenlake.runtime.peer_errors import PeerErrors

STREAMS = ["tcp", "tls", "ws", "wss", "unixsock-stream"]


@pytest.fixture
def router(tls: Tls) -> Iterator[ConnectionManager]:
    runtime = ConnectionManager(settings(whatami=WhatAmI.ROUTER, accept_timeout=5.0), Recorder(), tls, max_pending=10)
    yield runtime
    runtime.close()


def test_a_cause_is_logged_once_an_interval_and_counted_always(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 100.0
    monkeypatch.setattr(peer_errors, "monotonic", lambda: now)
    found = PeerErrors("zenlake.test")
    for _ in range(1000):
        found.report("tcp/1.2.3.4:5", "no\nnewline", "breaches")
    found.report("tcp/1.2.3.4:5", "x" * 10_000, "others")
    now += peer_errors.INTERVAL
    found.report("tcp/1.2.3.4:5", "again", "breaches")
    assert [record.getMessage() for record in caplog.records] == [
        "tcp/1.2.3.4:5: no\ufffdnewline (breaches: 1)",
        f"tcp/1.2.3.4:5: {'x' * peer_errors.MAX_TEXT} (others: 1)",
        "tcp/1.2.3.4:5: again (breaches: 1001)",
    ]


@pytest.mark.parametrize("ready", [False, True], ids=["at once", "behind the link's handshake"])
@pytest.mark.parametrize("protocol", STREAMS)
def test_garbage_gives_one_line_without_a_traceback(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str, ready: bool, caplog: pytest.LogCaptureFixture
) -> None:
    where = listen(router, protocol, tmp_path)
    with caplog.at_level(logging.WARNING):
        for count in range(1, 21):
            with (client if ready else dial)(where) as sock:
                sock.sendall(b"\x07\x00" + bytes([0x1D]) * 600 + b"\n\n")
                until(lambda: sum(router.engine.peer_errors.counts.values()) == count)  # noqa: B023
        until(lambda: router._pending == 0)
    assert len(caplog.records) <= 2
    for record in caplog.records:
        assert record.exc_info is None
        assert protocol in record.getMessage()
    assert opens(where, tls)


def test_garbage_datagrams_do_not_end_a_listener(
    router: ConnectionManager, tls: Tls, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for protocol in ("udp", "quic"):
        where = listen(router, protocol, tmp_path)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(EndPoint.parse(where).host_and_port())
            for size in (0, 1, 20, 1300):
                for first in (0x00, 0x01, 0x40, 0xC0, 0xFF):
                    sock.send(bytes([first] * min(size, 1)) + os.urandom(max(size - 1, 0)))
                    sock.send((bytes([first]) + struct.pack(">I", 1) + b"\xff" * 40).ljust(size, b"\0"))
        assert opens(where, tls)
    assert all(record.exc_info is None for record in caplog.records)


@pytest.mark.parametrize("protocol", ["tcp", "ws", "udp", "quic"])
def test_an_error_with_one_connection_does_not_end_the_listener(
    router: ConnectionManager, tls: Tls, tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    where = listen(router, protocol, tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(router, "_acceptor", fail)
        one = ConnectionManager(settings(open_timeout=0.3), Recorder(), tls)
        one.connect(where).tried.result(5.0)
        one.close()
    assert opens(where, tls)
    assert router.engine.peer_errors.counts["internal errors"] >= 1
    assert all(record.exc_info is None for record in caplog.records)


def test_an_error_of_our_own_code_is_reported_with_its_traceback_at_debug_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = EventLoop()
    engine.start()
    with caplog.at_level(logging.DEBUG):
        engine.call_soon(lambda: [][1])
        engine.stop()
    assert [record.exc_info is not None for record in caplog.records] == [False, True]
