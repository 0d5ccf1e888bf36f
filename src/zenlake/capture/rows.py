# SPDX-License-Identifier: Apache-2.0
"""Rows of the batches schema, written straight into the memory that Arrow will own.

A batch's bytes are copied once, from the packet to the column. The memory of a record batch is set aside in full
beforehand (untouched pages cost nothing), handed over without a copy, and used again when it comes back. Knows nothing
of packets or sessions.
"""

import cython
import pyarrow as pa
import pyarrow.compute as pc

from zenlake.batches import BATCHES_SCHEMA

if cython.compiled:
    from cython.cimports.libc.string import memcpy


KEPT = 32 << 20  # bytes that wait to be used again


class Loan:
    """The memory of one record batch, while somebody refers to it."""

    def __init__(self, buffers: list[pa.Buffer], back: list[list[pa.Buffer]]) -> None:
        self.buffers = buffers
        self._back = back

    def __del__(self) -> None:
        if (len(self._back) + 1) * sum(buffer.size for buffer in self.buffers) <= KEPT:
            self._back.append(self.buffers)


def address(buffer):
    """Where a buffer lies, for compiled code."""
    where: cython.size_t = buffer.address
    return cython.cast(cython.p_void, where)


@cython.cclass
class Rows:
    """`back`: memory that was dropped, to be used again; whoever makes one after the other may hand it on."""

    def __init__(
        self, most_rows: int, most_bytes: int, most_held: int, back: list[list[pa.Buffer]] | None = None
    ) -> None:
        self.most_held = most_held
        self.most_rows = max(1, most_rows)
        self.most_bytes = min(max(1 << 16, most_bytes), (1 << 31) - 1)  # offsets of `binary` are 32 bits; a batch fits
        self.ready: list[pa.RecordBatch] = []  # finished record batches, oldest first
        self.finished = 0  # how many
        self.held = 0  # bytes that streams hold back until they can become rows, all together
        self.count = 0
        self.back = [] if back is None else back
        self.renew()

    def collect(self):
        """The record batches that are finished."""
        ready, self.ready = self.ready, []
        self.finished = 0
        return ready

    def renew(self):
        n: cython.Py_ssize_t = self.most_rows
        sizes = (8 * n, 4 * n, n, 4 * (n + 1), 4 * n, (n + 7) >> 3, 8 * n, 4 * n, self.most_bytes)
        self.memory = self.back.pop() if self.back else [pa.allocate_buffer(size) for size in sizes]
        self.loan = Loan(self.memory, self.back)
        memoryview(self.memory[5]).cast("B")[:] = bytes(sizes[5])  # bits that are only ever set
        if cython.compiled:
            self.received = cython.cast(cython.p_longlong, address(self.memory[0]))
            self.face = cython.cast(cython.p_int, address(self.memory[1]))
            self.direction = cython.cast(cython.p_schar, address(self.memory[2]))
            self.offset = cython.cast(cython.p_int, address(self.memory[3]))
            self.wire_size = cython.cast(cython.p_int, address(self.memory[4]))
            self.compressed = cython.cast(cython.p_uchar, address(self.memory[5]))
            self.packet = cython.cast(cython.p_longlong, address(self.memory[6]))
            self.file = cython.cast(cython.p_int, address(self.memory[7]))
            self.data = cython.cast(cython.p_uchar, address(self.memory[8]))
        else:
            views = [memoryview(m).cast("B").cast(c) for m, c in zip(self.memory, "qibiiBqiB", strict=True)]
            self.received, self.face, self.direction, self.offset, self.wire_size = views[:5]
            self.compressed, self.packet, self.file, self.data = views[5:]
        self.offset[0] = 0
        self.count = 0
        self.used = 0
        self.unordered = False
        self.last_file = 0
        self.last_packet = 0
        return 0

    def release(self):
        """There will be no further row."""
        self.most_rows = self.most_bytes = 1
        self.back = []
        self.renew()

    def append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file):
        n: cython.Py_ssize_t = end - at
        if self.count == self.most_rows or self.used + n > self.most_bytes:
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
        """Hands the rows so far over to `ready`."""
        n: cython.Py_ssize_t = self.count
        if n == 0:
            return 0
        sizes = (8 * n, 4 * n, n, 4 * (n + 1), 4 * n, (n + 7) >> 3, 8 * n, 4 * n, self.used)
        parts = [pa.foreign_buffer(m.address, size, self.loan) for m, size in zip(self.memory, sizes, strict=True)]
        received, face, direction, offset, wire_size, compressed, packet, file, data = parts
        layout = [[received], [face], [direction], [offset, data], [wire_size], [compressed], [packet], [file]]
        arrays = [
            pa.Array.from_buffers(field.type, n, [None, *parts], null_count=0)
            for field, parts in zip(BATCHES_SCHEMA, layout, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(arrays, schema=BATCHES_SCHEMA)
        if (
            self.unordered
        ):  # a flow told late (out of order, or recognised late) goes back to its place; ties keep theirs
            place = pc.add(pc.shift_left(batch["file"].cast(pa.int64()), 40), batch["packet"])
            batch = batch.take(pc.array_sort_indices(place))
        self.ready.append(batch)
        self.finished += 1
        self.renew()
        return 0
