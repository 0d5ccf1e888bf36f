# SPDX-License-Identifier: Apache-2.0
"""Builder of batches-schema rows, written directly into memory that Arrow will own.

Performance: the bytes of a batch are copied once, from the packet to the column. The memory of a record batch is
allocated in full in advance (untouched pages cost nothing), exported without a copy, and reused when it is released.
This module does not know about packets or sessions.
"""

import cython
import pyarrow as pa
import pyarrow.compute as pc
from cython.cimports.zenlake.columns.buffer_pool import Block, Pool
from cython.cimports.zenlake.columns.c_data_export import RecordBatchExport

from zenlake.core.batch_schema import BATCHES_SCHEMA

if cython.compiled:
    from cython.cimports.libc.string import memcpy, memset

TYPES = list(BATCHES_SCHEMA.types)
BATCH = cython.declare(cython.int, 3)  # the index of the column with offsets
BYTES = cython.declare(cython.int, 8)  # the index of the data buffer, after the columns' buffers


@cython.cclass
class BatchBuilder:
    """Create the builder. `pool` provides the memory; consecutive builders may share it."""

    def __init__(self, max_rows: int, max_bytes: int, max_held: int, pool: Pool | None = None) -> None:
        self.max_held = max_held
        self.max_rows = max(1, max_rows)
        self.max_bytes = min(max(1 << 16, max_bytes), (1 << 31) - 1)  # offsets of `binary` have 32 bits; a batch fits
        self.ready: list[pa.RecordBatch] = []  # finished record batches, oldest first
        self.ready_count = 0  # how many
        self.held = 0  # bytes that all streams together hold before they become rows
        self.count = 0
        self.pool = Pool() if pool is None else pool
        self.allocate()

    def collect(self):
        """Return the finished record batches."""
        ready, self.ready = self.ready, []
        self.ready_count = 0
        return ready

    def allocate(self):
        n: cython.Py_ssize_t = self.max_rows
        sizes = (8 * n, 4 * n, n, 4 * (n + 1), 4 * n, (n + 7) >> 3, 8 * n, 4 * n, self.max_bytes)
        self.memory = [self.pool.block(size) for size in sizes]
        if cython.compiled:
            self.received = cython.cast(cython.p_longlong, self.column_address(0))
            self.face = cython.cast(cython.p_int, self.column_address(1))
            self.direction = cython.cast(cython.p_schar, self.column_address(2))
            self.offset = cython.cast(cython.p_int, self.column_address(BATCH))
            self.wire_size = cython.cast(cython.p_int, self.column_address(4))
            self.compressed = self.column_address(5)
            self.packet = cython.cast(cython.p_longlong, self.column_address(6))
            self.file = cython.cast(cython.p_int, self.column_address(7))
            self.data = self.column_address(BYTES)
            memset(self.compressed, 0, (n + 7) >> 3)  # bits that are only set, never cleared
        else:
            views = [block.data.cast(c) for block, c in zip(self.memory, "qibiiBqiB", strict=True)]
            self.received, self.face, self.direction, self.offset, self.wire_size = views[:5]
            self.compressed, self.packet, self.file, self.data = views[5:]
            self.compressed[:] = bytes((n + 7) >> 3)
        self.offset[0] = 0
        self.count = 0
        self.used = 0
        self.unordered = False
        self.last_file = 0
        self.last_packet = 0
        return 0

    def column_address(self, i):
        block: Block = self.memory[i]
        return block.data

    def release(self):
        """Finish: no further rows are appended."""
        self.max_rows = self.max_bytes = 1
        self.allocate()

    def append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file):
        n: cython.Py_ssize_t = end - at
        if self.count == self.max_rows or self.used + n > self.max_bytes:
            with cython.gil:
                self.flush()
        i: cython.Py_ssize_t = self.count
        if cython.compiled:
            memcpy(self.data + self.used, p + at, n)
        else:
            self.data[self.used : self.used + n] = p[at:end]
        self.used += n
        self.offset[i + 1] = self.used
        self.received[i] = received
        self.face[i] = face
        self.direction[i] = direction
        self.wire_size[i] = wire_size
        self.packet[i] = packet
        self.file[i] = file
        if compressed:
            self.compressed[i >> 3] |= 1 << (i & 7)
        if file < self.last_file or (file == self.last_file and packet < self.last_packet):
            self.unordered = True
        self.last_file = file
        self.last_packet = packet
        self.count = i + 1
        return 0

    def flush(self):
        """Move the rows so far to `ready`."""
        n: cython.Py_ssize_t = self.count
        if n == 0:
            return 0
        export = RecordBatchExport(n, len(TYPES))
        for i, size in enumerate((8 * n, 4 * n, n, 4 * (n + 1), 4 * n, (n + 7) >> 3, 8 * n, 4 * n)):
            export.column(TYPES[i], 0)
            export.buffer(None, 0)  # all have a value
            export.buffer(self.column_buffer(i, size), size)
            if i == BATCH:
                export.buffer(self.column_buffer(BYTES, self.used), self.used)
        batch = export.record_batch(BATCHES_SCHEMA)
        if self.unordered:  # sort the rows of late flows (out of order, or recognised late) by time; the sort is stable
            place = pc.add(pc.shift_left(batch["file"].cast(pa.int64()), 40), batch["packet"])
            batch = batch.take(pc.array_sort_indices(place))
        self.ready.append(batch)
        self.ready_count += 1
        self.allocate()
        return 0

    def column_buffer(self, i, size):
        block: Block = self.memory[i]
        return block.trim(size)
