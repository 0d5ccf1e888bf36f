# SPDX-License-Identifier: Apache-2.0
"""The only chapter that touches raw memory: take bytes out, copy bytes across, judge UTF-8.

Everything above names a run of bytes by (data, at, size) and has checked it against the buffer's end before it comes
here; that is why nothing of this can be called from Python once it is compiled. `data` is a pointer when compiled and
the buffer itself when not; both are indexed alike. (A typed memoryview would be indexed alike too, but it is a struct
of 200 bytes that every call copies.) Whoever keeps `data` keeps the buffer it points into.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy

COMPILED: bool = cython.compiled

# One bit for each byte that is not ASCII. (A literal this large inside a loop would become a Python int.)
NOT_ASCII = cython.declare(cython.ulonglong, 0x8080808080808080)

# Masks that bring 8 groups of 7 bits together: pairs, pairs of pairs, and those again.
ONES = cython.declare(cython.ulonglong, 0x007F007F007F007F)
TWOS = cython.declare(cython.ulonglong, 0x00003FFF00003FFF)
FOURS = cython.declare(cython.ulonglong, 0x000000000FFFFFFF)


def take(data, at, size):
    """The bytes of a run, as a fresh object."""
    if cython.compiled:
        return cython.cast(cython.p_char, cython.address(data[at]))[:size]
    return bytes(data[at : at + size])


def copy(target, to, source, at, size):
    """Copy a run into `target` from its byte `to` on."""
    if cython.compiled:
        memcpy(cython.address(target[to]), cython.address(source[at]), size)
    else:
        target[to : to + size] = source[at : at + size]


def same(one, at, other, to, size):
    """Whether two runs of the same size are equal."""
    if cython.compiled:
        return memcmp(cython.address(one[at]), cython.address(other[to]), size) == 0
    return one[at : at + size] == other[to : to + size]


def utf8_fault(data, at, size):
    """The offset of the first byte that is not UTF-8, or -1. ASCII, the usual case, is judged eight bytes at a time."""
    if cython.compiled:
        word: cython.ulonglong = 0
        i: cython.Py_ssize_t = 0
        while i + 8 <= size:
            memcpy(cython.address(word), cython.address(data[at + i]), 8)
            if word & NOT_ASCII:
                return decoder_fault(data, at, size)
            i += 8
        while i < size:
            if data[at + i] & 0x80:
                return decoder_fault(data, at, size)
            i += 1
        return -1
    return decoder_fault(data, at, size)


def decoder_fault(data, at, size):
    """Python's own decoder is the judge of everything that is not ASCII."""
    try:
        take(data, at, size).decode("utf-8")
    except UnicodeDecodeError as fault:
        return at + fault.start
    return -1


def nine_bytes(data, at):
    """Whether the next eight bytes all say "more follows": then a VLE is nine bytes long. Nine bytes must be there."""
    if cython.compiled:
        word: cython.ulonglong = 0
        memcpy(cython.address(word), cython.address(data[at]), 8)
        return word & NOT_ASCII == NOT_ASCII
    else:
        return all(byte >= 0x80 for byte in data[at : at + 8])


def packed_bits(data, at):
    """The low seven bits of eight bytes, little end first, as one number of 56 bits."""
    if cython.compiled:
        word: cython.ulonglong = 0
        memcpy(cython.address(word), cython.address(data[at]), 8)
        word = (word & ONES) | ((word >> 1) & (ONES << 7))
        word = (word & TWOS) | ((word >> 2) & (TWOS << 14))
        return (word & FOURS) | ((word >> 4) & (FOURS << 28))
    value: cython.ulonglong = 0
    i: cython.int
    for i in range(8):
        value |= (data[at + i] & 0x7F) << 7 * i
    return value
