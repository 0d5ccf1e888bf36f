# SPDX-License-Identifier: Apache-2.0
"""Files of a log, and the records of its index.

    lake/log/
      zenlake-log.json               marks the folder as a log; format, and segment numbers used by its writers
      readers/NAME.json              offsets of a registered reader
      readers/lock                   held while zenlake-log.json is written
      tap-1/                         a writer
        writer.json                  epoch (number of starts), first and current segment
        lock                         held while it writes
        0000000007.arrow             segment: an Arrow IPC stream with one record batch per block
        0000000007.index             one record per durable block, and one more when the segment is sealed

Only blocks in the index are visible. The index can be rebuilt from the segment, except for data that was never synced.
"""

import json
import re
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zenlake.core.batch_schema import BATCHES_SCHEMA
from zenlake.errors import InvalidValue, LogError

__all__ = [
    "BLOCK",
    "FORMAT",
    "INDEX_HEAD",
    "MARKER",
    "NEVER",
    "NOTE",
    "READERS",
    "RECORD",
    "ROWS",
    "SEALED",
    "WRITER",
    "BlockRecord",
    "check_name",
    "describe_layout",
    "new_marker",
    "segment_name",
]

FORMAT = 1
MARKER = "zenlake-log.json"
READERS = "readers"
WRITER = "writer.json"

# A row is a batch or, with direction NOTE, an event of the recorder as JSON.
ROWS = pa.schema(
    [BATCHES_SCHEMA.field(name) for name in ("received", "face", "direction", "batch", "wire_size", "compressed")]
)
NOTE = -1
NEVER = -(1 << 63)  # before all times

INDEX_HEAD = b"ZLINDEX1"
RECORD = struct.Struct("<QQqqQIII")
BLOCK, SEALED = 1, 2

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """Index record of a block: its position, its range of received times, and its rows in the segment."""

    offset: int
    size: int
    first: int
    last: int
    row: int
    rows: int
    kind: int = BLOCK

    def pack(self) -> bytes:
        plain = RECORD.pack(self.offset, self.size, self.first, self.last, self.row, self.rows, self.kind, 0)[:-4]
        return plain + zlib.crc32(plain).to_bytes(4, "little")

    @classmethod
    def unpack(cls, data: bytes) -> "BlockRecord | None":
        """Decode a record. Return None if the bytes are not a complete record: a power cut may leave zeros."""
        if len(data) != RECORD.size or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return None
        *values, _ = RECORD.unpack(data)
        return cls(*values)


def new_marker() -> bytes:
    """Return a new marker of a log, with an identity that distinguishes it from another log at the same path."""
    return json.dumps({"format": FORMAT, "id": uuid.uuid4().hex}).encode()


def segment_name(segment: int, kind: str = "arrow") -> str:
    return f"{segment:010d}.{kind}"


def check_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == READERS:
        raise InvalidValue(f"invalid writer or reader name {name!r}; use letters, digits, `_`, `.` and `-`")
    return name


def describe_layout(data: bytes, path: str) -> dict[str, Any]:
    """Decode a small JSON file of the log and check its format version."""
    try:
        found: dict[str, Any] = json.loads(data)
        format = found["format"]
    except (ValueError, KeyError, TypeError):
        raise LogError(f"{path} is damaged; run `zenlake log repair` to rebuild it") from None
    if format != FORMAT:
        raise LogError(f"{path} has format {format}; this version of Zenlake supports format {FORMAT}")
    return found
