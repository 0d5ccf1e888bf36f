# SPDX-License-Identifier: Apache-2.0
"""Text that columns repeat: fixed words by number, and node ids in hexadecimal, which are kept once they were spelled."""

import cython

from zenlake.encoding import Encoding

if cython.compiled:
    from cython.cimports.zenlake.columns.buffers import Text
    from cython.cimports.zenlake.wire.cursor import Blob
    from cython.cimports.zenlake.wire.memory import copy, same, utf8_fault
else:
    from zenlake.columns.buffers import Text
    from zenlake.wire.cursor import Blob
    from zenlake.wire.memory import copy, same, utf8_fault

SLOTS = cython.declare(cython.int, 256)
CUSTOM = cython.declare(cython.int, 65535)


class Words:
    """A list of words that a loop without the GIL can write by their number."""

    def __init__(self, words):
        self.count = len(words)
        self.text = "".join(words).encode() or b" "
        self.ends = memoryview(bytearray(4 * (self.count + 1))).cast("i")
        for i, word in enumerate(words):
            self.ends[i + 1] = self.ends[i] + len(word.encode())

    def put(self, column, row, number):
        if column.on and 0 <= number < self.count:
            column.put(row, self.text, self.ends[number], self.ends[number + 1] - self.ends[number])
        return 0


class Encodings:
    """The text form of an encoding: its registered name, then `;` and the schema if it has one."""

    def __init__(self):
        names = []
        while (name := str(Encoding.from_wire(len(names), None))) and not name.startswith("unknown"):
            names.append(name)
        self.names = Words(names)

    def put(self, column, row, id, schema, buf):
        """A schema that is not text is left out here; the column `schema` has its bytes."""
        if not column.on:
            return 0
        column.begin(row)
        if id < self.names.count:
            column.add(self.names.text, self.names.ends[id], self.names.ends[id + 1] - self.names.ends[id])
        elif id != CUSTOM:
            self.spell(column, id)
        if schema.size >= 0 and utf8_fault(buf, schema.at, schema.size) < 0:
            if id != CUSTOM:
                column.add_byte(0x3B)
            column.add(buf, schema.at, schema.size)
        column.end(row)
        return 0

    def spell(self, column, id):
        text = str(Encoding.from_wire(id, None)).encode()
        column.add(text, 0, len(text))
        return 0


class Ids:
    """The text form of a ZenohID: the little-endian number in hexadecimal, without leading zeros."""

    def __init__(self):
        self.raw = bytearray(16 * SLOTS)
        self.raw_size = bytearray(SLOTS)
        self.text = bytearray(32 * SLOTS)
        self.text_size = bytearray(SLOTS)

    def put(self, column, row, id, buf):
        """`id` is a run of `buf`; an absent one leaves the row null."""
        if not column.on or id.size < 1:
            return 0
        slot: cython.int = buf[id.at]
        if self.raw_size[slot] != id.size or not same(self.raw, 16 * slot, buf, id.at, id.size):
            self.spell(slot, id, buf)
        return column.put(row, self.text, 32 * slot, self.text_size[slot])

    def spell(self, slot, id, buf):
        copy(self.raw, 16 * slot, buf, id.at, id.size)
        self.raw_size[slot] = id.size
        at: cython.int = 32 * slot
        i: cython.Py_ssize_t = id.at + id.size - 1
        byte: cython.int
        while i >= id.at:
            byte = buf[i]
            if byte >> 4 or at > 32 * slot:
                self.text[at] = hex_digit(byte >> 4)
                at += 1
            if byte or at > 32 * slot:
                self.text[at] = hex_digit(byte & 15)
                at += 1
            i -= 1
        self.text_size[slot] = at - 32 * slot


def hex_digit(value):
    return value + (0x30 if value < 10 else 0x57)
