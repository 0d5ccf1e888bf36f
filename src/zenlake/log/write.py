# SPDX-License-Identifier: Apache-2.0
"""The writer of a log: batches in, durable blocks out.

    with Writer("lake/log", "tap-1") as log:
        face = log.face("tcp", client="10.0.0.7:40112", server="10.0.0.1:7447")
        log.append(face, 0, batch)
        log.flush()  # -> (segment, block): everything before it is on disk, and readers see it

Not thread-safe and not for an event loop: `flush` waits for the disk. `record.Recorder` is what a loop calls.

Visible means durable: a block enters the index, from which readers learn of it, after it was synced. After a crash the
segment is cut behind its last whole block and sealed, and the writer goes on in a new one: no block's number is used twice.
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
from zenlake.log.block import END, MAX_COMPRESSED_BLOCK, StateTooLarge, aligned, block_pieces, crc32, head_bytes, pack
from zenlake.log.disk import PAGE, Disk
from zenlake.log.layout import (
    FORMAT,
    INDEX_HEAD,
    NOTE,
    READERS,
    SEALED,
    WRITER,
    Record,
    checked_name,
    segment_name,
)  # fmt: skip
from zenlake.log.marker import mark, spend, spent
from zenlake.log.recover import recover
from zenlake.log.rows import Rows
from zenlake.log.state import MAX_KEYS, Face, Followed, agreed_on
from zenlake.log.withhold import Withholding
from zenlake.session.session import Session

__all__ = ["Writer", "note_text"]

Offset = tuple[int, int]

LEAST_DIRECT = 1 << 20  # bytes of a block that are worth a write of their own
FEW_CHANGES = 4 << 20  # bytes of changes that are no reason to seal
LARGE_HEAD = 20  # a segment is at least this many times as large as its head, before its size is a reason to seal
NOTED = {"direction": int, "priority": int, "reliable": bool, "sn": int, "count": int, "detail": str}
CLOCK_STEP = 1_000_000_000  # nanoseconds that the clock may go back before that is a step, and times follow it
LOOK = 1.0  # seconds between two looks at the files while nothing is synced
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def note_text(kind: str, values: dict[str, Any]) -> bytes:
    """A row of `events` as JSON; what that table could not hold is refused here, not when somebody reads it."""
    for name, value in values.items():
        if name not in NOTED or not isinstance(value, NOTED[name]):
            raise InvalidValue(f"a note has {', '.join(NOTED)}, of the types of `events`; not {name}={value!r}")
    return json.dumps({"kind": kind, **values}).encode()


class Prepared(NamedTuple):
    """A block that needs only to be written."""

    rows: Rows
    pieces: list[memoryview]
    record: Record
    changed: int
    """Bytes of changes in it."""
    direct: bool


class Writer:
    """One named writer in a log. `sync` is "block", "sealed", or a number of seconds between syncs.

    A block is cut when it holds `block_size` bytes, a segment is sealed at `segment_size` bytes or after `segment_age`
    seconds. `compression` is Arrow's (None, "lz4" or "zstd"). Of values on keys that one of `metadata_only` intersects, size and
    hash are kept. Of sealed segments, `cached` bytes stay in the system's memory for those who read along, and the memory of older
    ones is written again: fresh memory costs several times as much. None leaves that to the system. With `direct`, blocks that are
    full go to the disk past the system's memory, which takes a fraction of the processor time; whoever reads along reads those
    from the disk. `clock` gives nanoseconds since 1970.
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
            raise InvalidValue(f"sync is 'block', 'sealed' or a number of seconds, not {sync!r}")
        if not 0 < block_size <= 1 << 30:
            raise InvalidValue("a block has between 1 byte and 1 GiB")
        if compression is not None and block_size > MAX_COMPRESSED_BLOCK:
            raise InvalidValue(f"invalid block_size={block_size}; a compressed block has at most 256 MiB")
        self.root = Path(path)
        self.name = checked_name(name)
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
        self._live: dict[str, Face] = {}
        self._followed = Followed()
        self._withholding = Withholding(metadata_only) if metadata_only else None
        self._rows = Rows(self.block_size)
        self._whole: deque[Rows] = deque()  # those that wait to become blocks, before the ones above
        self._spare: list[Rows] = []
        self._file: int | None = None
        self._prepared: Prepared | None = None
        self._unsynced: list[Record] = []
        self._synced = 0.0
        self._failed: str | None = None
        self._lock = self._take_lock()
        try:
            self._start()
        except BaseException:
            os.close(self._lock)
            raise

    # Starting

    def _take_lock(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.root / READERS).mkdir(exist_ok=True)
        lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise LogError(f"another process writes {self.folder}: give this writer a name of its own") from None
        return lock

    def _start(self) -> None:
        mark(self.root, self.disk)
        found = recover(self.folder, self.disk)
        if found.is_nothing:
            found.epoch = spent(self.root, self.name)
            found.next_segment = found.first_segment = found.epoch + 1
        self.epoch = found.epoch + 1
        self.segment = found.next_segment - 1  # the one that is, or was last, written
        self.block = 0
        self._first_segment = found.first_segment
        self._removed = found.removed
        self._clock_steps = found.clock_steps
        self._batch = found.next_batch
        self._last = found.last_time
        self.acknowledged: Offset = found.end
        self._describe(self.segment)
        spend(self.root, self.name, self.segment, self.disk)
        for torn in found.torn:
            self.note("log torn", count=torn.cut, detail=torn.why)

    def _describe(self, segment: int) -> None:
        about = {
            "format": FORMAT, "writer": self.name, "epoch": self.epoch, "first": self._first_segment, "segment": segment,
            "removed": self._removed, "clock_steps": [each for each in self._clock_steps if each >= self._first_segment],
        }  # fmt: skip
        self.disk.replace(self.folder / WRITER, json.dumps(about).encode())

    # What is said

    def face(self, protocol: str, client: str, server: str, session: Session | None = None) -> Face:
        """A new connection, whose batches follow: `client` opened it, `server` accepted it. `session` tells what was agreed on if
        the INITs will not be among them."""
        self._serial += 1
        name = f"{protocol}/{client}->{server}#{self.name}.{self.epoch}.{self._serial}"
        face = self._live[name] = Face(name, protocol, client, server, None if session is None else agreed_on(session))
        return face

    def forget(self, face: Face) -> None:
        """No more of this one, behind what was appended so far."""
        self._rows.leaving.append(face)

    def append(
        self, face: Face, direction: int, batch: bytes, wire_size: int | None = None, compressed: bool = False,
        received: int | None = None,
    ) -> None:  # fmt: skip
        """One batch: 0 = from who opened, 1 = from who accepted.

        `received` never goes back within a segment. A clock that goes back by more than CLOCK_STEP begins a segment.
        """
        self._add(face, direction, batch, len(batch) + 2 if wire_size is None else wire_size, compressed, received)

    def note(self, kind: str, face: Face | None = None, received: int | None = None, **values: Any) -> None:
        """A row of `events`: what happened to a face, or to the recording. Values are columns of that table."""
        self.append_note(note_text(kind, values), face, received)

    def append_note(self, note: bytes, face: Face | None = None, received: int | None = None) -> None:
        """A note that `note_text` has put into words."""
        self._add(face, NOTE, note, 0, False, received)

    def _add(
        self, face: Face | None, direction: int, data: bytes, wire_size: int, compressed: bool, received: int | None
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

    def fresh_rows(self) -> Rows:
        """Rows to be filled by whoever asks, for `append_rows`; from any thread."""
        try:
            return self._spare.pop()
        except IndexError:
            return Rows(self.block_size)

    def append_rows(self, rows: Rows) -> None:
        """What somebody has put together, one row or more, becomes a block. The rows are the writer's from now on."""
        self._check_open()
        if self._failed is not None:
            raise LogError(self._failed)
        self._complete()
        if rows.times[0] < self._last - CLOCK_STEP:
            self._step_clock(rows, rows.times[0])
        self._last = rows.put_in_order(self._last)
        self._whole.append(rows)
        self._cut()

    def _step_clock(self, rows: Rows, now: int) -> None:
        """The clock was set back before these rows: they follow it, in a new segment, with a row of `events`."""
        back, self._last = self._last - now, now
        rows.stepped = back
        why = f"the clock was set back by {back / 1e9:.3f} s: times begin again in this segment"
        rows.add(
            rows.times[-1] if rows.times else now, None, NOTE, note_text("clock stepped", {"detail": why}), 0, False
        )
        self.on_clock_step(back)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"the writer of {self.folder} is closed")

    def _complete(self) -> None:
        """No more goes into the rows so far."""
        if self._rows:
            self._whole.append(self._rows)
            self._rows = self.fresh_rows()

    def _use_again(self, rows: Rows) -> None:
        """The block is written. If it was not full, the network has become slow, and less memory will do."""
        if rows.size < self.block_size:
            del self._spare[:1]
        rows.clear()
        self._spare.append(rows)

    # What is written

    def flush(self) -> Offset:
        """Cut a block of what there is, and sync as the policy says. What lies before the returned offset is durable."""
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
        """The rows so far become a block. If the disk is full they stay, and the next flush tries again."""
        self._complete()
        with self._explained():
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
    def _explained(self) -> Iterator[None]:
        """What the disk says, in the log's words."""
        try:
            yield
        except OSError as error:
            if error.errno in NO_ROOM:
                raise LogFull(
                    f"{self.folder}: the disk is full; what was acknowledged is safe and the rest waits in memory: "
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
        if self._withholding is not None:
            metadata["metadata_only"] = json.dumps([str(key) for key in self._withholding.keys])
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

    def _head_state(self) -> tuple[Followed, bytes]:
        """Return the state of the live faces, and its JSON for a head.

        A head must never exceed what readers accept. The faces with the most key ids lose them first; if that is not enough, faces
        are left out, and begin again with their next batch. Each is a row of `events`.
        """
        faces = list(self._live.values())
        followed = Followed(self._followed, faces)
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
                    why = "too many faces for a segment head: these begin again without what was agreed on"
                    self._note_state("faces dropped", None, len(faces) - len(faces) // 2, why)
                    faces = faces[: len(faces) // 2]
                    followed = Followed(self._followed, faces)

    def _note_state(self, kind: str, face: Face | None, count: int, why: str) -> None:
        """Note it in the block after the current ones: there is no segment to write to at this point."""
        self._rows.add(self._last, face, NOTE, note_text(kind, {"count": count, "detail": why}), 0, False)

    def _pack_changes(self, changes: dict[str, Any]) -> tuple[bytes, int]:
        """Return the changes of a block as JSON, and their size.

        Changes beyond what readers accept are left out, but for the new faces, and the block is the last of its segment: only later
        blocks of the segment would need them.
        """
        try:
            packed = pack(changes)
            return packed, len(packed)
        except StateTooLarge:
            return pack({**changes, "of": {}}), 1 << 62

    def _prepare_block(self, rows: Rows) -> None:
        """Following the rows changes the state, so it is done once, also if the disk has no room for the result yet."""
        introduced: list[Face] = []
        followed = self._followed
        table = rows.as_arrow(lambda face: followed.index(face, introduced))
        withheld: list[int] = []
        if self._withholding is not None:
            table, withheld = self._withholding.withhold(table, followed.faces)
        changes = followed.follow(table, introduced, self.segment, self.block)
        packed, changed = (None, 0) if changes is None else self._pack_changes(changes)
        told = pack(withheld) if withheld else None
        pieces = block_pieces(table, self._row, rows.notes, len(introduced), packed, told, self._options)
        data = table.column("batch").buffers()[2]
        direct = self._goes_directly(data)
        if direct:
            pieces = aligned(pieces, data.size, self._size)
        size = sum(map(len, pieces))
        record = Record(self._size, size, rows.times[0], rows.times[-1], self._row, len(rows))
        self._prepared = Prepared(rows, pieces, record, changed, direct)
        for gone in rows.leaving:
            self._live.pop(gone.name, None)
            if self._withholding is not None:
                self._withholding.forget(gone)

    def _goes_directly(self, data: pa.Buffer) -> bool:
        """A block that is full says that the network is fast; with others the system's memory is no burden, and a help to readers.
        What was put together anew because some values are withheld begins anywhere, and goes the usual way."""
        large = data.size >= max(self.block_size, LEAST_DIRECT)
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
        self.disk.reached("written")
        self._unsynced.append(record)
        self._last_written = record.last
        self._prepared = None
        self._use_again(rows)
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
        """Sync, and then let readers see it."""
        if self._file is None or not self._unsynced:
            return
        self._sync(self._file)
        self._check_in_place()
        self.disk.reached("synced")
        self._synced = time.monotonic()
        with self._explained():
            self._tell(b"".join(record.pack() for record in self._unsynced))
        self._unsynced.clear()
        self.acknowledged = (self.segment, self.block)

    def _sync(self, file: int) -> None:
        try:
            self.disk.sync(file)
        except OSError as error:
            # What the system does with pages that it failed to write is not known: nothing more goes behind them.
            self._fail(f"syncing failed ({error.strerror}); what was not acknowledged may be lost", error)

    def _fail(self, why: str, error: OSError | None = None) -> None:
        """End the writer: what it writes from here on could not be read."""
        self._failed = f"{self.folder}: {why}"
        raise LogError(self._failed) from error

    @property
    def has_failed(self) -> bool:
        """Whether the writer has ended with an error, and writes no more."""
        return self._failed is not None

    def _check_in_place(self, written: int = 0) -> None:
        """End the writer if another process has removed, moved, replaced or cut one of its files.

        Args:
            written: Bytes that were written behind the blocks.
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

    def _tell(self, records: bytes) -> None:
        try:
            self.disk.write(self._index, records, self._index_size)
        except OSError:
            self.disk.truncate(self._index, self._index_size)
            raise
        self._index_size += len(records)

    def _is_over(self) -> bool:
        if self._changed > max(self._head_size, FEW_CHANGES) or self._followed.memory.refused:
            return True
        return self._size >= max(self.segment_size, LARGE_HEAD * self._head_size) or self._is_old()

    def _is_old(self) -> bool:
        return time.monotonic() - self._opened >= self.segment_age

    def seal(self) -> None:
        """End the segment: it is whole, and will never change again."""
        if self._file is None:
            return
        records = b"".join(record.pack() for record in self._unsynced)
        seal = Record(self._size, self._size + len(END), 0, self._last_written, self._row, 0, SEALED)
        with self._explained():
            self.disk.write(self._file, END, self._size)
            self.disk.reached("ended")
            self._sync(self._file)
            self._check_in_place(len(END))
            self.disk.reached("synced")
            self._tell(records + seal.pack())
            self._sync(self._index)
        self._unsynced.clear()
        self.acknowledged = (self.segment, self.block)
        self._close_files()
        self.disk.reached("sealed")
        self._let_go()
        self.on_seal(self.segment)

    def _close_files(self) -> None:
        if self._file is not None:
            self.disk.close(self._file)
            self.disk.close(self._index)
            self._file = None
        if self._direct_file is not None:
            self.disk.close(self._direct_file)
            self._direct_file = None

    def _let_go(self) -> None:
        """A segment was sealed: those before it, behind what is to stay in memory, are synced and need none."""
        if self._cached is None:
            return
        self._in_memory.append((self.folder / segment_name(self.segment), self._size))
        while sum(size for _, size in self._in_memory) > self._cached and len(self._in_memory) > 1:
            path, _ = self._in_memory.popleft()
            self.disk.let_go(path)

    @property
    def is_writing(self) -> bool:
        """Whether the current segment is open."""
        return self._file is not None

    def retired(self, first: int, end: Offset) -> None:
        """Retention removes what lies before this segment; `end` is behind the last block of that."""
        self._first_segment, self._removed = first, end
        self._describe(self.segment)

    # Ending

    def close(self) -> None:
        """Flush, sync, seal, and let another writer take the name."""
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
