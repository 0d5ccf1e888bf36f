# SPDX-License-Identifier: Apache-2.0
"""Batch framing: split one direction of a session (ordered bytes, or datagrams) into batches.

On a stream, each batch has a two-byte length prefix. After the handshake, a compressed session adds a header byte to each
batch, and a low-latency session has four-byte lengths. A stream is in one of three modes:

    SPLIT   synchronised: the next byte is a length, or inside a batch whose end is known
    SEEK    not synchronised, or not yet identified as Zenoh: bytes are held until batches are found among them
    DEAF    another protocol, or encrypted: bytes are only counted

A gap inside one batch costs only that batch, because its length gives the start of the next. Any other gap, and a capture
that starts in the middle, lead to SEEK. This module does not know about packets and ports; `flow` knows the ends.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.capture.heuristics import lz4_size, quic, starts_message, tls
from cython.cimports.zenlake.capture.resync_buffer import ResyncBuffer
from lz4 import block as lz4_block

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_FromStringAndSize
    from cython.cimports.libc.stdlib import free, malloc
    from cython.cimports.libc.string import memcpy

SPLIT = cython.declare(cython.int, 0)
SEEK = cython.declare(cython.int, 1)
DEAF = cython.declare(cython.int, 2)

PLAIN = cython.declare(cython.int, 0)  # as in recognise
COMPRESSED = cython.declare(cython.int, 1)
LOWLATENCY = cython.declare(cython.int, 2)
REJECTED = cython.declare(cython.int, 0)
ACCEPTED = cython.declare(cython.int, 1)

CERTAIN = cython.declare(cython.int, 8)
NOT_YET = cython.declare(cython.int, -1)  # as in aside
NOTHING = cython.declare(cython.int, -2)

PATIENCE = cython.declare(
    cython.Py_ssize_t, 1 << 18
)  # limit of the bytes held in SEEK: more than two of the largest batches


def copy_bytes(p, at, end):
    if cython.compiled:
        return PyBytes_FromStringAndSize(cython.cast(cython.p_const_char, p + at), end - at)
    else:
        return bytes(p[at:end])


@cython.cclass
class BatchStream:
    def __init__(self, rows, judge, flow, side: int, datagrams: bool, anchored: bool) -> None:
        self.rows = rows
        self.judge = judge
        self.flow = flow
        self.side = side  # the sending end of the flow; `direction` is known once the face is
        self.datagrams = datagrams
        self.received = 0  # of the current packet: time, number, file
        self.packet = 0
        self.file = 0
        self.have = 0  # of a batch in several pieces: bytes so far, and total size
        self.need = 0
        self.unread = 0  # bytes in DEAF mode; their packets, and the first of them
        self.unread_packets = 0
        self.unread_from = 0
        self.reset(anchored)

    def reset(self, anchored):
        self.face = -1
        self.direction = 0
        self.mode = SEEK
        self.anchored = anchored  # the next byte is the first of the connection
        self.certain = False  # synchronised since the first byte
        self.opening = False  # INIT and OPEN are still expected; they determine the framing
        self.skip = 0  # bytes until the next batch, after a gap inside a batch
        self.aside = ResyncBuffer()  # held in SEEK mode
        self.look_at = 0  # search again at this number of held bytes
        self.feeding = False
        return self.frame(PLAIN)

    def __dealloc__(self):
        if cython.compiled:
            free(self.part)

    # SPLIT mode.

    def take(self, data):
        p: cython.p_const_uchar = data
        n: cython.Py_ssize_t = len(data)
        return self.receive(p, 0, n) if self.width != 0 else self.datagram(p, 0, n)

    def receive(self, p, at, end):
        n: cython.Py_ssize_t
        while at < end:
            if self.mode == DEAF:
                self.unread += end - at
                self.unread_packets += 1
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
            elif self.have > 0:
                at = self.complete(p, at, end)
            elif end - at < self.width:
                return self.keep(p, at, end, self.width)
            else:
                n = p[at] | p[at + 1] << 8
                if self.width == 4 and (p[at + 2] | p[at + 3]) != 0:  # no batch has this length
                    with cython.gil:
                        self.seek()
                elif end - at < self.width + n:
                    return self.keep(p, at, end, self.width + n)
                else:
                    at += self.width
                    self.batch(p, at, at + n)
                    at += n
        return 0

    def keep(self, p, at, end, need):
        """Buffer the start of a batch, or of its length prefix, that continues in a later segment."""
        if self.rows.held + need > self.rows.most_held:
            with cython.gil:
                self.note("limit", end - at)
                self.seek()
            return 0
        self.rows.held += need
        if cython.compiled:
            self.part = cython.cast(cython.p_uchar, malloc(need))
            if self.part == cython.NULL:
                with cython.gil:
                    raise MemoryError(f"cannot allocate {need} bytes for a batch in several segments")
            memcpy(self.part, p + at, end - at)
        else:
            self.part = bytearray(need)
            self.part[: end - at] = p[at:end]
        self.have = end - at
        self.need = need
        return 0

    def complete(self, p, at, end):
        """Add bytes to the buffered batch and emit it when it is whole. Return the offset of the first unused byte."""
        n: cython.Py_ssize_t = min(self.need - self.have, end - at)
        if cython.compiled:
            memcpy(self.part + self.have, p + at, n)
        else:
            self.part[self.have : self.have + n] = p[at : at + n]
        self.have += n
        at += n
        if self.have < self.need:
            return at
        part: cython.p_uchar = self.part
        n = self.need
        self.have = 0
        self.rows.held -= n
        if cython.compiled:
            self.part = cython.NULL
        if n == self.width and (part[0] | part[1]) != 0 and (n == 2 or (part[2] | part[3]) == 0):
            self.keep(part, 0, n, n + (part[0] | part[1] << 8))  # the length prefix is complete
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
        if self.certain == 0 and starts_message(p, at, end, self.framing) == 0:
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
        if self.opening:
            with cython.gil:
                self.handshake(p, at, end)
        return 0

    def datagram(self, p, at, end):
        """Process a datagram, which is one batch."""
        if self.mode == SPLIT and (self.opening or end - at < 4 or p[at] & 0x3F != 1):
            return self.batch(p, at, end)
        if self.mode == DEAF and p[at] & 0x1F != message_ids.INIT and p[at] & 0x1F != message_ids.JOIN:
            self.unread += end - at
            self.unread_packets += 1
            return 0
        with cython.gil:
            if self.mode != SEEK:
                self.judge.point(copy_bytes(p, at, end))
                if self.judge.score_bytes(0, end - at, PLAIN) >= CERTAIN:
                    self.flow.again()  # INIT or JOIN: a new session between the same ports
            if self.mode == SPLIT:
                self.batch(p, at, end)
            elif self.mode == SEEK:
                self.hold(p, at, end)
            else:
                self.unread += end - at
                self.unread_packets += 1
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
            self.judge.point(copy_bytes(p, at, end))
            self.flow.add_offer(p[at] & 0x20 != 0, self.judge.features())
        elif kind == message_ids.OPEN:
            self.opening = False
            framing: cython.int = self.flow.negotiate()
            if framing >= 0:
                self.frame(framing)
            else:
                self.seek()  # half of the handshake was not captured: detect the framing from the batches
        return 0

    def frame(self, framing):
        self.framing = framing
        self.width = 0 if self.datagrams else 4 if framing == LOWLATENCY else 2  # of the length prefix
        return 0

    # SEEK mode.

    def gap(self, n):
        """Skip `n` lost bytes."""
        if self.mode == DEAF:
            return 0
        if self.mode == SEEK:
            self.look()
            if self.mode == SEEK:
                self.shed(self.aside.size)
                self.anchored = False
                return 0
        self.certain = False
        left: cython.Py_ssize_t = self.skip
        if self.have > 0 and self.need > self.width:
            left = self.need - self.have
        self.drop()
        self.skip = max(left - n, 0)
        if n > left:
            self.seek()
        return 0

    def drop(self):
        """Drop the buffered batch."""
        if self.have > 0:
            self.note("unfinished", self.have)
            self.rows.held -= self.need
            self.have = 0
            if cython.compiled:
                free(self.part)
                self.part = cython.NULL
        return 0

    def seek(self):
        self.mode = SEEK
        self.certain = False
        self.opening = False
        self.look_at = 0
        return 0

    def hold(self, p, at, end):
        self.aside.add(copy_bytes(p, at, end), self.received, self.packet, self.file)
        self.rows.held += end - at
        full: cython.bint = self.aside.size > PATIENCE or self.rows.held > self.rows.most_held
        if self.feeding or (self.aside.size < self.look_at and full == 0):
            return 0
        self.look()
        if self.mode == SEEK and full:
            self.shed(self.aside.size >> 1)
            self.flow.doubt(self)
        return 0

    def look(self):
        """Search for batches among the held bytes until synchronised or without result."""
        while self.mode == SEEK and self.aside.size > 0 and self.inspect_once():
            pass
        self.look_at = self.aside.size + (self.aside.size >> 2 if self.aside.size > 4096 else 0)
        return 0

    def inspect_once(self):
        if self.width == 0:
            return self.inspect_datagrams()
        data: bytes = self.aside.data()
        p: cython.p_const_uchar = data
        n: cython.Py_ssize_t = len(data)
        self.judge.point(data)
        if self.anchored:  # a Zenoh connection begins with INIT
            verdict: cython.int = tls(p, 0, n) if self.face < 0 else 0
            if verdict != 0:
                self.flow.register_encrypted("tls", verdict == 2)
                return 0
            verdict = self.judge.chain(0, n, PLAIN, CERTAIN, -1)
            if verdict == ACCEPTED:
                return self.settle(PLAIN, 0)
            if verdict == REJECTED or n > 4096:
                self.flow.foreign()
            return 0
        at: cython.Py_ssize_t = self.aside.find_batches(
            self.judge, self.framings(), CERTAIN if self.face < 0 else CERTAIN // 2
        )
        return self.settle(self.aside.framing, at) if at >= 0 else 0

    def inspect_datagrams(self):
        p: cython.p_const_uchar
        for data, _, _, _ in self.aside.held:
            p = data
            if self.face < 0 and quic(p, 0, len(data)):
                self.flow.register_encrypted("quic", False)
                return 0
            self.judge.point(data)
            kind = self.judge.scouts()
            if kind != 0 and self.flow.scouts(self.side, kind):
                return self.settle(PLAIN, 0)
        framing: cython.int = self.aside.find_datagrams(self.judge, self.framings(), self.face >= 0)
        if framing >= 0:
            return self.settle(framing, 0)
        if framing == NOTHING and self.face < 0:
            self.flow.foreign()
        if framing == NOT_YET or self.face < 0:
            return 0
        return self.shed(1) + 1  # an inconclusive datagram of a known session: continue with the next

    def framings(self):
        """Return the framings that the batches may have."""
        return (PLAIN, COMPRESSED, LOWLATENCY) if self.flow.framing < 0 else (self.flow.framing,)

    def settle(self, framing, at):
        """Switch to SPLIT mode at byte `at` of the held bytes."""
        self.rows.held -= self.aside.size
        held = self.aside.empty()
        self.mode = SPLIT
        self.skip = 0
        self.certain = self.anchored
        self.anchored = False
        self.frame(framing)
        start: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t
        begun: cython.bint = False
        self.feeding = True
        for data, received, packet, file in held:
            size = len(data)
            if start + size > at:
                self.received = received
                self.packet = packet
                self.file = file
                if not begun:
                    begun = True
                    data = data[max(0, at - start) :]
                    self.meet(data)
                    if at > 0:
                        self.note("skipped", at)
                self.take(data)
            start += size
        self.feeding = False
        return 1

    def meet(self, data):
        """Process the first batch of the flow, or the first after resynchronisation."""
        first: cython.int = data[self.width] if len(data) > self.width else 0
        self.opening = self.framing == PLAIN and (first & 0x1F == message_ids.INIT or first & 0x1F == message_ids.OPEN)
        self.flow.register_zenoh(self, first)
        return 0

    def shed(self, n):
        """Drop at least the oldest `n` held bytes, in whole segments."""
        done: cython.Py_ssize_t = self.aside.shed(n)
        if done > 0:
            self.note("skipped" if self.face >= 0 else "foreign", done)
            self.rows.held -= done
        self.look_at = 0
        return 0

    def follow(self, face, direction):
        """Assign the face, after this or the other direction was identified as Zenoh."""
        self.face = face
        self.direction = direction
        if (
            self.anchored and self.mode == SEEK and self.aside.size == 0
        ):  # both directions were captured from the start: synchronised from the first byte
            self.anchored = False
            self.certain = True
            self.opening = True
            self.mode = SPLIT
        elif self.mode == DEAF:
            self.seek()
        return 0

    def ignore_rest(self):
        self.mode = DEAF
        self.unread_from = self.packet
        self.unread += self.aside.size
        self.rows.held -= self.aside.size
        self.unread_packets += len(self.aside.empty())
        self.drop()
        return 0

    def note(self, kind, size):
        self.flow.note(kind, self.file, self.packet, size)
        return 0

    def finish(self):
        """Finish the stream: no more bytes will arrive."""
        if self.mode == SEEK:
            self.look()
        self.drop()
        self.shed(self.aside.size)
        if self.unread_packets > 0:
            self.flow.unread(self.file, self.unread_from, self.unread, self.unread_packets)
            self.unread = 0
            self.unread_packets = 0
        return 0

    # Save and restore, to continue in another process.

    def save(self):
        part = copy_bytes(self.part, 0, self.have) if self.have > 0 else b""
        return (
            (self.face, self.direction, self.mode, self.framing, self.received, self.packet, self.file),
            (self.anchored, self.certain, self.opening, self.skip, self.look_at),
            (self.unread, self.unread_packets, self.unread_from),
            (part, self.need, list(self.aside.held)),
        )

    def restore(self, saved):
        place, step, deaf, (part, need, held) = saved
        self.face, self.direction, self.mode, framing, self.received, self.packet, self.file = place
        self.frame(framing)
        self.anchored, self.certain, self.opening, self.skip, self.look_at = step
        self.unread, self.unread_packets, self.unread_from = deaf
        p: cython.p_const_uchar = part
        n: cython.Py_ssize_t = len(part)
        if n > 0:
            self.keep(p, 0, n, need)
        for data, received, packet, file in held:
            self.aside.add(data, received, packet, file)
        self.rows.held += self.aside.size
        return 0
