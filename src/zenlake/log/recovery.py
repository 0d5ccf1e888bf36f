# SPDX-License-Identifier: Apache-2.0
"""Recovery when a writer starts: the last position, and segments that were not sealed.

Blocks in the index were synced and exist. Later blocks are kept as far as their checksums match. The rest was never
acknowledged. It is truncated and reported in a row of `events`.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from zenlake.errors import LogError
from zenlake.log.block import DAMAGE, END, MAX_INFLATED, checksum, inflated_size, prefix_size, read_block_info
from zenlake.log.disk import Disk
from zenlake.log.layout import (
    FORMAT,
    INDEX_HEAD,
    NEVER,
    RECORD,
    ROWS,
    SEALED,
    WRITER,
    BlockRecord,
    describe_layout,
    segment_name,
)

__all__ = [
    "RecoveredSegment",
    "TornTail",
    "check_block",
    "head_size",
    "index_records",
    "recover",
    "repair_segment",
    "segments",
    "whole_blocks",
]


@dataclass
class TornTail:
    segment: int
    cut: int
    why: str


@dataclass
class RecoveredSegment:
    epoch: int = 0
    first_segment: int = 1
    next_segment: int = 1
    next_batch: int = 1
    last_time: int = 0
    end: tuple[int, int] = (0, 0)
    removed: tuple[int, int] = (0, 0)
    clock_steps: list[int] = field(default_factory=list)
    torn: list[TornTail] = field(default_factory=list)

    @property
    def is_nothing(self) -> bool:
        """Whether the folder is empty: the writer is new, or its segments were removed."""
        return (self.epoch, self.next_segment) == (0, 1)


def recover(folder: Path, disk: Disk) -> RecoveredSegment:
    """Repair the state after a crash and return where to continue."""
    found = RecoveredSegment()
    try:
        about_writer = describe_layout((folder / WRITER).read_bytes(), str(folder / WRITER))
        found.epoch = about_writer["epoch"]
        found.first_segment = about_writer["first"]
        found.next_segment = about_writer["segment"] + 1
        found.removed = (about_writer["removed"][0], about_writer["removed"][1])
        found.clock_steps = list(about_writer.get("clock_steps", ()))
    except FileNotFoundError:
        pass
    there = segments(folder)
    if there:
        found.next_segment = max(found.next_segment, there[-1] + 1)
    for segment in reversed(there):  # only the last segments can be unsealed
        records = index_records(folder / segment_name(segment, "index"))
        if records and records[-1].kind == SEALED:
            break
        torn = repair_segment(folder, segment, disk)
        if torn is not None:
            found.torn.insert(0, torn)
    for segment in reversed(segments(folder)):
        records = index_records(folder / segment_name(segment, "index"))
        first_batch = int(head(folder / segment_name(segment)).metadata[b"batch"])
        found.next_batch = first_batch + records[-1].row
        found.last_time = records[-1].last
        if len(records) > 1:
            found.end = (segment, len(records) - 1)
            break
    return found


def repair_segment(folder: Path, segment: int, disk: Disk) -> TornTail | None:
    """Seal a segment after its last complete block. Return the truncation, or None."""
    path = folder / segment_name(segment)
    size = path.stat().st_size
    try:
        start = head_size(path)
    except LogError:  # the segment had no block yet
        disk.remove(path.with_suffix(".index"))
        disk.remove(path)
        disk.sync_folder(folder)
        return TornTail(segment, size, f"segment {segment} had no block: {size} bytes removed") if size else None
    records = [record for record in index_records(path.with_suffix(".index")) if record.kind != SEALED]
    at = records[-1].offset + records[-1].size if records else start
    records += whole_blocks(path, at)
    end = records[-1].offset + records[-1].size if records else start
    file = disk.open(path)
    try:
        ended = path.read_bytes()[end:] == END if size - end == len(END) else False
        cut = 0 if ended else size - end
        disk.truncate(file, end)
        disk.write(file, END, end)
        disk.sync(file)
    finally:
        disk.close(file)
    rows = records[-1].row + records[-1].rows if records else 0
    last = records[-1].last if records else 0
    seal = BlockRecord(end, end + len(END), 0, last, rows, 0, SEALED)
    disk.replace(path.with_suffix(".index"), INDEX_HEAD + b"".join(record.pack() for record in [*records, seal]))
    if not cut:
        return None
    return TornTail(
        segment, cut, f"segment {segment} was truncated after block {len(records)}: {cut} incomplete bytes removed"
    )


def segments(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*.arrow"))


def index_records(path: Path) -> list[BlockRecord]:
    """Return the complete records. A missing index has no records."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return []
    found: list[BlockRecord] = []
    if not data.startswith(INDEX_HEAD):
        return found
    for at in range(len(INDEX_HEAD), len(data), RECORD.size):
        record = BlockRecord.unpack(data[at : at + RECORD.size])
        if record is None:
            break
        found.append(record)
    return found


def head(path: Path) -> pa.Schema:
    """Return the schema of a segment, with the metadata of its head."""
    try:
        with path.open("rb") as file:
            start = file.read(8)
            schema = pa.ipc.read_schema(pa.py_buffer(start + file.read(prefix_size(start) - len(start))))
    except (LogError, *DAMAGE):
        raise LogError(f"{path} has an invalid segment header") from None
    metadata = schema.metadata or {}
    if metadata.get(b"zenlake.log.format") != str(FORMAT).encode():
        found = metadata.get(b"zenlake.log.format", b"none").decode(errors="replace")
        raise LogError(f"{path} has format {found}; this version of Zenlake supports format {FORMAT}")
    if not schema.equals(ROWS) or b"state" not in metadata or not is_number(metadata, b"batch", b"epoch"):
        raise LogError(f"{path}: the head is damaged")
    return schema


def is_number(metadata: dict[bytes, bytes], *names: bytes) -> bool:
    return all(metadata.get(name, b"").isdigit() for name in names)


def head_size(path: Path) -> int:
    head(path)
    with path.open("rb") as file:
        return prefix_size(file.read(8))


def whole_blocks(path: Path, at: int) -> Iterator[BlockRecord]:
    """Yield the verified blocks from that offset up to the first incomplete block."""
    schema = head(path)
    with pa.memory_map(str(path)) as file:
        data = file.read_buffer()
        row = None
        while at + 8 < data.size:
            record, skipped = check_block(data, at, schema)
            if record is None or (row is not None and record.row != row):
                return
            yield record
            row = record.row + record.rows + skipped
            at += record.size


def check_block(data: pa.Buffer, at: int, schema: pa.Schema) -> tuple[BlockRecord | None, int]:
    """Return the record of the block at that offset, or None if it is incomplete, and the rows that a repair removed from it."""
    try:
        prefix = data[at : at + prefix_size(bytes(data[at : at + 8]))]
        facts, changes, withheld, body = read_block_info(prefix)
        size = prefix.size + body
        view = memoryview(data)[at : at + size]
        if body < 0 or len(view) < size or inflated_size(view[8 : prefix.size], view[prefix.size :]) > MAX_INFLATED:
            return None, 0
        rows = pa.ipc.read_record_batch(pa.ipc.read_message(data[at : at + size]), schema)
        rows.validate(full=True)
        times = rows.column("received").cast(pa.int64())
        if facts["rows"] != rows.num_rows or checksum(rows, changes, withheld) != facts["crc"]:
            return None, 0
        if (facts["first"], facts["last"]) != (times[0].as_py(), times[-1].as_py()):
            return None, 0
        record = BlockRecord(at, size, facts["first"], facts["last"], facts["row"], facts["rows"])
        return record, facts.get("cut", 1) - 1
    except (LogError, *DAMAGE):
        return None, 0


def clock_steps(folder: Path) -> list[int]:
    """Return the segments that begin before the end of the previous segment, because the clock was set back in between."""
    found, last = [], NEVER
    for segment in segments(folder):
        records = [each for each in index_records(folder / segment_name(segment, "index")) if each.kind != SEALED]
        if records:
            if records[0].first < last:
                found.append(segment)
            last = records[-1].last
    return found


def mark_writer(folder: Path, disk: Disk) -> None:
    """Rebuild a lost writer.json from the segments."""
    there = segments(folder)
    epochs = [int(head(folder / segment_name(segment)).metadata[b"epoch"]) for segment in there]
    known = {"format": FORMAT, "writer": folder.name, "epoch": max(epochs, default=0)}
    known |= {"first": min(there, default=1), "segment": max(there, default=0), "removed": [0, 0]}
    known["clock_steps"] = clock_steps(folder)
    disk.replace(folder / WRITER, json.dumps(known).encode())
