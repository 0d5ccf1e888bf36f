# SPDX-License-Identifier: Apache-2.0
"""Memory for columns that is written again when Arrow has dropped it.

Fresh memory costs a page fault for every 4 KiB, which was a quarter of the time of decoding. So a block that comes back is
kept for the next record batch: a stream runs in the memory of the few record batches that its consumer holds at a time.
"""

from itertools import cycle

import cython
import pyarrow as pa

if cython.compiled:
    from cython.cimports.zenlake.wire.memory import take
else:
    from zenlake.wire.memory import take

KEPT = cython.declare(cython.Py_ssize_t, 64 << 20)  # bytes that may wait to be used again
SKEWS = cycle(range(0, 4096, 320))  # places within a page, a few cache lines apart, in turn


class Block:
    """A piece of memory on loan: when nobody refers to it any more, the pool has it back.

    The collector does not know it: it is made in the middle of a row, where nobody's code may run.
    """

    def __init__(self, pool, memory, size):
        self.pool = pool
        self.memory = memory
        self.size = size
        self.address = memory.address + memory.size - size
        if cython.compiled:
            self.data = cython.cast(cython.p_uchar, cython.cast(cython.size_t, self.address))
        else:
            self.data = memoryview(memory).cast("B")[memory.size - size :]

    def part(self, size):
        """What holds its first bytes for as long as Arrow needs them: the block, or a copy if that would hold too much."""
        if 4 * size < self.size:
            return take(self.data, 0, size)
        return self

    def __del__(self):
        self.pool.keep(self.memory, self.size)


class Pool:
    """Lends blocks. What comes back is kept, up to KEPT bytes."""

    def __init__(self):
        self.free = {}
        self.kept = 0
        self.nothing = b""

    def zeros(self, size):
        """So many of them, or more; all who ask share them."""
        if len(self.nothing) < size:
            self.nothing = bytes(size)
        return self.nothing

    def block(self, size):
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

    def keep(self, memory, size):
        if self.kept + size <= KEPT:
            self.kept += size
            self.free.setdefault(size, []).append(memory)
