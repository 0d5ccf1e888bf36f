# SPDX-License-Identifier: Apache-2.0
"""Export of a record batch through the Arrow C Data Interface, in one piece.

Built from arrays and buffers, a batch of thirty columns needs some hundred Python objects, with the GIL held. The C
Data Interface takes the addresses of all buffers at once and without the GIL. It releases them when the last reference
is gone.

A reference to one column keeps the whole piece in memory. Large columns are therefore exported separately.
"""

# ruff: noqa: F821  (the .pxd declares the C structs)

import cython
import pyarrow as pa
from cython.cimports.zenlake.columns.buffer_pool import Block

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING
    from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF, PyObject
    from cython.cimports.libc.stdlib import calloc, free

MAX_BUFFERS = cython.declare(cython.int, 3)  # buffers of a column: bitmap, offsets, bytes


class RecordBatchExport:
    """Export of columns: first each column with its buffers, in the order of the schema, then `record_batch`, once."""

    def __init__(self, rows, columns):
        self.rows = rows
        self.count = 0
        self.owners = []
        if cython.compiled:
            self.exported = cython.NULL
            self.allocate(columns)
        else:
            self.types = []
            self.parts = []

    def __dealloc__(self):
        if cython.compiled:
            free(self.exported)  # if it was not exported

    def allocate(self, columns):
        each: cython.size_t = cython.sizeof(ArrowArray) + (1 + MAX_BUFFERS) * cython.sizeof(cython.p_void)
        self.exported = cython.cast(
            cython.pointer(ExportedBuffers), calloc(1, cython.sizeof(ExportedBuffers) + columns * each)
        )
        if self.exported == cython.NULL:
            raise MemoryError
        self.exported.columns = cython.cast(cython.pointer(ArrowArray), self.exported + 1)
        self.exported.children = cython.cast(
            cython.pointer(cython.pointer(ArrowArray)), self.exported.columns + columns
        )
        self.exported.buffers = cython.cast(cython.pointer(cython.p_const_void), self.exported.children + columns)
        return 0

    def column(self, type_, nulls):
        """Add the next column. Its buffers follow. `nulls` is their number, or -1 if unknown."""
        self.count += 1
        if not cython.compiled:
            self.types.append((type_, nulls))
            self.parts.append([])
            return 0
        each: cython.pointer(ArrowArray) = self.exported.columns + self.count - 1
        each.length = self.rows
        each.null_count = nulls
        each.buffers = self.exported.buffers + (self.count - 1) * MAX_BUFFERS
        each.release = release_column
        self.exported.children[self.count - 1] = each
        return 0

    def buffer(self, owner, size):
        """Add the next buffer of the last column: the first bytes of a block or of bytes, or None."""
        if not cython.compiled:
            if isinstance(owner, Block):
                owner = pa.foreign_buffer(owner.address, size, owner)
            elif owner is not None:
                owner = pa.py_buffer(owner).slice(0, size)
            self.parts[-1].append(owner)
            return 0
        each: cython.pointer(ArrowArray) = self.exported.columns + self.count - 1
        if isinstance(owner, Block):
            block: Block = owner
            each.buffers[each.n_buffers] = block.data
        elif isinstance(owner, bytes):
            each.buffers[each.n_buffers] = PyBytes_AS_STRING(owner)
        elif isinstance(owner, bytearray):
            each.buffers[each.n_buffers] = PyByteArray_AS_STRING(owner)
        each.n_buffers += 1
        self.owners.append(owner)
        return 0

    def record_batch(self, schema):
        if not cython.compiled:
            arrays = [
                pa.Array.from_buffers(type_, self.rows, parts, null_count=nulls)
                for (type_, nulls), parts in zip(self.types, self.parts, strict=True)
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)
        exported: cython.pointer(ExportedBuffers) = self.exported
        batch: cython.pointer(ArrowArray) = cython.address(exported.batch)
        batch.length = self.rows
        batch.n_buffers = 1  # all rows
        batch.buffers = cython.address(exported.no_buffer)
        batch.n_children = self.count
        batch.children = exported.children
        batch.release = release_batch
        batch.private_data = exported
        exported.owners = cython.cast(cython.pointer(PyObject), self.owners)
        Py_INCREF(self.owners)
        self.exported = cython.NULL  # owned by Arrow, also if it raises
        return pa.RecordBatch._import_from_c(cython.cast(cython.size_t, batch), schema)


def release_batch(batch):
    """Release callback. Arrow has moved the structure, but not the columns."""
    i: cython.Py_ssize_t
    exported: cython.pointer(ExportedBuffers) = cython.cast(cython.pointer(ExportedBuffers), batch.private_data)
    for i in range(batch.n_children):
        if batch.children[i].release != cython.NULL:
            batch.children[i].release(batch.children[i])
    batch.release = cython.NULL
    if Py_IsInitialized():  # otherwise the process is exiting
        with cython.gil:
            owners: object = cython.cast(object, exported.owners)
            Py_DECREF(owners)
    free(exported)


def release_column(each):
    each.release = cython.NULL
