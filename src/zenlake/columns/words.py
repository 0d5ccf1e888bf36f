# SPDX-License-Identifier: Apache-2.0
"""Text that columns repeat: fixed words by number, and node ids in hexadecimal, which are kept once they were spelled."""

import cython

from zenlake.encoding import Encoding

if cython.compiled:
    from cython.cimports.zenlake.wire.memory import copy, same, utf8_fault
else:
    from zenlake.wire.memory import copy, same, utf8_fault

SLOTS = cython.declare(cython.int, 256)
TEXTS = cython.declare(cython.int, 16 * 256)
CUSTOM = cython.declare(cython.int, 65535)


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
        if column.on and 0 <= number < self.count:
            column.put(row, self.data, self.ends[number], self.ends[number + 1] - self.ends[number])
        return 0


class Encodings:
    """The text form of an encoding: its registered name, then `;` and the schema if it has one."""

    def __init__(self):
        names = []
        while (name := str(Encoding.from_wire(len(names), None))) and not name.startswith("unknown"):
            names.append(name)
        self.names = Words(names)

    def put(self, column, row, id, schema, data):
        """A schema that is not text is left out here; the column `schema` has its bytes."""
        if not column.on:
            return 0
        readable: cython.bint = schema.size >= 0 and utf8_fault(data, schema.at, schema.size) < 0
        column.begin(row)
        if id < self.names.count:
            column.add(self.names.data, self.names.ends[id], self.names.ends[id + 1] - self.names.ends[id])
        elif id != CUSTOM or not readable:
            self.spell(column, id)
        if readable:
            if id != CUSTOM:
                column.add_byte(0x3B)
            column.add(data, schema.at, schema.size)
        column.end(row)
        return 0

    def spell(self, column, id):
        text = str(Encoding.from_wire(id, None)).encode()
        column.add(text, 0, len(text))
        return 0


class Ids:
    """The text form of a ZenohID: the little-endian number in hexadecimal, without leading zeros."""

    def __init__(self):
        self.memory = bytearray((16 + 32) * SLOTS)  # the raw ids, then their texts
        self.data = cython.address(self.memory[0]) if cython.compiled else self.memory
        self.raw_size = bytearray(SLOTS)
        self.text_size = bytearray(SLOTS)

    def put(self, column, row, id, data):
        """`id` is a run of `data`; an absent one leaves the row null."""
        if not column.on or id.size < 1:
            return 0
        slot: cython.int = data[id.at]
        if self.raw_size[slot] != id.size or not same(self.data, 16 * slot, data, id.at, id.size):
            self.spell(slot, id, data)
        return column.put(row, self.data, TEXTS + 32 * slot, self.text_size[slot])

    def spell(self, slot, id, data):
        copy(self.data, 16 * slot, data, id.at, id.size)
        self.raw_size[slot] = id.size
        start: cython.int = TEXTS + 32 * slot
        at: cython.int = start
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
        self.text_size[slot] = at - start


def hex_digit(value):
    return value + (0x30 if value < 10 else 0x57)
