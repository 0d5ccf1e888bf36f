# SPDX-License-Identifier: Apache-2.0
"""Buffers of this process that other nodes can map: a data segment with an allocator, and slots that describe its buffers.

A buffer is in use until its refcount is 0: this process holds one count for its handle, and each receiver one more.
Bytes are written with `pwrite`, so a full filesystem is an error instead of a signal.
"""

import atexit
import bisect
import os
import threading
import weakref
from collections import deque
from typing import Final

from zenlake.shared_memory.segment import SharedSegment, remove_orphans
from zenlake.shared_memory.shared_buffers import (
    GENERATION,
    INVALIDATED,
    LENGTH,
    METADATA_SIZE,
    OFFSET,
    POSIX,
    PROTOCOL,
    REFCOUNT,
    SEGMENT,
    SLOT_SIZE,
    SLOTS,
    DataSegment,
    MetadataSegment,
    SharedBuffer,
    process,
)

__all__ = ["Allocator", "BufferPool"]

UNIT: Final = 8
"""Bytes. Offset and size of a chunk are multiples of this, as in eclipse-zenoh."""


class Allocator:
    """Free chunks of a range of bytes. Allocation is first fit, and adjacent free chunks are merged."""

    def __init__(self, size: int) -> None:
        self._free = [(0, size // UNIT * UNIT)]

    @property
    def available(self) -> int:
        return sum(room for _, room in self._free)

    def allocate(self, size: int, alignment: int = UNIT) -> int | None:
        """Allocate a chunk and return its offset, or None if no free chunk is large enough."""
        size = -(-size // UNIT) * UNIT
        alignment = max(alignment, UNIT)
        for i, (at, room) in enumerate(self._free):
            start = -(-at // alignment) * alignment
            end = at + room
            if start + size <= end:
                rest = [(start + size, end - start - size)] if start + size < end else []
                self._free[i : i + 1] = ([(at, start - at)] if start > at else []) + rest
                return start
        return None

    def free(self, at: int, size: int) -> None:
        """Free a chunk."""
        size = -(-size // UNIT) * UNIT
        i = bisect.bisect(self._free, (at, size))
        if i < len(self._free) and at + size == self._free[i][0]:
            size += self._free.pop(i)[1]
        if i and sum(self._free[i - 1]) == at:
            i -= 1
            at, size = self._free[i][0], self._free[i][1] + size
            self._free[i] = at, size
        else:
            self._free.insert(i, (at, size))


class _OwnSlots:
    """Slots of this process, in as many metadata segments as it needs.

    Slots that were never used are taken first, then the slot that was freed longest ago.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.unused = 0
        """Slots of the last segment that were never taken."""
        self.free: deque[tuple[MetadataSegment, int]] = deque()
        self.segments: list[MetadataSegment] = []
        self.pools: weakref.WeakSet[BufferPool] = weakref.WeakSet()

    def take(self) -> tuple[MetadataSegment, int]:
        with self.lock:
            if not self.unused and self.free:
                return self.free.popleft()
            if not self.unused:
                if not self.segments:
                    remove_orphans()
                segment = MetadataSegment(SharedSegment.create(16, METADATA_SIZE, reserve=True))
                segment.is_own = True
                self.segments.append(segment)
                self.unused = SLOTS
            self.unused -= 1
            return self.segments[-1], SLOTS - 1 - self.unused

    def give(self, metadata: MetadataSegment, index: int) -> None:
        with self.lock:
            self.free.append((metadata, index))

    def close_if_unused(self) -> None:
        """Close the metadata segments after the last pool."""
        with self.lock:
            if self.segments and not any(pool.is_open for pool in self.pools):
                segments, self.segments = self.segments, []
                self.free.clear()
                self.unused = 0
                for segment in segments:
                    segment.close()


_own = _OwnSlots()


def _reset_after_fork() -> None:
    global _own
    old, _own = _own, _OwnSlots()
    for segment in old.segments:
        segment.segment.abandon()
    for pool in old.pools:
        pool.data.segment.abandon()


os.register_at_fork(after_in_child=_reset_after_fork)


@atexit.register
def _close_all() -> None:
    """Close the pools that the application has left open, so that their files are removed."""
    for pool in list(_own.pools):
        pool.close()


class BufferPool:
    """A data segment of this process, and the buffers in it."""

    def __init__(self, size: int) -> None:
        """Create the segment.

        Raises:
            OSError: The folder is missing, full or not writable.
        """
        self.size = size
        self.lock = threading.RLock()
        self.generation = process.generation
        self.is_open = False
        with _own.lock:
            try:
                _own.give(*_own.take())  # creates the first metadata segment if necessary, which may fail too
                self.data = DataSegment(SharedSegment.create(32, size))
            except OSError:
                _own.close_if_unused()
                raise
            self.is_open = True
            _own.pools.add(self)
        self._allocator = Allocator(size)
        self._live: dict[tuple[MetadataSegment, int], tuple[int, int]] = {}

    @property
    def available(self) -> int:
        """Free bytes, in one piece or several."""
        with self.lock:
            return self._allocator.available

    def allocate(self, size: int, alignment: int = UNIT) -> SharedBuffer | None:
        """Return a new buffer, or None if there is no room. Its bytes may be those of an earlier buffer."""
        with self.lock:
            at = self._allocator.allocate(size, alignment) if self.is_open else None
            if at is None:
                return None
            try:
                metadata, index = _own.take()
            except OSError:
                self._allocator.free(at, size)
                return None
            table, slot = metadata.table, SLOT_SIZE * index
            generation = table.load32(slot + GENERATION)
            table.store32(slot + REFCOUNT, 1)
            table.store8(slot + INVALIDATED, 0)
            table.store32(slot + SEGMENT, self.data.segment.id)
            table.store32(slot + OFFSET, at)
            table.store64(slot + LENGTH, size)
            table.store32(slot + PROTOCOL, POSIX)
            metadata.lost.pop(index, None)
            table.hold(index)
            table.own(index)
            self._live[metadata, index] = at, size
            return SharedBuffer(metadata, index, generation, self.data, at, size)

    def collect(self, safe: bool = True) -> int:
        """Free the unused buffers. Return the size of the largest one.

        A safe collection also frees an unconfirmed buffer if closed links have lost all its remaining references. An unsafe one
        frees every buffer that no holder confirms.
        """
        largest = 0
        with self.lock:
            for (metadata, index), (at, size) in list(self._live.items()):
                table, slot = metadata.table, SLOT_SIZE * index
                count = table.load32(slot + REFCOUNT)
                is_unused = bool(table.load8(slot + INVALIDATED)) and (not safe or count <= metadata.lost.get(index, 0))
                if count == 0 or is_unused:
                    self._end(metadata, index, at, size)
                    largest = max(largest, size)
        return largest

    def deallocate(self, limit: int) -> int:
        """Free up to `limit` of the oldest buffers although they are in use. Return the size of the largest one."""
        largest = 0
        with self.lock:
            for (metadata, index), (at, size) in list(self._live.items())[:limit]:
                self._end(metadata, index, at, size)
                largest = max(largest, size)
        return largest

    def _end(self, metadata: MetadataSegment, index: int, at: int, size: int) -> None:
        del self._live[metadata, index]
        table, slot = metadata.table, SLOT_SIZE * index
        table.disown(index)
        table.add32(slot + GENERATION, 1)
        self._allocator.free(at, size)
        _own.give(metadata, index)

    def close(self) -> None:
        """Invalidate all buffers and close the segment. Processes that have mapped the bytes keep their mapping."""
        with self.lock:
            if not self.is_open or self.generation != process.generation:
                return
            self.is_open = False
            for (metadata, index), (at, size) in list(self._live.items()):
                self._end(metadata, index, at, size)
        self.data.close()
        _own.close_if_unused()

    __del__ = close
