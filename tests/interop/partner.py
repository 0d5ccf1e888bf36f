# SPDX-License-Identifier: Apache-2.0
"""Two ends of a connection: eclipse-zenoh in its own process, and Zenlake with a probe."""

import json
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from zenlake.link import Tls
from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

HERE = Path(__file__).parent
PATIENCE = 30.0


class Process:
    """One of the scripts in this folder: it prints its events, one per line, and ends when it reads a line."""

    def __init__(self, script: str, *arguments: str, prefix: tuple[str, ...] = ()) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        self._process = subprocess.Popen(
            [*prefix, sys.executable, str(HERE / script), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.put(line.strip())
        self.lines.put("EXITED")

    def expect(self, word: str) -> str:
        """Wait for a line that begins with this word."""
        line = self.lines.get(timeout=PATIENCE)
        assert line.startswith(word), line
        return line

    def quiet(self, seconds: float) -> None:
        """Expect no output for this time."""
        with pytest.raises(queue.Empty):
            self.lines.get(timeout=seconds)

    def send_line(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """Request the end of its session and wait for it."""
        assert self._process.stdin is not None
        if self._process.poll() is None:
            self._process.stdin.write("\n")
        self._process.stdin.close()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Wheel(Process):
    """A process of eclipse-zenoh."""

    def __init__(self, config: dict[str, object], prefix: tuple[str, ...] = ()) -> None:
        super().__init__("wheel.py", json.dumps(config), prefix=prefix)


class Probe(ConnectionOwner):
    """Our end: it stores received messages, subscribes to `back/**`, and sends on `to/**`."""

    def __init__(self) -> None:
        self.faces: queue.Queue[Connection] = queue.Queue()
        self.messages: queue.Queue[object] = queue.Queue()
        self.closings: queue.Queue[Closed] = queue.Queue()
        self.failures: queue.Queue[Closed] = queue.Queue()
        self.subscribed = threading.Event()
        self.lost = 0
        """Messages that a datagram link lost in either direction."""

    def sink(self, face: Connection) -> Sink:
        return Collector(self)

    def on_open(self, face: Connection) -> None:
        self.faces.put(face)

    def on_close(self, face: Connection, event: Closed) -> None:
        self.closings.put(event)

    def on_open_failed(self, face: Connection, event: Closed) -> None:
        self.failures.put(event)

    def echo(
        self, face: Connection, payload: bytes, key: str = "to/x", priority: int = 5, reliable: bool = True
    ) -> bytes:
        """Send a payload to the router, wait for its echo and return it.

        On a link that may lose datagrams, a payload without an echo is counted and sent again.
        """
        qos = priority | 0x08  # it must not be dropped in either direction
        push = Push(key=key, qos=qos, body=Put(payload=payload))
        patience = PATIENCE if face.link.reliable else PATIENCE / 5
        while True:
            assert face.send(push, priority, reliable, congestion=1)
            try:
                return self._echoed(f"back/{key}", reliable, patience)
            except queue.Empty:
                self.lost += 1
                if face.link.reliable or self.lost > 4:
                    raise

    def _echoed(self, key: str, reliable: bool, patience: float) -> bytes:
        while True:
            got = self.messages.get(timeout=patience)
            assert isinstance(got, tuple)
            if got[0] == key:
                assert got[2] == reliable
                return got[1]


class Collector(Sink):
    """A probe that records PUSH messages as (key, payload, reliable), and the subscription to `to/**`."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.keys: dict[int, str] = {}

    def on_message(self, kind: int, reader: object) -> int:
        message = reader.record(kind)
        if isinstance(message, Push):
            suffix = message.key.suffix.text or ""
            key = self.keys.get(message.key.scope, "") + suffix
            reliable = bool(reader.frame.reliable)
            self.probe.messages.put((key, message.put.payload.value, reliable))
        elif isinstance(message, Declare):
            body = message.body
            if isinstance(body, DeclareKeyExpr):
                self.keys[body.id] = body.key.suffix.text
            elif isinstance(body, DeclareEntity):
                self.probe.subscribed.set()
        return 0


def subscribe(face: Connection, key: str = "back/**") -> None:
    """Declare subscriptions to the real router."""
    body = DeclareEntity(kind=2, id=1, key=key)
    assert face.send(Declare(qos=0x08, body=body), 0, True, congestion=1)


class Ours:
    """A runtime with a probe. After its end nothing is left running."""

    def __init__(self, tls: Tls | None = None, **settings: object) -> None:
        self.probe = Probe()
        zid = os.urandom(15) + b"\x01"
        self.runtime = ConnectionManager(Settings(**{"zid": zid, "lease": 3.0, **settings}), self.probe, tls)

    def open(self, endpoint: str) -> Connection:
        face = self.runtime.open(endpoint, PATIENCE)
        subscribe(face)
        return face

    def __enter__(self) -> "Ours":
        return self

    def __exit__(self, *_: object) -> None:
        self.runtime.close()
        assert not self.runtime.engine._thread.is_alive()
