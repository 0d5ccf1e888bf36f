# SPDX-License-Identifier: Apache-2.0
"""Redaction: a log stores only the size and the hash of some values (`--metadata-only`).

In the batch, the SHA-256 replaces the value. Everything else is unchanged. The block lists the redacted messages (row,
message in the row, true size), so a sender cannot forge a redacted value. For a fragmented message, the first fragment
keeps the bytes before the value, the last one gets the hash, and the others are empty. Sequence numbers and the number
of fragments stay correct, and a block can be written before the end of the message is received.

Not redacted: undecodable bytes, and a message whose first fragment ends before its value begins (a huge attachment). Fragments
that receivers ignore, or that belong to no message, lose their bytes, because their key is unknown.
"""

import hashlib
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import DecodeError
from zenlake.log.block import numbers
from zenlake.log.layout import ROWS
from zenlake.log.session_state import LogFace, new_state
from zenlake.log.session_tracker import SessionTracker
from zenlake.session.key_table import KeyMemory
from zenlake.session.state import SessionState
from zenlake.wire import message_ids
from zenlake.wire.batch_reader import BatchReader

__all__ = ["Removal", "RedactedView", "Redactor"]

HASH = hashlib.sha256
HASH_SIZE = 32
LENGTH = bytes([HASH_SIZE])  # as VLE
MAX_VLE = 9
JOINED, WAITING = 1, 0
MAX_KEYS = 1 << 16
MAX_CACHED_KEY = 512  # characters; longer keys are not cached

Lane = tuple[int, int, int]  # face, direction, lane


class RedactionEdit(NamedTuple):
    """Replacement of a range of bytes of a block."""

    row: int
    start: int
    end: int
    new: bytes


class PartialValue:
    """Progress of a value in fragments."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.received_size = 0
        self.hash = HASH()

    def add(self, data: memoryview) -> None:
        self.received_size += len(data)
        self.hash.update(data)

    def digest(self) -> bytes:
        """Return the hash, or nothing if the value differs from its announced size, because it is then undecodable."""
        return self.hash.digest() if self.received_size == self.size else b""


class Redactor:
    """Redaction at the writer: removes the values on these keys from blocks. It tracks the sessions on the original bytes."""

    def __init__(self, keys: Sequence[str]) -> None:
        self.keys = [KeyExpr(key) for key in keys]
        self._tracker = SessionTracker(self)
        self._sessions: dict[str, SessionState] = {}
        self._memory = KeyMemory()
        self._halves: dict[tuple[str, int, int], PartialValue] = {}
        self._wanted: dict[str, bool] = {}
        self._reader = BatchReader()

    def redact(self, rows: pa.RecordBatch, faces: Sequence[LogFace]) -> tuple[pa.RecordBatch, list[int]]:
        """Return the block without these values, and the redacted messages: row, index and size of each, in one list."""
        self._faces = faces
        for face in faces:
            if face.name not in self._sessions:
                self._sessions[face.name] = new_state(face, self._memory)
        self._tracker.sessions[:] = [self._sessions[face.name] for face in faces]
        self._tracker.declared.clear()
        self._tracker.message_starts.clear()
        column = rows.column("batch")
        data = column.buffers()[2]
        self._data = memoryview(b"" if data is None else data).cast("B")
        self._changes: list[RedactionEdit] = []
        self._redacted: list[int] = []
        self._tracker.follow(rows)
        if self._changes:
            sizes = pc.binary_length(column).to_pylist()
            rows = rows.set_column(
                rows.schema.get_field_index("batch"), ROWS.field("batch"), self._apply_changes(sizes)
            )
        return rows, self._redacted

    def forget(self, face: LogFace) -> None:
        if (session := self._sessions.pop(face.name, None)) is not None:
            session.drop_keys()
        self._halves = {where: half for where, half in self._halves.items() if where[0] != face.name}

    def _apply_changes(self, sizes: list[int]) -> pa.Array:
        pieces: list[bytes | memoryview] = []
        at = 0
        for row, start, end, new in self._changes:
            pieces += (self._data[at:start], new)
            sizes[row] += len(new) - (end - start)
            at = end
        data = b"".join([*pieces, self._data[at:]])
        ends = numbers(pa.int32(), accumulate(sizes, initial=0))
        return pa.Array.from_buffers(pa.binary(), len(sizes), [None, ends.buffers()[1], pa.py_buffer(data)])

    # Callbacks of the tracker

    def value(self, row: int, index: int, key: str | None, at: int, size: int) -> None:
        if size <= 0 or key is None or not self._is_wanted(key):
            return
        data = self._data[at : at + size]
        start = at - _length_size(self._data, at, size)
        self._changes.append(RedactionEdit(row, start, at + size, LENGTH + HASH(data).digest()))
        self._redacted += (row, index, size)

    def fragment(
        self, session: SessionState, lane: Lane, row: int, index: int, outcome: int, pieces: int, at: int, size: int
    ) -> None:
        where = (self._faces[lane[0]].name, *lane[1:])
        if outcome not in (WAITING, JOINED):
            self._halves.pop(where, None)
            self._changes.append(RedactionEdit(row, at, at + size, b""))
            return
        data = self._data[at : at + size]
        if pieces == 1:
            self._halves.pop(where, None)
            begins = self._begins(session, lane[1], data)
            if begins is not None and outcome == WAITING:
                head, length_size, half = begins
                half.add(data[head + length_size :])
                self._halves[where] = half
                self._changes.append(RedactionEdit(row, at + head, at + size, LENGTH))
            return
        found = self._halves.get(where)
        if found is None:
            return
        found.add(data)
        if outcome == WAITING:
            self._changes.append(RedactionEdit(row, at, at + size, b""))
        else:
            del self._halves[where]
            self._changes.append(RedactionEdit(row, at, at + size, found.digest()))
            self._redacted += (row, index, found.size)

    def _begins(self, session: SessionState, direction: int, data: memoryview) -> tuple[int, int, PartialValue] | None:
        """Return the position and size of the length of a value in a first fragment, if the value is to be redacted.

        Decoding stops there, because the value is incomplete.
        """
        reader = self._reader
        reader.bind(data)
        reader.begin_network(0, len(data))
        try:
            reader.next()
            return None
        except DecodeError as error:
            if error.field != "PUT.payload":
                return None
            head = error.at
            message = reader.push if data[0] & 0x1F == message_ids.PUSH else reader.response
            key = session.key(direction, message.key)
        finally:
            reader.bind(b"")
        if key is None or not self._is_wanted(key):
            return None
        length, size = _vle(data[head : head + MAX_VLE])
        return head, size, PartialValue(length)

    def _is_wanted(self, key: str) -> bool:
        wanted = self._wanted.get(key)
        if wanted is None:
            if len(self._wanted) >= MAX_KEYS:
                self._wanted.clear()
            try:
                given = KeyExpr(key)
            except ValueError:
                return False
            wanted = any(each.intersects(given) for each in self.keys)
            if len(key) <= MAX_CACHED_KEY:
                self._wanted[key] = wanted
        return wanted


class RedactedView:
    """Redaction at the reader: decoded rows as they would be with the values, except that the values are missing."""

    NEEDS = {"samples": ("packet", "index", "payload"), "messages": ("packet", "index", "type")}

    def __init__(self) -> None:
        self._places: list[int] = []
        self._sizes: list[int] = []

    def __len__(self) -> int:
        return len(self._places)

    def add(self, redacted: Sequence[int], first: int) -> None:
        """Add the list of redacted messages of a block, and the number of its first batch."""
        for row, index, size in zip(redacted[::3], redacted[1::3], redacted[2::3], strict=True):
            self._places.append((first + row) << 16 | index)
            self._sizes.append(size)

    def clear(self) -> None:
        self._places.clear()
        self._sizes.clear()

    def rows(self, table: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        if table not in self.NEEDS or not self._places:
            return batch
        places = pc.bit_wise_or(pc.shift_left(batch.column("packet"), 16), batch.column("index").cast(pa.int64()))
        found = pc.index_in(places, pa.array(self._places, pa.int64()))
        if table == "messages":
            found = pc.if_else(pc.equal(batch.column("type"), "FRAGMENT"), None, found)
        if found.null_count == len(found):
            return batch
        is_withheld = found.is_valid()
        sizes = pc.take(pa.array(self._sizes, pa.int64()), found)
        return _samples(batch, is_withheld, sizes) if table == "samples" else _messages(batch, is_withheld, sizes)


class Removal:
    """Removal of redacted messages from batches that are written elsewhere.

    Of a fragmented message the last fragment is removed, so that it cannot be reassembled.
    """

    def __init__(self) -> None:
        self.count = 0
        self._messages: dict[int, list[int]] = {}
        self._reader = BatchReader()

    def expect(self, redacted: Sequence[int]) -> None:
        """Set the list of redacted messages of a block."""
        self._messages.clear()
        for row, index in zip(redacted[::3], redacted[1::3], strict=True):
            self._messages.setdefault(row, []).append(index)

    def remove_redacted(self, row: int, batch: bytes, low_latency: bool) -> bytes:
        """Return the batch in that row of the block without redacted messages. It is empty if nothing else is left."""
        gone = self._messages.get(row)
        if gone is None:
            return batch
        self.count += len(gone)
        starts = list(self._starts(batch, low_latency))
        ends = [*starts[1:], len(batch)]
        return b"".join(batch[s:e] for i, (s, e) in enumerate(zip(starts, ends, strict=True)) if i not in gone)

    def _starts(self, batch: bytes, low_latency: bool) -> Iterator[int]:
        """Return the start of each message. The last message may be undecodable."""
        reader = self._reader
        reader.low_latency = low_latency
        reader.bind(batch)
        reader.begin(0, len(batch))
        try:
            while reader.next() != message_ids.END:
                yield reader.start
        except DecodeError:
            yield reader.start
        finally:
            reader.bind(b"")


def _samples(batch: pa.RecordBatch, is_withheld: pa.Array, sizes: pa.Array) -> pa.RecordBatch:
    payloads = batch.column("payload")
    if "payload_sha256" in batch.schema.names:
        hashes = [
            value.hex() if of else None for value, of in zip(payloads.to_pylist(), is_withheld.to_pylist(), strict=True)
        ]
        batch = _replace_column(batch, "payload_sha256", pa.array(hashes, pa.string()))
    batch = _replace_column(batch, "payload", pc.if_else(is_withheld, None, payloads))
    if "payload_size" in batch.schema.names:
        batch = _replace_column(batch, "payload_size", pc.if_else(is_withheld, sizes, batch.column("payload_size")))
    return batch


def _messages(batch: pa.RecordBatch, is_withheld: pa.Array, sizes: pa.Array) -> pa.RecordBatch:
    if "payload_size" in batch.schema.names:
        batch = _replace_column(batch, "payload_size", pc.if_else(is_withheld, sizes, batch.column("payload_size")))
    if "size" in batch.schema.names:
        more = pa.array([None if size is None else _encoded_size(size) for size in sizes.to_pylist()], pa.int64())
        more = pc.subtract(more, len(LENGTH) + HASH_SIZE)
        batch = _replace_column(
            batch, "size", pc.if_else(is_withheld, pc.add(batch.column("size"), more), batch.column("size"))
        )
    return batch


def _replace_column(batch: pa.RecordBatch, name: str, values: pa.Array) -> pa.RecordBatch:
    i = batch.schema.get_field_index(name)
    return batch.set_column(i, batch.schema.field(i), values)


def _encoded_size(size: int) -> int:
    """Return the size of a value with its length."""
    return size + max(1, min((size.bit_length() + 6) // 7, MAX_VLE))


def _vle(data: memoryview) -> tuple[int, int]:
    """Decode a VLE number. Return it with its encoded size."""
    value = 0
    for i, byte in enumerate(data):
        if i == MAX_VLE - 1:
            return value | byte << 7 * i, i + 1
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, i + 1
    return value, len(data)


def _length_size(data: memoryview, end: int, size: int) -> int:
    """Return the encoded size of a length that ends there. A sender may have used more bytes than necessary."""
    return next(n for n in range(1, MAX_VLE + 1) if _vle(data[end - n : end]) == (size, n))
