# SPDX-License-Identifier: Apache-2.0
"""Memory pool for columns: memory is reused after Arrow has released it.

Fresh memory costs a page fault per 4 KiB, which was a quarter of the decoding time. A released block is kept for the
next record batch. A stream therefore needs memory for the record batches that its consumer holds.
"""

from itertools import cycle

import cython
import pyarrow as pa
from cython.cimports.zenlake.wire.raw_memory import take

MAX_FREE_BYTES = cython.declare(cython.Py_ssize_t, 64 << 20)  # maximum bytes of unused blocks
PAGE_OFFSETS = cycle(range(0, 4096, 320))  # start offsets within a page, a few cache lines apart, in turn


class Block:
    """A block of memory. It returns to the pool with its last reference.

    It is exempt from garbage collection, because it is created within a row, where no finalizer may run.
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

    def trim(self, size):
        """Return the owner of its first bytes: the block, or a copy if the block is much larger."""
        if 4 * size < self.size:
            return take(self.data, 0, size)
        return self

    def __del__(self):
        self.pool.recycle(self.memory, self.size)


class Pool:
    """Pool of blocks. Released blocks are kept, up to MAX_FREE_BYTES."""

    def __init__(self):
        self.free = {}
        self.free_bytes = 0
        self.zero_bytes = b""

    def zeros(self, size):
        """Return shared zero bytes, at least this number."""
        if len(self.zero_bytes) < size:
            self.zero_bytes = bytes(size)
        return self.zero_bytes

    def block(self, size):
        """Return a block of uninitialised memory.

        Performance: large blocks start on a page. If all columns did so, the same row of each would map to the same
        cache lines. Each block therefore starts at another offset in its page.
        """
        size = max(size, 1)
        free = self.free.get(size)
        if free:
            self.free_bytes -= size
            return Block(self, free.pop(), size)
        return Block(self, pa.allocate_buffer(size + next(PAGE_OFFSETS)), size)

    def recycle(self, memory, size):
        if self.free_bytes + size <= MAX_FREE_BYTES:
            self.free_bytes += size
            self.free.setdefault(size, []).append(memory)
