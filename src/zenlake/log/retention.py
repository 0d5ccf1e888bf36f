# SPDX-License-Identifier: Apache-2.0
"""Retention of a log, and its registered readers.

Sealed segments are removed when they are too old or when the writer's folder is too large. A segment that a registered reader
has not read is kept, with a warning, until the hard limit. It is then removed, and a row of `events` names the reader.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from zenlake.errors import InvalidValue
from zenlake.log.disk import Disk
from zenlake.log.layout import BLOCK, FORMAT, READERS, BlockRecord, check_name, describe_layout, segment_name
from zenlake.log.recovery import index_records, segments
from zenlake.log.writer import Writer

__all__ = ["Retention", "readers", "register", "retain", "unregister"]

logger = logging.getLogger("zenlake.log")


@dataclass(frozen=True, slots=True)
class Retention:
    """Limits of retention in seconds and bytes. The default of a hard limit is twice the limit."""

    age: float | None = None
    size: int | None = None
    hard_age: float | None = None
    hard_size: int | None = None

    def __post_init__(self) -> None:
        for soft, hard in ((self.age, self.hard_age), (self.size, self.hard_size)):
            if hard is not None and (soft is None or hard < soft):
                raise InvalidValue(
                    "a hard limit requires a limit; hard_age must be at least age, and hard_size at least size"
                )

    def is_over(self, age: float, size: int, hard: bool) -> bool:
        """Return whether a segment must be removed, given its age and the bytes from it to the end of the log."""
        most_age, most_size = self.age, self.size
        if hard:
            most_age = self.hard_age or (None if self.age is None else 2 * self.age)
            most_size = self.hard_size or (None if self.size is None else 2 * self.size)
        return (most_age is not None and age > most_age) or (most_size is not None and size > most_size)


def register(log: str | Path, name: str, offsets: Mapping[str, Sequence[int]], disk: Disk | None = None) -> None:
    """Store the offsets of a reader. Later blocks are kept for it. Call this again as the reader advances."""
    folder = Path(log) / READERS
    folder.mkdir(exist_ok=True)
    about = {"format": FORMAT, "offsets": {writer: list(offset) for writer, offset in sorted(offsets.items())}}
    (disk or Disk()).replace(folder / f"{check_name(name)}.json", json.dumps(about).encode())


def unregister(log: str | Path, name: str) -> None:
    (Path(log) / READERS / f"{check_name(name)}.json").unlink(missing_ok=True)


def readers(log: str | Path) -> dict[str, dict[str, list[int]]]:
    """Return the registered readers and their offsets."""
    found = {}
    for path in sorted((Path(log) / READERS).glob("*.json")):
        found[path.stem] = describe_layout(path.read_bytes(), str(path))["offsets"]
    return found


def retain(writer: Writer, limits: Retention, clock: Callable[[], int] = time.time_ns) -> list[int]:
    """Remove segments beyond the limits, oldest first. Return the removed segments."""
    sealed = [number for number in segments(writer.folder) if number < writer.segment or not writer.is_writing]
    sizes = {number: _size(writer.folder, number) for number in segments(writer.folder)}
    behind = sum(sizes.values())
    gone: list[int] = []
    end = (0, 0)
    kept = {number: index_records(writer.folder / segment_name(number, "index")) for number in sizes}
    ends = end_times(list(kept.values()))
    for number, ended in zip(sealed, ends, strict=False):
        records = kept[number]
        age = (clock() - ended) / 1e9 if records else 0.0
        if not limits.is_over(age, behind, hard=False):
            break
        blocks = len(records) - 1
        waiting = [
            name for name, offsets in readers(writer.root).items()
            if tuple(offsets.get(writer.name, (0, 0))) < (number, blocks)
        ]  # fmt: skip
        if waiting and not limits.is_over(age, behind, hard=True):
            logger.warning(
                "%s: segment %d is kept beyond the limit, because it was not read by %s",
                writer.folder,
                number,
                ", ".join(waiting),
            )
            break
        if waiting:
            detail = f"segment {number} reached the hard limit before it was read by {', '.join(waiting)}"
            logger.error("%s: %s", writer.folder, detail)
            writer.note("log retired", count=blocks, detail=detail)
        gone.append(number)
        end = (number, blocks)
        behind -= sizes[number]
    if gone:
        writer.on_retire(gone[-1] + 1, end)
        for number in gone:
            for kind in ("index", "arrow"):
                writer.disk.remove(writer.folder / segment_name(number, kind))
        writer.disk.sync_folder(writer.folder)
    return gone


def end_times(segments: Sequence[Sequence[BlockRecord]]) -> list[int]:
    """Return when each segment ended (ns), from the records of their indices, oldest segment first.

    A temporarily wrong clock must neither keep a segment too long nor remove it too early. A segment therefore ends no
    later than the beginning of the next one, and no earlier than the end of the previous one.
    """
    found: list[int] = []
    for i, records in enumerate(segments):
        ended = records[-1].last if records else 0
        if i + 1 < len(segments) and segments[i + 1] and segments[i + 1][0].kind == BLOCK:
            ended = min(ended, segments[i + 1][0].first)
        found.append(max([ended, *found[-1:]]))
    return found


def _size(folder: Path, number: int) -> int:
    return sum((folder / segment_name(number, kind)).stat().st_size for kind in ("arrow", "index"))
