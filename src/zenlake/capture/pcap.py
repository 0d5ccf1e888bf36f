# SPDX-License-Identifier: Apache-2.0
"""Capture files: byte sources, and the packets in them.

`CaptureFile` provides the bytes: with random access, or sequentially for a compressed file or a pipe. `Packets` iterates
over the records of pcap or the blocks of pcapng in a sliding window. `FileError` ends a file with a reason; the packets
before it stay valid. This module does not interpret packets.

Performance: files are not memory-mapped. Mapping and unmapping pages takes longer than copying them into reused memory.
The cost is highest while another thread runs, because each unmapped page interrupts the core of that thread.
"""

import gzip
import os
import struct
import sys
import zlib
from typing import Any

import cython
import pyarrow as pa

if cython.compiled:
    from cython.cimports.cpython.bytearray import PyByteArray_AS_STRING
    from cython.cimports.posix.unistd import pread

MORE = cython.declare(cython.int, 0)  # more input is needed
PACKET = cython.declare(cython.int, 1)
ENDED = cython.declare(cython.int, 2)

PCAP = cython.declare(cython.int, 1)
PCAPNG = cython.declare(cython.int, 2)

MULTIPLY = cython.declare(cython.longlong, 0)  # conversion of an interface's clock ticks to nanoseconds
DIVIDE = cython.declare(cython.longlong, 1)
BINARY = cython.declare(cython.longlong, 2)
SECOND = cython.declare(cython.ulonglong, 1_000_000_000)
LATEST = cython.declare(cython.ulonglong, (1 << 63) - 1)

# Block types of pcapng.
SECTION = cython.declare(cython.uint, 0x0A0D0D0A)
INTERFACE = cython.declare(cython.uint, 1)
OBSOLETE = cython.declare(cython.uint, 2)
SIMPLE = cython.declare(cython.uint, 3)
STATISTICS = cython.declare(cython.uint, 5)
ENHANCED = cython.declare(cython.uint, 6)
JOURNAL = cython.declare(cython.uint, 9)

MAX_RECORD = cython.declare(cython.Py_ssize_t, 1 << 24)  # a longer record or block is treated as damage
GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"
MAX_OPTIONS = 1000  # of a block; further options are ignored
MAX_INTERFACES = 1 << 16
WINDOW = 1 << 18  # bytes per read: they are still in the core's own cache when the packets are parsed


class FileError(Exception):
    """The reason why a file cannot be read further."""


def is_contiguous(path):
    """Return whether a file can be read at any offset: it is not a pipe and not compressed."""
    if path == "-" or not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        magic = file.read(4)
    return magic[:2] != GZIP and magic != ZSTD


@cython.cclass
class CaptureFile:
    """A capture file. `-` is the standard input."""

    def __init__(self, path: str) -> None:
        self.stream: Any = None
        self.owns_descriptor = path != "-"
        self.stream = open(path, "rb") if self.owns_descriptor else sys.stdin.buffer  # noqa: SIM115
        self.chunks = None  # decompressed stream of a file without random access
        self.number = -1  # file descriptor of a file with random access
        self.size = 0  # size at opening; bytes appended later are not read
        magic = self.stream.peek(4)[:4]
        if magic[:2] == GZIP:
            self.chunks = chunks(gzip.GzipFile(fileobj=self.stream).read1)
        elif magic == ZSTD:
            self.chunks = chunks(pa.CompressedInputStream(pa.PythonFile(self.stream, "r"), "zstd").read)
        else:
            self.number = self.stream.fileno()
            self.size = os.fstat(self.number).st_size if self.stream.seekable() else 0
            if self.size == 0:
                self.chunks = chunks(self.stream.read1)

    def __del__(self):
        if self.stream is not None and self.owns_descriptor:
            self.stream.close()


def chunks(read):
    while True:
        try:
            piece = read(WINDOW)
        except (EOFError, OSError, zlib.error) as error:
            raise FileError(f"the compressed data is truncated or damaged: {error}") from error
        if not piece:
            return
        yield piece


def u16(p, at, is_big_endian):
    return p[at] << 8 | p[at + 1] if is_big_endian else p[at + 1] << 8 | p[at]


def u32(p, at, is_big_endian):
    high: cython.uint
    if is_big_endian:
        high = p[at]
        return high << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]
    high = p[at + 3]
    return high << 24 | p[at + 2] << 16 | p[at + 1] << 8 | p[at]


@cython.cclass
class Packets:
    """The packets of one file. After `next() == PACKET`: p[data:data_end], link, received, number, missing."""

    def __init__(self, source: CaptureFile | None = None) -> None:
        self.source = source
        self.memory = None  # buffer for the windows
        self.capacity = 0
        self.set_window(b"", 0, 0)
        self.container = 0
        self.is_big_endian = False  # byte order of the writer
        self.drops: dict[int, int] = {}  # by interface
        self.reported_drops = 0
        self.error = ""
        self.number = 0
        self.received = 0
        self.interface_count = 0
        self.interface_memory = bytearray()

    def read_window(self):
        """Read the next window of the file. Return False at the end."""
        if self.source is None:
            return False
        if self.source.chunks is not None:
            piece = next(self.source.chunks, None)
            if piece is not None:
                self.feed(piece)
            return piece is not None
        at: cython.Py_ssize_t = self.first + self.at
        left: cython.Py_ssize_t = self.end - self.at
        size: cython.Py_ssize_t = min(
            max(WINDOW, 2 * left), self.source.size - at
        )  # a large packet may need a larger window
        if size <= left:
            return False
        if (
            self.capacity < size
        ):  # Arrow buffers begin at a cache line; at an offset of 16 bytes the copy takes a third longer
            self.memory = memoryview(pa.allocate_buffer(size)).cast("B")
            self.capacity = size
        try:
            size = os.preadv(self.source.number, [self.memory[:size]], at)
        except OSError as error:
            raise FileError(f"cannot read the file: {error}") from error
        if size <= left:
            raise FileError(f"the file was truncated to {at + size} bytes while it was read")
        self.set_window(self.memory, at, size)
        return True

    def refill(self):
        """Read the next window without the GIL, if that only means to read into the same memory.

        Performance: a thread that requests the GIL from another thread waits 20 to 40 us for its wake-up.
        """
        if cython.compiled:
            at: cython.Py_ssize_t = self.first + self.at
            left: cython.Py_ssize_t = self.end - self.at
            if 2 * left < self.capacity and left < self.source.size - at:
                size: cython.Py_ssize_t = min(self.capacity, self.source.size - at)
                size = pread(self.source.number, cython.cast(cython.p_void, self.p), size, at)
                if size > left:
                    self.first = at
                    self.at = 0
                    self.end = size
                    return True
        return False

    def feed(self, buffer):
        """Append a chunk of the file to the unused rest of the previous one."""
        if self.at < self.end:
            buffer = bytes(memoryview(self.owner)[self.at : self.end]) + bytes(buffer)
        return self.set_window(buffer, self.first + self.at, len(buffer))

    def set_window(self, buffer, first, size):
        """Use these bytes as the window. They begin at this offset of the file."""
        self.owner = buffer
        self.first = first  # offset of p[0] in the file
        self.at = 0
        self.end = size
        if cython.compiled:
            view: cython.const[cython.uchar][::1] = buffer
            if self.end > 0:
                self.p = cython.address(view[0])
        else:
            self.p = memoryview(buffer)
        return 0

    def finish(self):
        """Check the end of the file. Return the number of packets that the capturing machine reports as lost."""
        if not self.error and self.number == 0 and self.container == 0:
            self.fail("the file is empty" if self.at == self.end else "neither pcap nor pcapng")
        elif not self.error and self.at < self.end:
            self.fail(f"the file ends inside a packet: {self.end - self.at} bytes are left over")
        self.owner = b""
        self.at = self.end = 0
        self.source = self.memory = None
        self.capacity = 0
        return max(sum(self.drops.values()), self.reported_drops)

    def peek(self):
        """Return whether a first packet can be read."""
        return self.next() != MORE

    def fail(self, why):
        self.error = why
        return ENDED

    def next(self):
        if self.container == PCAP:
            return self.next_pcap()
        if self.container == PCAPNG:
            return self.next_pcapng()
        found: cython.int
        with cython.gil:
            found = self.parse_header()
        return found

    def parse_header(self):
        """Parse the file header."""
        if self.end < 24:
            return MORE
        magic: bytes = bytes(memoryview(self.owner)[:4])
        if magic == b"\x0a\x0d\x0d\x0a":
            self.container = PCAPNG
            return self.next_pcapng()
        digits = {
            b"\xd4\xc3\xb2\xa1": (False, 6),
            b"\xa1\xb2\xc3\xd4": (True, 6),
            b"\x4d\x3c\xb2\xa1": (False, 9),
            b"\xa1\xb2\x3c\x4d": (True, 9),
        }.get(magic)
        if digits is None:
            return self.fail("neither pcap nor pcapng")
        self.container = PCAP
        self.is_big_endian = digits[0]
        self.at = 24
        self.add_interface(u32(self.p, 20, self.is_big_endian) & 0xFFFF, digits[1], 0, 0)
        return self.next_pcap()

    def next_pcap(self):
        at: cython.Py_ssize_t = self.at
        if self.end - at < 16:
            return MORE
        size: cython.Py_ssize_t = u32(self.p, at + 8, self.is_big_endian)
        if size > MAX_RECORD:
            with cython.gil:
                return self.fail(f"packet {self.number + 1} claims {size} bytes: the file is damaged from here on")
        if self.end - at - 16 < size:
            return MORE
        seconds: cython.ulonglong = u32(self.p, at, self.is_big_endian)
        scale: cython.ulonglong = self.interfaces[2]
        ticks: cython.ulonglong = seconds * (SECOND // scale) + u32(self.p, at + 4, self.is_big_endian)
        self.at = at + 16 + size
        return self.packet(0, ticks, at + 16, size, u32(self.p, at + 12, self.is_big_endian))

    def open_lookahead(self):
        """Return a second reader at the same position, to look ahead as far as possible without consuming the source."""
        other = Packets(self.source if self.capacity > 0 else None)
        other.owner = self.owner
        other.p = self.p
        other.first = self.first
        other.at = self.at
        other.end = self.end
        other.container = self.container
        other.is_big_endian = self.is_big_endian
        other.interface_memory = bytearray(self.interface_memory)
        other.interface_count = self.interface_count
        other.bind_interfaces()
        return other

    def position(self):
        """Return the offset of the next packet and the state that is needed to continue from there."""
        known = bytes(self.interface_memory[: 40 * self.interface_count])
        return self.first + self.at, self.number, self.received, self.container, self.is_big_endian, known

    def seek(self, place):
        """Continue at a saved position. Nothing may have been read before."""
        self.first, self.number, self.received, self.container, self.is_big_endian, known = place
        if not cython.compiled:
            self.interfaces = None  # so that its memory may be reallocated
        self.interface_memory = bytearray(known)
        self.interface_count = len(known) // 40
        return self.bind_interfaces()

    def packet(self, interface, ticks, at, size, original):
        """Fill the record with the next packet of a pcap file."""
        i: cython.Py_ssize_t = 5 * interface
        kind: cython.longlong = self.interfaces[i + 1]
        scale: cython.ulonglong = self.interfaces[i + 2]
        bits: cython.int
        rest: cython.ulonglong
        if kind == MULTIPLY:
            ticks *= scale
        elif kind == DIVIDE:
            ticks //= scale
        else:  # a power of two: seconds, and the fraction down to 30 bits
            bits = scale
            rest = ticks - (ticks >> bits << bits)
            if bits > 30:
                rest >>= bits - 30
            ticks = (ticks >> bits) * SECOND + (rest * SECOND >> min(bits, 30))
        self.received = (ticks + self.interfaces[i + 3]) & LATEST
        self.link = self.interfaces[i]
        self.data = at
        self.data_end = at + size
        self.missing = max(0, original - size)
        self.number += 1
        return PACKET

    def next_pcapng(self):
        """Find the next packet of a pcapng file. Blocks of other types are processed on the way."""
        p: cython.p_const_uchar = self.p
        at: cython.Py_ssize_t
        body: cython.Py_ssize_t
        size: cython.Py_ssize_t
        kind: cython.uint
        interface: cython.longlong
        ticks: cython.ulonglong
        while self.end - self.at >= 12:
            at = self.at
            kind = u32(p, at, self.is_big_endian)
            if kind == SECTION:
                with cython.gil:
                    if self.parse_section(at) == ENDED:
                        return ENDED
            size = u32(p, at + 4, self.is_big_endian)
            if size < 12 or size > MAX_RECORD or size & 3:
                with cython.gil:
                    return self.fail(f"after packet {self.number}, a block claims {size} bytes: the file is damaged")
            if self.end - at < size:
                return MORE
            self.at = at + size
            body = at + 8
            size -= 12  # of the body
            if kind == ENHANCED and size >= 20:
                interface = u32(p, body, self.is_big_endian)
                ticks = u32(p, body + 4, self.is_big_endian)
                ticks = ticks << 32 | u32(p, body + 8, self.is_big_endian)
                at = u32(p, body + 12, self.is_big_endian)
                if interface < self.interface_count and at <= size - 20:
                    if size - 24 >= at:
                        with cython.gil:
                            for code, value in self.parse_options(body + 20 + (at + 3 & ~3), body + size):
                                self.reported_drops += value if code == 4 else 0
                    return self.packet(interface, ticks, body + 20, at, u32(p, body + 16, self.is_big_endian))
            elif kind == SIMPLE and size >= 4:
                at = u32(p, body, self.is_big_endian)
                if self.interface_count > 0:
                    kind = min(at, size - 4)
                    if self.interfaces[4] > 0:
                        kind = min(kind, self.interfaces[4])
                    when: cython.longlong = self.received
                    self.packet(0, 0, body + 4, kind, at)
                    self.received = when  # it has no timestamp
                    return PACKET
            elif kind == OBSOLETE and size >= 20:
                interface = u16(p, body, self.is_big_endian)
                ticks = u32(p, body + 4, self.is_big_endian)
                ticks = ticks << 32 | u32(p, body + 8, self.is_big_endian)
                at = u32(p, body + 12, self.is_big_endian)
                if interface < self.interface_count and at <= size - 20:
                    return self.packet(interface, ticks, body + 20, at, u32(p, body + 16, self.is_big_endian))
            else:
                with cython.gil:
                    if kind == INTERFACE and size >= 8:
                        if self.parse_interface(body, body + size) == ENDED:
                            return ENDED
                    elif kind == STATISTICS and size >= 12:
                        self.parse_statistics(body, body + size)
                    elif kind == JOURNAL:
                        self.number += 1  # Wireshark numbers these as well
                continue
            with cython.gil:
                return self.fail(
                    f"packet {self.number + 1} does not fit its block or its interface is not declared: the file is damaged"
                )
        return MORE

    def parse_section(self, at):
        """Parse a section header: it sets the byte order and resets the interfaces."""
        magic: bytes = bytes(memoryview(self.owner)[at + 8 : at + 12])
        if magic not in (b"\x1a\x2b\x3c\x4d", b"\x4d\x3c\x2b\x1a"):
            return self.fail(f"after packet {self.number}, a section without a byte order: the file is damaged")
        self.is_big_endian = magic == b"\x1a\x2b\x3c\x4d"
        self.interface_count = 0
        return 0

    def parse_interface(self, at, end):
        """Parse an interface: link type, snap length, unit of its clock."""
        resolution: cython.int = 6
        offset: cython.longlong = 0
        if self.interface_count >= MAX_INTERFACES:
            return self.fail(f"after packet {self.number}, more than {MAX_INTERFACES} interfaces: the file is damaged")
        for code, value in self.parse_options(at + 8, end):
            if code == 9:
                resolution = value & 0xFF
            elif code == 14:
                offset = value - (1 << 64) if value >> 63 else value
        return self.add_interface(
            u16(self.p, at, self.is_big_endian), resolution, offset, u32(self.p, at + 4, self.is_big_endian)
        )

    def add_interface(self, link, resolution, offset, snaplen):
        """Add a clock. `resolution`: ticks are 10**-n seconds, or 2**-n with bit 7 set. `offset`: seconds to add."""
        kind: cython.int = BINARY if resolution & 0x80 else MULTIPLY if resolution <= 9 else DIVIDE
        n: cython.int = resolution & 0x7F
        power: object = 9 - n if kind == MULTIPLY else min(n - 9, 18)  # a Python object: ** of C gives a float
        scale = min(n, 63) if kind == BINARY else 10**power
        seconds = max(-(1 << 32), min(offset, 1 << 32))
        if not cython.compiled:
            self.interfaces = None  # so that its memory may be reallocated
        del self.interface_memory[40 * self.interface_count :]
        self.interface_memory += struct.pack("=5q", link, kind, scale, seconds * 1_000_000_000, snaplen)
        self.interface_count += 1
        return self.bind_interfaces()

    def bind_interfaces(self):
        if cython.compiled:
            self.interfaces = cython.cast(cython.p_longlong, PyByteArray_AS_STRING(self.interface_memory))
        else:
            self.interfaces = memoryview(self.interface_memory).cast("q")
        return 0

    def parse_statistics(self, at, end):
        """Parse interface statistics. The last ones of an interface count."""
        interface = u32(self.p, at, self.is_big_endian)
        if interface < self.interface_count:
            self.drops[interface] = sum([value for code, value in self.parse_options(at + 12, end) if code in (5, 7)])
        return 0

    def parse_options(self, at, end):
        """Parse options into (code, integer)."""
        found = []
        while end - at >= 4 and len(found) < MAX_OPTIONS:
            code = u16(self.p, at, self.is_big_endian)
            size: cython.Py_ssize_t = u16(self.p, at + 2, self.is_big_endian)
            if code == 0 or size > end - at - 4:
                break
            data = bytes(memoryview(self.owner)[at + 4 : at + 4 + min(size, 8)])
            found.append((code, int.from_bytes(data, "big" if self.is_big_endian else "little")))
            at += 4 + (size + 3 & ~3)
        return found
