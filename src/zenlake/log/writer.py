# SPDX-License-Identifier: Apache-2.0
"""Writer of a log: batches in, durable blocks out.

    with Writer("lake/log", "tap-1") as log:
        face = log.face("tcp", client="10.0.0.7:40112", server="10.0.0.1:7447")
        log.append(face, 0, batch)
        log.flush()  # -> (segment, block): everything before it is durable and visible

Threading: not thread-safe, and not for an event loop, because `flush` waits for the disk. An event loop uses
`zenlake.log.Recorder`.

A visible block is durable: it is added to the index, which readers use, after it was synced. After a crash the segment is
truncated after its last complete block and sealed. The writer continues in a new segment: a block number is never used twice.
"""

import errno
import fcntl
import json
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa

from zenlake.errors import InvalidValue, LogError, LogFull
from zenlake.log.block import END, MAX_COMPRESSED_BLOCK, StateTooLarge, align, block_pieces, crc32, head_bytes, pack
from zenlake.log.block_builder import BlockBuilder
from zenlake.log.disk import PAGE, Disk
from zenlake.log.layout import (
    FORMAT,
    INDEX_HEAD,
    NOTE,
    READERS,
    SEALED,
    WRITER,
    BlockRecord,
    check_name,
    segment_name,
)  # fmt: skip
from zenlake.log.marker import create_marker, read_used_numbers, reserve_numbers
from zenlake.log.recovery import recover
from zenlake.log.redaction import Redactor
from zenlake.log.session_state import MAX_KEYS, LogFace, TrackedState, negotiated_terms
from zenlake.session.state import SessionState

__all__ = ["Writer", "note_text"]

Offset = tuple[int, int]

MIN_DIRECT = 1 << 20  # minimum bytes of a block for a direct write
MIN_CHANGES_TO_SEAL = 4 << 20  # bytes of changes below which a segment is not sealed for them
LARGE_HEAD = 20  # a segment has at least this many times the size of its head before it is sealed for its size
NOTED = {"direction": int, "priority": int, "reliable": bool, "sn": int, "count": int, "detail": str}
CLOCK_STEP = (
    1_000_000_000  # nanoseconds that the clock may go back before it counts as a step, which received times follow
)
LOOK = 1.0  # seconds between two checks of the files while nothing is synced
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def note_text(kind: str, values: dict[str, Any]) -> bytes:
    """Encode a row of `events` as JSON. Values that do not fit the table are rejected here, not when the log is read."""
    for name, value in values.items():
        if name not in NOTED or not isinstance(value, NOTED[name]):
            raise InvalidValue(
                f"invalid note value {name}={value!r}; expected {', '.join(NOTED)} with the types of `events`"
            )
    return json.dumps({"kind": kind, **values}).encode()


class PreparedBlock(NamedTuple):
    """An encoded block that is ready to be written."""

    rows: BlockBuilder
    pieces: list[memoryview]
    record: BlockRecord
    changed: int
    """Bytes of its changes."""
    direct: bool


class Writer:
    """One named writer in a log.

    Args:
        sync: "block", "sealed", or a number of seconds between syncs.
        block_size: Bytes at which a block is complete.
        segment_size: Bytes at which a segment is sealed.
        segment_age: Seconds after which a segment is sealed.
        compression: Compression of Arrow: None, "lz4" or "zstd".
        metadata_only: Key expressions. Values on intersecting keys are redacted to size and hash.
        cached: Bytes of sealed segments to keep in the page cache for concurrent readers. The memory of older ones is reused,
            because fresh memory costs several times as much. None leaves this to the system.
        direct: Write full blocks with O_DIRECT. This takes a fraction of the CPU time, but concurrent readers read the disk.
        clock: Function that returns nanoseconds since 1970.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        name: str,
        *,
        sync: Literal["block", "sealed"] | float = "block",
        block_size: int = 4 << 20,
        segment_size: int = 64 << 20,
        segment_age: float = 3600.0,
        compression: Literal["lz4", "zstd"] | None = None,
        metadata_only: Sequence[str] = (),
        cached: int | None = None,
        direct: bool = False,
        clock: Callable[[], int] = time.time_ns,
        disk: Disk | None = None,
    ) -> None:
        if isinstance(sync, str) and sync not in ("block", "sealed"):
            raise InvalidValue(f"invalid sync={sync!r}; expected 'block', 'sealed' or a number of seconds")
        if not 0 < block_size <= 1 << 30:
            raise InvalidValue(f"invalid block_size={block_size}; expected 1 byte to 1 GiB")
        if compression is not None and block_size > MAX_COMPRESSED_BLOCK:
            raise InvalidValue(f"invalid block_size={block_size}; expected at most 256 MiB for a compressed block")
        self.root = Path(path)
        self.name = check_name(name)
        self.folder = self.root / self.name
        self.sync = sync
        self.block_size = block_size
        self.segment_size = segment_size
        self.segment_age = segment_age
        self.on_seal: Callable[[int], None] = lambda segment: None
        self.bytes_written = 0
        self._cached = cached
        self._in_memory: deque[tuple[Path, int]] = deque()  # segments, and their sizes
        self._clock = clock
        self.disk = disk or Disk()
        self._direct = direct
        self._direct_file: int | None = None
        self._plain = compression is None
        self._options = pa.ipc.IpcWriteOptions(compression=compression)
        self._closed = False
        self._last = 0
        self._looked = time.monotonic()
        self.on_clock_step: Callable[[int], None] = lambda back: None
        self._serial = 0
        self._live: dict[str, LogFace] = {}
        self._followed = TrackedState()
        self._redactor = Redactor(metadata_only) if metadata_only else None
        self._rows = BlockBuilder(self.block_size)
        self._whole: deque[BlockBuilder] = deque()  # rows of the next blocks, before `_rows`
        self._spare: list[BlockBuilder] = []
        self._file: int | None = None
        self._prepared: PreparedBlock | None = None
        self._unsynced: list[BlockRecord] = []
        self._synced = 0.0
        self._failed: str | None = None
        self._lock = self._take_lock()
        try:
            self._start()
        except BaseException:
            os.close(self._lock)
            raise

    # Start

    def _take_lock(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.root / READERS).mkdir(exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LogError(f"{self.folder} is in use by another process; give this writer a unique name") from None
        return lock

    def _start(self) -> None:
        create_marker(self.root, self.disk)
        found = recover(self.folder, self.disk)
        if found.is_nothing:
            found.epoch = read_used_numbers(self.root, self.name)
            found.next_segment = found.first_segment = found.epoch + 1
        self.epoch = found.epoch + 1
        self.segment = found.next_segment - 1  # current or last segment
        self.block = 0
        self._first_segment = found.first_segment
        self._removed = found.removed
        self._clock_steps = found.clock_steps
        self._batch = found.next_batch
        self._last = found.last_time
        self.acknowledged: Offset = found.end
        self._describe(self.segment)
        reserve_numbers(self.root, self.name, self.segment, self.disk)
        for torn in found.torn:
            self.note("log torn", count=torn.cut, detail=torn.why)

    def _describe(self, segment: int) -> None:
        about = {
            "format": FORMAT, "writer": self.name, "epoch": self.epoch, "first": self._first_segment, "segment": segment,
            "removed": self._removed, "clock_steps": [each for each in self._clock_steps if each >= self._first_segment],
        }  # fmt: skip
        self.disk.replace(self.folder / WRITER, json.dumps(about).encode())

    # Input

    def face(self, protocol: str, client: str, server: str, session: SessionState | None = None) -> LogFace:
        """Add a connection, whose batches follow: `client` opened it, `server` accepted it.

        `session` holds the negotiated parameters if the INIT messages are not recorded.
        """
        self._serial += 1
        name = f"{protocol}/{client}->{server}#{self.name}.{self.epoch}.{self._serial}"
        face = self._live[name] = LogFace(
            name, protocol, client, server, None if session is None else negotiated_terms(session)
        )
        return face

    def forget(self, face: LogFace) -> None:
        """End a connection after the batches appended so far."""
        self._rows.leaving.append(face)

    def append(
        self, face: LogFace, direction: int, batch: bytes, wire_size: int | None = None, compressed: bool = False,
        received: int | None = None,
    ) -> None:  # fmt: skip
        """Append one batch. Direction 0 is from the opener, 1 from the acceptor.

        `received` never decreases within a segment. A clock that goes back by more than CLOCK_STEP begins a segment.
        """
        self._add(face, direction, batch, len(batch) + 2 if wire_size is None else wire_size, compressed, received)

    def note(self, kind: str, face: LogFace | None = None, received: int | None = None, **values: Any) -> None:
        """Append a row of `events` about a face or the recording. Values are columns of that table."""
        self.append_note(note_text(kind, values), face, received)

    def append_note(self, note: bytes, face: LogFace | None = None, received: int | None = None) -> None:
        """Append a note that `note_text` has encoded."""
        self._add(face, NOTE, note, 0, False, received)

    def _add(
        self, face: LogFace | None, direction: int, data: bytes, wire_size: int, compressed: bool, received: int | None
    ) -> None:
        self._check_open()
        now = self._clock() if received is None else received
        if now < self._last - CLOCK_STEP:
            self._complete()
            self._step_clock(self._rows, now)
        self._last = max(self._last, now)
        full = self._rows.add(self._last, face, direction, data, wire_size, compressed)
        if full and self._failed is None:
            self._cut()

    def fresh_rows(self) -> BlockBuilder:
        """Return empty rows for the caller to fill, for `append_rows`. Threading: callable from any thread."""
        try:
            return self._spare.pop()
        except IndexError:
            return BlockBuilder(self.block_size)

    def append_rows(self, rows: BlockBuilder) -> None:
        """Append filled rows, one or more, as a block. The writer owns the rows from now on."""
        self._check_open()
        if self._failed is not None:
            raise LogError(self._failed)
        self._complete()
        if rows.times[0] < self._last - CLOCK_STEP:
            self._step_clock(rows, rows.times[0])
        self._last = rows.put_in_order(self._last)
        self._whole.append(rows)
        self._cut()

    def _step_clock(self, rows: BlockBuilder, now: int) -> None:
        """Begin a segment for these rows, because the clock was set back. A row of `events` reports it."""
        back, self._last = self._last - now, now
        rows.stepped = back
        why = f"the clock was set back by {back / 1e9:.3f} s: received times restart in this segment"
        rows.add(
            rows.times[-1] if rows.times else now, None, NOTE, note_text("clock stepped", {"detail": why}), 0, False
        )
        self.on_clock_step(back)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"the writer of {self.folder} is closed")

    def _complete(self) -> None:
        """Close the current rows."""
        if self._rows:
            self._whole.append(self._rows)
            self._rows = self.fresh_rows()

    def _recycle(self, rows: BlockBuilder) -> None:
        """Release the rows of a written block. After a block that was not full, the traffic is slow and less memory is kept."""
        if rows.size < self.block_size:
            del self._spare[:1]
        rows.clear()
        self._spare.append(rows)

    # Output

    def flush(self) -> Offset:
        """Write the current rows as a block, and sync as the policy requires. Everything before the returned offset is durable."""
        if self._failed is not None:
            raise LogError(self._failed)
        if time.monotonic() - self._looked >= LOOK:
            self._check_in_place()
        if self._rows or self._whole or self._prepared is not None:
            self._cut()
        elif self._file is not None and self._is_old():
            self.seal()
        elif self._sync_is_due():
            self._publish()
        return self.acknowledged

    def _cut(self) -> None:
        """Write the current rows as a block. If the disk is full, they are kept, and the next flush retries."""
        self._complete()
        with self._convert_errors():
            if self._prepared is not None:
                self._write_block()
            while self._whole:
                stepped = self._whole[0].stepped > 0
                if self._file is not None and (self._is_over() or (stepped and self.block > 0)):
                    self.seal()
                if self._file is None:
                    self._begin_segment(stepped)
                self._prepare_block(self._whole.popleft())
                self._write_block()
                self._complete()  # a new segment may have added notes
        if self._sync_is_due():
            self._publish()

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors of the disk to log errors."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise LogFull(
                    f"{self.folder}: the disk is full; acknowledged data is safe and the rest is buffered in memory; "
                    "free some space and flush again"
                ) from error
            raise LogError(f"{self.folder}: {error.strerror}") from error

    def _begin_segment(self, stepped: bool) -> None:
        segment = self.segment + 1
        if stepped and segment not in self._clock_steps:
            self._clock_steps.append(segment)
        followed, state = self._head_state()
        metadata = {
            "zenlake.log.format": FORMAT, "writer": self.name, "epoch": self.epoch, "segment": segment,
            "batch": self._batch, "created": self._clock(), "state_crc": crc32(state),
        }  # fmt: skip
        if self._redactor is not None:
            metadata["metadata_only"] = json.dumps([str(key) for key in self._redactor.keys])
        head = head_bytes({**{name: str(value).encode() for name, value in metadata.items()}, "state": state})
        path = self.folder / segment_name(segment)
        file = self.disk.create(path)
        try:
            self.disk.write(file, head, 0)
            self.disk.sync(file)
            self.disk.sync_folder(self.folder)
            self._describe(segment)
            index = self.disk.create(path.with_suffix(".index"))
            self.disk.write(index, INDEX_HEAD, 0)
            if self._direct:
                self._direct_file = self.disk.open_directly(path)
        except BaseException:
            self.disk.close(file)
            self.disk.remove(path)
            self.disk.remove(path.with_suffix(".index"))
            raise
        self.segment, self.block = segment, 0
        self._file, self._index = file, index
        self._index_size = len(INDEX_HEAD)
        self._size = self._head_size = len(head)
        self._followed = followed
        self._row = self._changed = 0
        self._last_written = self._last
        self._opened = self._synced = time.monotonic()

    def _head_state(self) -> tuple[TrackedState, bytes]:
        """Return the state of the live faces, and its JSON for a head.

        A head must never exceed the limit of readers. The faces with the most key ids lose them first. If that is not
        sufficient, faces are omitted, and restart with their next batch. Each case is a row of `events`.
        """
        faces = list(self._live.values())
        followed = TrackedState(self._followed, faces)
        limit = MAX_KEYS // 2 if self._followed.memory.refused else MAX_KEYS
        while True:
            for face, count in followed.drop_keys(limit):
                why = "too many bytes of key ids for a segment head: samples on these ids have unresolved keys from here on"
                self._note_state("key ids dropped", face, count, why)
            try:
                return followed, pack(followed.head())
            except StateTooLarge:
                if followed.memory.used:
                    limit = followed.memory.used // 2
                else:
                    why = "too many faces for a segment head: these restart without their negotiated parameters"
                    self._note_state("faces dropped", None, len(faces) - len(faces) // 2, why)
                    faces = faces[: len(faces) // 2]
                    followed = TrackedState(self._followed, faces)

    def _note_state(self, kind: str, face: LogFace | None, count: int, why: str) -> None:
        """Add a note to the block after the current ones, because there is no segment to write to at this point."""
        self._rows.add(self._last, face, NOTE, note_text(kind, {"count": count, "detail": why}), 0, False)

    def _pack_changes(self, changes: dict[str, Any]) -> tuple[bytes, int]:
        """Return the changes of a block as JSON, and their size.

        Changes beyond the limit of readers are omitted, except for the new faces. The block is then the last of its
        segment, because only later blocks of the segment would need the changes.
        """
        try:
            packed = pack(changes)
            return packed, len(packed)
        except StateTooLarge:
            return pack({**changes, "of": {}}), 1 << 62

    def _prepare_block(self, rows: BlockBuilder) -> None:
        """Prepare the next block. Tracking the rows changes the state, so it is done once, even if the disk is full."""
        introduced: list[LogFace] = []
        followed = self._followed
        table = rows.as_arrow(lambda face: followed.index(face, introduced))
        places: list[int] = []
        if self._redactor is not None:
            table, places = self._redactor.redact(table, followed.faces)
        changes = followed.follow(table, introduced, self.segment, self.block)
        packed, changed = (None, 0) if changes is None else self._pack_changes(changes)
        redacted = pack(places) if places else None
        pieces = block_pieces(table, self._row, rows.notes, len(introduced), packed, redacted, self._options)
        data = table.column("batch").buffers()[2]
        direct = self._writes_directly(data)
        if direct:
            pieces = align(pieces, data.size, self._size)
        size = sum(map(len, pieces))
        record = BlockRecord(self._size, size, rows.times[0], rows.times[-1], self._row, len(rows))
        self._prepared = PreparedBlock(rows, pieces, record, changed, direct)
        for gone in rows.leaving:
            self._live.pop(gone.name, None)
            if self._redactor is not None:
                self._redactor.forget(gone)

    def _writes_directly(self, data: pa.Buffer) -> bool:
        """Return whether a block is written with O_DIRECT.

        A full block means fast traffic. Other blocks go through the page cache, which costs little and helps readers.
        Blocks that were rebuilt for redaction are not page-aligned, and also go through the page cache.
        """
        large = data.size >= max(self.block_size, MIN_DIRECT)
        return self._direct and self._plain and large and data.address % PAGE == 0

    def _write_block(self) -> None:
        assert self._file is not None
        assert self._prepared is not None
        rows, pieces, record, changed, direct = self._prepared
        try:
            if direct and self._direct_file is not None:
                self.disk.write_directly(self._file, self._direct_file, pieces, self._size)
            else:
                self.disk.write_together(self._file, pieces, self._size)
        except OSError:
            self.disk.truncate(self._file, self._size)
            raise
        self.disk.fault_point("written")
        self._unsynced.append(record)
        self._last_written = record.last
        self._prepared = None
        self._recycle(rows)
        self._size += record.size
        self.bytes_written += record.size
        self._changed += changed
        self._row += record.rows
        self._batch += record.rows
        self.block += 1

    def _sync_is_due(self) -> bool:
        if self.sync == "block":
            return True
        return isinstance(self.sync, int | float) and time.monotonic() - self._synced >= self.sync

    def _publish(self) -> None:
        """Sync, then make the blocks visible to readers."""
        if self._file is None or not self._unsynced:
            return
        self._sync(self._file)
        self._check_in_place()
        self.disk.fault_point("synced")
        self._synced = time.monotonic()
        with self._convert_errors():
            self._append_index(b"".join(record.pack() for record in self._unsynced))
        self._unsynced.clear()
        self.acknowledged = (self.segment, self.block)

    def _sync(self, file: int) -> None:
        try:
            self.disk.sync(file)
        except OSError as error:
            # Safety: the state of pages after a failed sync is unknown, so nothing is written after them.
            self._fail(f"sync failed ({error.strerror}); data that was not acknowledged may be lost", error)

    def _fail(self, why: str, error: OSError | None = None) -> None:
        """End the writer with an error: later data could not be read."""
        self._failed = f"{self.folder}: {why}"
        raise LogError(self._failed) from error

    @property
    def has_failed(self) -> bool:
        """Whether the writer has ended with an error and writes no more."""
        return self._failed is not None

    def _check_in_place(self, written: int = 0) -> None:
        """End the writer if another process has removed, moved, replaced or truncated one of its files.

        Args:
            written: Number of bytes that were written after the blocks.
        """
        self._looked = time.monotonic()
        files = [(self._lock, self.folder / "lock", 0)]
        if self._file is not None:
            path = self.folder / segment_name(self.segment)
            files += [
                (self._file, path, self._size + written), (self._index, path.with_suffix(".index"), self._index_size),
            ]  # fmt: skip
        for file, path, size in files:
            if why := self.disk.check_in_place(file, path, size):
                self._fail(f"{why}: another process changed the log; check the folder and start the writer again")

    def _append_index(self, records: bytes) -> None:
        try:
            self.disk.write(self._index, records, self._index_size)
        except OSError:
            self.disk.truncate(self._index, self._index_size)
            raise
        self._index_size += len(records)

    def _is_over(self) -> bool:
        if self._changed > max(self._head_size, MIN_CHANGES_TO_SEAL) or self._followed.memory.refused:
            return True
        return self._size >= max(self.segment_size, LARGE_HEAD * self._head_size) or self._is_old()

    def _is_old(self) -> bool:
        return time.monotonic() - self._opened >= self.segment_age

    def seal(self) -> None:
        """Seal the segment. It is complete and will not change again."""
        if self._file is None:
            return
        records = b"".join(record.pack() for record in self._unsynced)
        seal = BlockRecord(self._size, self._size + len(END), 0, self._last_written, self._row, 0, SEALED)
        with self._convert_errors():
            self.disk.write(self._file, END, self._size)
            self.disk.fault_point("ended")
            self._sync(self._file)
            self._check_in_place(len(END))
            self.disk.fault_point("synced")
            self._append_index(records + seal.pack())
            self._sync(self._index)
        self._unsynced.clear()
        self.acknowledged = (self.segment, self.block)
        self._close_files()
        self.disk.fault_point("sealed")
        self._release_files()
        self.on_seal(self.segment)

    def _close_files(self) -> None:
        if self._file is not None:
            self.disk.close(self._file)
            self.disk.close(self._index)
            self._file = None
        if self._direct_file is not None:
            self.disk.close(self._direct_file)
            self._direct_file = None

    def _release_files(self) -> None:
        """Drop older sealed segments from the page cache, beyond the limit to keep."""
        if self._cached is None:
            return
        self._in_memory.append((self.folder / segment_name(self.segment), self._size))
        while sum(size for _, size in self._in_memory) > self._cached and len(self._in_memory) > 1:
            path, _ = self._in_memory.popleft()
            self.disk.release_held(path)

    @property
    def is_writing(self) -> bool:
        """Whether the current segment is open."""
        return self._file is not None

    def on_retire(self, first: int, end: Offset) -> None:
        """Record that retention removes everything before this segment. `end` is the offset after its last removed block."""
        self._first_segment, self._removed = first, end
        self._describe(self.segment)

    # End

    def close(self) -> None:
        """Flush, sync, seal, and release the writer name."""
        if self._closed:
            return
        try:
            if self._failed is None:
                self.flush()
                self.seal()
        finally:
            self._closed = True
            self._close_files()
            os.close(self._lock)

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
