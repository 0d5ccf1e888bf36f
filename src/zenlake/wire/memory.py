# SPDX-License-Identifier: Apache-2.0
"""The only chapter that touches raw memory: take bytes out, copy bytes across, judge UTF-8.

Everything above names a run of bytes by (buffer, at, size) and has checked it against the buffer's end before it comes
here; that is why nothing of this can be called from Python once it is compiled.
"""

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcmp, memcpy

COMPILED: bool = cython.compiled

# One bit for each byte that is not ASCII. (A literal this large inside a loop would become a Python int.)
NOT_ASCII = cython.declare(cython.ulonglong, 0x8080808080808080)


def take(buf, at, size):
    """The bytes of a run, as a fresh object."""
    if cython.compiled:
        return cython.cast(cython.p_char, cython.address(buf[at]))[:size]
    return bytes(buf[at : at + size])


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


def utf8_fault(buf, at, size):
    """The offset of the first byte that is not UTF-8, or -1. ASCII, the usual case, is judged eight bytes at a time."""
    if cython.compiled:
        word: cython.ulonglong = 0
        i: cython.Py_ssize_t = 0
        while i + 8 <= size:
            memcpy(cython.address(word), cython.address(buf[at + i]), 8)
            if word & NOT_ASCII:
                return decoder_fault(buf, at, size)
            i += 8
        while i < size:
            if buf[at + i] & 0x80:
                return decoder_fault(buf, at, size)
            i += 1
        return -1
    return decoder_fault(buf, at, size)


def decoder_fault(buf, at, size):
    """Python's own decoder is the judge of everything that is not ASCII."""
    try:
        take(buf, at, size).decode("utf-8")
    except UnicodeDecodeError as fault:
        return at + fault.start
    return -1
