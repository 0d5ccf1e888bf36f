# SPDX-License-Identifier: Apache-2.0
"""How much all connections of a node may hold together. Each queue and inbox adds to it what it holds and takes it away again."""

from contextlib import nullcontext

import cython

__all__ = ["Budget"]


class Budget:
    """In bytes: full batches that wait, and messages in parts. Those that come in parts may have half of it.

    So one who begins large messages and never ends them takes nothing from what is to be sent.
    """

    def __init__(self, limit, lock=None):
        self.limit = limit
        self.held = 0
        self.parts = 0  # of it: of messages that have come in part
        self.refused = 0  # messages that were not taken for it
        self.lock = lock or nullcontext()

    def add(self, size, parts):
        if cython.compiled:  # in one step: nobody else has the GIL
            self.held += size
            self.parts += parts
        else:
            with self.lock:
                self.held += size
                self.parts += parts
        return 0

    def charge(self, size):
        """Add `size` bytes, or subtract them if it is negative. For `limits.Account`."""
        self.add(size, 0)

    @property
    def is_full(self):
        return self.held >= self.limit

    def room_for_parts(self):
        return max(min(self.limit - self.held, self.limit // 2 - self.parts), 0)
