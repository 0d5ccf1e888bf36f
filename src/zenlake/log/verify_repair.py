# SPDX-License-Identifier: Apache-2.0
"""Verification and repair of a log. Repair requires that the writer is stopped.

Everything visible that `repair` removes becomes a row of `events`. For that, repair starts the writer once more.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from zenlake.errors import LogError
from zenlake.log.block import DAMAGE, block_pieces, prefix_size, read_block_info, unpack
from zenlake.log.block_builder import BlockBuilder
from zenlake.log.disk import Disk
from zenlake.log.layout import (
    INDEX_HEAD,
    MARKER,
    NEVER,
    NOTE,
    READERS,
    SEALED,
    WRITER,
    BlockRecord,
    describe_layout,
    new_marker,
    segment_name,
)
from zenlake.log.reader import Log, Segment, find_unseen
from zenlake.log.recovery import (
    check_block,
    head,
    head_size,
    index_records,
    mark_writer,
    repair_segment,
    segments,
    whole_blocks,
)
from zenlake.log.writer import Writer, note_text

__all__ = ["SegmentCheck", "repair", "verify"]


@dataclass(frozen=True, slots=True)
class SegmentCheck:
    """Result for one segment, for a writer as a whole (segment 0), or for the log (no writer).

    It contains the number of valid blocks and rows, and the problem or "".
    """

    writer: str
    segment: int
    blocks: int
    rows: int
    wrong: str
    note: tuple[str, int, str] | None = None
    """Row of `events` for a repair that removed data, as kind, count and detail."""


def verify(log: Log) -> Iterator[SegmentCheck]:
    """Read every visible block. Compare it with its checksum, its index and its neighbours."""
    for writer in log.writers():
        for gap in log.gaps(writer):
            yield SegmentCheck(writer, gap.before + 1, 0, 0, str(gap))
        for number in log.unindexed_segments(writer):
            yield SegmentCheck(writer, number, 0, 0, find_unseen(writer, number))
        for number in log.segments(writer):
            blocks = rows = 0
            last = NEVER  # the clock may have been set back between two segments
            index: Sequence[BlockRecord] = ()
            try:
                index = log.index(writer, number)
                segment = Segment(log.files, writer, number)
                for record in index:
                    found, about_block = segment.read(blocks, full=True)
                    if record.row != rows:
                        raise LogError(f"block {blocks}: its row numbers do not continue those of the previous block")
                    if not last <= record.first <= record.last:
                        raise LogError(f"block {blocks}: received before the previous block")
                    last = record.last
                    rows += found.num_rows + about_block.facts.get("cut", 1) - 1
                    blocks += 1
                segment.state(blocks)
                wrong = ""
            except (LogError, OSError, ValueError, KeyError, IndexError) as error:
                wrong = str(error)
                if len(index) > blocks:
                    left = index[len(index) - 1]
                    wrong += f"; {_amount(len(index) - blocks, left.row + left.rows - rows)} from there on"
            yield SegmentCheck(writer, number, blocks, rows, wrong)


def repair(path: Path) -> Iterator[SegmentCheck]:
    """Seal open segments, remove incomplete blocks and rebuild lost indices. Return one line for each action.

    A damaged block is replaced by a row of `events` (`log cut`) that counts its batches. Later blocks keep their
    numbers. If the changes of the block are unreadable, later blocks cannot be decoded, and the segment ends there.
    Removed bytes are kept beside the segment, in a new file with the suffix `.cut`.
    """
    disk = Disk()
    marker = path / MARKER
    if not marker.exists() or not _is_json(marker):
        if not any(child.is_dir() and segments(child) for child in path.iterdir()):
            raise LogError(f"{path} is not a log: it has no folder with segments")
        disk.replace(marker, new_marker())
        yield SegmentCheck("", 0, 0, 0, f"{MARKER} was rebuilt")
    for folder in sorted(child for child in path.iterdir() if child.is_dir() and child.name != READERS):
        with _lock(folder):
            done = list(_repair_writer(folder, disk))
        notes = [each.note for each in done if each.note is not None]
        if notes:
            with Writer(path, folder.name, disk=disk) as writer:
                for kind, count, detail in notes:
                    writer.note(kind, count=count, detail=detail)
        yield from done


def _repair_writer(folder: Path, disk: Disk) -> Iterator[SegmentCheck]:
    try:
        describe_layout((folder / WRITER).read_bytes(), str(folder / WRITER))
    except (FileNotFoundError, LogError):
        mark_writer(folder, disk)
        yield SegmentCheck(folder.name, 0, 0, 0, f"{WRITER} was rebuilt")
    for number in segments(folder):
        if (done := _repair(folder, number, disk)) is not None:
            yield done


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _repair(folder: Path, number: int, disk: Disk) -> SegmentCheck | None:
    arrow, index = folder / segment_name(number), folder / segment_name(number, "index")
    size = arrow.stat().st_size
    known = index_records(index)
    sealed = bool(known) and known[-1].kind == SEALED
    seen = known[:-1] if sealed else known
    try:
        unpack(head(arrow).metadata[b"state"])
        found = list(whole_blocks(arrow, head_size(arrow)))
    except LogError as error:
        where = _cut_path(arrow)
        if size:
            arrow.rename(where)
        disk.remove(arrow)
        disk.remove(index)
        disk.sync_folder(folder)
        lost = f"the head is damaged, so the segment is unreadable: {_amount(len(seen), _rows(seen))} lost"
        note = ("log cut", _rows(seen), f"segment {number}: {lost}") if seen else None
        return SegmentCheck(folder.name, number, 0, 0, f"{lost if seen else error}; set aside in {where.name}", note)
    if sealed and found == seen and size == known[-1].size:
        return None
    salvaged = _salvage(arrow, seen, found)
    if salvaged.damaged:
        disk.replace(_cut_path(arrow), b"".join(salvaged.damaged))
        disk.remove(index)  # offsets change: after a crash from here on, the next repair rebuilds the index
        disk.sync_folder(folder)
        disk.replace(arrow, salvaged.data)
        found = salvaged.records
    end = found[-1].offset + found[-1].size if found else head_size(arrow)
    tail = arrow.read_bytes()[end:]
    disk.replace(index, INDEX_HEAD + b"".join(record.pack() for record in found))
    torn = repair_segment(folder, number, disk)
    where = _cut_path(arrow)
    if torn is not None:
        disk.replace(where, tail)
    rows, lost_rows = _rows(found), _rows(seen) - _rows(found)
    if salvaged.damaged and lost_rows <= 0:
        blocks = f"{len(salvaged.damaged)} damaged block{'' if len(salvaged.damaged) == 1 else 's'}"
        why = f"{blocks} removed: {salvaged.lost} rows lost; later blocks are kept"
        return SegmentCheck(folder.name, number, len(found), rows, why)
    if lost_rows > 0:  # they were visible to readers
        behind = len(seen) - len(found) - 1
        why = f"block {len(found)} is damaged and was removed"
        if behind > 0:
            why += f" with the {behind} after it, which depend on it"
        why += f": {lost_rows} rows lost"
        note = ("log cut", lost_rows, f"segment {number}: {why}")
        return SegmentCheck(
            folder.name, number, len(found), rows, f"{why}; the removed bytes are in {where.name}", note
        )
    if torn is not None:
        return SegmentCheck(folder.name, number, len(found), rows, torn.why, ("log torn", torn.cut, torn.why))
    return SegmentCheck(folder.name, number, len(found), rows, "sealed, and its index rebuilt")


@dataclass
class Salvaged:
    """A segment in which damaged blocks were replaced by notes."""

    data: bytes
    records: list[BlockRecord]
    damaged: list[bytes]
    lost: int


def _salvage(arrow: Path, seen: Sequence[BlockRecord], whole: Sequence[BlockRecord]) -> Salvaged:
    """Keep the valid blocks after damaged ones, as far as the changes of the damaged ones are readable.

    Args:
        arrow: Path of the segment.
        seen: Blocks in the index.
        whole: Valid blocks before the first damaged one.
    """
    schema = head(arrow)
    data = pa.py_buffer(arrow.read_bytes())
    end = whole[-1].offset + whole[-1].size if whole else head_size(arrow)
    out, records, damaged, lost = [bytes(data[:end])], list(whole), [], 0
    kept = Salvaged(out[0], list(whole), [], 0)
    for record in seen[len(whole) :]:
        is_whole = check_block(data, record.offset, schema)[0] == record
        if is_whole:
            out.append(bytes(data[record.offset : record.offset + record.size]))
        else:
            replacement = _replace_block(data, record)
            if replacement is None:
                break
            out.append(replacement)
            damaged.append(bytes(data[record.offset : record.offset + record.size]))
            lost += record.rows
            record = replace(record, last=record.first, rows=1)
        records.append(replace(record, offset=end, size=len(out[-1])))
        end += len(out[-1])
        if is_whole:  # a replacement at the end of a segment is useless
            kept = Salvaged(b"".join(out), records.copy(), damaged.copy(), lost)
    return kept


def _replace_block(data: pa.Buffer, record: BlockRecord) -> bytes | None:
    """Return a block with a note in place of a damaged block, and with its changes, or None if those are unreadable."""
    try:
        prefix = prefix_size(bytes(data[record.offset : record.offset + 8]))
        old = read_block_info(data[record.offset : record.offset + prefix])
        if old.changes is not None:
            changed = unpack(old.changes)
            if len(changed["faces"]) != old.facts["faces"] or (old.facts["row"], old.facts["rows"]) != (
                record.row,
                record.rows,
            ):
                return None
    except (LogError, *DAMAGE):
        return None
    note = note_text("log cut", {"count": record.rows, "detail": "a damaged block was removed by `zenlake log repair`"})
    rows = BlockBuilder(1)
    rows.add(record.first, None, NOTE, note, 0, False)
    options = pa.ipc.IpcWriteOptions()
    pieces = block_pieces(
        rows.as_arrow(lambda face: -1), record.row, 1, old.facts["faces"], old.changes, None, options, record.rows
    )
    return b"".join(pieces)


def _cut_path(arrow: Path) -> Path:
    """Return an unused file name beside the segment for removed bytes."""
    path, count = arrow.with_suffix(".cut"), 2
    while path.exists():
        path, count = arrow.with_suffix(f".{count}.cut"), count + 1
    return path


def _rows(records: list[BlockRecord]) -> int:
    return records[-1].row + records[-1].rows if records else 0


def _amount(blocks: int, rows: int) -> str:
    return f"{blocks} block{'' if blocks == 1 else 's'}, {rows} row{'' if rows == 1 else 's'}"


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LogError(f"{folder} is in use; stop its writer first") from None
    finally:
        os.close(lock)
