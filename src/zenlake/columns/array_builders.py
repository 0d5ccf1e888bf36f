# SPDX-License-Identifier: Apache-2.0
"""Builders of Arrow columns: written row by row without the GIL, passed to Arrow without a copy.

A column that was not requested is `off`: writing to it has no effect. A row that was not written is null. Rows are
written in order: one at a time (`put`), as a run with one value (`fill`), or from the staging area (`gather`).
"""

import sys

import cython
import pyarrow as pa
from cython.cimports.zenlake.columns.buffer_pool import Block
from cython.cimports.zenlake.columns.row_staging import ALL, SOME
from cython.cimports.zenlake.wire.raw_memory import PADDING, copy, copy_ends, copy_padded, eight_flags

LITTLE = sys.byteorder == "little"


class ArrayBuilder:
    """Base class of columns: validity of rows.

    Most columns have a value in every row, so the first `dense` rows need no mark. After the first null, a byte marks
    each row with a value.
    """

    def __init__(self, type_, rows, pool, on=True):
        self.type = type_
        self.pool = pool
        self.block = None
        self.on = on
        self.rows = rows if on else 0
        self.marked = bytearray(self.rows + 1)
        self.valid = cython.address(self.marked[0]) if cython.compiled else self.marked
        self.marks = 0
        self.reset()

    def reset(self):
        """Allocate memory for the next rows. Arrow owns the previous memory."""
        i: cython.Py_ssize_t
        if self.marks:
            for i in range(self.rows):
                self.valid[i] = 0
        self.dense = 0
        self.marks = 0
        return 0

    def mark_rows(self, first, last):
        """Mark the rows of a run."""
        i: cython.Py_ssize_t
        if self.dense == first:
            self.dense = last
        else:
            for i in range(first, last):
                self.valid[i] = 1
            self.marks += last - first

    if not cython.compiled:  # compiled: inline, in the .pxd

        def mark(self, row):
            if self.dense == row:
                self.dense = row + 1
            else:
                self.valid[row] = 1
                self.marks += 1

    def validity(self, count):
        """Return the validity bitmap of the first `count` rows, or None without nulls."""
        i: cython.Py_ssize_t
        if self.dense >= count:
            return None
        for i in range(self.dense):
            self.valid[i] = 1
        self.marks += self.dense
        return pack(self.valid, count)

    def is_written(self):
        """Return whether any row has a value."""
        return self.dense > 0 or self.marks > 0

    def export(self, export, count):
        """Pass the first `count` rows to Arrow. The column is then empty."""
        if self.is_written():
            export.column(self.type, 0 if self.dense >= count else -1)
            export.buffer(self.validity(count), (count + 7) >> 3)
            self.export_values(export, count)
            self.reset()
        else:
            self.export_nulls(export, count)
        return 0

    def export_nulls(self, export, count):
        """Discard all rows."""
        zeros: bytes = self.pool.zeros(8 * (self.rows + 1))
        export.column(self.type, count)
        export.buffer(zeros, (count + 7) >> 3)
        export.buffer(zeros, 8 * count)
        return 0

    def values(self, width):
        """Allocate memory for the next rows, with `width` bytes per value."""
        self.width = width
        self.block = self.pool.block(width * (self.rows + 1))
        return 0

    def clear_nulls(self, count):
        """Set the value of a null row to zero."""
        row: cython.Py_ssize_t
        i: cython.Py_ssize_t
        data: cython.p_uchar = self.block.data
        for row in range(self.dense, count):
            if not self.valid[row]:
                for i in range(self.width * row, self.width * (row + 1)):
                    data[i] = 0

    def export_values(self, export, count):
        """Return the buffers besides the bitmap."""
        self.clear_nulls(count)
        export.buffer(self.block.trim(self.width * count), self.width * count)
        return 0


def pack(flags, count):
    """Pack bytes of 0 and 1 into bits, lowest bit first."""
    i: cython.Py_ssize_t
    whole: cython.Py_ssize_t = count >> 3
    packed = bytearray((count + 7) >> 3)
    bits: cython.p_uchar = packed
    for i in range(whole):
        bits[i] = eight_flags(flags, 8 * i)
    for i in range(8 * whole, count):
        bits[i >> 3] = bits[i >> 3] | (flags[i] << (i & 7))
    return packed


class Int64Builder(ArrayBuilder):
    """Column of 64-bit numbers and times."""

    def reset(self):
        ArrayBuilder.reset(self)
        self.values(8)
        self.data = cython.cast(cython.p_longlong, self.block.data) if cython.compiled else self.block.data.cast("q")
        return 0

    if not cython.compiled:

        def put(self, row, value):
            if self.on:
                self.data[row] = value
                self.mark(row)

    def fill(self, first, last, value):
        i: cython.Py_ssize_t
        data: cython.p_longlong = self.data
        if self.on and first < last:
            for i in range(first, last):
                data[i] = value
            self.mark_rows(first, last)

    def next_rows(self, first, count):
        """Return the memory for rows that all have a value."""
        self.mark_rows(first, first + count)
        return self.data + first if cython.compiled else self.data[first:]

    def gather(self, first, values, owners, count):
        """Write a number for each staged row, if its field is present."""
        i: cython.Py_ssize_t
        if not self.on:
            return 0
        data: cython.p_longlong = self.data
        if owners.presence == ALL:
            for i in range(count):
                data[first + i] = values[i]
            self.mark_rows(first, first + count)
        elif owners.presence == SOME:
            for i in range(count):
                if owners.size[i] >= 0:
                    self.put(first + i, values[i])
        return 0


class Int32Builder(ArrayBuilder):
    """Column of 32-bit numbers."""

    def reset(self):
        ArrayBuilder.reset(self)
        self.values(4)
        self.data = cython.cast(cython.p_int, self.block.data) if cython.compiled else self.block.data.cast("i")
        return 0

    if not cython.compiled:

        def put(self, row, value):
            if self.on:
                self.data[row] = value
                self.mark(row)

    def fill(self, first, last, value):
        i: cython.Py_ssize_t
        data: cython.p_int = self.data
        if self.on and first < last:
            for i in range(first, last):
                data[i] = value
            self.mark_rows(first, last)

    def count(self, first, last, value):
        """Write consecutive numbers from a value."""
        i: cython.Py_ssize_t
        data: cython.p_int = self.data
        if self.on and first < last:
            for i in range(last - first):
                data[first + i] = value + i
            self.mark_rows(first, last)


class SmallIntBuilder(ArrayBuilder):
    """Column of 8-bit and 16-bit numbers, and of booleans, which Arrow packs into bits."""

    def reset(self):
        ArrayBuilder.reset(self)
        self.values(1)
        self.data = self.block.data
        return 0

    if not cython.compiled:

        def put(self, row, value):
            if self.on:
                self.data[row] = value
                self.mark(row)

    def fill(self, first, last, value):
        i: cython.Py_ssize_t
        data: cython.p_uchar = self.data
        if self.on and first < last:
            for i in range(first, last):
                data[i] = value
            self.mark_rows(first, last)

    def export_values(self, export, count):
        if pa.types.is_int8(self.type):
            return ArrayBuilder.export_values(self, export, count)
        self.clear_nulls(count)
        if pa.types.is_boolean(self.type):
            export.buffer(pack(self.data, count), (count + 7) >> 3)
        else:
            export.buffer(widen(self.data, count), 2 * count)
        return 0


def widen(values, count):
    """Write bytes as 16-bit numbers."""
    i: cython.Py_ssize_t
    packed = bytearray(2 * count)
    wide: cython.p_uchar = packed
    little: cython.Py_ssize_t = 0 if LITTLE else 1
    for i in range(count):
        wide[2 * i + little] = values[i]
    return packed


class TextBuilder(ArrayBuilder):
    """Column of strings or bytes. A value may consist of several parts."""

    def __init__(self, type_, rows, pool, on=True):
        self.capacity = 0
        self.used = 0
        self.offset_rows = 0
        ArrayBuilder.__init__(self, type_, rows, pool, on)

    def reset(self):
        ArrayBuilder.reset(self)
        self.offsets_block = self.pool.block(4 * (self.rows + 1))
        block: Block = self.offsets_block
        self.offsets = cython.cast(cython.p_int, block.data) if cython.compiled else block.data.cast("i")
        self.offsets[0] = 0
        room: cython.Py_ssize_t = self.capacity or 16 * self.rows
        filled: cython.Py_ssize_t = (
            self.used * self.rows // self.offset_rows if self.offset_rows else 0
        )  # extrapolated to all rows
        if 2 * filled < room > 64:  # the next record batch is probably similar
            room //= 2
        self.used = 0
        self.offset_rows = 0
        return self.use_block(self.pool.block(room))

    def use_block(self, block):
        self.block = block
        self.data = block.data
        self.capacity = block.size
        return 0

    def grow(self, room):
        larger: Block = self.pool.block(max(room, 2 * self.capacity))
        copy(larger.data, 0, self.data, 0, self.used)
        return self.use_block(larger)

    def begin(self, row):
        """Start a value. Its parts follow, then `end`."""
        while self.offset_rows < row:  # the rows since the last value are null
            self.offset_rows += 1
            self.offsets[self.offset_rows] = self.used

    def add(self, source, at, size):
        self.make_room(size)
        copy(self.data, self.used, source, at, size)
        self.used += size
        return 0

    def end(self, row):
        self.offset_rows = row + 1
        self.offsets[row + 1] = self.used
        self.mark(row)

    def put_after_nulls(self, row, source, at, size):
        """Write a value of one part, after any skipped rows."""
        self.begin(row)
        self.add(source, at, size)
        self.end(row)
        return 0

    if not cython.compiled:

        def put(self, row, source, at, size):
            """Write a value of one part."""
            return self.put_after_nulls(row, source, at, size) if self.on else 0

    def fill(self, first, last, source, at, size):
        """Write the same value in several rows: copied once, then doubled."""
        count: cython.Py_ssize_t = last - first
        if not self.on or count <= 0:
            return 0
        if count == 1:
            return self.put(first, source, at, size)
        self.begin(first)
        self.make_room(size * count)
        start: cython.Py_ssize_t = self.used
        done: cython.Py_ssize_t = size
        copy(self.data, start, source, at, size)
        while done < size * count:
            more: cython.Py_ssize_t = min(done, size * count - done)
            copy(self.data, start + done, self.data, start, more)
            done += more
        i: cython.Py_ssize_t
        offsets: cython.p_int = self.offsets
        for i in range(count):
            offsets[first + 1 + i] = start + size * (i + 1)
        return self.end_rows(first, last, start + size * count)

    def gather(self, first, spans, count, source):
        """Write a byte range for each staged row. A missing range is null."""
        i: cython.Py_ssize_t
        if not self.on:
            return 0
        if spans.presence != ALL:
            for i in range(count if spans.presence == SOME else 0):
                if spans.size[i] >= 0:
                    self.put(first + i, source, spans.at[i], spans.size[i])
            return 0
        self.begin(first)
        self.make_room(spans.total)
        if spans.equal_sizes:
            return self.gather_equal(first, spans.at, spans.size[0], count, source)
        # Local copies: the compiler must assume that written bytes alias the fields of this object.
        used: cython.Py_ssize_t = self.used
        data: cython.p_uchar = self.data
        offsets: cython.p_int = self.offsets
        places: cython.p_longlong = spans.at
        sizes: cython.p_longlong = spans.size
        size: cython.Py_ssize_t
        for i in range(count):
            size = sizes[i]
            copy(data, used, source, places[i], size)
            used += size
            offsets[first + 1 + i] = used
        return self.end_rows(first, first + count, used)

    def gather_equal(self, first, places, size, count, source):
        """Write a byte range of this size for each staged row. There is enough room."""
        i: cython.Py_ssize_t
        used: cython.Py_ssize_t = self.used
        data: cython.p_uchar = self.data
        offsets: cython.p_int = self.offsets
        end: cython.int = used
        step: cython.int = size
        for i in range(first + 1, first + count + 1):
            end += step
            offsets[i] = end
        if size == 8:
            for i in range(count):
                copy(data, used + 8 * i, source, places[i], 8)
        elif 8 < size <= 16:
            for i in range(count):
                copy_ends(data, used + size * i, source, places[i], size, 8)
        elif 16 < size <= 32:
            for i in range(count):
                copy_ends(data, used + size * i, source, places[i], size, 16)
        elif 32 < size <= 64:
            for i in range(count):
                copy_ends(data, used + size * i, source, places[i], size, 32)
        else:
            for i in range(count):
                copy(data, used + size * i, source, places[i], size)
        return self.end_rows(first, first + count, used + size * count)

    def gather_declared(self, first, numbers, sign, keys, count):
        """Write the key of each staged row, by key id, up to the first undeclared one. Return the number of rows."""
        i: cython.Py_ssize_t = 0
        number: cython.longlong
        if not self.on:
            return 0
        self.begin(first)
        used: cython.Py_ssize_t = self.used
        data: cython.p_uchar
        offsets: cython.p_int = self.offsets
        known: cython.longlong = keys.room
        texts: cython.p_const_uchar = keys.data
        places: cython.p_longlong = cython.address(keys.at[0]) if cython.compiled else keys.at
        sizes: cython.p_int = cython.address(keys.size[0]) if cython.compiled else keys.size
        size: cython.Py_ssize_t
        while i < count:
            number = sign * numbers[i]
            if number <= 0 or number >= known or sizes[number] < 0:
                break
            size = sizes[number]
            self.used = used
            self.make_room(size + PADDING * (count - i))
            data = self.data
            copy(data, used, texts, places[number], size)
            used += size
            offsets[first + 1 + i] = used
            i += 1
            while i < count:  # short keys after it: there is enough room
                number = sign * numbers[i]
                if number <= 0 or number >= known:
                    break
                size = sizes[number]
                if not 0 <= size <= PADDING:
                    break
                copy_padded(data, used, texts, places[number], size)
                used += size
                offsets[first + 1 + i] = used
                i += 1
        if i:
            self.end_rows(first, first + i, used)
        return i

    def make_room(self, size):
        """Reserve memory for a number of bytes."""
        if self.capacity - self.used < size:
            self.grow(self.used + size)
        return 0

    def end_rows(self, first, last, used):
        self.used = used
        self.offset_rows = last
        self.mark_rows(first, last)
        return 0

    def put_value(self, row, value):
        """Write a Python value: bytes, str, or None."""
        if self.on and value is not None and 0 <= row < self.rows:
            data = value.encode() if isinstance(value, str) else value
            self.put(row, data, 0, len(data))

    def export_values(self, export, count):
        self.begin(count)
        export.buffer(self.offsets_block.trim(4 * (count + 1)), 4 * (count + 1))
        export.buffer(self.block.trim(self.used), self.used)
        return 0

    def export_nulls(self, export, count):
        ArrayBuilder.export_nulls(self, export, count)
        export.buffer(b"\0", 0)
        return 0


def column(type_, rows, pool, on):
    """Return the column class of an Arrow type."""
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return TextBuilder(type_, rows, pool, on)
    if pa.types.is_int64(type_) or pa.types.is_timestamp(type_):
        return Int64Builder(type_, rows, pool, on)
    if pa.types.is_int32(type_):
        return Int32Builder(type_, rows, pool, on)
    if pa.types.is_list(type_):  # stored as bytes, see `timestamp_stacks`
        return TextBuilder(pa.binary(), rows, pool, on)
    return SmallIntBuilder(type_, rows, pool, on)
