# SPDX-License-Identifier: Apache-2.0
"""TCP reassembly of one direction: captured segments -> ordered bytes.

Segments may be duplicated, early, overlapping, truncated or lost. The first copy of a byte counts. An early segment is
held until the bytes before it arrive or are considered lost: the receiver has acknowledged it, it is overdue, or too
many bytes are held. Then the stream skips the missing bytes. A UDP flow has directions too; its datagrams are passed on
directly.

The time of a byte is the latest time of its packet and of all bytes before it, because TCP delivers it then. A held
segment therefore gets the time of the late earlier segment. If that segment is lost, the held one keeps its own time.
"""

from bisect import bisect_left

import cython
from cython.cimports.zenlake.capture.batch_framing import BatchStream, copy_bytes

MASK = cython.declare(cython.uint, 0xFFFFFFFF)
HALF = cython.declare(cython.longlong, 1 << 31)
WRAP = cython.declare(cython.longlong, 1 << 32)

WINDOW = cython.declare(cython.longlong, 1 << 26)  # no receiver accepts a segment further ahead
MAX_HELD = cython.declare(cython.Py_ssize_t, 1 << 20)  # bytes; a segment counts for at least 256
ACKNOWLEDGED = cython.declare(cython.longlong, 100_000_000)  # ns to wait for bytes that the receiver has acknowledged
OVERDUE = cython.declare(cython.longlong, 10_000_000_000)  # ns to wait for bytes that it may not have


@cython.cclass
class TcpDirection:
    def __init__(self, rows, detector, flow, side: int, datagrams: bool, at_start: bool) -> None:
        self.stream = BatchStream(rows, detector, flow, side, datagrams, at_start)
        self.flow = flow
        self.side = side  # the sending end of the flow
        self.received = 0  # of the current packet: time, number, file
        self.packet = 0
        self.file = 0
        self.is_started = False
        self.closed = False
        self.first = 0  # sequence number
        self.expected = 0  # the next sequence number
        self.position = 0  # the same, counted from the start of the direction, without wrapping
        self.acknowledged = 0  # the bytes of the other direction that this side has acknowledged
        self.has_acknowledged = False
        self.held: list[tuple] = []  # early segments, in order: (position, packet, bytes, missing, received, file)
        self.held_size = 0
        self.gap_since = 0

    def begin(self, seq):
        self.is_started = True
        self.first = seq
        self.expected = seq
        return 0

    def set_packet(self):
        self.stream.received = self.received
        self.stream.packet = self.packet
        self.stream.file = self.file
        return 0

    def datagram(self, p, at, end):
        self.set_packet()
        return self.stream.datagram(p, at, end)

    def segment(self, seq, p, at, end, missing, duplicate):
        """Process a segment. `missing` bytes after p[at:end] were cut off; `duplicate` marks a duplicate of a captured packet."""
        if self.is_started == 0:
            with cython.gil:
                self.begin(seq)
        ahead: cython.longlong = (seq - self.expected) & MASK
        if ahead == 0 and self.held_size == 0:
            self.set_packet()
            return self.deliver(p, at, end, missing)
        if ahead >= HALF:
            ahead -= WRAP
        with cython.gil:
            if ahead > 0:
                self.receive_early(ahead, p, at, end, missing, duplicate)
            else:
                self.receive_late(-ahead, p, at, end, missing, duplicate)
        return 0

    def deliver(self, p, at, end, missing):
        n: cython.Py_ssize_t = end - at
        self.expected = (self.expected + n + missing) & MASK
        self.position += n + missing
        self.stream.receive(p, at, end)
        if missing > 0:
            with cython.gil:
                self.note("cut", missing)
                self.stream.skip_gap(missing)
        return 0

    def receive_late(self, behind, p, at, end, missing, duplicate):
        """Deliver a segment that is in order, or partly or fully delivered before."""
        n: cython.Py_ssize_t = end - at
        if behind >= WINDOW:
            return self.note("malformed", n)
        repeated: cython.Py_ssize_t = min(behind, n)
        if repeated > 0:
            self.note("duplicated" if duplicate else "retransmitted", repeated)
        if behind < n + missing:
            self.set_packet()
            self.deliver(p, at + repeated, end, missing - (behind - repeated))
            self.drain()
        return 0

    def receive_early(self, ahead, p, at, end, missing, duplicate):
        n: cython.Py_ssize_t = end - at
        if ahead >= WINDOW:
            return self.note("malformed", n)
        if self.held_size == 0:
            self.gap_since = self.received
        place: cython.longlong = self.position + ahead
        i: cython.Py_ssize_t = bisect_left(self.held, (place,))
        if i < len(self.held) and self.held[i][0] == place and len(self.held[i][2]) >= n:
            return self.note("duplicated" if duplicate else "retransmitted", n)
        self.note("out-of-order", n)
        self.held.insert(i, (place, self.packet, copy_bytes(p, at, end), missing, self.received, self.file))
        self.held_size += max(n, 256)
        self.stream.rows.held += max(n, 256)
        waited: cython.longlong = self.received - self.gap_since
        is_acknowledged: cython.bint = waited > ACKNOWLEDGED and self.flow.is_acknowledged(self.side)
        full: cython.bint = self.held_size > MAX_HELD or self.stream.rows.held > self.stream.rows.max_held
        if full or waited > OVERDUE or is_acknowledged:
            self.skip_gap()
        return 0

    def drain(self):
        """Deliver held segments that are now in order."""
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
            repeated: cython.Py_ssize_t = min(behind, n)
            if repeated > 0:
                self.note("retransmitted", repeated)
            if behind < n + missing:
                p: cython.p_const_uchar = data
                self.deliver(p, repeated, n, missing - (behind - repeated))
        self.gap_since = self.received
        return 0

    def skip_gap(self):
        """Give up the bytes before the first held segment."""
        if self.held:
            n: cython.Py_ssize_t = self.held[0][0] - self.position
            self.note("missing", n)
            self.stream.skip_gap(n)
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
            self.skip_gap()
        self.stream.finish()
        return 0

    def save(self):
        return (
            self.stream.save(),
            (
                self.received,
                self.packet,
                self.file,
                self.is_started,
                self.closed,
                self.acknowledged,
                self.has_acknowledged,
            ),
            (self.first, self.expected, self.position, self.gap_since, list(self.held)),
        )

    def restore(self, saved):
        stream, place, order = saved
        self.stream.restore(stream)
        (
            self.received,
            self.packet,
            self.file,
            self.is_started,
            self.closed,
            self.acknowledged,
            self.has_acknowledged,
        ) = place
        self.first, self.expected, self.position, self.gap_since, self.held = order
        self.held_size = sum([max(len(segment[2]), 256) for segment in self.held])
        self.stream.rows.held += self.held_size
        return 0
