# SPDX-License-Identifier: Apache-2.0
"""Sequence numbers of one direction: 8 priorities x 2 reliabilities, and partial messages.

Rule (companion transport.md): a number is new if it is less than half the number space ahead of the last one. Gaps are
accepted, because nothing is resent. Duplicates and older numbers are dropped. The space is smaller than the name of the
resolution: 7, 14 and 28 bits for "8", "16" and "32" (divergence A2).
"""

import cython

NOT_SEEN = cython.declare(cython.longlong, -1)

if not cython.compiled:  # compiled: C constants, in the .pxd
    # Results of `accept`, besides the number of missing frames.
    OLD = -1
    OUT_OF_RANGE = -2

    # Results of `join`.
    JOINED = 1
    WAITING = 0
    NO_START = -2
    NOT_NEXT = -3
    DROPPED = -4
    TOO_LARGE = -5
    SKIPPED = -6
    ENDED = -7

LANES = cython.declare(cython.int, 16)
GIB = cython.declare(cython.Py_ssize_t, 1 << 30)


def mask_of(resolution):
    """Return the largest sequence number of a resolution code.

    The 64-bit code is never negotiated.
    """
    return (0x7F, 0x3FFF, 0x0FFFFFFF, 0x7FFFFFFFFFFFFFFF)[resolution & 3]


class Lanes:
    """The lanes of one direction of a session."""

    MISSES = {
        -2: "a fragment without the first one",
        -3: "a fragment is missing",
        -4: "the sender dropped the rest",
        -5: "longer than the largest message allowed",
        -7: "the rest of a message that was lost",
    }

    def __init__(self):
        self.last = [-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]
        self.expected = [-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]
        self.mask = mask_of(2)
        self.patch = 1
        self.max_message_size = GIB
        self.parts = [None] * LANES
        self.pieces = [0] * LANES
        self.skipped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        self.skipped_count = 0

    def start(self, initial_sn):
        """Start every lane at the initial number of OPEN."""
        for lane in range(LANES):
            self.last[lane] = (initial_sn - 1) & self.mask
            self.drop_partial(lane)
            self.skipped[lane] = 0

    def start_lane(self, priority, reliable, next_sn):
        """Start lanes at the numbers of a JOIN."""
        self.last[lane_of(priority, reliable)] = (next_sn - 1) & self.mask

    def accept(self, lane, sn):
        """Return the number of missing frames, OLD (-1) if the number is not new, or OUT_OF_RANGE (-2)."""
        if sn > self.mask:
            return OUT_OF_RANGE
        lane &= 15
        last: cython.longlong = self.last[lane]
        if last == NOT_SEEN:  # joined mid-session: any number is the first
            self.last[lane] = sn
            return 0
        gap: cython.longlong = (sn - last) & self.mask
        if gap == 0 or gap > self.mask >> 1:
            return OLD
        self.last[lane] = sn
        return gap - 1

    def join(self, lane, fragment):
        """Add an accepted fragment. Return JOINED for the last one, WAITING, or the reason of a loss.

        The first lost fragment of a message returns the reason. Later ones return SKIPPED, and the last one ENDED.
        `skipped_count` is then their number.
        """
        lane &= 15
        if self.patch > 0:
            if fragment.first:
                self.drop_partial(lane)
                self.skipped[lane] = 0
            elif self.parts[lane] is None:
                return self.skip(lane, fragment, NO_START)
            if fragment.drop:
                return self.skip(lane, fragment, DROPPED)
        if self.parts[lane] is None:
            self.parts[lane] = bytearray()
            self.pieces[lane] = 0
        elif self.expected[lane] != fragment.sn:
            return self.skip(lane, fragment, NOT_NEXT)
        message: bytearray = self.parts[lane]
        if self.held_bytes() + len(fragment.payload) > self.max_message_size:
            return self.skip(lane, fragment, TOO_LARGE)
        message += fragment.payload.view
        self.pieces[lane] += 1
        self.expected[lane] = (fragment.sn + 1) & self.mask
        return WAITING if fragment.more else JOINED

    def skip(self, lane, fragment, why):
        """Record the loss of a message at this fragment, or one more fragment of a lost message."""
        before: cython.int = self.skipped[lane]
        self.drop_partial(lane)
        self.skipped[lane] = before + 1 if fragment.more and self.patch > 0 else 0
        self.skipped_count = before
        if before == 0:
            return why
        return SKIPPED if fragment.more else ENDED

    def held_bytes(self):
        """Return the bytes of all partial messages. They are limited together, over all lanes."""
        lane: cython.int
        total: cython.Py_ssize_t = 0
        for lane in range(LANES):
            if self.parts[lane] is not None:
                total += len(self.parts[lane])
        return total

    def take(self, lane):
        """Return the message that `join` completed."""
        lane &= 15
        message = self.parts[lane]
        self.parts[lane] = None
        return message

    def drop_partial(self, lane):
        self.parts[lane] = None
        self.expected[lane] = NOT_SEEN

    def last_numbers(self):
        """Return the last number of each lane, -1 if unknown."""
        return [self.last[lane] for lane in range(LANES)]

    def partial_lanes(self):
        """Return the lanes with partial messages."""
        return [lane for lane in range(LANES) if self.parts[lane] is not None]

    def skipped_fragments(self):
        """Return the fragments of lost messages so far, of lanes in the middle of one, as [lane, count]."""
        return [[lane, self.skipped[lane]] for lane in range(LANES) if self.skipped[lane] > 0]

    def save(self):
        return {
            "last": self.last_numbers(),
            "skipped": self.skipped_fragments(),
            "parts": {
                lane: [self.expected[lane], self.pieces[lane], bytes(self.parts[lane])]
                for lane in range(LANES)
                if self.parts[lane] is not None
            },
        }

    def restore(self, saved):
        for lane in range(LANES):
            self.last[lane] = saved["last"][lane]
            self.drop_partial(lane)
            self.skipped[lane] = 0
        for lane, count in saved.get("skipped", ()):
            self.skipped[lane & 15] = count
        for lane, (expected, pieces, part) in saved["parts"].items():
            self.expected[int(lane)] = expected
            self.pieces[int(lane)] = pieces
            self.parts[int(lane)] = bytearray(part)


def lane_of(priority, reliable):
    """Return the index of a lane: two per priority."""
    return 2 * (priority & 7) + (1 if reliable else 0)
