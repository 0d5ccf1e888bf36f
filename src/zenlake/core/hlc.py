# SPDX-License-Identifier: Apache-2.0
"""Hybrid logical clock. Its times are unique, later than every received time, and close to the system clock.

Compiled: runs for every sample. The module does not read the system clock: `now` is an argument.
"""

import cython

__all__ = ["MAX_DELTA", "HybridClock", "ntp64_of"]

NS = cython.declare(cython.ulonglong, 1_000_000_000)

MAX_DELTA = 1 << 31  # 500 ms: maximum lead of a received timestamp
COUNTER = cython.declare(cython.ulonglong, 0xF)  # the low bits count events within one tick (about 4 ns)


class HybridClock:
    """A clock whose times are NTP64 integers.

    The low four bits of the system clock are replaced by a counter of events. An overflow into the next tick is harmless.
    """

    def __init__(self, max_delta=MAX_DELTA):
        self.last = 0
        self.max_delta = max_delta

    def tick(self, now):
        """Return a new time, greater than all previous ones."""
        now -= now & COUNTER
        self.last = now if now > self.last - (self.last & COUNTER) else self.last + 1
        return self.last

    def merge(self, received, now):
        """Merge a received time. Return False, without a change, if it exceeds `now` by more than `max_delta`."""
        now -= now & COUNTER
        if received > now and received - now > self.max_delta:
            return False
        latest: cython.ulonglong = now
        if received > latest:
            latest = received
        if self.last > latest:
            latest = self.last
        self.last = now if latest == now else latest + 1
        return True


def ntp64_of(ns):
    """Return the NTP64 of a time before 2106, in nanoseconds since 1970, rounded down as in Zenoh."""
    return ns // NS << 32 | (ns % NS << 32) // NS
