# SPDX-License-Identifier: Apache-2.0
"""Memory budget of all connections of a node: transmit queues and receive paths charge the bytes that they hold."""

from contextlib import nullcontext

import cython

__all__ = ["MemoryBudget"]


class MemoryBudget:
    """Limit in bytes for full batches in queues and for partly received messages. The latter may use half of it.

    A peer that begins large messages and never completes them therefore cannot block transmission.
    """

    def __init__(self, limit, lock=None):
        self.limit = limit
        self.held = 0
        self.partial_bytes = 0  # part of `used`: bytes of partly received messages
        self.refused = 0  # messages that were refused because of the budget
        self.lock = lock or nullcontext()

    def add(self, size, partial_bytes):
        if cython.compiled:  # Threading: atomic under the GIL
            self.held += size
            self.partial_bytes += partial_bytes
        else:
            with self.lock:
                self.held += size
                self.partial_bytes += partial_bytes
        return 0

    def charge(self, size):
        """Add `size` bytes, or subtract them if it is negative. Used by `peer_limits.Account`."""
        self.add(size, 0)

    @property
    def is_full(self):
        return self.held >= self.limit

    def room_for_partial(self):
        return max(min(self.limit - self.held, self.limit // 2 - self.partial_bytes), 0)
