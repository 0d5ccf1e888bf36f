# SPDX-License-Identifier: Apache-2.0
"""Batch framing: split one direction of a session (ordered bytes, or datagrams) into batches.

On a stream, each batch has a two-byte length prefix. After the handshake, a compressed session adds a header byte to each
batch, and a low-latency session has four-byte lengths. A stream is in one of three modes:

    SPLIT   synchronised: the next byte is a length, or inside a batch whose end is known
    SEEK    not synchronised, or not yet identified as Zenoh: bytes are held until batches are found among them
    IGNORE    another protocol, or encrypted: bytes are only counted

A gap inside one batch costs only that batch, because its length gives the start of the next. Any other gap, and a capture
that starts in the middle, lead to SEEK. This module does not know about packets and ports; `flows` knows the ends.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.capture.heuristics import detect_quic, detect_tls, lz4_size, starts_message
from cython.cimports.zenlake.capture.resync_buffer import ResyncBuffer
from lz4 import block as lz4_block

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.stdlib import free, malloc
    from cython.cimports.libc.string import memcpy

SPLIT = cython.declare(cython.int, 0)
SEEK = cython.declare(cython.int, 1)
IGNORE = cython.declare(cython.int, 2)

PLAIN = cython.declare(cython.int, 0)  # as in heuristics
COMPRESSED = cython.declare(cython.int, 1)
LOWLATENCY = cython.declare(cython.int, 2)
REJECTED = cython.declare(cython.int, 0)
ACCEPTED = cython.declare(cython.int, 1)

CERTAIN = cython.declare(cython.int, 8)
INCONCLUSIVE = cython.declare(cython.int, -1)  # as in resync_buffer
NO_MATCH = cython.declare(cython.int, -2)

MAX_HELD = cython.declare(
    cython.Py_ssize_t, 1 << 18
)  # limit of the bytes held in SEEK: more than two of the largest batches


def copy_bytes(p, at, end):
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_const_char, p + at), end - at)
    else:
        return bytes(p[at:end])


@cython.cclass
class BatchStream:
    def __init__(self, rows, detector, flow, side: int, datagrams: bool, at_start: bool) -> None:
        self.rows = rows
        self.detector = detector
        self.flow = flow
        self.side = side  # the sending end of the flow; `direction` is known once the face is
        self.datagrams = datagrams
        self.received = 0  # of the current packet: time, number, file
        self.packet = 0
        self.file = 0
        self.part_used = 0  # of a batch in several pieces: bytes so far, and total size
        self.part_size = 0
        self.ignored_bytes = 0  # bytes in IGNORE mode; their packets, and the first of them
        self.ignored_packets = 0
        self.ignored_from = 0
        self.reset(at_start)

    def reset(self, at_start):
        self.face = -1
        self.direction = 0
        self.mode = SEEK
        self.at_start = at_start  # the next byte is the first of the connection
        self.from_start = False  # synchronised since the first byte
        self.in_handshake = False  # INIT and OPEN are still expected; they determine the framing
        self.skip = 0  # bytes until the next batch, after a gap inside a batch
        self.resync = ResyncBuffer()  # held in SEEK mode
        self.next_search = 0  # search again at this number of held bytes
        self.is_replaying = False
        return self.set_framing(PLAIN)

    def __dealloc__(self):
        if cython.compiled:
            free(self.part)

    # SPLIT mode.

    def receive_bytes(self, data):
        p: cython.p_const_uchar = data
        n: cython.Py_ssize_t = len(data)
        return self.receive(p, 0, n) if self.width != 0 else self.datagram(p, 0, n)

    def receive(self, p, at, end):
        n: cython.Py_ssize_t
        while at < end:
            if self.mode == IGNORE:
                self.ignored_bytes += end - at
                self.ignored_packets += 1
                return 0
            if self.mode == SEEK:
                with cython.gil:
                    self.hold(p, at, end)
                return 0
            if self.skip > 0:
                n = min(self.skip, end - at)
                self.skip -= n
                at += n
                with cython.gil:
                    self.note("skipped", n)
            elif self.part_used > 0:
                at = self.complete_part(p, at, end)
            elif end - at < self.width:
                return self.buffer_part(p, at, end, self.width)
            else:
                n = p[at] | p[at + 1] << 8
                if self.width == 4 and (p[at + 2] | p[at + 3]) != 0:  # no batch has this length
                    with cython.gil:
                        self.seek()
                elif end - at < self.width + n:
                    return self.buffer_part(p, at, end, self.width + n)
                else:
                    at += self.width
                    self.batch(p, at, at + n)
                    at += n
        return 0

    def buffer_part(self, p, at, end, part_size):
        """Buffer the start of a batch, or of its length prefix, that continues in a later segment."""
        if self.rows.held + part_size > self.rows.max_held:
            with cython.gil:
                self.note("limit", end - at)
                self.seek()
            return 0
        self.rows.held += part_size
        if cython.compiled:
            self.part = cython.cast(cython.p_uchar, malloc(part_size))
            if self.part == cython.NULL:
                with cython.gil:
                    raise MemoryError(f"cannot allocate {part_size} bytes for a batch in several segments")
            memcpy(self.part, p + at, end - at)
        else:
            self.part = bytearray(part_size)
            self.part[: end - at] = p[at:end]
        self.part_used = end - at
        self.part_size = part_size
        return 0

    def complete_part(self, p, at, end):
        """Add bytes to the buffered batch and emit it when it is whole. Return the offset of the first unused byte."""
        n: cython.Py_ssize_t = min(self.part_size - self.part_used, end - at)
        if cython.compiled:
            memcpy(self.part + self.part_used, p + at, n)
        else:
            self.part[self.part_used : self.part_used + n] = p[at : at + n]
        self.part_used += n
        at += n
        if self.part_used < self.part_size:
            return at
        part: cython.p_uchar = self.part
        n = self.part_size
        self.part_used = 0
        self.rows.held -= n
        if cython.compiled:
            self.part = cython.NULL
        if n == self.width and (part[0] | part[1]) != 0 and (n == 2 or (part[2] | part[3]) == 0):
            self.buffer_part(part, 0, n, n + (part[0] | part[1] << 8))  # the length prefix is complete
        elif n == self.width and n == 4 and (part[2] | part[3]) != 0:
            with cython.gil:
                self.seek()
        else:
            self.batch(part, self.width, n)
        if cython.compiled:
            free(part)
        return at

    def batch(self, p, at, end):
        """Append a whole batch to the rows."""
        wire_size: cython.Py_ssize_t = end - at + self.width
        if self.from_start == 0 and starts_message(p, at, end, self.framing) == 0:
            with cython.gil:  # not synchronised: search from here
                self.seek()
                self.hold(p, at - self.width, end)
            return 0
        if self.framing == COMPRESSED and at < end:
            if p[at] & 1:
                with cython.gil:
                    self.inflate(p, at, end)
                return 0
            at += 1
        self.rows.append(p, at, end, self.face, self.direction, wire_size, False, self.received, self.packet, self.file)
        if self.in_handshake:
            with cython.gil:
                self.handshake(p, at, end)
        return 0

    def datagram(self, p, at, end):
        """Process a datagram, which is one batch."""
        if self.mode == SPLIT and (self.in_handshake or end - at < 4 or p[at] & 0x3F != 1):
            return self.batch(p, at, end)
        if self.mode == IGNORE and p[at] & 0x1F != message_ids.INIT and p[at] & 0x1F != message_ids.JOIN:
            self.ignored_bytes += end - at
            self.ignored_packets += 1
            return 0
        with cython.gil:
            if self.mode != SEEK:
                self.detector.set_data(copy_bytes(p, at, end))
                if self.detector.score_bytes(0, end - at, PLAIN) >= CERTAIN:
                    self.flow.restart()  # INIT or JOIN: a new session between the same ports
            if self.mode == SPLIT:
                self.batch(p, at, end)
            elif self.mode == SEEK:
                self.hold(p, at, end)
            else:
                self.ignored_bytes += end - at
                self.ignored_packets += 1
        return 0

    def inflate(self, p, at, end):
        size: cython.Py_ssize_t = lz4_size(p, at + 1, end)
        plain: bytes = b""
        if size > 0:
            try:
                plain = lz4_block.decompress(copy_bytes(p, at + 1, end), uncompressed_size=size)
            except lz4_block.LZ4BlockError:
                size = 0
        if size <= 0:
            return self.note("undecodable", end - at + self.width)
        q: cython.p_const_uchar = plain
        size = end - at + self.width
        return self.rows.append(
            q, 0, len(plain), self.face, self.direction, size, True, self.received, self.packet, self.file
        )

    def handshake(self, p, at, end):
        """Process a handshake message. INIT offers features. They take effect after OPEN."""
        if at >= end:
            return 0
        kind: cython.int = p[at] & 0x1F
        if kind == message_ids.INIT:
            self.detector.set_data(copy_bytes(p, at, end))
            self.flow.add_offer(p[at] & 0x20 != 0, self.detector.features())
        elif kind == message_ids.OPEN:
            self.in_handshake = False
            framing: cython.int = self.flow.negotiate()
            if framing >= 0:
                self.set_framing(framing)
            else:
                self.seek()  # half of the handshake was not captured: detect the framing from the batches
        return 0

    def set_framing(self, framing):
        self.framing = framing
        self.width = 0 if self.datagrams else 4 if framing == LOWLATENCY else 2  # of the length prefix
        return 0

    # SEEK mode.

    def skip_gap(self, n):
        """Skip `n` lost bytes."""
        if self.mode == IGNORE:
            return 0
        if self.mode == SEEK:
            self.search()
            if self.mode == SEEK:
                self.drop_oldest(self.resync.size)
                self.at_start = False
                return 0
        self.from_start = False
        left: cython.Py_ssize_t = self.skip
        if self.part_used > 0 and self.part_size > self.width:
            left = self.part_size - self.part_used
        self.drop_part()
        self.skip = max(left - n, 0)
        if n > left:
            self.seek()
        return 0

    def drop_part(self):
        """Drop the buffered batch."""
        if self.part_used > 0:
            self.note("unfinished", self.part_used)
            self.rows.held -= self.part_size
            self.part_used = 0
            if cython.compiled:
                free(self.part)
                self.part = cython.NULL
        return 0

    def seek(self):
        self.mode = SEEK
        self.from_start = False
        self.in_handshake = False
        self.next_search = 0
        return 0

    def hold(self, p, at, end):
        self.resync.add(copy_bytes(p, at, end), self.received, self.packet, self.file)
        self.rows.held += end - at
        full: cython.bint = self.resync.size > MAX_HELD or self.rows.held > self.rows.max_held
        if self.is_replaying or (self.resync.size < self.next_search and full == 0):
            return 0
        self.search()
        if self.mode == SEEK and full:
            self.drop_oldest(self.resync.size >> 1)
            self.flow.on_full_buffer(self)
        return 0

    def search(self):
        """Search for batches among the held bytes until synchronised or without result."""
        while self.mode == SEEK and self.resync.size > 0 and self.search_once():
            pass
        self.next_search = self.resync.size + (self.resync.size >> 2 if self.resync.size > 4096 else 0)
        return 0

    def search_once(self):
        if self.width == 0:
            return self.search_datagrams()
        data: bytes = self.resync.data()
        p: cython.p_const_uchar = data
        n: cython.Py_ssize_t = len(data)
        self.detector.set_data(data)
        if self.at_start:  # a Zenoh connection begins with INIT
            verdict: cython.int = detect_tls(p, 0, n) if self.face < 0 else 0
            if verdict != 0:
                self.flow.register_encrypted("tls", verdict == 2)
                return 0
            verdict = self.detector.check_chain(0, n, PLAIN, CERTAIN, -1)
            if verdict == ACCEPTED:
                return self.synchronise(PLAIN, 0)
            if verdict == REJECTED or n > 4096:
                self.flow.ignore()
            return 0
        at: cython.Py_ssize_t = self.resync.find_batches(
            self.detector, self.framings(), CERTAIN if self.face < 0 else CERTAIN // 2
        )
        return self.synchronise(self.resync.framing, at) if at >= 0 else 0

    def search_datagrams(self):
        p: cython.p_const_uchar
        for data, _, _, _ in self.resync.held:
            p = data
            if self.face < 0 and detect_quic(p, 0, len(data)):
                self.flow.register_encrypted("quic", False)
                return 0
            self.detector.set_data(data)
            kind = self.detector.scouting_kind()
            if kind != 0 and self.flow.register_scouting(self.side, kind):
                return self.synchronise(PLAIN, 0)
        framing: cython.int = self.resync.find_datagrams(self.detector, self.framings(), self.face >= 0)
        if framing >= 0:
            return self.synchronise(framing, 0)
        if framing == NO_MATCH and self.face < 0:
            self.flow.ignore()
        if framing == INCONCLUSIVE or self.face < 0:
            return 0
        return self.drop_oldest(1) + 1  # an inconclusive datagram of a known session: continue with the next

    def framings(self):
        """Return the framings that the batches may have."""
        return (PLAIN, COMPRESSED, LOWLATENCY) if self.flow.framing < 0 else (self.flow.framing,)

    def synchronise(self, framing, at):
        """Switch to SPLIT mode at byte `at` of the held bytes."""
        self.rows.held -= self.resync.size
        held = self.resync.take_all()
        self.mode = SPLIT
        self.skip = 0
        self.from_start = self.at_start
        self.at_start = False
        self.set_framing(framing)
        start: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        is_started: cython.bint = False
        self.is_replaying = True
        for data, received, packet, file in held:
            size = len(data)
            if start + size > at:
                self.received = received
                self.packet = packet
                self.file = file
                if not is_started:
                    is_started = True
                    data = data[max(0, at - start) :]
                    self.register_first(data)
                    if at > 0:
                        self.note("skipped", at)
                self.receive_bytes(data)
            start += size
        self.is_replaying = False
        return 1

    def register_first(self, data):
        """Process the first batch of the flow, or the first after resynchronisation."""
        first: cython.int = data[self.width] if len(data) > self.width else 0
        self.in_handshake = self.framing == PLAIN and (
            first & 0x1F == message_ids.INIT or first & 0x1F == message_ids.OPEN
        )
        self.flow.register_zenoh(self, first)
        return 0

    def drop_oldest(self, n):
        """Drop at least the oldest `n` held bytes, in whole segments."""
        done: cython.Py_ssize_t = self.resync.drop_oldest(n)
        if done > 0:
            self.note("skipped" if self.face >= 0 else "foreign", done)
            self.rows.held -= done
        self.next_search = 0
        return 0

    def assign_face(self, face, direction):
        """Assign the face, after this or the other direction was identified as Zenoh."""
        self.face = face
        self.direction = direction
        if (
            self.at_start and self.mode == SEEK and self.resync.size == 0
        ):  # both directions were captured from the start: synchronised from the first byte
            self.at_start = False
            self.from_start = True
            self.in_handshake = True
            self.mode = SPLIT
        elif self.mode == IGNORE:
            self.seek()
        return 0

    def ignore_rest(self):
        self.mode = IGNORE
        self.ignored_from = self.packet
        self.ignored_bytes += self.resync.size
        self.rows.held -= self.resync.size
        self.ignored_packets += len(self.resync.take_all())
        self.drop_part()
        return 0

    def note(self, kind, size):
        self.flow.note(kind, self.file, self.packet, size)
        return 0

    def finish(self):
        """Finish the stream: no more bytes will arrive."""
        if self.mode == SEEK:
            self.search()
        self.drop_part()
        self.drop_oldest(self.resync.size)
        if self.ignored_packets > 0:
            self.flow.add_ignored(self.file, self.ignored_from, self.ignored_bytes, self.ignored_packets)
            self.ignored_bytes = 0
            self.ignored_packets = 0
        return 0

    # Save and restore, to continue in another process.

    def save(self):
        part = copy_bytes(self.part, 0, self.part_used) if self.part_used > 0 else b""
        return (
            (self.face, self.direction, self.mode, self.framing, self.received, self.packet, self.file),
            (self.at_start, self.from_start, self.in_handshake, self.skip, self.next_search),
            (self.ignored_bytes, self.ignored_packets, self.ignored_from),
            (part, self.part_size, list(self.resync.held)),
        )

    def restore(self, saved):
        place, step, ignored, (part, part_size, held) = saved
        self.face, self.direction, self.mode, framing, self.received, self.packet, self.file = place
        self.set_framing(framing)
        self.at_start, self.from_start, self.in_handshake, self.skip, self.next_search = step
        self.ignored_bytes, self.ignored_packets, self.ignored_from = ignored
        p: cython.p_const_uchar = part
        n: cython.Py_ssize_t = len(part)
        if n > 0:
            self.buffer_part(p, 0, n, part_size)
        for data, received, packet, file in held:
            self.resync.add(data, received, packet, file)
        self.rows.held += self.resync.size
        return 0
