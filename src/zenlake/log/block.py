# SPDX-License-Identifier: Apache-2.0
"""Encoding of a block: an IPC message with a record batch, metadata that is readable without the rows, and a checksum.

Any Arrow tool reads a segment from its beginning. To begin at a block, its offset and the schema are sufficient. The changes of
earlier blocks are read without their bodies. This module therefore decodes the metadata of an IPC message itself: Arrow
returns custom metadata only together with the body.
"""

import json
import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from zenlake.errors import LogError
from zenlake.log.disk import PAGE
from zenlake.log.layout import ROWS

try:
    from isal.isal_zlib import crc32
except ImportError:  # the same checksum, at a third of the speed
    from zlib import crc32

__all__ = [
    "DAMAGE",
    "END",
    "BlockInfo",
    "StateTooLarge",
    "read_block_info",
    "align",
    "block_pieces",
    "checksum",
    "crc32",
    "custom_metadata",
    "flags",
    "head_bytes",
    "inflated_size",
    "numbers",
    "pack",
    "prefix_size",
    "unpack",
]

END = b"\xff\xff\xff\xff\0\0\0\0"  # end of an IPC stream
FACTS = ("row", "rows", "first", "last", "notes", "faces", "crc")  # metadata of a block, all integers
DAMAGE = (pa.ArrowException, struct.error, OSError, EOFError, LookupError, TypeError, ValueError, ArithmeticError)
"""Exceptions that decoding of damaged bytes may raise."""
LARGE = 1 << 16  # bytes; a separate write of less than this costs more than a copy
CONTINUATION = 0xFFFFFFFF
MAX_STATE = 64 << 20  # bytes of JSON in a segment's head or in a block's changes
MAX_VALUES = 4 << 20  # separators in that JSON: each may become a Python object
MAX_COMPRESSED_BLOCK = 256 << 20  # bytes of batches in a compressed block
MAX_INFLATED = MAX_COMPRESSED_BLOCK + (64 << 20)  # including the other columns and the excess of the last batch
MAX_FACTS = 1024  # bytes of JSON
MAX_PAIRS = 16  # in the metadata of a block
ZSTD = pa.Codec("zstd", compression_level=3)


def numbers(type_: pa.DataType, values: Iterable[int]) -> pa.Array:
    """Return a column of numbers or times.

    Performance: `pa.array` is avoided because it imports pandas where that is installed. That takes longer than recording many
    thousand batches, and is half of the start-up time of a Spark worker.
    """
    found = array({8: "b", 32: "i", 64: "q"}[type_.bit_width], values)
    return pa.Array.from_buffers(type_, len(found), [None, pa.py_buffer(found)])


def flags(values: Sequence[bool]) -> pa.Array:
    """Return a column of booleans, without `pa.array` (see `numbers`)."""
    bits = bytearray((len(values) + 7) >> 3)
    if True in values:
        for i, value in enumerate(values):
            bits[i >> 3] |= value << (i & 7)
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


class StateTooLarge(LogError):
    """Error: a head, or the changes of a block, would exceed the limit of readers."""


def pack(value: Any) -> bytes:
    """Encode JSON for a head or for the metadata of a block.

    Raises:
        StateTooLarge: `unpack` would refuse it.
    """
    plain = json.dumps(value, separators=(",", ":")).encode()
    if len(plain) > MAX_STATE or plain.count(b",") > MAX_VALUES:
        raise StateTooLarge(f"the state of the faces has {len(plain)} bytes; the limit is {MAX_STATE}")
    return len(plain).to_bytes(8, "little") + bytes(ZSTD.compress(plain, asbytes=True))


def unpack(data: bytes) -> Any:
    size = int.from_bytes(data[:8], "little")
    if size > MAX_STATE:
        raise LogError(f"the state of the faces cannot be decoded: {size} bytes; the limit is {MAX_STATE}")
    try:
        plain = ZSTD.decompress(data[8:], size, asbytes=True)
        if (count := plain.count(b",")) > MAX_VALUES:
            raise LogError(f"the state of the faces cannot be decoded: {count} values; the limit is {MAX_VALUES}")
        return json.loads(plain)
    except (RecursionError, *DAMAGE) as error:
        raise LogError(f"the state of the faces cannot be decoded: {error}") from None


def head_bytes(metadata: dict[str, bytes]) -> bytes:
    """Encode the head of a segment: the schema, with everything that a reader needs before the first block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.with_metadata(metadata)):
        pass
    return bytes(sink.getvalue())[: -len(END)]


class BlockInfo(NamedTuple):
    """Metadata of a block."""

    facts: dict[str, int]
    changes: bytes | None
    withheld: bytes | None
    body: int  # bytes


class BufferList:
    """File object for Arrow that keeps large buffers without a copy, and joins the small writes between them."""

    closed = False

    def __init__(self) -> None:
        self._found: list[memoryview] = []
        self._small = bytearray()

    def write(self, data: bytes | pa.Buffer) -> None:
        if len(data) < LARGE:
            self._small += data
        else:
            self.pieces()
            self._found.append(memoryview(data).cast("B"))

    def pieces(self) -> list[memoryview]:
        """Return the pieces written so far."""
        if self._small:
            self._found.append(memoryview(self._small))
            self._small = bytearray()
        return self._found

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def block_pieces(
    rows: pa.RecordBatch, row: int, notes: int, faces: int, changes: bytes | None, withheld: bytes | None,
    options: pa.ipc.IpcWriteOptions, cut: int = 0,
) -> list[memoryview]:  # fmt: skip
    """Encode a block. The bytes of its rows are not copied.

    Args:
        rows: Rows of the block.
        row: Number of its first row in the segment.
        notes: Number of its rows that are notes.
        faces: Number of new faces in it.
        changes: Changes of the state, as JSON, or None.
        withheld: List of redacted messages, as JSON, or None.
        options: Options of the IPC writer.
        cut: For a block with one note in place of a damaged block: the rows of that block.
    """
    times = rows.column("received").view(pa.int64())
    facts = {"row": row, "rows": rows.num_rows, "first": times[0].as_py(), "last": times[-1].as_py(), "notes": notes}
    facts["faces"] = faces
    facts["crc"] = checksum(rows, changes, withheld)
    facts["changes_crc"] = crc32(changes or b"")  # changes are also read without the rows
    if cut:
        facts["cut"] = cut
    metadata = {"block": json.dumps(facts, separators=(",", ":")).encode()}
    if changes is not None:
        metadata["changes"] = changes
    if withheld is not None:
        metadata["withheld"] = withheld
    sink = BufferList()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), rows.schema, options=options) as stream:
        stream.write_batch(rows, custom_metadata=metadata)
        front, *rest = sink.pieces().copy()  # without the end of the stream and without its beginning, the schema
    return [front[prefix_size(front[:8]) :], *rest]


def align(pieces: Sequence[memoryview], size: int, at: int) -> list[memoryview]:
    """Return the same block in pieces, with the bytes of its batches page-aligned at file offset `at`.

    The second piece holds the bytes of the batches: `size` bytes, LARGE or more. The metadata before it is padded with
    zeros, as the Arrow format allows.
    """
    place = [len(piece) for piece in pieces].index(size)
    front = b"".join(pieces[:place])
    prefix = prefix_size(front[:8])
    more = -(at + len(front)) % PAGE
    described = (prefix - 8 + more).to_bytes(4, "little")
    padded = b"".join((front[:4], described, front[8:prefix], bytes(more), front[prefix:]))
    return [memoryview(padded), *pieces[place:]]


def checksum(rows: pa.RecordBatch, changes: bytes | None, withheld: bytes | None) -> int:
    """Return the checksum of the values. It does not cover their encoding, so padding and compression do not matter."""
    crc = crc32(withheld or b"", crc32(changes or b""))
    count = rows.num_rows
    for name in rows.schema.names:
        column = rows.column(name)
        if name == "batch":
            _, offsets, data = column.buffers()
            ends = memoryview(offsets)[4 * column.offset : 4 * (column.offset + count + 1)].cast("i")
            crc = crc32(memoryview(data)[ends[0] : ends[-1]] if data is not None else b"", crc)
            crc = crc32(ends.cast("B"), crc)
        elif name == "compressed":
            each = column.cast(pa.int8()).buffers()[1] if column.true_count else bytes(count)
            crc = crc32(memoryview(each)[:count], crc)
        else:
            width = column.type.bit_width // 8
            start = width * column.offset
            crc = crc32(memoryview(column.buffers()[1])[start : start + width * count], crc)
    return crc


def prefix_size(start: bytes | memoryview) -> int:
    """Return the size of the prefix before the body of an IPC message, from its first eight bytes."""
    mark, size = struct.unpack("<Ii", start)
    if mark != CONTINUATION or size < 0 or size % 8:
        raise LogError("no block at this offset")
    return 8 + int(size)


def read_block_info(prefix: bytes | memoryview) -> BlockInfo:
    """Decode the metadata of a block from the bytes before its body."""
    try:
        found, body = custom_metadata(memoryview(prefix)[8:])
        if len(found[b"block"]) > MAX_FACTS:
            raise LogError(f"the metadata exceeds {MAX_FACTS} bytes")
        facts = json.loads(found[b"block"])
        if not all(isinstance(facts.get(name, 0), int) for name in ("cut", "changes_crc")):
            raise LogError("the metadata is damaged")
        if not all(isinstance(facts[name], int) for name in FACTS):
            raise LogError("the metadata is damaged")
        changes = found.get(b"changes")
        if facts.get("changes_crc", 0) != (crc32(changes or b"") if "changes_crc" in facts else 0):
            raise LogError("checksum mismatch of the changes")
    except (RecursionError, *DAMAGE):
        raise LogError("incomplete or damaged block") from None
    return BlockInfo(facts, changes, found.get(b"withheld"), body)


def custom_metadata(message: memoryview) -> tuple[dict[bytes, bytes], int]:
    """Return the custom metadata and the body length in the flatbuffer of an IPC message (org.apache.arrow.flatbuf.Message)."""

    def text(at: int) -> bytes:
        at += _number(message, "<I", at)
        size = _number(message, "<I", at)
        if at + 4 + size > len(message):
            raise ValueError
        return bytes(message[at + 4 : at + 4 + size])

    root = _number(message, "<I", 0)
    length = _field(message, root, 3)
    pairs = _field(message, root, 4)
    found = {}
    if pairs:
        vector = pairs + _number(message, "<I", pairs)
        count = _number(message, "<I", vector)
        if count > MAX_PAIRS:
            raise ValueError
        for i in range(count):
            at = vector + 4 + 4 * i
            pair = at + _number(message, "<I", at)
            found[text(_field(message, pair, 0))] = text(_field(message, pair, 1))
    return found, _number(message, "<q", length) if length else 0


def inflated_size(message: memoryview, body: memoryview) -> int:
    """Return the bytes that Arrow would allocate to decompress a record batch, or 0 if it is not compressed."""
    root = _number(message, "<I", 0)
    header = _field(message, root, 2)
    batch = header + _number(message, "<I", header)
    buffers, compression = _field(message, batch, 2), _field(message, batch, 3)
    if not compression or not buffers:
        return 0
    vector = buffers + _number(message, "<I", buffers)
    total = 0
    for i in range(_number(message, "<I", vector)):
        at, size = (_number(message, "<q", vector + 4 + 16 * i + half) for half in (0, 8))
        if size:
            total += max(_number(body, "<q", at), 0)  # -1: this buffer is not compressed
    return total


def _number(data: memoryview, format: str, at: int) -> int:
    if at < 0:
        raise ValueError
    value: int = struct.unpack_from(format, data, at)[0]
    return value


def _field(message: memoryview, table: int, index: int) -> int:
    """Return the position of a field of a flatbuffer table, or 0 if the table does not have it."""
    vtable = table - _number(message, "<i", table)
    if _number(message, "<H", vtable) <= 4 + 2 * index:
        return 0
    offset = _number(message, "<H", vtable + 4 + 2 * index)
    return table + offset if offset else 0
