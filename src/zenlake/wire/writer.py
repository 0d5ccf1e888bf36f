# SPDX-License-Identifier: Apache-2.0
"""Writer: primitive writers of the wire format, the reverse of `cursor`, into a growing buffer.

The `Z` bit of a message header and of each extension header means "an extension follows". The writer sets that bit in the last
header when it writes an extension, so extensions need not be counted in advance.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Cursor
from cython.cimports.zenlake.wire.raw_memory import copy, take

from zenlake.errors import EncodeError

U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)


def vle_size(value):
    """Return the size of the VLE of a value: one byte for each seven bits, nine at most."""
    size: cython.int = 1
    value >>= 7
    while value != 0 and size < 9:
        value >>= 7
        size += 1
    return size


class WireWriter:
    """A growing buffer. It remembers the header whose Z bit the next extension sets."""

    def __init__(self, room=256, message="batch"):
        self.point(bytearray(max(room, 16)))
        self.at = 0
        self.chain = -1
        self.named = message  # keeps the bytes of `message` alive
        self.message = message
        self.walker = Cursor(b"")

    def point(self, buf):
        self.buf = buf
        self.data = cython.address(self.buf[0]) if cython.compiled else buf
        self.room = len(buf)
        return 0

    def clear(self):
        self.at = 0
        self.chain = -1

    def rewind(self, at):
        """Remove the bytes from `at` on, because they did not fit."""
        if at < 0 or at > self.at:
            raise ValueError(f"cannot go back from byte {self.at} to byte {at}")
        self.at = at
        self.chain = -1
        return 0

    def to_bytes(self):
        """Return the written bytes as a new object."""
        return take(self.data, 0, self.at)

    def grow(self, room):
        larger = bytearray(max(room, 2 * self.room))
        larger[: self.at] = memoryview(self.buf)[: self.at]
        return self.point(larger)

    def need(self, size):
        if self.room - self.at < size:
            self.grow(self.at + size)
        return 0

    def fail(self, field, value, most):
        raise EncodeError(f"{self.message}.{field}", f"{value} exceeds the maximum of {most}")

    def refuse(self, field, why):
        raise EncodeError(f"{self.message}.{field}", why)

    # Fixed and variable integers

    def u8(self, field, value):
        if value > 0xFF:
            self.fail(field, value, 0xFF)
        self.need(1)
        self.data[self.at] = value
        self.at += 1
        return 0

    def u16(self, field, value):
        if value > 0xFFFF:
            self.fail(field, value, 0xFFFF)
        self.need(2)
        self.data[self.at] = value & 0xFF
        self.data[self.at + 1] = value >> 8
        self.at += 2
        return 0

    def z64(self, field, value):
        if not cython.compiled and not 0 <= value < 1 << 64:
            raise OverflowError(f"{self.message}.{field}: {value} is not an unsigned 64-bit number")
        self.need(9)
        i: cython.Py_ssize_t = self.at
        left: cython.int = 8
        while value > 0x7F and left > 0:
            self.data[i] = (value & 0x7F) | 0x80
            value >>= 7
            i += 1
            left -= 1
        self.data[i] = value & 0xFF  # the ninth byte carries eight raw bits
        self.at = i + 1
        return 0

    def z8(self, field, value):
        if value > 0xFF:
            self.fail(field, value, 0xFF)
        return self.z64(field, value)

    def z16(self, field, value):
        if value > 0xFFFF:
            self.fail(field, value, 0xFFFF)
        return self.z64(field, value)

    def z32(self, field, value):
        if value > U32:
            self.fail(field, value, U32)
        return self.z64(field, value)

    # Byte ranges

    def run(self, field, data):
        """Write bytes without a length."""
        if data is None or data.size < 0:
            self.refuse(field, "missing")
        if not data.inside():
            self.refuse(field, "this byte range belongs to another buffer")
        self.need(data.size)
        copy(self.data, self.at, data.data, data.at, data.size)
        self.at += data.size
        return 0

    def blob(self, field, data):
        """Write a VLE length and the bytes. An absent byte range is written as an empty one."""
        if data is None or data.size < 0:
            return self.z64(field, 0)
        self.z64(field, data.size)
        return self.run(field, data)

    def short_blob(self, field, data, most):
        if data is not None and data.size > most:
            self.fail(field, data.size, most)
        return self.blob(field, data)

    def zid(self, field, data):
        if data is None or data.size < 1 or data.size > 16:
            self.refuse(field, "a ZenohID has 1 to 16 bytes")
        self.run(field, data)
        i: cython.Py_ssize_t = self.at - data.size
        while self.data[i] == 0:
            i += 1
            if i == self.at:
                self.refuse(field, "a ZenohID must not be zero")
        return 0

    # Headers and extensions

    def header(self, value):
        """Write the header byte of a message without the Z bit, which the first extension sets."""
        self.need(1)
        self.data[self.at] = value
        self.chain = self.at
        self.at += 1
        return 0

    def ext(self, header):
        """Write the header byte of an extension without the Z bit."""
        if self.chain >= 0:
            self.data[self.chain] = self.data[self.chain] | message_ids.Z
        return self.header(header)

    def ext_z64(self, header, value):
        self.ext(header)
        return self.z64("extension", value)

    def ext_z(self, header, value, most):
        """Write a Z64 extension. Its reader refuses values above `most`."""
        if value > most:
            self.fail("extension", value, most)
        return self.ext_z64(header, value)

    def ext_blob(self, header, data):
        self.ext(header)
        return self.blob("extension", data)

    def ext_size(self, header, size):
        """Write the header and size of a ZBuf extension. The caller writes its content."""
        self.ext(header)
        return self.z64("extension", size)

    def copy_unknown(self, chain, low, high):
        """Write the unknown extensions of a chain.

        `low` and `high` are the bits of the known header bytes 0x00..0x3F and 0x40..0x7F. The chain was checked when it
        was read.
        """
        bits: cython.ulonglong
        header: cython.int
        start: cython.Py_ssize_t
        if not chain.inside():
            self.refuse("extension", "this byte range belongs to another buffer")
        self.walker.data = chain.data
        self.walker.at = chain.at
        self.walker.end = chain.at + chain.size
        while self.walker.at < self.walker.end:
            header = self.walker.ext("extension") & 0x7F
            start = self.walker.at
            self.walker.skip("extension", header)
            bits = low if header < 0x40 else high
            if not bits >> (header & 0x3F) & 1:
                self.ext(header)
                self.need(self.walker.at - start)
                copy(self.data, self.at, chain.data, start, self.walker.at - start)
                self.at += self.walker.at - start
        return 0
