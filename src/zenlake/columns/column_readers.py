# SPDX-License-Identifier: Apache-2.0
"""Arrow columns as input of loops without the GIL: byte ranges, numbers, and dictionary values."""

import cython
import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue

ABSENT = cython.declare(cython.Py_ssize_t, -1)


class BytesReader:
    """Input column of strings or bytes. Null rows, and all rows of a missing column, are absent."""

    def __init__(self, column=None):
        self.on = column is not None
        self.first = 0
        self.bits = b"\0"
        self.has_bits = False
        self.offsets = memoryview(bytes(8)).cast("i")
        self.data = b""
        if column is None:
            return
        if pa.types.is_large_string(column.type) or pa.types.is_large_binary(column.type):
            column = column.cast(pa.binary())
        if not (pa.types.is_string(column.type) or pa.types.is_binary(column.type)):
            raise InvalidValue(f"invalid column type {column.type}; expected text or bytes")
        valid, offsets, data = column.buffers()
        self.first = column.offset
        self.has_bits = valid is not None
        if valid is not None:
            self.bits = memoryview(valid).cast("B")
        if offsets is not None and offsets.size:
            self.offsets = memoryview(offsets)[: 4 * (column.offset + len(column) + 1)].cast("i")
        if data is not None:
            self.data = memoryview(data).cast("B")

    def bind_row(self, row, blob):
        """Set a field that is bound to `data` to the byte range of a row."""
        i: cython.Py_ssize_t = self.first + row
        if not self.on or (self.has_bits and not self.bits[i >> 3] >> (i & 7) & 1):
            blob.size = ABSENT
        else:
            blob.at = self.offsets[i]
            blob.size = self.offsets[i + 1] - self.offsets[i]


class IntReader:
    """Input column of integers or booleans, with a default for nulls."""

    def __init__(self, column=None, default=0):
        self.on = column is not None
        self.default = default
        self.values = memoryview(bytes(8)).cast("q")
        if column is not None:
            if not (pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)):
                raise InvalidValue(f"invalid column type {column.type}; expected integers")
            whole = pc.fill_null(column.cast(pa.int64()), int(default))
            self.values = memoryview(whole.buffers()[1]).cast("q")[whole.offset :] if len(whole) else self.values

    def get(self, row):
        return self.values[row] if self.on else self.default


class EnumReader:
    """Input column with few distinct values, each converted to a number once."""

    def __init__(self, column, number, default):
        self.on = column is not None
        self.default = default
        self.numbers = memoryview(bytearray(8)).cast("q")
        self.codes = memoryview(bytes(4)).cast("i")
        if column is None:
            return
        encoded = pc.dictionary_encode(column)
        values = encoded.dictionary.to_pylist()
        self.numbers = memoryview(bytearray(8 * (len(values) + 1))).cast("q")
        for i, value in enumerate(values):
            self.numbers[i] = number(value)
        self.numbers[len(values)] = default
        codes = pc.fill_null(encoded.indices, len(values))
        if len(codes):
            self.codes = memoryview(codes.buffers()[1]).cast("i")[codes.offset :]

    def get(self, row):
        return self.numbers[self.codes[row]] if self.on else self.default


def offsets_view(column):
    """Return the offsets of a column of bytes as a view. The buffer may be longer."""
    return memoryview(column.buffers()[1])[4 * column.offset : 4 * (column.offset + len(column) + 1)].cast("i")


def values_view(column, format):
    """Return the values of a fixed-width column without nulls as a view."""
    width = {"q": 8, "i": 4, "b": 1}[format]
    view = memoryview(column.buffers()[1]).cast("B")
    return view[width * column.offset : width * (column.offset + len(column))].cast(format)
