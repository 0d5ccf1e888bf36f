# SPDX-License-Identifier: Apache-2.0
"""Repeated text in columns: fixed words by number, encodings, and node ids in hexadecimal.

An encoding or a node seldom changes between rows. Equal rows are written together.
"""

import cython
from cython.cimports.zenlake.columns.row_staging import NONE, SpanStaging
from cython.cimports.zenlake.wire.raw_memory import copy, equal_bytes, utf8_fault

from zenlake.core.encoding import Encoding

if not cython.compiled:
    from zenlake.columns.row_staging import make_spans

# Slot of a node: 16 bytes of the raw id, 32 bytes of its text, and their used lengths.
if not cython.compiled:  # compiled: C constants, in the .pxd
    SLOTS = 1024
    SLOT = 50
    TEXT = 16
    RAW_SIZE = 48
    TEXT_SIZE = 49

CUSTOM = cython.declare(cython.int, 65535)
MAX_SCHEMA = 255
MAX_NAME = 128


class EnumText:
    """A list of words that a loop without the GIL can write by number."""

    def __init__(self, words):
        self.count = len(words)
        self.text = "".join(words).encode() or b" "
        self.data = self.text
        self.ends = memoryview(bytearray(4 * (self.count + 1))).cast("i")
        for i, word in enumerate(words):
            self.ends[i + 1] = self.ends[i] + len(word.encode())

    def put(self, column, row, number):
        return self.fill(column, row, row + 1, number)

    def fill(self, column, first, last, number):
        if column.on and 0 <= number < self.count:
            column.fill(first, last, self.data, self.ends[number], self.ends[number + 1] - self.ends[number])
        return 0


class EncodingText:
    """The text form of an encoding (registered name, then `;` and the schema), and the schema's bytes."""

    def __init__(self, column, schemas):
        names = []
        while (name := str(Encoding.from_wire(len(names), None))) and not name.startswith("unknown"):
            names.append(name)
        self.names = EnumText(names)
        self.column = column
        self.schemas = schemas
        self.size = 0
        self.memory = bytearray(MAX_NAME + 1 + MAX_SCHEMA)
        self.text = cython.address(self.memory[0]) if cython.compiled else self.memory

    def gather(self, first, ids, schemas, count, data):
        """Write an encoding for each staged row: id, or -1, and schema. A schema that is not text is omitted from the text."""
        self.schemas.gather(first, schemas, count, data)
        row: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        size: cython.Py_ssize_t
        while row < count and self.column.on:
            size = schemas.size[row]
            last = row + 1
            while last < count and ids[last] == ids[row] and schemas.size[last] == size:
                if size > 0 and not equal_bytes(data, schemas.at[last], data, schemas.at[row], size):
                    break
                last += 1
            if ids[row] >= 0:
                self.append_text(ids[row], schemas.at[row], size, data)
                self.column.fill(first + row, first + last, self.text, 0, self.size)
            row = last
        return 0

    def append_text(self, id, at, size, data):
        readable: cython.bint = size >= 0 and utf8_fault(data, at, size) < 0
        self.size = 0
        if id < self.names.count:
            self.size = self.names.ends[id + 1] - self.names.ends[id]
            copy(self.text, 0, self.names.data, self.names.ends[id], self.size)
        elif id != CUSTOM or not readable:
            self.format_unknown(id)
        if readable:
            if id != CUSTOM:
                self.text[self.size] = 0x3B
                self.size += 1
            copy(self.text, self.size, data, at, size)
            self.size += size
        return 0

    def format_unknown(self, id):
        text = str(Encoding.from_wire(id, None)).encode()[:MAX_NAME]
        self.size = len(text)
        copy(self.text, 0, text, 0, len(text))
        return 0


class ZenohIdText:
    """Column of ZenohIDs as text: little-endian number in hexadecimal, without leading zeros.

    Interleaved nodes are formatted once each, unless two of them use the same slot.
    """

    def __init__(self, column):
        self.column = column
        if not cython.compiled:  # compiled: a part of this object
            self.spans = make_spans()
        self.formatted = SpanStaging().bind(self.spans.at, self.spans.size)
        self.memory = bytearray(SLOT * (SLOTS if column.on else 1))  # per slot: the raw id, its text, their sizes
        self.data = cython.address(self.memory[0]) if cython.compiled else self.memory

    def gather(self, first, nodes, count, data):
        """Write a node for each staged row. A missing node is null."""
        row: cython.Py_ssize_t
        slot: cython.Py_ssize_t
        done: cython.Py_ssize_t = 0
        if not self.column.on or nodes.presence == NONE:
            return 0
        for row in range(count):
            if nodes.size[row] < 1:
                self.formatted.skip(row)
                continue
            slot = SLOT * ((data[nodes.at[row]] ^ data[nodes.at[row] + nodes.size[row] - 1] << 2) & (SLOTS - 1))
            if self.data[slot + RAW_SIZE] != nodes.size[row] or not equal_bytes(
                self.data, slot, data, nodes.at[row], nodes.size[row]
            ):
                self.put_formatted(first, done, row)  # some rows may refer to the previous node of the slot
                done = row
                self.append_text(slot, data, nodes.at[row], nodes.size[row])
            self.formatted.at[row] = slot + TEXT
            self.formatted.size[row] = self.data[slot + TEXT_SIZE]
        if done == 0:
            self.formatted.maybe_present = True
            self.formatted.scan(count)
            return self.column.gather(first, self.formatted, count, self.data)
        return self.put_formatted(first, done, count)

    def put_formatted(self, first, row, last):
        while row < last:
            if self.formatted.size[row] >= 0:
                self.column.put(first + row, self.data, self.formatted.at[row], self.formatted.size[row])
            row += 1
        return 0

    def append_text(self, slot, data, at, size):
        copy(self.data, slot, data, at, size)
        self.data[slot + RAW_SIZE] = size
        start: cython.Py_ssize_t = slot + TEXT
        end: cython.Py_ssize_t = start
        i: cython.Py_ssize_t = at + size - 1
        byte: cython.int
        while i >= at:
            byte = data[i]
            if byte >> 4 or end > start:
                self.data[end] = hex_digit(byte >> 4)
                end += 1
            if byte or end > start:
                self.data[end] = hex_digit(byte & 15)
                end += 1
            i -= 1
        self.data[slot + TEXT_SIZE] = end - start


def hex_digit(value):
    return value + (0x30 if value < 10 else 0x57)
