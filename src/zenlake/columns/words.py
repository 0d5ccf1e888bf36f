# SPDX-License-Identifier: Apache-2.0
"""Text that columns repeat: fixed words by number, encodings, and node ids in hexadecimal.

An encoding or a node seldom changes from one row to the next. So equal rows are only counted, and written at once when another
value comes, or none (`stop`).
"""

import cython

from zenlake.encoding import Encoding

if cython.compiled:
    from cython.cimports.zenlake.wire.memory import copy, same, utf8_fault
else:
    from zenlake.wire.memory import copy, same, utf8_fault

NO_RUN = cython.declare(cython.Py_ssize_t, -1)

# A node's slot: 16 bytes of the raw id, 32 of its text, and how many of each are used.
SLOTS = cython.declare(cython.int, 1024)
SLOT = cython.declare(cython.int, 50)
TEXT = cython.declare(cython.int, 16)
RAW_SIZE = cython.declare(cython.int, 48)
TEXT_SIZE = cython.declare(cython.int, 49)

CUSTOM = cython.declare(cython.int, 65535)
SCHEMA = cython.declare(cython.Py_ssize_t, 255)  # the longest schema, and where the text begins behind its bytes
LONGEST_NAME = 128


class Words:
    """A list of words that a loop without the GIL can write by their number."""

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


class Encodings:
    """The text form of an encoding (its registered name, then `;` and the schema if it has one), and the schema's bytes."""

    def __init__(self, column, schemas):
        names = []
        while (name := str(Encoding.from_wire(len(names), None))) and not name.startswith("unknown"):
            names.append(name)
        self.names = Words(names)
        self.column = column
        self.schemas = schemas
        self.on = column.on or schemas.on
        self.first = NO_RUN
        self.id = 0
        self.schema_size = -1
        self.size = 0
        self.memory = bytearray(2 * SCHEMA + LONGEST_NAME)  # the schema's bytes, then the text
        self.text = cython.address(self.memory[0]) if cython.compiled else self.memory

    if not cython.compiled:  # compiled: inline, in the .pxd

        def put(self, row, id, schema, data):
            """A schema that is not text is left out here; the column of schemas has its bytes."""
            alike = self.first >= 0 and id == self.id and schema.size == self.schema_size
            if alike and (schema.size <= 0 or same(self.text, 0, data, schema.at, schema.size)):
                return 0
            return self.change(row, id, schema, data) if self.on else 0

        def stop(self, row):
            """The run, if there is one, ends before this row."""
            return self.end(row) if self.first >= 0 else 0

    def change(self, row, id, schema, data):
        self.stop(row)
        self.spell(id, schema, data)
        self.first = row
        return 0

    def end(self, row):
        self.column.fill(self.first, row, self.text, SCHEMA, self.size)
        if self.schema_size >= 0:
            self.schemas.fill(self.first, row, self.text, 0, self.schema_size)
        self.first = NO_RUN
        return 0

    def spell(self, id, schema, data):
        readable: cython.bint = schema.size >= 0 and utf8_fault(data, schema.at, schema.size) < 0
        self.id = id
        self.schema_size = schema.size
        self.size = 0
        if id < self.names.count:
            self.size = self.names.ends[id + 1] - self.names.ends[id]
            copy(self.text, SCHEMA, self.names.data, self.names.ends[id], self.size)
        elif id != CUSTOM or not readable:
            self.spell_unknown(id)
        if schema.size > 0:
            copy(self.text, 0, data, schema.at, schema.size)
        if readable:
            if id != CUSTOM:
                self.text[SCHEMA + self.size] = 0x3B
                self.size += 1
            copy(self.text, SCHEMA + self.size, data, schema.at, schema.size)
            self.size += schema.size
        return 0

    def spell_unknown(self, id):
        text = str(Encoding.from_wire(id, None)).encode()[:LONGEST_NAME]
        self.size = len(text)
        copy(self.text, SCHEMA, text, 0, len(text))
        return 0


class Nodes:
    """A column of ZenohIDs as text: the little-endian number in hexadecimal, without leading zeros.

    Nodes that take turns are spelled once each, as long as no two of them fall into the same slot.
    """

    def __init__(self, column):
        self.column = column
        self.on = column.on
        self.first = NO_RUN
        self.slot = 0
        self.memory = bytearray(SLOT * (SLOTS if self.on else 1))  # in each: the raw id, its text, their sizes
        self.data = cython.address(self.memory[0]) if cython.compiled else self.memory

    if not cython.compiled:  # compiled: inline, in the .pxd

        def holds(self, slot, id, data):
            return self.data[slot + RAW_SIZE] == id.size and same(self.data, slot, data, id.at, id.size)

        def put(self, row, id, data):
            """`id` is a run of `data`; an absent one leaves the row null."""
            if self.first >= 0 and self.holds(self.slot, id, data):
                return 0
            return self.change(row, id, data) if self.on else 0

        def stop(self, row):
            """The run, if there is one, ends before this row."""
            return self.end(row) if self.first >= 0 else 0

    def change(self, row, id, data):
        self.stop(row)
        if id.size >= 1:
            self.slot = SLOT * ((data[id.at] ^ data[id.at + id.size - 1] << 2) & (SLOTS - 1))
            if not self.holds(self.slot, id, data):
                self.spell(id, data)
            self.first = row
        return 0

    def end(self, row):
        self.column.fill(self.first, row, self.data, self.slot + TEXT, self.data[self.slot + TEXT_SIZE])
        self.first = NO_RUN
        return 0

    def spell(self, id, data):
        copy(self.data, self.slot, data, id.at, id.size)
        self.data[self.slot + RAW_SIZE] = id.size
        start: cython.Py_ssize_t = self.slot + TEXT
        at: cython.Py_ssize_t = start
        i: cython.Py_ssize_t = id.at + id.size - 1
        byte: cython.int
        while i >= id.at:
            byte = data[i]
            if byte >> 4 or at > start:
                self.data[at] = hex_digit(byte >> 4)
                at += 1
            if byte or at > start:
                self.data[at] = hex_digit(byte & 15)
                at += 1
            i -= 1
        self.data[self.slot + TEXT_SIZE] = at - start


def hex_digit(value):
    return value + (0x30 if value < 10 else 0x57)
