# SPDX-License-Identifier: Apache-2.0
"""A node that records its events."""

import queue
import time
from collections.abc import Callable

from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.transport.rx import Sink
from zenlake.transport.unicast import Closed
from zenlake.wire.network import Push

PATIENCE = 30.0


def until(true: Callable[[], object]) -> None:
    """Wait for a condition that has no event."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.002)


class Recorder(ConnectionOwner):
    def __init__(self) -> None:
        self.opened_faces: queue.Queue[Connection] = queue.Queue()
        self.messages: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.closings: queue.Queue[tuple[Connection, Closed]] = queue.Queue()
        self.failures: queue.Queue[Closed] = queue.Queue()

    def sink(self, face: Connection) -> Sink:
        return Pen(self)

    def on_open(self, face: Connection) -> None:
        self.opened_faces.put(face)

    def on_close(self, face: Connection, event: Closed) -> None:
        self.closings.put((face, event))

    def on_open_failed(self, face: Connection, event: Closed) -> None:
        self.failures.put(event)


class Pen(Sink):
    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder

    def on_message(self, kind: int, reader: object) -> int:
        message = reader.record(kind)
        if isinstance(message, Push):
            self.recorder.messages.put((message.key.suffix.text, message.put.payload.value))
        return 0
