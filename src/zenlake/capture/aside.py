# SPDX-License-Identifier: Apache-2.0
"""Bytes of one direction held back until batches can be made out among them, and the search for those batches.

A stream that lost step, or is not yet known to be Zenoh, puts its segments here, each with its packet. Knows nothing of
sessions: the stream says what to look for, and decides what a find means.
"""

import cython

if cython.compiled:
    from cython.cimports.zenlake.capture.recognise import number
else:
    from zenlake.capture.recognise import number

ACCEPTED = cython.declare(cython.int, 1)  # as in recognise
CERTAIN = cython.declare(cython.int, 8)

NOT_YET = cython.declare(cython.int, -1)
NOTHING = cython.declare(cython.int, -2)


@cython.cclass
class Aside:
    def __init__(self) -> None:
        self.held: list[tuple[bytes, int, int, int]] = []  # bytes, received, packet, file
        self.size = 0
        self.framing = 0  # of what was found

    def add(self, data, received, packet, file):
        self.held.append((data, received, packet, file))
        self.size += len(data)
        return 0

    def empty(self):
        """All that was held."""
        held = self.held
        self.held = []
        self.size = 0
        return held

    def shed(self, n):
        """Gives up the oldest n bytes, or a few more; how many."""
        done: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        for data, _, _, _ in self.held:
            if done >= n:
                break
            done += len(data)
            count += 1
        del self.held[:count]
        self.size -= done
        return done

    def data(self):
        return self.held[0][0] if len(self.held) == 1 else b"".join([held[0] for held in self.held])

    def find_batches(self, judge, framings, enough):
        """Where length-prefixed batches begin in the bytes that `judge` was given, which are those held; -1 = nowhere."""
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        at: cython.Py_ssize_t
        framing: cython.int
        for held in self.held:  # a batch is likelier to begin with a segment than inside one
            end = start + len(held[0])
            for framing in framings:
                self.framing = framing
                if judge.chain(start, self.size, framing, enough, end) == ACCEPTED:
                    return start
                at = judge.find(start + 1, end, self.size, framing, enough + CERTAIN // 2)
                if at >= 0:
                    return at
            start = end
        return -1

    def find_datagrams(self, judge, framings, known):
        """The framing for which one strong datagram speaks, or several weak ones and none that speaks against."""
        best: cython.int = 0
        framing: cython.int
        weight: cython.int
        total: cython.int
        last: cython.longlong
        sequence: cython.longlong
        p: cython.p_const_uchar
        for framing in framings:
            total = 0
            last = -2
            for data, _, _, _ in self.held:
                p = data
                judge.point(data)
                weight = judge.weigh(0, len(data), framing)
                if weight == 0:
                    total = 0
                    break
                sequence = number(p, 0, len(data), framing)
                total += weight + (6 if sequence >= 0 and sequence == ((last + 1) & 0xFFFFFFF) else 0)
                last = sequence if sequence >= 0 else last
            if total >= CERTAIN or (total > 0 and known):
                return framing
            best = max(best, total)
        return NOT_YET if best > 0 else NOTHING
