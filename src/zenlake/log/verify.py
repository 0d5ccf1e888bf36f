# SPDX-License-Identifier: Apache-2.0
"""Is a log whole, and if not, what can be saved? Nothing is repaired while its writer runs.

Whatever `repair` takes away that readers could see is a row of `events` afterwards: it starts the writer once more, to note it.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zenlake.errors import LogError
from zenlake.log.block import unpack
from zenlake.log.disk import Disk
from zenlake.log.layout import (
    INDEX_HEAD,
    MARKER,
    NEVER,
    READERS,
    SEALED,
    WRITER,
    Record,
    described,
    new_marker,
    segment_name,
)
from zenlake.log.read import Log, Segment, unseen
from zenlake.log.recover import head, head_size, index_records, mark_writer, repair_segment, segments, whole_blocks
from zenlake.log.write import Writer

__all__ = ["Checked", "repair", "verify"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One segment, or a writer as a whole (segment 0), or the log (no writer): how much of it is whole, and what is wrong with it,
    or "" ."""

    writer: str
    segment: int
    blocks: int
    rows: int
    wrong: str
    note: tuple[str, int, str] | None = None
    """Of a repair that took something away: the row of `events` that says so, as kind, count and detail."""


def verify(log: Log) -> Iterator[Checked]:
    """Every visible block, read and compared with its checksum, its index and its neighbours."""
    for writer in log.writers():
        for gap in log.gaps(writer):
            yield Checked(writer, gap.before + 1, 0, 0, str(gap))
        for number in log.unindexed(writer):
            yield Checked(writer, number, 0, 0, unseen(writer, number))
        for number in log.segments(writer):
            blocks = rows = 0
            last = NEVER  # the clock may have been set back between two segments
            index: Sequence[Record] = ()
            try:
                index = log.index(writer, number)
                segment = Segment(log.files, writer, number)
                for record in index:
                    found, _ = segment.read(blocks, full=True)
                    if record.row != rows:
                        raise LogError(f"block {blocks}: its rows do not follow those of the block before")
                    if not last <= record.first <= record.last:
                        raise LogError(f"block {blocks}: received before the block before it")
                    last = record.last
                    rows += found.num_rows
                    blocks += 1
                segment.state(blocks)
                wrong = ""
            except (LogError, OSError, ValueError, KeyError, IndexError) as error:
                wrong = str(error)
                if len(index) > blocks:
                    left = index[len(index) - 1]
                    wrong += f"; {_amount(len(index) - blocks, left.row + left.rows - rows)} from there on"
            yield Checked(writer, number, blocks, rows, wrong)


def repair(path: Path) -> Iterator[Checked]:
    """Seal what was not ended, cut what is not whole, make lost indices again; what was done, a line each.

    A block that is damaged ends its segment: what lies behind it depends on what it changed. The bytes cut off are kept
    beside the segment, in a file that ends in `.cut`; a row of `events` says how many batches that were.
    """
    disk = Disk()
    marker = path / MARKER
    if not marker.exists() or not _is_json(marker):
        if not any(child.is_dir() and segments(child) for child in path.iterdir()):
            raise LogError(f"{path} is no log: no folder in it has segments")
        disk.replace(marker, new_marker())
        yield Checked("", 0, 0, 0, f"{MARKER} was made again")
    for folder in sorted(child for child in path.iterdir() if child.is_dir() and child.name != READERS):
        with _locked(folder):
            done = list(_mended_writer(folder, disk))
        notes = [each.note for each in done if each.note is not None]
        if notes:
            with Writer(path, folder.name, disk=disk) as writer:
                for kind, count, detail in notes:
                    writer.note(kind, count=count, detail=detail)
        yield from done


def _mended_writer(folder: Path, disk: Disk) -> Iterator[Checked]:
    try:
        described((folder / WRITER).read_bytes(), str(folder / WRITER))
    except (FileNotFoundError, LogError):
        mark_writer(folder, disk)
        yield Checked(folder.name, 0, 0, 0, f"{WRITER} was made again")
    for number in segments(folder):
        if (done := _mended(folder, number, disk)) is not None:
            yield done


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


def _mended(folder: Path, number: int, disk: Disk) -> Checked | None:
    arrow, index = folder / segment_name(number), folder / segment_name(number, "index")
    size = arrow.stat().st_size
    known = index_records(index)
    sealed = bool(known) and known[-1].kind == SEALED
    seen = known[:-1] if sealed else known
    try:
        unpack(head(arrow).metadata[b"state"])
        found = list(whole_blocks(arrow, head_size(arrow)))
    except LogError as error:
        if size:
            arrow.rename(arrow.with_suffix(".cut"))
        disk.remove(arrow)
        disk.remove(index)
        disk.sync_folder(folder)
        lost = f"its head is damaged, and without it nothing in it can be read: {_amount(len(seen), _rows(seen))} went"
        note = ("log cut", _rows(seen), f"segment {number}: {lost}") if seen else None
        return Checked(folder.name, number, 0, 0, f"{lost if seen else error}; set aside in {arrow.stem}.cut", note)
    if sealed and found == seen and size == known[-1].size:
        return None
    end = found[-1].offset + found[-1].size if found else head_size(arrow)
    tail = arrow.read_bytes()[end:]
    disk.replace(index, INDEX_HEAD + b"".join(record.pack() for record in found))
    torn = repair_segment(folder, number, disk)
    if torn is not None:
        disk.replace(arrow.with_suffix(".cut"), tail)
    rows, lost_rows = _rows(found), _rows(seen) - _rows(found)
    if lost_rows > 0:  # readers have seen them
        behind = len(seen) - len(found) - 1
        why = f"block {len(found)} is damaged, and was cut off"
        if behind > 0:
            why += f" with the {behind} behind it, which cannot be read without it"
        why += f": {lost_rows} rows went"
        note = ("log cut", lost_rows, f"segment {number}: {why}")
        return Checked(
            folder.name, number, len(found), rows, f"{why}; what is left of them is in {arrow.stem}.cut", note
        )
    if torn is not None:
        return Checked(folder.name, number, len(found), rows, torn.why, ("log torn", torn.cut, torn.why))
    return Checked(folder.name, number, len(found), rows, "sealed, and its index made again")


def _rows(records: list[Record]) -> int:
    return records[-1].row + records[-1].rows if records else 0


def _amount(blocks: int, rows: int) -> str:
    return f"{blocks} block{'' if blocks == 1 else 's'}, {rows} row{'' if rows == 1 else 's'}"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise LogError(f"{folder} is being written: stop its writer first") from None
    finally:
        os.close(lock)
