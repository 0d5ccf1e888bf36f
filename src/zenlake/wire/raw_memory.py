# SPDX-License-Identifier: Apache-2.0
"""Raw memory access: extract bytes, copy bytes, validate UTF-8.

Safety: callers check a run (data, at, size) against the end of its buffer, and keep the buffer alive. Compiled functions
therefore cannot be called from Python. `data` is a pointer when compiled and the buffer when not. Both are indexed in
the same way. Performance: a typed memoryview is a struct of 200 bytes that every call copies, so it is not used.
"""

import cython

COMPILED: bool = cython.compiled

# One bit for each byte that is not ASCII. (A literal this large inside a loop would become a Python int.)
NOT_ASCII = cython.declare(cython.ulonglong, 0x8080808080808080)

# Multiplier that gathers the lowest bits of eight bytes in the highest byte.
GATHER = cython.declare(cython.ulonglong, 0x0102040810204080)
ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

if not cython.compiled:  # compiled: inline, in the .pxd

    def copy(target, to, source, at, size):
        """Copy a byte range into `target` at offset `to`."""
        target[to : to + size] = source[at : at + size]

    def copy_ends(target, to, source, at, size, half):
        """Copy a byte range of one to two times a size that is known at compile time."""
        copy(target, to, source, at, size)

    PADDING = 32

    def copy_padded(target, to, source, at, size):
        """Copy a byte range of at most PADDING bytes. PADDING bytes may be read and written."""
        copy(target, to, source, at, size)

    def fetch_ahead(data, at):
        """Prefetch bytes that will be read soon. They may be beyond the end of the data."""

    def equal_bytes(one, at, other, to, size):
        """Return whether two byte ranges of the same size are equal."""
        return one[at : at + size] == other[to : to + size]

    def eight_bytes(data, at):
        """Return eight bytes as a little-endian number."""
        return int.from_bytes(data[at : at + 8], "little")

    def join_sevens(word):
        """Join the lower seven bits of eight bytes."""
        return sum((word >> 8 * i & 0x7F) << 7 * i for i in range(8))

    def short_vle(data, at):
        """Decode a VLE of at most four bytes. Return its value, with its size in the lowest three bits, or -1 if it is longer."""
        value = 0
        for size in range(1, 5):
            byte = data[at + size - 1]
            value |= (byte & 0x7F) << 7 * (size - 1)
            if byte < 0x80:
                return value << 3 | size
        return -1


def take(data, at, size):
    """Copy a byte range into a new bytes object."""
    if cython.compiled:
        return cython.cast(cython.p_char, cython.address(data[at]))[:size]
    return bytes(data[at : at + size])


def utf8_fault(data, at, size):
    """Return the offset of the first byte that is not UTF-8, or -1. ASCII, the common case, is checked eight bytes at a time."""
    i: cython.Py_ssize_t = at
    end: cython.Py_ssize_t = at + size
    while i + 8 <= end:
        if eight_bytes(data, i) & NOT_ASCII:
            return decoder_fault(data, at, size)
        i += 8
    while i < end:
        if data[i] & 0x80:
            return decoder_fault(data, at, size)
        i += 1
    return -1


def decoder_fault(data, at, size):
    """Return the offset of the first invalid byte, found by the decoder of Python."""
    try:
        take(data, at, size).decode("utf-8")
    except UnicodeDecodeError as fault:
        return at + fault.start
    return -1


def eight_flags(data, at):
    """Pack eight bytes, each 0 or 1, into eight bits, lowest first."""
    bits: cython.ulonglong = eight_bytes(data, at)
    return (bits * GATHER & ALL) >> 56
