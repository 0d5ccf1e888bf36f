# SPDX-License-Identifier: Apache-2.0
"""Buffer of one direction's unsynchronised bytes, and the search for batches in it.

A stream that lost synchronisation, or is not yet identified as Zenoh, stores its segments here with their packets. This
module does not know about sessions: the stream decides what to search for and how to use a result.
"""

import cython
from cython.cimports.zenlake.capture.heuristics import sequence_number

ACCEPTED = cython.declare(cython.int, 1)  # as in heuristics
CERTAIN = cython.declare(cython.int, 8)

INCONCLUSIVE = cython.declare(cython.int, -1)
NO_MATCH = cython.declare(cython.int, -2)


@cython.cclass
class ResyncBuffer:
    def __init__(self) -> None:
        self.held: list[tuple[bytes, int, int, int]] = []  # bytes, received, packet, file
        self.size = 0
        self.framing = 0  # of the batches found

    def add(self, data, received, packet, file):
        self.held.append((data, received, packet, file))
        self.size += len(data)
        return 0

    def take_all(self):
        """Remove and return all held segments."""
        held = self.held
        self.held = []
        self.size = 0
        return held

    def drop_oldest(self, n):
        """Drop at least the oldest `n` bytes, in whole segments. Return the number of bytes dropped."""
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

    def find_batches(self, detector, framings, enough):
        """Return the offset of the first length-prefixed batch in the held bytes, or -1.

        `detector` must point to the held bytes.
        """
        start: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t
        at: cython.Py_ssize_t
        framing: cython.int
        for held in self.held:  # a batch begins at the start of a segment more often than inside one
            end = start + len(held[0])
            for framing in framings:
                self.framing = framing
                if detector.check_chain(start, self.size, framing, enough, end) == ACCEPTED:
                    return start
                at = detector.find_chain(start + 1, end, self.size, framing, enough + CERTAIN // 2)
                if at >= 0:
                    return at
            start = end
        return -1

    def find_datagrams(self, detector, framings, known):
        """Return the framing that the held datagrams support.

        One strong datagram is enough. Several weak ones are enough if no datagram contradicts them.
        """
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
                detector.set_data(data)
                weight = detector.score_bytes(0, len(data), framing)
                if weight == 0:
                    total = 0
                    break
                sequence = sequence_number(p, 0, len(data), framing)
                total += weight + (6 if sequence >= 0 and sequence == ((last + 1) & 0xFFFFFFF) else 0)
                last = sequence if sequence >= 0 else last
            if total >= CERTAIN or (total > 0 and known):
                return framing
            best = max(best, total)
        return INCONCLUSIVE if best > 0 else NO_MATCH
