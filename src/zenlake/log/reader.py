# SPDX-License-Identifier: Apache-2.0
"""Reader of a log: offsets, ranges of blocks, rows.

    log = Log("lake/log")
    start, end = log.earliest(), log.latest()  # {"tap-1": [7, 0]}, {"tap-1": [9, 31]}
    for part in log.plan(start, end):  # Range: blocks, bytes and times; no data is read
        log.segment(part).rows(part.first)  # the rows of a block

An offset contains, for each writer, the next block to read. [0, 0] is before everything. Planning reads indices only. A
Range is small and can be pickled. Its reader reads these blocks, and the changes of earlier blocks of the segment.
"""

import bisect
import json
import logging
import os
from collections import deque
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from zenlake.errors import InvalidValue, LogError, LogRemoved
from zenlake.log.block import (
    DAMAGE,
    END,
    MAX_INFLATED,
    BlockInfo,
    checksum,
    crc32,
    inflated_size,
    prefix_size,
    read_block_info,
    unpack,
)
from zenlake.log.file_access import Files, Index
from zenlake.log.layout import (
    FORMAT,
    MARKER,
    NEVER,
    NOTE,
    READERS,
    ROWS,
    SEALED,
    WRITER,
    BlockRecord,
    describe_layout,
    segment_name,
)
from zenlake.log.recovery import head_size, index_records, whole_blocks
from zenlake.log.session_state import LogFace, SegmentState

__all__ = ["Gap", "Log", "Offsets", "BlockRange", "Segment", "is_log", "offsets_text", "had_log"]

logger = logging.getLogger("zenlake.log")

Offsets = dict[str, list[int]]

REPAIR_HINT = "run `zenlake log repair` to recover the other blocks"
PREFETCHED = 2  # number of blocks to prefetch from a store
GUESS = 1 << 15  # bytes that hold the metadata of most blocks: one request to an object store


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Blocks of one segment: `first` to `last`, exclusive. Sizes and times are those of the index."""

    writer: str
    segment: int
    first: int
    last: int
    size: int
    rows: int
    since: int  # ns: received times of the first and the last row
    until: int


def offsets_text(offsets: Mapping[str, Sequence[int]]) -> str:
    """Return offsets as JSON. Equal offsets give equal text."""
    return json.dumps({name: list(offset) for name, offset in offsets.items()}, sort_keys=True)


def is_log(path: str | os.PathLike[str]) -> bool:
    """Return whether there is a log at this path or URI."""
    text = os.fspath(path)
    if "://" not in text:
        return os.path.isfile(os.path.join(text, MARKER))
    return Files(text).exists(MARKER)


def had_log(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder without a marker contains segments, so that only the marker of the log is lost."""
    return any(Path(path).glob(f"*/{'[0-9]' * 10}.arrow"))


@dataclass(frozen=True, slots=True)
class Gap:
    """Segments that were removed from the middle of a log."""

    writer: str
    before: int
    after: int
    batches: int
    since: int  # ns: received times of the last row before the gap and the first row after it
    until: int

    def __str__(self) -> str:
        where = f"between {self.before} and {self.after}"
        return f"{self.writer}: segments {where} were removed by another process; missing batches: {self.batches}"


class Log:
    """All writers of one log. It holds no files open and sees later writes."""

    def __init__(self, path: str | os.PathLike[str], filesystem: pafs.FileSystem | None = None) -> None:
        self.files = Files(path, filesystem)
        if not self.files.exists(MARKER):
            lost = self.files.local and had_log(self.files.path)
            hint = ", but there are segments; run `zenlake log repair` to rebuild it" if lost else ""
            if self.files.local and not os.path.exists(path):
                raise LogError(f"{os.fspath(path)} does not exist; expected the folder of a wire log")
            raise LogError(f"{os.fspath(path)} is not a log: {MARKER} is missing{hint}")
        about = describe_layout(self.files.bytes(MARKER), f"{os.fspath(path)}/{MARKER}")
        self.id: str = about.get("id", "")
        """Return the identity of the log, which differs from that of another log at the same path."""
        self._warned: set[str] = set()

    def writers(self) -> list[str]:
        return [name for name in self.files.folders() if name != READERS]

    # Offsets

    def earliest(self) -> Offsets:
        """Return the first existing block of each writer. It is never after `latest`."""
        ends = self.latest()
        return {name: min([next(iter(self.segments(name)), end[0] + 1), 0], end) for name, end in ends.items()}

    def latest(self) -> Offsets:
        """Return the offset after the last visible block of each writer. The text is the same until there are more blocks."""
        return {name: self._latest(name) for name in self.writers()}

    def _latest(self, writer: str) -> list[int]:
        try:
            current = describe_layout(self.files.bytes(writer, WRITER), f"{writer}/{WRITER}")["segment"]
            count = len(self.index(writer, current))
        except (FileNotFoundError, LogError):
            count = 0
        if count:
            return [current, count]
        for segment in reversed(self.segments(writer)):
            if count := len(self.index(writer, segment)):
                return [segment, count]
        return list(self._removed_end(writer))

    def _removed_end(self, writer: str) -> tuple[int, int]:
        """Return the offset after the last block that retention removed."""
        try:
            segment, block = describe_layout(self.files.bytes(writer, WRITER), f"{writer}/{WRITER}")["removed"]
        except (FileNotFoundError, LogError):
            return 0, 0
        return segment, block

    def at(self, time: int) -> Offsets:
        """Return the first block of each writer with a row received at that time (ns) or later."""
        found = {}
        for writer in self.writers():
            found[writer] = self._latest(writer)
            for there in self._clock_runs(writer):
                i = bisect.bisect_left(range(len(there)), time, key=partial(self._last_time, writer, there))
                if i < len(there):
                    index = self.index(writer, there[i])
                    found[writer] = [there[i], bisect.bisect_left(index, time, key=lambda record: record.last)]
                    break
        return found

    def _clock_runs(self, writer: str) -> list[list[int]]:
        """Return the segments, divided where the writer's clock was set back. Times never decrease within a run."""
        there = self.segments(writer)
        try:
            about = describe_layout(self.files.bytes(writer, WRITER), f"{writer}/{WRITER}")
        except (FileNotFoundError, LogError):
            about = {}
        starts = sorted({bisect.bisect_left(there, step) for step in about.get("clock_steps", ())})
        return [there[begin:end] for begin, end in pairwise([0, *starts, len(there)]) if begin < end]

    def _last_time(self, writer: str, segments: list[int], i: int) -> int:
        """Return the last received time up to the end of that segment. Segments without blocks, left by a crash, are skipped."""
        for segment in reversed(segments[: i + 1]):
            index = self.index(writer, segment)
            if len(index):
                return index[len(index) - 1].last
        return NEVER

    def segments(self, writer: str) -> list[int]:
        """Return the visible segments, oldest first."""
        names = self.files.names(writer)
        return sorted(int(name.removesuffix(".index")) for name in names if name.endswith(".index"))

    def unindexed_segments(self, writer: str) -> list[int]:
        """Return segments whose blocks are invisible because their index is lost. `zenlake log repair` rebuilds it.

        A writer creates the index before the first block, so a crash before that loses nothing. Retention removes the
        index first. In an object store, the index is written last.
        """
        if not self.files.local:
            return []
        names = set(self.files.names(writer))
        numbers = sorted(int(name.removesuffix(".arrow")) for name in names if name.endswith(".arrow"))
        lost = [number for number in numbers if segment_name(number, "index") not in names]
        if not lost:
            return []
        removed, _ = self._removed_end(writer)
        return [number for number in lost if number > removed and self._has_blocks(writer, number)]

    def _has_blocks(self, writer: str, segment: int) -> bool:
        path = Path(self.files.path, writer, segment_name(segment))
        try:
            return path.stat().st_size > head_size(path) + len(END)
        except (LogError, FileNotFoundError):  # the segment had not begun, or retention removed it meanwhile
            return False

    def gaps(self, writer: str) -> list[Gap]:
        """Return the removed segments between existing ones.

        Retention leaves no gaps, because it removes the oldest segments first. A crash before the first block of a
        segment leaves none either: the segment number is missing, but the batch numbers are consecutive.
        """
        found = []
        unseen = self.unindexed_segments(writer)
        for before, after in pairwise(self.segments(writer)):
            if after > before + 1 and not any(before < number < after for number in unseen):
                with suppress(LogError, OSError):  # damaged: reading it reports the error
                    old, new = Segment(self.files, writer, before), Segment(self.files, writer, after)
                    last = old.index[len(old.index) - 1] if len(old.index) else None
                    lost = new.first_batch - old.first_batch - (last.row + last.rows if last else 0)
                    if lost > 0:
                        since = last.last if last else 0
                        found.append(Gap(writer, before, after, lost, since, new.index[0].first))
        return found

    def _gaps_between(self, writer: str, begin: tuple[int, ...], stop: tuple[int, ...]) -> list[Gap]:
        there = self.segments(writer)
        if not there or there[-1] - there[0] + 1 == len(there):
            return []
        return [gap for gap in self.gaps(writer) if begin[0] <= gap.before and gap.after <= stop[0]]

    def index(self, writer: str, segment: int) -> Index:
        return Index(self.files.source(writer, segment_name(segment, "index")))

    # Ranges

    def plan(
        self, start: Mapping[str, Sequence[int]] | None = None, end: Mapping[str, Sequence[int]] | None = None,
        size: int = 64 << 20, since: int | None = None, until: int | None = None, whole: bool = False,
    ) -> list[BlockRange]:  # fmt: skip
        """Return the blocks from `start` to `end` (default: all), as ranges of at most `size` bytes, or one block.

        `since` and `until` (ns) skip blocks without a row in that time. A writer that is missing in `start` is read
        from its beginning. A repeated plan, for example after a power cut, returns all requested blocks or fails.
        Segments removed between existing ones, or lost indices, give a warning, or an error with `whole`.

        Raises:
            LogRemoved: Retention has removed blocks after `start`.
            LogError: The log ends before `end`.
        """
        start, to_the_end = start or {}, end is None
        end = self.latest() if end is None else end
        found: list[BlockRange] = []
        for writer in sorted(end):
            begin, stop = tuple(start.get(writer, (0, 0))), tuple(end[writer])
            if writer not in self.writers():
                raise InvalidValue(
                    f"unknown writer {writer!r} in {self.files.path}; expected one of {', '.join(self.writers())}"
                )
            self._refuse_removed(writer, begin)
            for number in self.unindexed_segments(writer) if begin < stop or to_the_end else ():
                if begin[0] <= number and (number <= stop[0] or to_the_end):
                    self._warn_once(LogError(find_unseen(writer, number)), whole)
            if begin < stop:
                self._check_end(writer, stop)
                for gap in self._gaps_between(writer, begin, stop):
                    if (since is None or gap.until > since) and (until is None or gap.since < until):
                        self._warn_once(LogRemoved(str(gap)), whole)
            for segment in self.segments(writer):
                if begin[0] <= segment <= stop[0]:
                    index = self.index(writer, segment)
                    first = begin[1] if segment == begin[0] else 0
                    last = min(stop[1], len(index)) if segment == stop[0] else len(index)
                    found += self._ranges(writer, segment, index, first, last, size, since, until)
        return found

    def _warn_once(self, lack: LogError, whole: bool) -> None:
        if whole:
            raise lack
        if str(lack) not in self._warned:  # warn once per reader
            self._warned.add(str(lack))
            logger.warning("%s", lack)

    def _refuse_removed(self, writer: str, begin: tuple[int, ...]) -> None:
        if begin == (0, 0):
            return
        removed = self._removed_end(writer)
        if begin < removed:
            first = self.earliest()[writer]
            raise LogRemoved(
                f"{writer}: retention has removed blocks after {list(begin)}; the first block is now {first}"
            )
        if begin > removed and begin[0] not in self.segments(writer) and not self.has_lost(writer, begin):
            raise LogRemoved(
                f"{writer}: the segment of block {list(begin)} was removed by another process; the next existing block is "
                f"{self.next(writer, begin)}"
            )

    def next(self, writer: str, offset: Sequence[int]) -> list[int]:
        """Return this offset, or the first block after it if its segment is gone."""
        there = [segment for segment in self.segments(writer) if segment >= offset[0]]
        if not there or there[0] == offset[0]:
            return list(offset)
        return [there[0], 0]

    def _check_end(self, writer: str, stop: tuple[int, ...]) -> None:
        segment, count = stop
        if stop == self._removed_end(writer):
            return
        if count and (segment not in self.segments(writer) or len(self.index(writer, segment)) < count):
            lost = "a power cut truncated its index: start the writer, or run `zenlake log repair`"
            why = lost if self.has_lost(writer, stop) else "check that this is the log that was read before"
            raise LogError(
                f"{writer}: block {list(stop)} is not in the log, which ends at {self._latest(writer)}; {why}"
            )

    def has_lost(self, writer: str, offset: Sequence[int]) -> bool:
        """Return whether the blocks before this offset exist but are invisible.

        The index is not synced for each block, so a power cut may lose its last records. The next start of the writer
        restores them, and so does `zenlake log repair`.
        """
        segment = Path(self.files.path, writer, segment_name(offset[0]))
        if not segment.is_file():
            return False
        records = index_records(segment.with_suffix(".index"))
        if records and records[-1].kind == SEALED:
            return False
        try:
            at = records[-1].offset + records[-1].size if records else head_size(segment)
            return len(records) + sum(1 for _ in whole_blocks(segment, at)) >= offset[1]
        except LogError:
            return False

    def _ranges(
        self, writer: str, segment: int, index: Index, first: int, last: int, size: int, since: int | None,
        until: int | None,
    ) -> Iterator[BlockRange]:  # fmt: skip
        held: list[BlockRecord] = []
        at = first
        for i in range(first, last + 1):
            record = index[i] if i < last else None
            wanted = (
                record is not None
                and (since is None or record.last >= since)
                and (until is None or record.first < until)
            )
            if held and (not wanted or record is None or sum(r.size for r in held) + record.size > size):
                yield BlockRange(
                    writer, segment, at, i, sum(r.size for r in held), sum(r.rows for r in held),
                    held[0].first, held[-1].last,
                )  # fmt: skip
                held = []
            if record is not None and wanted:
                if not held:
                    at = i
                held.append(record)

    def segment(self, of: BlockRange) -> "Segment":
        return Segment(self.files, of.writer, of.segment)


def find_unseen(writer: str, segment: int) -> str:
    """Describe a segment whose index is lost."""
    return f"{writer}/{segment_name(segment)} has no index, so its blocks are invisible; run `zenlake log repair` to rebuild it"


class Segment:
    """One segment, read on demand."""

    def __init__(self, files: Files, writer: str, number: int) -> None:
        self.where = f"{writer}/{segment_name(number)}"
        self.number = number
        self.index = Index(files.source(writer, segment_name(number, "index")))
        self.source = files.source(writer, segment_name(number))
        try:
            size = prefix_size(bytes(self.source.read(0, 8)))
            self.schema = pa.ipc.read_schema(self.source.read(0, size))
        except (LogError, *DAMAGE):
            raise LogError(
                f"{self.where} has an invalid segment header; run `zenlake log repair` to set it aside"
            ) from None
        metadata = self.schema.metadata or {}
        if metadata.get(b"zenlake.log.format") != str(FORMAT).encode():
            raise LogError(f"{self.where} has an unsupported format; this version of Zenlake supports format {FORMAT}")
        if not self.schema.equals(ROWS):
            raise LogError(f"{self.where} does not have the columns of a log")
        try:
            self.first_batch = int(metadata[b"batch"])
            self._head = metadata[b"state"]
            if int(metadata.get(b"state_crc", crc32(self._head))) != crc32(self._head):
                raise ValueError
        except DAMAGE:
            raise LogError(f"{self.where}: the head is damaged; run `zenlake log repair` to set it aside") from None
        self.withholds = b"metadata_only" in metadata
        """Whether the segment may contain redacted values, with size and hash only (`redaction`)."""

    def block_info(self, block: int) -> BlockInfo:
        """Return the metadata of a block, without its rows."""
        record = self._record(block)
        try:
            start = self.source.read(record.offset, min(GUESS, record.size))
            size = prefix_size(bytes(start[:8]))
            if size > start.size:
                start = self.source.read(record.offset, size)
            return read_block_info(start[:size])
        except (LogError, *DAMAGE) as error:
            raise self._damage_error(block, error) from None

    def _damage_error(self, block: int, why: object) -> LogError:
        return LogError(f"{self.where}, block {block}: {why}; {REPAIR_HINT}")

    def _record(self, block: int) -> BlockRecord:
        try:
            return self.index[block]
        except IndexError:  # a power cut may truncate an index, until the writer restores it
            raise LogError(
                f"{self.where}: block {block} is not in the index; run `zenlake log repair` to rebuild it"
            ) from None

    def state(self, block: int) -> SegmentState:
        """Return the state of all faces before that block, without the faces that it introduces."""
        try:
            state = SegmentState.from_head(unpack(self._head))
        except (LogError, *DAMAGE) as error:
            raise LogError(f"{self.where}: {error}; run `zenlake log repair` to set it aside") from None
        for earlier in range(block):
            about = self.block_info(earlier)
            if about.changes is not None:
                for face in self.new_faces(earlier, about):
                    state.introduce(face)
                self.apply(about.changes, earlier, state)
        return state

    def apply(self, changes: bytes, block: int, state: SegmentState) -> None:
        """Apply the changes of a block. Its new faces are already in the state."""
        try:
            state.apply(unpack(changes))
        except (LogError, *DAMAGE) as error:
            raise self._damage_error(block, error) from None

    def new_faces(self, block: int, about: BlockInfo) -> list[LogFace]:
        """Return the new faces of a block, given its metadata."""
        if about.changes is None or not about.facts["faces"]:
            return []
        try:
            return [LogFace(**face) for face in unpack(about.changes)["faces"]]
        except (LogError, *DAMAGE) as error:
            raise self._damage_error(block, error) from None

    def rows(self, block: int) -> pa.RecordBatch:
        """Return the rows of a block, verified."""
        return self.read(block)[0]

    def read(self, block: int, full: bool = False) -> tuple[pa.RecordBatch, BlockInfo]:
        """Read a block: its rows, with the columns of layout.ROWS, and its metadata.

        The rows match the checksum of the block and agree with the index. With `full`, their values are validated too.
        """
        record = self._record(block)
        data = self.source.read(record.offset, record.size)
        try:
            size = prefix_size(bytes(data[:8]))
            found = read_block_info(data[:size])
            view = memoryview(data)
            if inflated_size(view[8:size], view[size:]) > MAX_INFLATED:
                raise LogError(f"exceeds {MAX_INFLATED} bytes when decompressed")
            rows = pa.ipc.read_record_batch(pa.ipc.read_message(data), ROWS)
            rows.validate(full=full)
            facts = found.facts
            if not facts["rows"] == rows.num_rows == record.rows or facts["row"] != record.row:
                raise LogError("index and block disagree on the row count")
            if checksum(rows, found.changes, found.withheld) != facts["crc"]:
                raise LogError(f"checksum mismatch ({record.size} bytes at byte {record.offset})")
        except (LogError, *DAMAGE) as error:
            raise self._damage_error(block, error) from None
        return rows, found

    def blocks(self, first: int, last: int) -> Generator[tuple[pa.RecordBatch, BlockInfo]]:
        """Read some blocks, in order. For a log on a store, a thread prefetches blocks while the caller decodes earlier ones.

        Performance: the kernel prefetches local files. A thread would only move the bytes to the cache of another core.
        """
        if self.source.mapped or last - first < 2:
            for block in range(first, last):
                yield self.read(block)
            return
        from concurrent.futures import ThreadPoolExecutor  # Performance: slow import, not needed for small logs

        with ThreadPoolExecutor(1, "zenlake-log-read") as pool:
            ahead = deque(pool.submit(self.read, block) for block in range(first, min(first + PREFETCHED, last)))
            for block in range(first + PREFETCHED, last + PREFETCHED):
                found = ahead.popleft().result()
                if block < last:
                    ahead.append(pool.submit(self.read, block))
                yield found

    def validate_rows(self, rows: pa.RecordBatch, block: int, faces: int) -> pa.RecordBatch:
        """Validate rows. Safety: compiled loops read them without bounds checks."""
        face, direction = (pc.min_max(rows.column(name)).as_py() for name in ("face", "direction"))
        whole = not any(rows.column(i).null_count for i in range(4))
        if not whole or face["min"] < -1 or face["max"] >= faces or direction["min"] < NOTE or direction["max"] > 1:
            raise self._damage_error(block, "invalid row")
        return rows
