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


class Column:
    """What all columns share: a byte for each row that says whether it has a value."""

    def __init__(self, type_, rows, on=True):
        self.type = type_
        self.on = on
        self.rows = rows if on else 0
        self.reset()

    def reset(self):
        self.valid = bytearray(self.rows)
        self.values = 0
        return 0

    def validity(self, count):
        """The bitmap for the first `count` rows, or None if all have a value."""
        if self.values == count:
            return None
        return pa.py_buffer(packed(self.valid, count))

    def finish(self, count):
        """The first `count` rows as an Arrow array; then the column is empty again."""
        raise NotImplementedError


def packed(flags, count):
    """One bit for each byte that is not 0, the first row in the lowest bit."""
    bits = bytearray((count + 7) >> 3)
    pack(flags, count, bits)
    return bits


def pack(flags, count, bits):
    i: cython.Py_ssize_t
    for i in range(count):
        if flags[i]:
            bits[i >> 3] = bits[i >> 3] | (1 << (i & 7))


class Long(Column):
    """64-bit numbers and times."""

    def reset(self):
        Column.reset(self)
        self.buffer = bytearray(8 * self.rows)
        self.data = memoryview(self.buffer).cast("q")
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            self.valid[row] = 1
            self.values += 1

    def finish(self, count):
        buffers = [self.validity(count), pa.py_buffer(self.buffer)]
        array = pa.Array.from_buffers(self.type, count, buffers)
        self.reset()
        return array


class Int(Column):
    """32-bit numbers."""

    def reset(self):
        Column.reset(self)
        self.buffer = bytearray(4 * self.rows)
        self.data = memoryview(self.buffer).cast("i")
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            self.valid[row] = 1
            self.values += 1

    def finish(self, count):
        buffers = [self.validity(count), pa.py_buffer(self.buffer)]
        array = pa.Array.from_buffers(self.type, count, buffers)
        self.reset()
        return array


class Byte(Column):
    """8-bit and 16-bit numbers and booleans, which Arrow packs as bits."""

    def reset(self):
        Column.reset(self)
        self.data = bytearray(self.rows)
        return 0

    def put(self, row, value):
        if self.on:
            self.data[row] = value
            self.valid[row] = 1
            self.values += 1

    def finish(self, count):
        if self.type == pa.bool_():
            buffers = [self.validity(count), pa.py_buffer(packed(self.data, count))]
            array = pa.Array.from_buffers(self.type, count, buffers)
        else:
            values = pa.Array.from_buffers(pa.uint8(), count, [self.validity(count), pa.py_buffer(self.data)])
            array = values.cast(self.type)
        self.reset()
        return array


class Text(Column):
    """Strings and bytes. Data grows; a value may be put together from several runs."""

    def reset(self):
        Column.reset(self)
        self.offsets_buffer = bytearray(4 * (self.rows + 1))
        self.offsets = memoryview(self.offsets_buffer).cast("i")
        self.used = 0
        self.told = 0
        return self.keep(pa.allocate_buffer(max(16 * self.rows, 1)))

    def keep(self, buffer):
        self.buffer = buffer
        self.view = memoryview(buffer).cast("B")
        self.data = cython.address(self.view[0]) if cython.compiled else self.view
        self.room = buffer.size
        return 0

    def grow(self, room):
        larger = pa.allocate_buffer(max(room, 2 * self.room))
        memoryview(larger).cast("B")[: self.used] = memoryview(self.view)[: self.used]
        return self.keep(larger)

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
        self.valid[row] = 1
        self.values += 1

    def put(self, row, source, at, size):
        """A value of one run."""
        if self.on:
            self.begin(row)
            self.add(source, at, size)
            self.end(row)
        return 0

    def put_value(self, row, value):
        """A value from Python: bytes, str, or None."""
        if self.on and value is not None:
            data = value.encode() if isinstance(value, str) else value
            self.put(row, data, 0, len(data))

    def finish(self, count):
        self.begin(count)
        buffers = [
            self.validity(count), pa.py_buffer(self.offsets_buffer), self.buffer.slice(0, self.used),
        ]  # fmt: skip
        array = pa.Array.from_buffers(self.type, count, buffers)
        self.reset()
        return array


def column(type_, rows, on):
    """The column for an Arrow type."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return Text(type_, rows, on)
    if pa.types.is_int64(type_) or pa.types.is_timestamp(type_):
        return Long(type_, rows, on)
    if pa.types.is_int32(type_):
        return Int(type_, rows, on)
    return Byte(type_, rows, on)
