# SPDX-License-Identifier: Apache-2.0
"""The hybrid logical clock: never twice the same time, never behind what was received, close to the real clock.

A chapter of its own because a router asks it for each sample, so it is compiled. It reads no clock: `now` is an argument.
"""

import cython

__all__ = ["MAX_DELTA", "HybridClock", "ntp64_of"]

NS = cython.declare(cython.ulonglong, 1_000_000_000)

MAX_DELTA = 1 << 31  # 500 ms: how far ahead of us a received timestamp may be
COUNTER = cython.declare(cython.ulonglong, 0xF)  # the low bits count events within one tick (about 4 ns)


class HybridClock:
    """Times are NTP64 integers.

    The low four bits of the real clock are cleared and count events instead; when they overflow into the next tick that
    is harmless, since only growth matters.
    """

    def __init__(self, max_delta=MAX_DELTA):
        self.last = 0
        self.max_delta = max_delta

    def tick(self, now):
        """A new time, greater than any before it."""
        now -= now & COUNTER
        self.last = now if now > self.last - (self.last & COUNTER) else self.last + 1
        return self.last

    def merge(self, received, now):
        """Learns from a received time. False, and nothing learnt, if it is further ahead of `now` than `max_delta`."""
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
    """The NTP64 of a time before 2106, in nanoseconds since 1970, rounded down as Zenoh does."""
    return ns // NS << 32 | (ns % NS << 32) // NS
