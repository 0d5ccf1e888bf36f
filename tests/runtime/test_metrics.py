# SPDX-License-Identifier: Apache-2.0
"""The metrics server under hostile clients: each must leave `/metrics`, `/health` and the shutdown usable."""

import logging
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.interop.nodes import Ours
from zenlake.runtime import metrics
from zenlake.runtime.metrics import MetricsPage

pytest.importorskip("prometheus_client")

PROMPT = 3.0  # seconds: well below every timeout of the server
NO_REQUEST = (
    b"400" if sys.version_info >= (3, 14) else b"DOCTYPE"
)  # older versions reply as HTTP/0.9, without a status line


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    found = MetricsPage(":0", lambda: [("zenlake_test_total", "A test.", {"a": "b"}, 1.0)])
    yield found
    found.close()


def connect(page: MetricsPage, data: bytes = b"") -> socket.socket:
    found = socket.create_connection(("127.0.0.1", page.port), timeout=30)
    found.sendall(data)
    return found


def get(page: MetricsPage, path: str = "/health") -> bytes:
    since = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}{path}", timeout=10) as reply:
        found: bytes = reply.read()
    assert time.monotonic() - since < PROMPT
    return found


def test_silent_connections_block_neither_requests_nor_the_end() -> None:
    page = MetricsPage(":0", list)
    silent = [connect(page) for _ in range(4 * metrics.MAX_CONNECTIONS)]
    assert get(page) == b"ok\n"
    assert get(page, "/metrics") == b""
    since = time.monotonic()
    page.close()
    assert time.monotonic() - since < PROMPT
    for each in silent:
        each.close()


def test_an_address_without_a_host_is_open_to_this_machine_only(page: MetricsPage) -> None:
    assert page._server.socket.getsockname()[0] == "127.0.0.1"


def test_the_number_of_connections_is_bounded(page: MetricsPage) -> None:
    silent = [connect(page) for _ in range(3 * metrics.MAX_CONNECTIONS)]
    assert silent[0].recv(1) == b""  # the oldest is closed
    assert len(page._server._open) <= metrics.MAX_CONNECTIONS
    for each in silent:
        each.close()


def test_a_silent_connection_times_out(page: MetricsPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_SECONDS", 3600.0)
    silent = connect(page)
    since = time.monotonic()
    assert silent.recv(1) == b""
    assert time.monotonic() - since < metrics.TIMEOUT + PROMPT
    silent.close()


@pytest.mark.parametrize("first", [b"", b"GET /metrics HTTP/1.1\r\n"])
def test_a_slow_request_is_cut_off(page: MetricsPage, monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    monkeypatch.setattr(metrics, "MAX_SECONDS", 1.0)
    slow = connect(page, first)
    since = time.monotonic()
    with suppress(ConnectionError):
        while time.monotonic() - since < 10:
            slow.sendall(b"x")
            time.sleep(0.05)
    assert time.monotonic() - since < PROMPT
    assert get(page) == b"ok\n"
    slow.close()


def test_a_client_that_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MAX_SECONDS", 1.0)
    many = [("zenlake_test_total", "A test.", {"a": f"{number:01000}"}, 1.0) for number in range(20_000)]
    page = MetricsPage(":0", lambda: many)
    slow = connect(page, b"GET /metrics HTTP/1.1\r\n\r\n")
    slow.recv(100)
    assert get(page) == b"ok\n"
    since = time.monotonic()
    while page._server._open and time.monotonic() - since < 10:
        time.sleep(0.05)
    assert time.monotonic() - since < PROMPT
    slow.close()
    page.close()


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", b"431"),
        (b"GET /metrics HTTP/1.1\r\n" + b"".join(b"X%d: a\r\n" % each for each in range(5000)) + b"\r\n", b"431"),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", b"414"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", b"501"),
        (b"HEAD /health HTTP/1.1\r\n\r\n", b"501"),
        (b"\x16\x03\x01\x00\x05hello\r\n\r\n", NO_REQUEST),
        (b"GET /../../etc/passwd HTTP/1.0\r\n\r\n", b"404"),
        (b"GET /metrics?name[]=none HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /health HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", b"200"),
    ],
)
def test_odd_requests(
    page: MetricsPage,
    request_: bytes,
    status: bytes,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with connect(page, request_) as odd:
        assert status in odd.recv(4096).partition(b"\n")[0]
        assert get(page) == b"ok\n"
    assert capfd.readouterr().err == ""
    assert not caplog.records


def test_figures_that_fail_are_one_line_of_the_log(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail() -> list[metrics.Figure]:
        raise FileNotFoundError("no log")

    page = MetricsPage(":0", fail)
    with caplog.at_level(logging.ERROR), pytest.raises(urllib.error.HTTPError) as failed:
        get(page, "/metrics")
    assert failed.value.code == 500
    failed.value.close()
    page.close()
    assert [each.getMessage() for each in caplog.records] == [
        "metrics request of 127.0.0.1 failed: FileNotFoundError: no log"
    ]
    assert "Traceback" not in capfd.readouterr().err + caplog.text


@pytest.mark.parametrize("command", ["router", "tap"])
def test_sigterm_ends_the_process_immediately(command: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    router = Ours("router", listen=("tcp/127.0.0.1:0",))
    words = ["-l", "tcp/127.0.0.1:0"] if command == "router" else [router.locators[0], "--log", str(tmp_path / "log")]
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "from zenlake.cli import main; main()",
            command,
            *words,
            "--metrics",
            f"127.0.0.1:{port}",
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert "Ctrl-C to stop" in process.stderr.readline()
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
    time.sleep(0.5)  # the server has accepted them
    since = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        assert process.wait(20) == 0
        assert time.monotonic() - since < PROMPT
    finally:
        process.kill()
        process.communicate()
        for each in silent:
            each.close()
        router.close()
