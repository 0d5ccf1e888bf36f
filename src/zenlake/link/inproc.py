# SPDX-License-Identifier: Apache-2.0
"""`memory/name`: two ends in one process, for tests that need a link without a network.

It behaves like a stream socket with a buffer of `ROOM` bytes: `write` accepts what fits, and reads of the other end free
space.
"""

import os
import threading
from collections import deque
from contextlib import suppress

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import BaseLink, LinkListener, Port

__all__ = ["MemoryLink", "connect", "listen"]

ROOM = 65536

_listeners: dict[str, "MemoryListener"] = {}


class PollablePipe(Port):
    """Pipe that makes an in-memory object pollable."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        self._closed = False
        self._pulling = threading.Lock()

    def wake(self) -> None:
        """Wake the event loop.

        Threading: callable from any thread. The lock prevents a close in between, and thus a write to a reused descriptor.
        """
        with self._pulling:
            if not self._closed:
                with suppress(BlockingIOError):  # a wake-up is already pending
                    os.write(self._write, b"\0")

    def on_readable(self, now: float) -> None:
        with suppress(BlockingIOError):
            os.read(self._read, 4096)
        self.on_wake()

    def on_wake(self) -> None:
        raise NotImplementedError

    def fileno(self) -> int:
        return self._read

    def close(self) -> None:
        if not self._closed:
            self.wants_read = self.wants_write = False
            self.on_change()
            with self._pulling:
                self._closed = True
                os.close(self._read)
                os.close(self._write)


class MemoryLink(PollablePipe, BaseLink):
    """One end of the link. `inbound` holds its received bytes until the next turn of its event loop."""

    direct = True
    other: "MemoryLink"
    lock: threading.Lock  # Threading: one end writes on its thread, the other reads on its own

    def __init__(self, local: str, remote: str) -> None:
        PollablePipe.__init__(self)
        self.local = local
        self.remote = remote
        self.inbound: deque[bytes] = deque()
        self.held = 0
        self.ended = False
        self.starved = False
        self._paused = False

    @classmethod
    def pair(cls, name: str) -> tuple["MemoryLink", "MemoryLink"]:
        one, two = cls(f"memory/{name}#1", f"memory/{name}"), cls(f"memory/{name}", f"memory/{name}#1")
        one.other, two.other = two, one
        one.lock = two.lock = threading.Lock()
        return one, two

    @property
    def port(self) -> Port:
        return self

    def pause(self) -> None:
        """Keep polling: a wake-up also means that the other end has freed space."""
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        self.wake()

    @property
    def is_paused(self) -> bool:
        return self._paused

    def write(self, data: memoryview) -> int:
        other = self.other
        with self.lock:
            size = min(len(data), ROOM - other.held)
            if size < len(data):
                self.starved = True
            if size > 0:
                other.inbound.append(bytes(data[:size]))
                other.held += size
        if size > 0:
            other.wake()
        return max(size, 0)

    def on_wake(self) -> None:
        while self.inbound and not self._paused:
            with self.lock:
                data = self.inbound.popleft()
                self.held -= len(data)
            self.owner.on_data(data)
            if self._closed:
                return
        if self.other.starved:
            self.other.wake()
        if self.starved and self.other.held < ROOM:
            self.starved = False
            self.owner.on_writable()
        if self.ended and not self.inbound and not self._closed:  # bytes before the end of the stream are read first
            owner = self.owner
            self.close()
            owner.on_close(None)

    def close(self) -> None:
        if not self._closed:
            self.other.ended = True
            self.other.wake()
            PollablePipe.close(self)


class MemoryListener(PollablePipe, LinkListener):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.locator = f"memory/{name}"
        self.arrived: deque[MemoryLink] = deque()

    def on_wake(self) -> None:
        while self.arrived:
            self.on_link(self.arrived.popleft())

    def close(self) -> None:
        _listeners.pop(self.name, None)
        PollablePipe.close(self)
        while self.arrived:
            self.arrived.popleft().close()


def connect(endpoint: EndPoint, address: object = None, tls: object = None) -> BaseLink:
    listener = _listeners.get(endpoint.address)
    if listener is None:
        raise LinkError(str(endpoint), "connection refused")
    one, two = MemoryLink.pair(endpoint.address)
    listener.arrived.append(two)
    listener.wake()
    return one


def listen(endpoint: EndPoint, tls: object = None) -> LinkListener:
    if endpoint.address in _listeners:
        raise LinkError(str(endpoint), "address already in use")
    listener = _listeners[endpoint.address] = MemoryListener(endpoint.address)
    return listener
