# SPDX-License-Identifier: Apache-2.0
"""One block as bytes: an IPC message with a record batch, what is to be known of it without its rows, and a checksum.

Any Arrow tool reads a segment from its beginning. To begin at a block, its offset and the schema are enough. The changes of
earlier blocks are read without their bodies, which is why this chapter looks into an IPC message's metadata itself: Arrow
shows custom metadata only together with the body.
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
except ImportError:  # the same sum, at a third of the speed
    from zlib import crc32

__all__ = [
    "DAMAGE",
    "END",
    "About",
    "StateTooLarge",
    "about",
    "aligned",
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

END = b"\xff\xff\xff\xff\0\0\0\0"  # the end of an IPC stream
FACTS = ("row", "rows", "first", "last", "notes", "faces", "crc")  # that a block tells of itself, all of them numbers
DAMAGE = (pa.ArrowException, struct.error, OSError, EOFError, LookupError, TypeError, ValueError, ArithmeticError)
"""What reading bytes may end with that a disk has changed."""
LARGE = 1 << 16  # bytes; to write less than these by themselves costs more than a copy
CONTINUATION = 0xFFFFFFFF
MAX_STATE = 64 << 20  # bytes of JSON in a segment's head or in a block's changes
MAX_VALUES = 4 << 20  # separators in that JSON: each may become a Python object
MAX_COMPRESSED_BLOCK = 256 << 20  # bytes of batches in a block that is compressed
MAX_INFLATED = MAX_COMPRESSED_BLOCK + (64 << 20)  # with the other columns, and what a last batch adds
MAX_FACTS = 1024  # bytes of JSON
MAX_PAIRS = 16  # in the metadata of a block
ZSTD = pa.Codec("zstd", compression_level=3)


def numbers(type_: pa.DataType, values: Iterable[int]) -> pa.Array:
    """A column of numbers or times. Not by `pa.array`: it imports pandas where that is installed, which takes longer than to record
    many thousand batches, and is half of a Spark worker's start."""
    found = array({8: "b", 32: "i", 64: "q"}[type_.bit_width], values)
    return pa.Array.from_buffers(type_, len(found), [None, pa.py_buffer(found)])


def flags(values: Sequence[bool]) -> pa.Array:
    """The same of booleans."""
    bits = bytearray((len(values) + 7) >> 3)
    if True in values:
        for i, value in enumerate(values):
            bits[i >> 3] |= value << (i & 7)
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])


class StateTooLarge(LogError):
    """A head or the changes of a block would exceed what readers accept."""


def pack(value: Any) -> bytes:
    """Encode JSON for a head or for the metadata of a block.

    Raises:
        StateTooLarge: `unpack` would refuse it.
    """
    plain = json.dumps(value, separators=(",", ":")).encode()
    if len(plain) > MAX_STATE or plain.count(b",") > MAX_VALUES:
        raise StateTooLarge(f"the state of the faces has {len(plain)} bytes; readers accept {MAX_STATE}")
    return len(plain).to_bytes(8, "little") + bytes(ZSTD.compress(plain, asbytes=True))


def unpack(data: bytes) -> Any:
    size = int.from_bytes(data[:8], "little")
    if size > MAX_STATE:
        raise LogError(f"what is known of the faces cannot be read: {size} bytes; the limit is {MAX_STATE}")
    try:
        plain = ZSTD.decompress(data[8:], size, asbytes=True)
        if (count := plain.count(b",")) > MAX_VALUES:
            raise LogError(f"what is known of the faces cannot be read: {count} values; the limit is {MAX_VALUES}")
        return json.loads(plain)
    except (RecursionError, *DAMAGE) as error:
        raise LogError(f"what is known of the faces cannot be read: {error}") from None


def head_bytes(metadata: dict[str, bytes]) -> bytes:
    """The beginning of a segment: the schema, with everything that a reader must know before the first block."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.with_metadata(metadata)):
        pass
    return bytes(sink.getvalue())[: -len(END)]


class About(NamedTuple):
    """What a block says about itself."""

    facts: dict[str, int]
    changes: bytes | None
    withheld: bytes | None
    body: int  # bytes


class Pieces:
    """A file for Arrow to write to that keeps large buffers where they are, and puts together what lies between them."""

    closed = False

    def __init__(self) -> None:
        self._found: list[memoryview] = []
        self._small = bytearray()

    def write(self, data: bytes | pa.Buffer) -> None:
        if len(data) < LARGE:
            self._small += data
        else:
            self.taken()
            self._found.append(memoryview(data).cast("B"))

    def taken(self) -> list[memoryview]:
        """What was written so far."""
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
        row: Number of its first row in the segment.
        notes: How many of its rows are notes.
        faces: How many faces are new in it.
        cut: Of a block with one note in place of a damaged block: the rows of that block.
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
    sink = Pieces()
    with pa.ipc.new_stream(pa.PythonFile(sink, "w"), rows.schema, options=options) as stream:
        stream.write_batch(rows, custom_metadata=metadata)
        front, *rest = sink.taken().copy()  # the stream's end is not part of it, nor its beginning, the schema
    return [front[prefix_size(front[:8]) :], *rest]


def aligned(pieces: Sequence[memoryview], size: int, at: int) -> list[memoryview]:
    """The same block in pieces of which the second is the bytes of its batches, `size` of them, LARGE or more. They begin at a page
    if the block is written there: its description has more zeros behind it, as Arrow's format allows."""
    place = [len(piece) for piece in pieces].index(size)
    front = b"".join(pieces[:place])
    prefix = prefix_size(front[:8])
    more = -(at + len(front)) % PAGE
    described = (prefix - 8 + more).to_bytes(4, "little")
    padded = b"".join((front[:4], described, front[8:prefix], bytes(more), front[prefix:]))
    return [memoryview(padded), *pieces[place:]]


def checksum(rows: pa.RecordBatch, changes: bytes | None, withheld: bytes | None) -> int:
    """Over the values, not over their encoding: padding and compression do not count."""
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
    """How many bytes before an IPC message's body, from its first eight."""
    mark, size = struct.unpack("<Ii", start)
    if mark != CONTINUATION or size < 0 or size % 8:
        raise LogError("no block begins here")
    return 8 + int(size)


def about(prefix: bytes | memoryview) -> About:
    """What a block says about itself, from the bytes before its body."""
    try:
        found, body = custom_metadata(memoryview(prefix)[8:])
        if len(found[b"block"]) > MAX_FACTS:
            raise LogError(f"its description has more than {MAX_FACTS} bytes")
        facts = json.loads(found[b"block"])
        if not all(isinstance(facts.get(name, 0), int) for name in ("cut", "changes_crc")):
            raise LogError("its description is damaged")
        if not all(isinstance(facts[name], int) for name in FACTS):
            raise LogError("its description is damaged")
        changes = found.get(b"changes")
        if facts.get("changes_crc", 0) != (crc32(changes or b"") if "changes_crc" in facts else 0):
            raise LogError("the checksum of its changes does not match")
    except (RecursionError, *DAMAGE):
        raise LogError("no whole block") from None
    return About(facts, changes, found.get(b"withheld"), body)


def custom_metadata(message: memoryview) -> tuple[dict[bytes, bytes], int]:
    """The custom metadata and the body length in the flatbuffer of an IPC message (org.apache.arrow.flatbuf.Message)."""

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
    """Return the bytes that Arrow would allocate to decompress a record batch; 0 if it is not compressed."""
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
    """Return where a field of a flatbuffer's table lies; 0 if the table does not have it."""
    vtable = table - _number(message, "<i", table)
    if _number(message, "<H", vtable) <= 4 + 2 * index:
        return 0
    offset = _number(message, "<H", vtable + 4 + 2 * index)
    return table + offset if offset else 0
