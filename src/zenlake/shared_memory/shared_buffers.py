# SPDX-License-Identifier: Apache-2.0
"""Metadata segments and data segments that this process has open, and the buffers in them.

A reference on the wire names a slot of a metadata segment. The slot has the place of the bytes, the number of handles
(`refcount`), and whether the owner has invalidated the buffer. All checks of a reference are here.

    slot:   0 refcount u32 | 4 invalidated u8 | 8 generation u32 | 12 protocol u32 | 16 segment u32 | 20 offset u32 | 24 length u64

Threading: any thread may release a buffer, and so may the garbage collector. The words of a slot are atomic. A reentrant lock
guards the tables of this module.
"""

import atexit
import os
import threading
import time
import weakref
from typing import Final

from zenlake.shared_memory.atomics import CopyPool, SlotTable, Watchdog
from zenlake.shared_memory.segment import SegmentError, SharedSegment
from zenlake.transport.references import Reference

__all__ = [
    "METADATA_SIZE", "SLOTS", "DataSegment", "MetadataSegment", "SharedBuffer", "copies", "forget_idle", "mount",
]  # fmt: skip

SLOTS: Final = 32768
SLOT_SIZE: Final = 32
METADATA_SIZE: Final = 1310720
REFCOUNT, INVALIDATED, GENERATION, PROTOCOL, SEGMENT, OFFSET, LENGTH = 0, 4, 8, 12, 16, 20, 24
POSIX: Final = 0
MINUS_ONE: Final = 0xFFFFFFFF
IDLE = 5.0
"""Seconds without a reference after which a segment of another process is closed."""

copies = CopyPool()


class _Process:
    """The open segments of this process."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.watchdog: Watchdog | None = None
        self.tables = 0
        self.metadata: dict[int, MetadataSegment] = {}
        self.data: dict[int, DataSegment] = {}
        self.segments: weakref.WeakSet[MetadataSegment | DataSegment] = weakref.WeakSet()
        """All open segments, including those that only a handle keeps open."""
        self.generation = 0
        """Changes in a forked child, so that handles of the parent have no effect there."""

    def acquire_table(self) -> Watchdog:
        """Count a table that needs the watchdog thread, and start the thread if it is the first."""
        with self.lock:
            if self.watchdog is None:
                self.watchdog = Watchdog()
            self.tables += 1
            if self.tables == 1:
                threading.Thread(target=self.watchdog.run, name="zenlake-watchdog", daemon=True).start()
            return self.watchdog

    def release_table(self) -> None:
        """Count a closed table. Stop the thread after the last one."""
        with self.lock:
            self.tables -= 1
            if not self.tables and self.watchdog is not None:
                self.watchdog.stop()


process = _Process()
_parents: list[object] = []


def _reset_after_fork() -> None:
    """Forget the segments of the parent in a child, because the child does not own its handles and locks."""
    global process
    old = process
    for metadata in old.metadata.values():
        metadata.segment.abandon()
    for data in old.data.values():
        data.segment.abandon()
    process = _Process()
    process.generation = old.generation + 1
    _parents.append(old)  # keep it, so that it is never finalised here


os.register_at_fork(after_in_child=_reset_after_fork)


@atexit.register
def _close_all() -> None:
    """Close the segments that handles keep open, because at exit modules end before the objects of the application."""
    for each in list(process.segments):
        each.close()


class MetadataSegment:
    """An open metadata segment of this or another process."""

    def __init__(self, segment: SharedSegment) -> None:
        self.segment = segment
        self.id = segment.id
        self.used = time.monotonic()
        self.generation = process.generation
        self.is_own = False
        self.lost: dict[int, int] = {}
        """For a segment of this process: the number of references by slot that a closed link may not have handed over."""
        self.words: SlotTable | None = SlotTable(segment.map(), process.acquire_table())
        process.segments.add(self)

    @property
    def table(self) -> SlotTable:
        """The slots."""
        assert self.words is not None
        return self.words

    def close(self) -> None:
        if self.words is not None and self.generation == process.generation:
            self.words.close()
            self.words = None
            process.release_table()
            self.segment.close()

    __del__ = close


class DataSegment:
    """An open data segment of this or another process."""

    def __init__(self, segment: SharedSegment) -> None:
        segment.map()
        self.segment = segment
        self.used = time.monotonic()
        self.generation = process.generation
        process.segments.add(self)

    def close(self) -> None:
        if self.segment.fd >= 0 and self.generation == process.generation:
            self.segment.close()

    __del__ = close


class SharedBuffer:
    """A handle to one buffer: it confirms the buffer and owns one count of its refcount, until `release`."""

    __slots__ = ("_is_released", "at", "data", "generation", "index", "metadata", "size")

    def __init__(
        self, metadata: MetadataSegment, index: int, generation: int, data: DataSegment, at: int, size: int
    ) -> None:
        self.metadata = metadata
        self.index = index
        self.generation = generation
        self.data = data
        self.at = at
        self.size = size
        self._is_released = False

    @property
    def reference(self) -> Reference:
        """The reference that names this buffer on the wire."""
        return Reference(self.size, self.metadata.id, self.index, self.generation)

    def is_valid(self) -> bool:
        """Return whether the owner still keeps the bytes for this handle."""
        words, slot = self.metadata.words, SLOT_SIZE * self.index
        return (
            words is not None
            and not self._is_released
            and not words.load8(slot + INVALIDATED)
            and words.load32(slot + GENERATION) == self.generation
        )

    def copy(self) -> bytes | None:
        """Return a copy of the bytes, or None if the owner has invalidated the buffer or truncated the file."""
        data, view = copies.allocate(self.size)
        return data if self.copy_into(view) else None

    def copy_into(self, buffer: memoryview) -> bool:
        """Copy the bytes. Return False if the owner has invalidated the buffer or truncated the file."""
        return self.data.segment.read_into(buffer, self.at) and self.is_valid()

    def view(self) -> memoryview:
        """Return a view of the bytes, without a copy.

        Safety: the owner can change the bytes. Bytes of a truncated file are zeros.
        """
        return memoryview(self.data.segment.map())[self.at : self.at + self.size].toreadonly()

    def keep(self) -> None:
        """Confirm the buffer once more. `end_keep` ends it."""
        self.metadata.table.hold(self.index)

    def end_keep(self) -> None:
        words = self.metadata.words
        if words is not None:
            words.let_go(self.index)

    def add_reference(self) -> None:
        """Raise the refcount for another holder."""
        self.metadata.table.add32(SLOT_SIZE * self.index + REFCOUNT, 1)

    def drop_reference(self) -> None:
        """Lower the refcount for another holder that will never exist."""
        self.metadata.table.add32(SLOT_SIZE * self.index + REFCOUNT, MINUS_ONE)

    def release(self) -> None:
        """Release the handle. Repeated calls have no effect."""
        if self._is_released:
            return
        self._is_released = True
        words = self.metadata.words
        if words is not None and self.metadata.generation == process.generation:
            # A slot that its owner has reused has the count of another buffer.
            if words.load32(SLOT_SIZE * self.index + GENERATION) == self.generation:
                words.add32(SLOT_SIZE * self.index + REFCOUNT, MINUS_ONE)
            words.let_go(self.index)

    __del__ = release


def mount(reference: Reference) -> SharedBuffer:
    """Take over a received reference.

    Raises:
        SegmentError: The reference does not name valid bytes.
    """
    metadata = _metadata(reference.metadata)
    index, table = reference.slot, metadata.table
    if index >= SLOTS:
        raise SegmentError(f"slot {index} does not exist")
    slot = SLOT_SIZE * index
    table.hold(index)
    try:
        # Safety: each word is read once. The partner may change it at any time.
        protocol, segment = table.load32(slot + PROTOCOL), table.load32(slot + SEGMENT)
        at, length = table.load32(slot + OFFSET), table.load64(slot + LENGTH)
        if protocol != POSIX:
            raise SegmentError(f"unknown protocol {protocol}")
        data = _data(segment)
        if reference.size > length or at + reference.size > data.segment.size:
            raise SegmentError(f"{reference.size} bytes at {at} exceed the buffer or its segment")
        if table.load8(slot + INVALIDATED):
            raise SegmentError("the owner has released the buffer")
        if table.load32(slot + GENERATION) != reference.generation:
            raise SegmentError("the slot is used by another buffer")
    except BaseException:
        if table.load32(slot + GENERATION) == reference.generation and table.load32(slot + REFCOUNT):
            table.add32(slot + REFCOUNT, MINUS_ONE)
        table.let_go(index)
        raise
    return SharedBuffer(metadata, index, reference.generation, data, at, reference.size)


def _metadata(id: int) -> MetadataSegment:
    with process.lock:
        found = process.metadata.get(id)
        if found is None:
            forget_idle(time.monotonic() - IDLE)
            found = process.metadata[id] = MetadataSegment(SharedSegment.open(id, METADATA_SIZE))
        found.used = time.monotonic()
        return found


def _data(id: int) -> DataSegment:
    with process.lock:
        found = process.data.get(id)
        if found is None:
            found = process.data[id] = DataSegment(SharedSegment.open(id))
        found.used = time.monotonic()
        return found


def forget_idle(before: float) -> None:
    """Close the segments of other processes that were last used before this time. Handles keep theirs open."""
    with process.lock:
        for table in (process.metadata, process.data):
            for id in [id for id, each in table.items() if each.used <= before]:
                del table[id]
