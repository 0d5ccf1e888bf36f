# SPDX-License-Identifier: Apache-2.0
"""Arrow columns while they grow: written row by row without the GIL, handed to Arrow without a copy.

A column that nobody asked for is `off`: writing to it does nothing. A row that was not written is null. Rows are written in
order; a column may skip some.
"""

import cython
import pyarrow as pa

if cython.compiled:
    from cython.cimports.zenlake.wire.memory import copy
else:
    from zenlake.wire.memory import copy


def skews():
    """Places within a page, a few cache lines apart, in turn."""
    while True:
        yield from range(0, 4096, 320)


SKEWS = skews()


def allocated(size):
    """Memory from Arrow's pool, which soon gets it back when a record batch is dropped. Not zeroed.

    Large blocks begin on a page. Were all columns to begin there, the same row of each would fall into the same few lines of the
    cache and push the others out: so each begins elsewhere in its page.
    """
    skew = next(SKEWS)
    whole = pa.allocate_buffer(max(size, 1) + skew)
    return whole.slice(skew), memoryview(whole).cast("B")[skew:]


def fitted(buffer, size):
    """The used part of a buffer; a copy where most of it would be held for nothing."""
    return buffer.slice(0, size) if 2 * size >= buffer.size else pa.py_buffer(memoryview(buffer)[:size].tobytes())


class Column:
    """What all columns share: which rows have a value.

    Most columns have one in every row, so the first `dense` rows need no mark; after the first row without a value each row
    that has one is marked by a byte.
    """

    def __init__(self, type_, rows, on=True):
        self.type = type_
        self.on = on
        self.rows = rows if on else 0
        self.valid = bytearray(self.rows)
        self.marks = 0
        self.reset()

    def reset(self):
        """Make room for the next rows; the last ones belong to Arrow now."""
        i: cython.Py_ssize_t
        if self.marks:
            for i in range(self.rows):
                self.valid[i] = 0
        self.dense = 0
        self.marks = 0
        return 0

    def validity(self, count):
        """The bitmap for the first `count` rows, or None if all have a value."""
        i: cython.Py_ssize_t
        if self.dense >= count:
            return None
        for i in range(self.dense):
            self.valid[i] = 1
        self.marks += self.dense
        return packed(self.valid, count)

    def finish(self, count):
        """The first `count` rows as an Arrow array; then the column is empty again."""
        if self.dense == 0 and self.marks == 0:
            return pa.nulls(count, self.type)
        array = pa.Array.from_buffers(self.type, count, [self.validity(count), *self.buffers(count)])
        self.reset()
        return array

    def buffers(self, count):
        raise NotImplementedError


def packed(flags, count):
    """One bit for each byte that is not 0, the first row in the lowest bit."""
    bits = bytearray((count + 7) >> 3)
    pack(flags, count, bits)
    return pa.py_buffer(bits)


def pack(flags, count, bits):
    i: cython.Py_ssize_t
    for i in range(count):
        if flags[i]:
            bits[i >> 3] = bits[i >> 3] | (1 << (i & 7))


class Long(Column):
    """64-bit numbers and times."""

    def reset(self):
        Column.reset(self)
        self.buffer, view = allocated(8 * self.rows)
        self.data = view[: 8 * self.rows].cast("q")
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            if self.dense == row:
                self.dense = row + 1
            else:
                self.valid[row] = 1
                self.marks += 1

    def buffers(self, count):
        i: cython.Py_ssize_t
        for i in range(self.dense, count):
            if not self.valid[i]:
                self.data[i] = 0
        return [fitted(self.buffer, 8 * count)]


class Int(Column):
    """32-bit numbers."""

    def reset(self):
        Column.reset(self)
        self.buffer, view = allocated(4 * self.rows)
        self.data = view[: 4 * self.rows].cast("i")
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            if self.dense == row:
                self.dense = row + 1
            else:
                self.valid[row] = 1
                self.marks += 1

    def buffers(self, count):
        i: cython.Py_ssize_t
        for i in range(self.dense, count):
            if not self.valid[i]:
                self.data[i] = 0
        return [fitted(self.buffer, 4 * count)]


class Byte(Column):
    """8-bit and 16-bit numbers and booleans, which Arrow packs as bits."""

    def reset(self):
        Column.reset(self)
        self.data = bytearray(self.rows)
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            if self.dense == row:
                self.dense = row + 1
            else:
                self.valid[row] = 1
                self.marks += 1

    def buffers(self, count):
        return [packed(self.data, count)]

    def finish(self, count):
        if self.type == pa.bool_() or (self.dense == 0 and self.marks == 0):
            return Column.finish(self, count)
        narrow = pa.Array.from_buffers(
            pa.uint8(), count, [self.validity(count), pa.py_buffer(bytes(self.data[:count]))]
        )
        self.reset()
        return narrow.cast(self.type)


class Text(Column):
    """Strings and bytes. Data grows; a value may be put together from several runs."""

    def reset(self):
        Column.reset(self)
        self.offsets_buffer, view = allocated(4 * (self.rows + 1))
        self.offsets = view.cast("i")
        self.offsets[0] = 0
        self.used = 0
        self.told = 0
        buffer, view = allocated(16 * self.rows)
        return self.keep(buffer, view)

    def keep(self, buffer, view):
        self.buffer, self.view = buffer, view
        self.data = cython.address(self.view[0]) if cython.compiled else self.view
        self.room = buffer.size
        return 0

    def grow(self, room):
        larger, view = allocated(max(room, 2 * self.room))
        view[: self.used] = memoryview(self.view)[: self.used]
        return self.keep(larger, view)

    def begin(self, row):
        """Start a value; its runs follow, then `end`."""
        while self.told < row:  # the rows since the last value are null
            self.told += 1
            self.offsets[self.told] = self.used

    def add(self, source, at, size):
        if self.room - self.used < size:
            self.grow(self.used + size)
        copy(self.data, self.used, source, at, size)
        self.used += size
        return 0

    def add_byte(self, value):
        if self.room - self.used < 1:
            self.grow(self.used + 1)
        self.data[self.used] = value
        self.used += 1
        return 0

    def end(self, row):
        self.told = row + 1
        self.offsets[self.told] = self.used
        if self.dense == row:
            self.dense = row + 1
        else:
            self.valid[row] = 1
            self.marks += 1

    def put(self, row, source, at, size):
        """A value of one run."""
        if self.on:
            self.begin(row)
            self.add(source, at, size)
            self.end(row)
        return 0

    def put_value(self, row, value):
        """A value from Python: bytes, str, or None."""
        if self.on and value is not None and 0 <= row < self.rows:
            data = value.encode() if isinstance(value, str) else value
            self.put(row, data, 0, len(data))

    def buffers(self, count):
        self.begin(count)
        return [fitted(self.offsets_buffer, 4 * (count + 1)), fitted(self.buffer, self.used)]


def column(type_, rows, on):
    """The column for an Arrow type."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return Text(type_, rows, on)
    if pa.types.is_int64(type_) or pa.types.is_timestamp(type_):
        return Long(type_, rows, on)
    if pa.types.is_int32(type_):
        return Int(type_, rows, on)
    return Byte(type_, rows, on)
