# SPDX-License-Identifier: Apache-2.0
"""The rows of a block while they come: the bytes of batches one behind the other, as the block will have them.

A batch is copied once, by whoever received it and while it is still in the processor's caches, to where it is checked, followed
and written from. The memory is used again by the next block: every page of fresh memory is a fault, and together those cost
more than the copies. It begins at a page's beginning, as a disk wants it that is written directly.
"""

import mmap
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa

from zenlake.log.block import flags, numbers
from zenlake.log.layout import NOTE, ROWS
from zenlake.log.state import Face

__all__ = ["Rows"]

RECEIVED = ROWS.field("received").type
BATCH = 1 << 16  # bytes that no batch exceeds
MOST_ROWS = 1 << 16
MAX_FACES = 1 << 13  # in a block: bounds what the block can change
MOST_AT_FIRST = 16 << 20  # bytes of memory; those that nobody writes are not taken from the system


class Rows:
    """Batches and notes in the order of their coming. Not thread-safe."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._memory = memoryview(bytearray())
        self.clear()

    def clear(self) -> None:
        """The block is written: its memory is free for the next."""
        self.size = 0
        """Bytes of batches and notes."""
        self.notes = 0
        self.stepped = 0
        """Nanoseconds by which the clock stepped back before these rows: they begin a segment."""
        self.leaving: list[Face] = []
        """Faces that say no more behind these rows; without a row they stay until there is one."""
        self.times: list[int] = []
        self._known: list[Face | None] = []
        self._places: dict[int, int] = {}  # of those, by their identity
        self._faces: list[int] = []
        self._directions: list[int] = []
        self._ends: list[int] = [0]
        self._wire_sizes: list[int] = []
        self._compressed: list[bool] = []

    def __len__(self) -> int:
        return len(self.times)

    def add(
        self, received: int, face: Face | None, direction: int, data: bytes | memoryview, wire_size: int, compressed: bool
    ) -> bool:  # fmt: skip
        """One more; its bytes are copied. Whether the block is full now."""
        end = self.size + len(data)
        if end > len(self._memory):
            self._grow(end)
        self._memory[self.size : end] = data
        self.size = end
        self.times.append(received)
        place = self._places.get(id(face))
        self._faces.append(self._first_of(face) if place is None else place)
        self._directions.append(direction)
        self._ends.append(end)
        self._wire_sizes.append(wire_size)
        self._compressed.append(compressed)
        if direction == NOTE:
            self.notes += 1
        return end >= self._block_size or len(self.times) >= MOST_ROWS or len(self._known) >= MAX_FACES

    def _first_of(self, face: Face | None) -> int:
        place = self._places[id(face)] = len(self._known)
        self._known.append(face)
        return place

    def _grow(self, size: int) -> None:
        room = max(min(self._block_size, MOST_AT_FIRST) + BATCH, 1 << (size - 1).bit_length())
        fresh = mmap.mmap(-1, room, mmap.MAP_PRIVATE)
        # One fault, and one place in the processor's tables, for 2 MiB and not for each 4 KiB
        with suppress(OSError, AttributeError):
            fresh.madvise(mmap.MADV_HUGEPAGE)
        memory = memoryview(fresh)
        memory[: self.size] = self._memory[: self.size]
        self._memory = memory

    def put_in_order(self, last: int) -> int:
        """No row is older than the one before it, nor the first older than `last`. The time of the newest."""
        times = self.times
        for i, time in enumerate(times):
            if time < last:
                times[i] = last
            else:
                last = time
        return last

    def as_arrow(self, index: Callable[[Face], int]) -> pa.RecordBatch:
        """As a log has them, without a copy of the batches: it holds until the rows are cleared."""
        count = len(self.times)
        indices = [-1 if face is None else index(face) for face in self._known]
        faces = [indices[place] for place in self._faces] if len(indices) > 1 else indices * count
        ends = numbers(pa.int32(), self._ends)
        data = pa.py_buffer(self._memory[: self.size])
        columns = [
            numbers(RECEIVED, self.times),
            numbers(pa.int32(), faces),
            numbers(pa.int8(), self._directions),
            pa.Array.from_buffers(pa.binary(), count, [None, ends.buffers()[1], data]),
            numbers(pa.int32(), self._wire_sizes),
            flags(self._compressed),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=ROWS)
