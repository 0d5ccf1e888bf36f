# SPDX-License-Identifier: Apache-2.0
"""Is a log whole, and if not, what can be saved? Nothing here runs while its writer does."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from zenlake.errors import LogError
from zenlake.log.block import unpack
from zenlake.log.disk import Disk
from zenlake.log.layout import INDEX_HEAD, MARKER, READERS, SEALED, WRITER, described, new_marker, segment_name
from zenlake.log.read import Log, Segment
from zenlake.log.recover import head, head_size, index_records, mark_writer, repair_segment, segments, whole_blocks

__all__ = ["Checked", "repair", "verify"]


@dataclass(frozen=True, slots=True)
class Checked:
    """One segment, or a writer as a whole (segment 0): what is wrong with it, or "" ."""

    writer: str
    segment: int
    blocks: int
    rows: int
    wrong: str


def verify(log: Log) -> Iterator[Checked]:
    """Every visible block, read and compared with its checksum, its index and its neighbours."""
    for writer in log.writers():
        last = 0
        for gap in log.gaps(writer):
            yield Checked(writer, gap.before + 1, 0, 0, str(gap))
        for number in log.segments(writer):
            blocks = rows = 0
            try:
                segment = Segment(log.files, writer, number)
                for blocks, record in enumerate(segment.index, 1):
                    found = segment.rows(blocks - 1, check=True)
                    facts = segment.about(blocks - 1).facts
                    if (facts["row"], facts["rows"]) != (record.row, record.rows) or record.row != rows:
                        raise LogError(f"block {blocks - 1}: the index tells other rows than the block")
                    if not last <= record.first <= record.last:
                        raise LogError(f"block {blocks - 1}: received before the block before it")
                    last = record.last
                    rows += found.num_rows
                segment.state(blocks)
                wrong = ""
            except (LogError, OSError, ValueError, KeyError, IndexError) as error:
                wrong = str(error)
            yield Checked(writer, number, blocks, rows, wrong)


def repair(path: Path) -> Iterator[Checked]:
    """Seal what was not ended, cut what is not whole, make lost indices again; what was done, a line each.

    A block that is damaged ends its segment: what lies behind it depends on what it changed. The bytes cut off are kept
    beside the segment, in a file that ends in `.cut`.
    """
    disk = Disk()
    marker = path / MARKER
    if not marker.exists() or not _is_json(marker):
        if not any(child.is_dir() and segments(child) for child in path.iterdir()):
            raise LogError(f"{path} is no log: no folder in it has segments")
        disk.replace(marker, new_marker())
    for folder in sorted(child for child in path.iterdir() if child.is_dir() and child.name != READERS):
        with _locked(folder):
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
    try:
        unpack(head(arrow).metadata[b"state"])
        found = list(whole_blocks(arrow, head_size(arrow)))
    except LogError as error:
        if size:
            arrow.rename(arrow.with_suffix(".cut"))
        disk.remove(arrow)
        disk.remove(index)
        disk.sync_folder(folder)
        return Checked(folder.name, number, 0, 0, f"{error}; set aside")
    known = index_records(index)
    sealed = bool(known) and known[-1].kind == SEALED
    if sealed and found == known[:-1] and size == known[-1].size:
        return None
    end = found[-1].offset + found[-1].size if found else head_size(arrow)
    tail = arrow.read_bytes()[end:]
    disk.replace(index, INDEX_HEAD + b"".join(record.pack() for record in found))
    torn = repair_segment(folder, number, disk)
    if torn is not None:
        disk.replace(arrow.with_suffix(".cut"), tail)
    rows = sum(record.rows for record in found)
    return Checked(folder.name, number, len(found), rows, torn.why if torn else "sealed, and its index made again")


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
