# SPDX-License-Identifier: Apache-2.0
"""The command `zenlake router` in a separate process."""

import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import zenlake
from tests.interop.nodes import Events, Ours
from zenlake.cli.router import file_handles

PATIENCE = 60.0


def begun(*options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from zenlake.cli import main; main()", "router", *map(str, options)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.fixture
def start() -> Iterator[Any]:
    running: list[subprocess.Popen[str]] = []

    def starts(*options: object) -> tuple[subprocess.Popen[str], str]:
        """Start a router and return it with its first line of output."""
        running.append(begun(*options))
        stderr = running[-1].stderr
        assert stderr is not None
        return running[-1], stderr.readline()

    yield starts
    for process in running:
        process.kill()
        process.communicate()


def refusal(*options: object) -> tuple[int, str]:
    process = begun(*options)
    _, said = process.communicate(timeout=PATIENCE)
    return process.returncode, said


def test_it_routes_records_and_ends_in_order(start: Any, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        page = free.getsockname()[1]
    process, said = start("-l", "tcp/127.0.0.1:0", "--log", tmp_path / "log", "--metrics", f"127.0.0.1:{page}")
    where = said.split(" listens on ")[1].split(",")[0]
    one, two = Ours("client", (where,)), Ours("client", (where,))
    events: Events = two.events
    two.do("sub", "s", "a/*")
    two.do("queryable", "q", "a/q", "reply")
    one.do("querier", "asks", "a/q")
    one.events.wait("matching", "asks")
    one.do("put", "a/b", "value")
    assert events.wait("sample", "s")[0][:3] == ["a/b", "put", "value"]
    assert one.do("get", "a/q") == [["put", "a/q", "of q"]]
    figures = urllib.request.urlopen(f"http://127.0.0.1:{page}/metrics", timeout=10).read().decode()
    assert 'zenlake_router_sessions{role="client"} 2.0' in figures
    assert 'zenlake_router_messages_total{flow="out",role="client"}' in figures
    assert urllib.request.urlopen(f"http://127.0.0.1:{page}/health", timeout=10).read() == b"ok\n"
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert "is sealed" in said
    one.close()
    two.close()
    samples = zenlake.read(tmp_path / "log", "samples").to_pylist()
    assert [(row["key"], row["payload"]) for row in samples if row["key"] == "a/b"] == [("a/b", b"value")] * 2
    assert {"opened", "forwarded", "closed"} <= set(zenlake.read(tmp_path / "log", "events")["kind"].to_pylist())


def test_bad_use_is_one_clear_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refusal("-l", f"tcp/127.0.0.1:{taken.getsockname()[1]}")
    assert code == 1
    assert "address already in use" in said
    assert said.count("\n") == 1
    code, said = refusal("--set", "transport/nothing=1")
    assert code == 2
    assert "transport/nothing" in said
    assert said.count("\n") == 1
    code, said = refusal("-c", tmp_path / "missing.json5")
    assert code == 2
    assert "missing.json5" in said
    assert said.count("\n") == 1
    code, said = refusal("--metadata-only", "fleet/**")
    assert code == 2
    assert "--metadata-only: recording needs --log" in said


def test_the_file_handle_limit_is_raised_or_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: taken.append(limits))
    assert file_handles(200) == ""
    assert file_handles(900) == ""
    assert "the limit of this process is 1000" in file_handles(5000)
    assert taken == [(900, 1000), (1000, 1000)]
