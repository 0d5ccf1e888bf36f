# SPDX-License-Identifier: Apache-2.0
"""Transmit queue of a low-latency session: each message is its own batch, without FRAME, sequence number, fragment or priority.

On a stream, each message has a length prefix of four bytes, so one write can still carry several messages. A message larger
than the negotiated batch size cannot be sent; the caller gets an error immediately.
"""

from collections import deque

from zenlake.errors import LocalError
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire.message_base import Message

__all__ = ["LowLatencyQueue"]


class LowLatencyQueue:
    """Replacement of `TxQueue` after low latency was negotiated. `handshake` holds the bytes that `TxQueue` has not sent yet."""

    def __init__(self, handshake: TxQueue, batch_size: int, size: int) -> None:
        self.prefix = 4 if handshake.prefix else 0
        self.limit = batch_size
        self.messages = 0
        self.dropped = 0
        self.tee = handshake.tee
        self._handshake = handshake
        self._room = size * batch_size
        self._held = 0
        self._ended = False
        self._waiting: deque[bytes] = deque()
        self._current: memoryview | None = None

    def send(self, message: Message | bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        """Queue a message as `TxQueue.send` does. Only the size of the message matters here."""
        if self._ended:
            raise LocalError("the session is closed")
        data = message if isinstance(message, bytes) else message.encode()
        if len(data) > self.limit:
            raise LocalError(
                f"message of {len(data)} bytes exceeds the limit of {self.limit} of a low-latency session; "
                "send less, or open the session without low latency"
            )
        if self._held and self._held + len(data) > self._room:
            return False
        self.messages += 1
        self._append(data)
        return True

    def end(self) -> None:
        self._ended = True

    def control(self, message: bytes) -> None:
        self._append(message)

    def _append(self, data: bytes) -> None:
        framed = len(data).to_bytes(self.prefix, "little") + data if self.prefix else data
        self._held += len(framed)
        self._waiting.append(framed)

    def data(self, now: float) -> memoryview | None:
        if self._handshake.waiting:
            return memoryview(self._handshake.data(now))
        if self._current is None and self._waiting:
            if self.tee is not None:
                for framed in self._waiting if self.prefix else [self._waiting[0]]:
                    self.tee.on_send(framed[self.prefix :], len(framed), False)
            if self.prefix:
                self._current = memoryview(b"".join(self._waiting))
                self._waiting.clear()
            else:
                self._current = memoryview(self._waiting.popleft())
        return self._current

    def advance(self, size: int) -> bool:
        if self._handshake.waiting:
            self._handshake.advance(size)
            return not self._handshake.waiting
        assert self._current is not None, "data() was not called before advance()"
        self._held -= size
        self._current = self._current[size:] or None
        return self._current is None

    def discard(self) -> None:
        """Discard the queue: the peer no longer reads."""
        self._waiting.clear()
        self._held = len(self._current or b"")

    @property
    def complete(self) -> int:
        """Number of complete batches: every queued message is one."""
        return len(self._waiting)

    @property
    def waiting(self) -> bool:
        return self._current is not None or len(self._waiting) > 0 or bool(self._handshake.waiting)
