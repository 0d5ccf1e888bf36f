# SPDX-License-Identifier: Apache-2.0
"""One direction of a TCP connection: segments as they were captured -> bytes in order.

Segments may come twice, early, overlapping, cut short, or never. The first copy of a byte counts. An early segment is
held until what lies before it comes, or is known to be lost: its receiver has acknowledged it, it is overdue, or too
much is held. Then the stream is told how many bytes are missing. A UDP flow has lanes too; datagrams go straight on.

A byte is as late as the packet that carries it or any byte before it: that is when TCP could hand it over. So what was
held for want of an earlier segment gets that segment's time, and what was held in vain keeps its own.
"""

from bisect import bisect_left

import cython

if cython.compiled:
    from cython.cimports.zenlake.capture.framing import Stream, copied
else:
    from zenlake.capture.framing import Stream, copied

MASK = cython.declare(cython.uint, 0xFFFFFFFF)
HALF = cython.declare(cython.longlong, 1 << 31)
WRAP = cython.declare(cython.longlong, 1 << 32)

WINDOW = cython.declare(cython.longlong, 1 << 26)  # no receiver takes a segment further ahead than this
MOST_HELD = cython.declare(cython.Py_ssize_t, 1 << 20)  # bytes; a segment counts for 256 of them at least
ACKNOWLEDGED = cython.declare(cython.longlong, 100_000_000)  # ns to wait for bytes that their receiver has
OVERDUE = cython.declare(cython.longlong, 10_000_000_000)  # ns to wait for bytes that it may not have


@cython.cclass
class Lane:
    def __init__(self, rows, judge, flow, side: int, datagrams: bool, anchored: bool) -> None:
        self.stream = Stream(rows, judge, flow, side, datagrams, anchored)
        self.flow = flow
        self.side = side  # which end of the flow sends
        self.received = 0  # of the packet in hand: time, number, file
        self.packet = 0
        self.file = 0
        self.begun = False
        self.closed = False
        self.first = 0  # sequence number
        self.expected = 0  # the next sequence number
        self.position = 0  # the same, counted from where the lane began and never wrapping
        self.acknowledged = 0  # what this side has of the other lane
        self.acknowledges = False
        self.held: list[tuple] = []  # early segments, in order: (position, packet, bytes, missing, received, file)
        self.held_size = 0
        self.gap_since = 0

    def begin(self, seq):
        self.begun = True
        self.first = seq
        self.expected = seq
        return 0

    def mark(self):
        self.stream.received = self.received
        self.stream.packet = self.packet
        self.stream.file = self.file
        return 0

    def datagram(self, p, at, end):
        self.mark()
        return self.stream.datagram(p, at, end)

    def segment(self, seq, p, at, end, missing, twin):
        """`missing` bytes follow p[at:end] that the snap length cut off; `twin`: this packet was captured before."""
        if self.begun == 0:
            with cython.gil:
                self.begin(seq)
        ahead: cython.longlong = (seq - self.expected) & MASK
        if ahead == 0 and self.held_size == 0:
            self.mark()
            return self.deliver(p, at, end, missing)
        if ahead >= HALF:
            ahead -= WRAP
        with cython.gil:
            if ahead > 0:
                self.early(ahead, p, at, end, missing, twin)
            else:
                self.late(-ahead, p, at, end, missing, twin)
        return 0

    def deliver(self, p, at, end, missing):
        n: cython.Py_ssize_t = end - at
        self.expected = (self.expected + n + missing) & MASK
        self.position += n + missing
        self.stream.receive(p, at, end)
        if missing > 0:
            with cython.gil:
                self.note("cut", missing)
                self.stream.gap(missing)
        return 0

    def late(self, behind, p, at, end, missing, twin):
        """Its turn has come, or all or some of it was delivered before."""
        n: cython.Py_ssize_t = end - at
        if behind >= WINDOW:
            return self.note("malformed", n)
        again: cython.Py_ssize_t = min(behind, n)
        if again > 0:
            self.note("duplicated" if twin else "retransmitted", again)
        if behind < n + missing:
            self.mark()
            self.deliver(p, at + again, end, missing - (behind - again))
            self.drain()
        return 0

    def early(self, ahead, p, at, end, missing, twin):
        n: cython.Py_ssize_t = end - at
        if ahead >= WINDOW:
            return self.note("malformed", n)
        if self.held_size == 0:
            self.gap_since = self.received
        place: cython.longlong = self.position + ahead
        i: cython.Py_ssize_t = bisect_left(self.held, (place,))
        if i < len(self.held) and self.held[i][0] == place and len(self.held[i][2]) >= n:
            return self.note("duplicated" if twin else "retransmitted", n)
        self.note("out-of-order", n)
        self.held.insert(i, (place, self.packet, copied(p, at, end), missing, self.received, self.file))
        self.held_size += max(n, 256)
        self.stream.rows.held += max(n, 256)
        waited: cython.longlong = self.received - self.gap_since
        known: cython.bint = waited > ACKNOWLEDGED and self.flow.delivered(self.side)
        full: cython.bint = self.held_size > MOST_HELD or self.stream.rows.held > self.stream.rows.most_held
        if full or waited > OVERDUE or known:
            self.pass_gap()
        return 0

    def drain(self):
        """Delivers held segments whose turn has come."""
        s = self.stream
        while self.held and self.held[0][0] <= self.position:
            place, packet, data, missing, received, file = self.held.pop(0)
            n: cython.Py_ssize_t = len(data)
            self.held_size -= max(n, 256)
            self.stream.rows.held -= max(n, 256)
            if (file, packet) > (s.file, s.packet):
                s.received = received
                s.packet = packet
                s.file = file
            behind: cython.Py_ssize_t = self.position - place
            again: cython.Py_ssize_t = min(behind, n)
            if again > 0:
                self.note("retransmitted", again)
            if behind < n + missing:
                p: cython.p_const_uchar = data
                self.deliver(p, again, n, missing - (behind - again))
        self.gap_since = self.received
        return 0

    def pass_gap(self):
        """What lies before the first held segment will not come any more."""
        if self.held:
            n: cython.Py_ssize_t = self.held[0][0] - self.position
            self.note("missing", n)
            self.stream.gap(n)
            self.expected = (self.expected + n) & MASK
            self.position += n
            self.drain()
        return 0

    def note(self, kind, size):
        self.flow.note(kind, self.file, self.packet, size)
        return 0

    def finish(self):
        self.closed = True
        while self.held:
            self.pass_gap()
        self.stream.finish()
        return 0

    def save(self):
        return (
            self.stream.save(),
            (self.received, self.packet, self.file, self.begun, self.closed, self.acknowledged, self.acknowledges),
            (self.first, self.expected, self.position, self.gap_since, list(self.held)),
        )

    def restore(self, saved):
        stream, place, order = saved
        self.stream.restore(stream)
        self.received, self.packet, self.file, self.begun, self.closed, self.acknowledged, self.acknowledges = place
        self.first, self.expected, self.position, self.gap_since, self.held = order
        self.held_size = sum([max(len(early[2]), 256) for early in self.held])
        self.stream.rows.held += self.held_size
        return 0
