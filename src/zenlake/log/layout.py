# SPDX-License-Identifier: Apache-2.0
"""What lies where in a log, and the records of its index.

    lake/log/
      zenlake-log.json               this folder is a log, of this format; which numbers its writers have spent
      readers/NAME.json              how far a registered reader has come
      readers/lock                   held while the log's own file is written
      tap-1/                         a writer
        writer.json                  its epoch (how often it was started), its first and its current segment
        lock                         held while it writes
        0000000007.arrow             a segment: an Arrow IPC stream, a record batch a block
        0000000007.index             a record for each block that is durable, one more when the segment is sealed

Only what the index names is visible. It can be made again from the segment, except that what was never synced may be gone.
"""

import json
import re
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from zenlake.batches import BATCHES_SCHEMA
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
    "Record",
    "checked_name",
    "described",
    "new_marker",
    "segment_name",
]

FORMAT = 1
MARKER = "zenlake-log.json"
READERS = "readers"
WRITER = "writer.json"

# A row is a batch, or, with direction NOTE, what the recorder has to say: JSON.
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
class Record:
    """A block: where it lies, when its batches were received, which rows of its segment it holds."""

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
    def unpack(cls, data: bytes) -> "Record | None":
        """None if these bytes are no whole record: a power cut may leave zeros."""
        if len(data) != RECORD.size or zlib.crc32(data[:-4]) != int.from_bytes(data[-4:], "little"):
            return None
        *values, _ = RECORD.unpack(data)
        return cls(*values)


def new_marker() -> bytes:
    """A log's marker, with what tells it from another log that may come to lie in its place."""
    return json.dumps({"format": FORMAT, "id": uuid.uuid4().hex}).encode()


def segment_name(segment: int, kind: str = "arrow") -> str:
    return f"{segment:010d}.{kind}"


def checked_name(name: str) -> str:
    if not _NAME.fullmatch(name) or name == READERS:
        raise InvalidValue(f"a writer or reader is named with letters, digits, `_`, `.` and `-`, not {name!r}")
    return name


def described(data: bytes, path: str) -> dict[str, Any]:
    """A small JSON file of ours, if this version reads its format."""
    try:
        found: dict[str, Any] = json.loads(data)
        format = found["format"]
    except (ValueError, KeyError, TypeError):
        raise LogError(f"{path} is damaged; `zenlake log repair` makes it again") from None
    if format != FORMAT:
        raise LogError(f"{path} has format {format}; this version of Zenlake reads {FORMAT}")
    return found
