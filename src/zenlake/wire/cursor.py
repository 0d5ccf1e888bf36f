# SPDX-License-Identifier: Apache-2.0
"""Cursor over a buffer: primitive readers of the wire format.

Each primitive of the page "Wire Primitives" is one method, and every call names the field. In compiled code the name
costs nothing. It appears in errors ("PUT.payload at byte 17: ..."), in the test that compares reads with the diagrams,
and in `zenlake explain`.

Safety: a length is compared with the remaining bytes before anything is read or allocated.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.raw_memory import take, utf8_fault

from zenlake.errors import DecodeError

ABSENT = cython.declare(cython.Py_ssize_t, -1)
U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)

MANDATORY = cython.declare(cython.int, 0x10)  # bit of an extension header


class Field:
    """Base class of message parts that refer to a buffer."""

    def bind(self, buf):
        """Bind to a buffer for the next reads."""
        raise NotImplementedError


class Blob(Field):
    """A byte range of a buffer: a batch, an Arrow buffer, a user's object. Absent if size is -1."""

    def __init__(self, data=None):
        self.at = 0
        self.set(data)

    def set(self, data):
        """Set to a whole bytes-like object, or to absent for None."""
        absent: cython.bint = data is None
        self.point(b"" if absent else data)
        self.at = 0
        self.size = ABSENT if absent else self.buf.shape[0]

    def bind(self, buf):
        self.point(buf)
        self.size = ABSENT
        return 0

    def point(self, buf):
        if cython.compiled:
            self.buf = buf
            self.data = cython.address(self.buf[0])
        else:
            self.buf = self.data = memoryview(buf)
        return 0

    if not cython.compiled:  # compiled: inline, in the .pxd

        def clear(self):
            self.size = ABSENT

    @property
    def value(self):
        """Return the bytes as a new object, or None."""
        if self.size < 0:
            return None
        self.check()
        return take(self.data, self.at, self.size)

    @property
    def text(self):
        return None if self.size < 0 else self.value.decode("utf-8")

    @property
    def view(self):
        """Return a view of the bytes, or None. The view keeps the buffer alive."""
        if self.size < 0:
            return None
        self.check()
        return memoryview(self.buf)[self.at : self.at + self.size]

    def inside(self):
        return 0 <= self.at <= self.buf.shape[0] and self.size <= self.buf.shape[0] - self.at

    def check(self):
        if not self.inside():
            raise ValueError("this byte range belongs to another buffer")
        return 0

    def __len__(self):
        return max(self.size, 0)

    def __bytes__(self):
        return self.value or b""

    def __repr__(self):
        return f"Blob({self.value!r})"


class Cursor:
    """A position in a buffer, an end, and the name of the current message."""

    def __init__(self, buf, at=0, end=None, message="batch"):
        if buf is None:
            raise TypeError("a cursor needs bytes, not None")
        self.at = self.end = 0  # if the following code raises, nothing can be read
        self.named = message  # keeps the bytes of `message` alive
        self.message = message
        self.tracing = False
        self.steps = None
        self.point(buf)
        size: cython.Py_ssize_t = self.buf.shape[0]
        start: cython.Py_ssize_t = at
        stop: cython.Py_ssize_t = size if end is None else end
        if not 0 <= start <= stop <= size:
            raise ValueError(f"invalid range {start} to {stop} of {size} bytes")
        self.at = start
        self.end = stop

    def point(self, buf):
        if cython.compiled:
            self.buf = buf
            self.data = cython.address(self.buf[0])
        else:
            self.buf = self.data = memoryview(buf)
        return 0

    def trace(self):
        """Record every step as (message, field, kind, start, stop), for `explain` and the diagram test.

        A kind is u8, u16, vle, bytes, length (of the following bytes) or ext (an extension header).
        """
        self.tracing = True
        self.steps = []
        return self

    def span(self):
        """Return an absent byte range of this cursor's buffer."""
        out = Blob()
        out.bind(self.buf)
        return out

    def step(self, field, kind, start):
        self.steps.append((self.message, field, kind, start, self.at))
        return 0

    def was(self, kind):
        """Correct the kind of the last step: an extension header, or a length."""
        message, field, _, start, stop = self.steps.pop()
        self.steps.append((message, field, kind, start, stop))
        return 0

    def fail(self, field, at, why):
        raise DecodeError(f"{self.message}.{field}", at, why)

    def fail_short(self, field, at, need):
        left: cython.Py_ssize_t = self.end - at
        raise DecodeError(f"{self.message}.{field}", at, f"{need} byte{'s' * (need != 1)} needed, {left} left")

    def fail_too_large(self, field, at, value, most):
        raise DecodeError(f"{self.message}.{field}", at, f"{value} exceeds the maximum of {most}")

    def fail_size(self, field, at, size):
        left: cython.Py_ssize_t = self.end - self.at
        raise DecodeError(f"{self.message}.{field}", at, f"{size} bytes declared, {left} left")

    def fail_no_blob(self, field):
        raise TypeError(f"{self.message}.{field} must be read into a Blob, not into None")

    # Fixed and variable integers

    def u8(self, field):
        if self.at >= self.end:
            self.fail_short(field, self.at, 1)
        value: cython.int = self.data[self.at]
        self.at += 1
        if self.tracing:
            self.step(field, "u8", self.at - 1)
        return value

    def u16(self, field):
        """Read two bytes, little-endian."""
        if self.end - self.at < 2:
            self.fail_short(field, self.at, 2)
        value: cython.int = self.data[self.at] | self.data[self.at + 1] << 8
        self.at += 2
        if self.tracing:
            self.step(field, "u16", self.at - 2)
        return value

    def z64(self, field):
        """Read a VLE: seven bits per byte, little-endian. The ninth byte has eight bits, unlike LEB128."""
        value: cython.ulonglong
        if self.at < self.end and self.data[self.at] < 0x80 and not self.tracing:  # most have one byte
            value = self.data[self.at]
            self.at += 1
            return value
        return self.long_z64(field)

    def long_z64(self, field):
        start: cython.Py_ssize_t = self.at
        i: cython.Py_ssize_t = start
        shift: cython.int = 0
        byte: cython.ulonglong
        value: cython.ulonglong = 0
        while True:
            if i >= self.end:
                self.fail_short(field, i, 1)
            byte = self.data[i]
            i += 1
            if byte < 0x80 or shift == 56:
                break
            value |= (byte & 0x7F) << shift
            shift += 7
        value |= byte << shift
        self.at = i
        if self.tracing:
            self.step(field, "vle", start)
        return value

    def z(self, field, most):
        """Read a VLE with a maximum value."""
        start: cython.Py_ssize_t = self.at
        value: cython.ulonglong = self.z64(field)
        if value > most:
            self.fail_too_large(field, start, value, most)
        return value

    def z8(self, field):
        return self.z(field, 0xFF)

    def z16(self, field):
        return self.z(field, 0xFFFF)

    def z32(self, field):
        return self.z(field, U32)

    # Byte ranges

    def run(self, field, out, size):
        """Read the next `size` bytes."""
        if out is None:
            self.fail_no_blob(field)
        if size < 0 or size > self.end - self.at:
            self.fail_size(field, self.at, size)
        out.at = self.at
        out.size = size
        self.at += size
        if self.tracing:
            self.step(field, "bytes", out.at)
        return 0

    def rest(self, field, out):
        """Read all bytes up to the end."""
        return self.run(field, out, self.end - self.at)

    def blob(self, field, out):
        """Read a VLE length and its bytes."""
        start: cython.Py_ssize_t = self.at
        size: cython.ulonglong = self.z64(field)
        if self.tracing:
            self.was("length")
        left: cython.ulonglong = self.end - self.at
        if size > left:
            self.fail_size(field, start, size)
        return self.run(field, out, size)

    def short_blob(self, field, out, most):
        """Read like `blob`, with a maximum size."""
        start: cython.Py_ssize_t = self.at
        self.blob(field, out)
        if out.size > most:
            self.fail_too_large(field, start, out.size, most)
        return 0

    def text(self, field, out, most):
        """Read like `short_blob`, and check for UTF-8."""
        self.short_blob(field, out, most)
        return self.utf8(field, out)

    def utf8(self, field, out):
        fault: cython.Py_ssize_t = utf8_fault(self.data, out.at, out.size)
        if fault >= 0:
            self.fail(field, fault, "not valid UTF-8")
        return 0

    def zid(self, field, out, size):
        """Read a ZenohID: 1 to 16 bytes, not all zero."""
        if size < 1 or size > 16:
            self.fail(field, self.at, "a ZenohID has 1 to 16 bytes")
        self.run(field, out, size)
        i: cython.Py_ssize_t = 0
        while i < out.size:
            if self.data[out.at + i] != 0:
                return 0
            i += 1
        self.fail(field, out.at, "a ZenohID must not be zero")
        return 0

    # Extensions

    def ext(self, field):
        """Read an extension header byte: Z|ENC|M|ID."""
        at: cython.Py_ssize_t = self.at
        header: cython.int = self.u8(field)
        if self.tracing:
            self.was("ext")
        if header & message_ids.ENC == message_ids.ENC:
            self.fail(field, at, "the extension encoding 0b11 is reserved")
        return header

    def open(self, field):
        """Enter a ZBuf extension: its end becomes the end of the cursor. Return the previous end for `close`."""
        start: cython.Py_ssize_t = self.at
        size: cython.ulonglong = self.z32(field)
        if self.tracing:
            self.was("length")
        left: cython.ulonglong = self.end - self.at
        if size > left:
            self.fail_size(field, start, size)
        outer: cython.Py_ssize_t = self.end
        self.end = self.at + size
        return outer

    def close(self, field, outer):
        """Leave a ZBuf extension. All of its bytes must have been read."""
        if self.at != self.end:
            self.fail(field, self.at, "the extension has bytes after its content")
        if outer < self.end or outer > self.buf.shape[0]:
            self.fail(field, self.at, "the extension chain ends before its content")
        self.end = outer
        return 0

    def skip_unknown(self, field, header):
        """Skip an unknown extension. A mandatory one fails the message.

        It stays in the raw chain of the message and is written again from there.
        """
        if header & MANDATORY:
            self.fail(field, self.at - 1, "unknown mandatory extension")
        return self.skip(field, header)

    def skip(self, field, header):
        if header & message_ids.ENC == message_ids.ENC_Z64:
            self.z64(field)
        elif header & message_ids.ENC == message_ids.ENC_ZBUF:
            outer: cython.Py_ssize_t = self.open(field)
            start: cython.Py_ssize_t = self.at
            self.at = self.end
            self.end = outer
            if self.tracing:
                self.step(field, "bytes", start)
        return 0

    # Common fields. Compiled, the common case (one byte, no trace) is inline, in the .pxd, and falls back to these
    # methods.

    if not cython.compiled:
        next_u8 = u8
        next_z = z
        next_z64 = z64
        next_time = z64
        next_blob = short_blob
        next_zid = zid
        next_ext = ext
        next_open = open
        next_close = close
