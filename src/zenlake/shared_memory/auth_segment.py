# SPDX-License-Identifier: Apache-2.0
"""The transport metadata segment: proof that two nodes share memory, and the handoff counters of their links.

Each node has one. It names a random challenge that the partner reads and returns in the handshake.

    0 number of protocols u64 | 8 challenge u64 | 16 version u64 | 24 protocols 256 x u32 | 1048 counters 2810 x u32

A link leases eight counters, one for each priority. The sender of a reference increments its own counter. The receiver decrements
that counter when it has taken the reference over. Until then the sender confirms the buffer.
"""

import os
import threading
from typing import Final

from zenlake.shared_memory.atomics import SharedWords
from zenlake.shared_memory.segment import SegmentError, SharedSegment

__all__ = ["COUNTERS", "PRIORITIES", "AuthSegment", "PartnerSegment"]

SIZE: Final = 12288
VERSION: Final = 2
COUNT_AT, CHALLENGE_AT, VERSION_AT, PROTOCOLS_AT, COUNTERS_AT = 0, 8, 16, 24, 1048
MAX_PROTOCOLS: Final = 256
COUNTERS: Final = 2810
PRIORITIES: Final = 8
POSIX: Final = 0


class AuthSegment:
    """The segment of this node."""

    def __init__(self) -> None:
        self.segment = SharedSegment.create(32, SIZE, reserve=True)
        self.challenge = int.from_bytes(os.urandom(8), "little")
        self.words = SharedWords(self.segment.map())
        self.words.store64(COUNT_AT, 1)
        self.words.store64(CHALLENGE_AT, self.challenge)
        self.words.store64(VERSION_AT, VERSION)
        self.words.store32(PROTOCOLS_AT, POSIX)
        self._lock = threading.Lock()
        self._free = [tuple(range(at, at + PRIORITIES)) for at in range(COUNTERS - PRIORITIES, -1, -PRIORITIES)]

    @property
    def id(self) -> int:
        return self.segment.id

    def lease(self) -> tuple[int, ...] | None:
        """Return a counter for each priority, set to 0, or None if all are in use."""
        with self._lock:
            if not self._free:
                return None
            leased = self._free.pop()
        for counter in leased:
            self.words.store32(COUNTERS_AT + 4 * counter, 0)
        return leased

    def end_lease(self, leased: tuple[int, ...]) -> None:
        with self._lock:
            self._free.append(leased)

    def add(self, counter: int, value: int) -> None:
        self.words.add32(COUNTERS_AT + 4 * counter, value & 0xFFFFFFFF)

    def value(self, counter: int) -> int:
        """Return the number of references that the partner has not taken over yet."""
        value: int = self.words.load32(COUNTERS_AT + 4 * counter)
        return value

    def close(self) -> None:
        self.words.close()
        self.segment.close()


class PartnerSegment:
    """The segment of the node at the other end of a link."""

    def __init__(self, id: int) -> None:
        self.segment = SharedSegment.open(id, SIZE)
        try:
            self.words = SharedWords(self.segment.map())
            if self.words.load64(VERSION_AT) != VERSION:
                raise SegmentError(f"segment {id} is not of version {VERSION}")
            count = self.words.load64(COUNT_AT)
            if count > MAX_PROTOCOLS:
                raise SegmentError(f"segment {id} names {count} protocols; expected at most {MAX_PROTOCOLS}")
        except BaseException:
            self.segment.close()
            raise
        self.challenge = self.words.load64(CHALLENGE_AT)
        self.maps_posix = any(self.words.load32(PROTOCOLS_AT + 4 * i) == POSIX for i in range(count))
        """Whether the partner can map the buffers of this node."""

    def lower(self, counter: int, count: int) -> None:
        """Acknowledge references."""
        self.words.add32(COUNTERS_AT + 4 * counter, -count & 0xFFFFFFFF)

    def close(self) -> None:
        self.words.close()
        self.segment.close()
