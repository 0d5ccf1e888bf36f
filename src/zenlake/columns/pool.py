# SPDX-License-Identifier: Apache-2.0
"""Memory for columns that is written again when Arrow has dropped it.

Fresh memory costs a page fault for every 4 KiB, which was a quarter of the time of decoding. So a block that comes back is
kept for the next record batch: a stream runs in the memory of the few record batches that its consumer holds at a time.
"""

from collections.abc import Iterator

import pyarrow as pa

KEPT = 64 << 20  # bytes that may wait to be used again


def _skews() -> Iterator[int]:
    """Places within a page, a few cache lines apart, in turn."""
    while True:
        yield from range(0, 4096, 320)


SKEWS = _skews()


class Block:
    """A piece of memory on loan: when nobody refers to it any more, the pool has it back."""

    __slots__ = ("memory", "pool", "size", "view")

    def __init__(self, pool: "Pool", memory: pa.Buffer, size: int) -> None:
        self.pool = pool
        self.memory = memory
        self.size = size
        self.view = memoryview(memory).cast("B")[memory.size - size :]

    def part(self, size: int) -> pa.Buffer:
        """Its first bytes for Arrow, which keeps the block for as long as it needs them; a copy if that would hold too much."""
        if 2 * size < self.size:
            return pa.py_buffer(self.view[:size].tobytes())
        return pa.foreign_buffer(self.memory.address + self.memory.size - self.size, size, self)

    def __del__(self) -> None:
        self.pool.keep(self.memory, self.size)


class Pool:
    """Lends blocks. What comes back is kept, up to KEPT bytes."""

    def __init__(self) -> None:
        self.free: dict[int, list[pa.Buffer]] = {}
        self.kept = 0

    def block(self, size: int) -> Block:
        """Memory of that size; what it holds is not defined.

        Large blocks begin on a page. Were all columns to begin there, the same row of each would fall into the same few lines of
        the cache and push the others out: so each begins elsewhere in its page.
        """
        size = max(size, 1)
        free = self.free.get(size)
        if free:
            self.kept -= size
            return Block(self, free.pop(), size)
        return Block(self, pa.allocate_buffer(size + next(SKEWS)), size)

    def keep(self, memory: pa.Buffer, size: int) -> None:
        if self.kept + size <= KEPT:
            self.kept += size
            self.free.setdefault(size, []).append(memory)
