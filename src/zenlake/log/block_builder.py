# SPDX-License-Identifier: Apache-2.0
"""Rows of the next block: the bytes of its batches, contiguous, in the layout of the block.

Performance: a batch is copied once, by the thread that received it, while it is in the CPU caches. It is verified, tracked and
written from there. The next block reuses the memory: page faults of fresh memory cost more than the copies. The memory is
page-aligned, as direct writes require.
"""

import mmap
from collections.abc import Callable
from contextlib import suppress

import pyarrow as pa

from zenlake.log.block import flags, numbers
from zenlake.log.layout import NOTE, ROWS
from zenlake.log.session_state import LogFace

__all__ = ["BlockBuilder"]

RECEIVED = ROWS.field("received").type
BATCH = 1 << 16  # maximum bytes of a batch
MAX_ROWS = 1 << 16
MAX_FACES = 1 << 13  # per block: bounds the changes of the block
MAX_INITIAL_BYTES = 16 << 20  # bytes of memory; untouched pages are not allocated by the system


class BlockBuilder:
    """Batches and notes in the order of arrival. Not thread-safe."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._memory = memoryview(bytearray())
        self.clear()

    def clear(self) -> None:
        """Release the rows after the block is written. The next block reuses their memory."""
        self.size = 0
        """Bytes of batches and notes."""
        self.notes = 0
        self.stepped = 0
        """Nanoseconds by which the clock stepped back before these rows. A step begins a new segment."""
        self.leaving: list[LogFace] = []
        """Faces that end after these rows. Without a row, they are kept until there is one."""
        self.times: list[int] = []
        self._known: list[LogFace | None] = []
        self._places: dict[int, int] = {}  # face numbers by identity
        self._faces: list[int] = []
        self._directions: list[int] = []
        self._ends: list[int] = [0]
        self._wire_sizes: list[int] = []
        self._compressed: list[bool] = []

    def __len__(self) -> int:
        return len(self.times)

    def add(
        self, received: int, face: LogFace | None, direction: int, data: bytes | memoryview, wire_size: int, compressed: bool
    ) -> bool:  # fmt: skip
        """Add a batch or note, copying its bytes. Return whether the block is full."""
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
        return end >= self._block_size or len(self.times) >= MAX_ROWS or len(self._known) >= MAX_FACES

    def _first_of(self, face: LogFace | None) -> int:
        place = self._places[id(face)] = len(self._known)
        self._known.append(face)
        return place

    def _grow(self, size: int) -> None:
        room = max(min(self._block_size, MAX_INITIAL_BYTES) + BATCH, 1 << (size - 1).bit_length())
        fresh = mmap.mmap(-1, room, mmap.MAP_PRIVATE)
        # Performance: one page fault and one TLB entry for 2 MiB instead of 4 KiB
        with suppress(OSError, AttributeError):
            fresh.madvise(mmap.MADV_HUGEPAGE)
        memory = memoryview(fresh)
        memory[: self.size] = self._memory[: self.size]
        self._memory = memory

    def put_in_order(self, last: int) -> int:
        """Make the received times monotonic, starting from `last`. Return the latest time."""
        times = self.times
        for i, time in enumerate(times):
            if time < last:
                times[i] = last
            else:
                last = time
        return last

    def as_arrow(self, index: Callable[[LogFace], int]) -> pa.RecordBatch:
        """Return the rows as a record batch, without a copy of the batches. Safety: valid until the rows are cleared."""
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
