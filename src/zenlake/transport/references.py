# SPDX-License-Identifier: Apache-2.0
"""References to payloads in shared memory: their encoding, and messages with and without them.

The payload of a message with references is a list of slices. Each slice holds raw bytes, or a reference to a buffer of the same
host.
This module converts messages in both directions. `zenlake.shared_memory` maps the buffers.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from zenlake.errors import DecodeError
from zenlake.wire import message_ids
from zenlake.wire.batch_reader import BatchReader
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.network import Push, Request, Response
from zenlake.wire.writer import WireWriter

__all__ = [
    "Mounted", "Reference", "ReferenceMessage", "SharedLink", "SharedNegotiation", "SharedPayload", "payload_of",
    "read_slices", "set_payload", "slices_of", "write_slices",
]  # fmt: skip

RAW, SHARED = 0, 1
KINDS: dict[int, Callable[[], Any]] = {
    message_ids.PUSH: Push,
    message_ids.REQUEST: Request,
    message_ids.RESPONSE: Response,
}


class Reference(NamedTuple):
    """A reference to a buffer, as it is on the wire."""

    size: int
    """Bytes of payload, at most the length of the buffer."""
    metadata: int
    """Number of the metadata segment."""
    slot: int
    """Slot in that segment."""
    generation: int
    """Generation of the slot."""

    @classmethod
    def decode(cls, data: bytes) -> "Reference":
        c = Cursor(data, 0, None, "reference")
        found = cls(c.z32("size"), c.z16("metadata"), c.z16("slot"), c.z32("generation"))
        if c.at != c.end or not found.size:
            raise DecodeError("reference", c.at, "expected four numbers, the first above 0")
        return found

    def encode(self) -> bytes:
        w = WireWriter(16)
        w.z64("size", self.size)
        w.z16("metadata", self.metadata)
        w.z16("slot", self.slot)
        w.z32("generation", self.generation)
        data: bytes = w.to_bytes()
        return data


Slice = bytes | Reference


def read_slices(data: bytes) -> list[Slice]:
    """Decode a sliced payload.

    Raises:
        DecodeError: The bytes are not a list of slices.
    """
    c = Cursor(data, 0, None, "payload")
    found: list[Slice] = []
    part = Blob(data)
    for _ in range(c.z64("slices")):
        kind = c.u8("kind")
        c.blob("slice", part)
        found.append(Reference.decode(part.value) if kind == SHARED else part.value)
    return found


def write_slices(slices: Iterable[Slice]) -> bytes:
    """Encode a sliced payload."""
    parts = list(slices)
    w = WireWriter(32)
    w.z64("slices", len(parts))
    for part in parts:
        w.u8("kind", RAW if isinstance(part, bytes) else SHARED)
        w.blob("slice", Blob(part if isinstance(part, bytes) else part.encode()))
    data: bytes = w.to_bytes()
    return data


def slices_of(kind: int, record: Any) -> bytes:
    """Return the slices of a message that has references."""
    if kind == message_ids.REQUEST:
        return record.query.body.value or b""
    body = record.put if kind == message_ids.PUSH else record.reply.put
    return body.slices.value or b""


def payload_of(kind: int, record: Any) -> memoryview | None:
    """Return the inline payload of a message, or None if it has none or has references."""
    if kind == message_ids.REQUEST:
        view: memoryview | None = None if record.query.shm else record.query.body.view
        return view
    if not (record.is_put if kind == message_ids.PUSH else record.is_reply and record.reply.is_put):
        return None
    body = record.put if kind == message_ids.PUSH else record.reply.put
    view = None if body.shm else body.payload.view
    return view


def set_payload(kind: int, record: Any, payload: bytes | memoryview, is_sliced: bool) -> None:
    """Replace the payload of a message."""
    if kind == message_ids.REQUEST:
        record.query.shm = is_sliced
        record.query.body.set(payload)
        return
    body = record.put if kind == message_ids.PUSH else record.reply.put
    body.shm = is_sliced
    body.payload.set(None if is_sliced else payload)
    body.slices.set(payload if is_sliced else None)


class Mounted(Protocol):
    """A received message whose references are mapped."""

    buffer: Any
    """The buffer, if it is the whole payload, otherwise None."""
    buffers: tuple[Any, ...]
    priority: int

    def inline(self, message: bytes | None = None) -> bytes | None:
        """Return the message with a copy of the bytes, or None if they are not valid any more.

        `message` is the same one with another key or timestamp.
        """

    def without_payload(self, message: bytes | None = None) -> bytes:
        """Return the message with an empty payload, for receivers that take the buffer."""

    def settle(self) -> None:
        """Acknowledge the references to the sender. Call once, after the copy or after the buffers are held."""


class SharedNegotiation(Protocol):
    """Negotiation of shared memory in the handshake of one connection. Each value is the body of the extension, None if absent."""

    def init_syn(self) -> bytes | None:
        """Return the proposal of the opener."""

    def init_ack(self, syn: bytes | None) -> bytes | None:
        """Return the reply of the acceptor to InitSyn."""

    def open_syn(self, ack: bytes | None) -> bytes | None:
        """Return the reply of the opener to InitAck."""

    def open_ack(self, init_syn: bytes, syn: bytes | None) -> bytes | None:
        """Return the reply of the acceptor to OpenSyn. Raise RemoteError for a wrong challenge or counter."""

    def finish(self, ack: bytes | None) -> None:
        """Handle OpenAck. Raise RemoteError for a wrong counter."""

    def agree(self) -> "SharedLink | None":
        """Return the result after the handshake: a link, or None."""

    def close(self) -> None:
        """Release the resources of a failed handshake."""


class SharedLink(Protocol):
    """Shared memory that both ends of a connection agreed on."""

    def mount(self, kind: int, reader: BatchReader) -> Mounted | None:
        """Map the references of the message in a reader, or refuse, count and acknowledge them, and return None."""

    def close(self) -> None:
        """Release all resources: the session has ended."""


class SharedPayload:
    """A payload of this node in shared memory. `data` has the same bytes, if they were copied already."""

    def __init__(self, buffer: Any, data: bytes | None = None) -> None:
        self.buffer = buffer
        self.data = data

    def slices(self) -> bytes:
        """Return the encoded reference."""
        return write_slices((self.buffer.reference,))

    def inline(self, message: bytes) -> bytes | None:
        """Return a message with a copy of the bytes, or None if they are not valid any more."""
        if self.data is None:
            self.data = self.buffer.copy()
        if self.data is None:
            return None
        kind = message[0] & message_ids.KIND
        record = KINDS[kind]().decode(Cursor(message))
        set_payload(kind, record, self.data, False)
        changed: bytes = record.encode()
        return changed


class ReferenceMessage(bytes):
    """An encoded message with references to buffers that it keeps alive. A link without shared memory sends `inline()` instead."""

    buffers: tuple[Any, ...]
    priority: int
    _copy: Callable[[bytes], bytes | None]

    @classmethod
    def make(
        cls, message: bytes, buffers: tuple[Any, ...], priority: int, copy: Callable[[bytes], bytes | None]
    ) -> "ReferenceMessage":
        """Return a message with references. `copy` returns the same message with a copy of the bytes."""
        made = cls(message)
        made.buffers = buffers
        made.priority = priority
        made._copy = copy
        return made

    def inline(self) -> bytes | None:
        """Return the message with a copy of the bytes, or None if they are not valid any more."""
        return self._copy(bytes(self))
