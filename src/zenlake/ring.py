# SPDX-License-Identifier: Apache-2.0
"""What waits, oldest first: a deque without the calls for each item that one from another module costs.

Unlike a list it keeps its memory when it is emptied: most of these are filled and emptied by every message.

Compiled, nobody else's code runs between two of its lines, so it needs no lock; but where a list is made the garbage
collector may run, and with it anybody's. Uncompiled it is `collections.deque`.
"""

from collections import deque

import cython

__all__ = ["Ring", "length"]

FEWEST = cython.declare(cython.Py_ssize_t, 16)


class Ring:
    """Oldest first. No item is None."""

    def __init__(self):
        self.slots = [None] * FEWEST
        self.first = 0
        self.count = 0

    def append(self, item):
        while self.count == len(self.slots):
            self.grow()
        self.slots[(self.first + self.count) & (len(self.slots) - 1)] = item
        self.count += 1
        return 0

    def grow(self):
        larger: list = [None] * (2 * len(self.slots))
        i: cython.Py_ssize_t
        if len(larger) > len(self.slots):  # nobody else has, meanwhile
            for i in range(self.count):
                larger[i] = self.slots[(self.first + i) & (len(self.slots) - 1)]
            self.slots = larger
            self.first = 0
        return 0

    def popleft(self):
        """The oldest; there must be one."""
        item = self.slots[self.first]
        self.slots[self.first] = None
        self.first = (self.first + 1) & (len(self.slots) - 1)
        self.count -= 1
        return item

    def peek(self):
        """The oldest, which stays; there must be one."""
        return self.slots[self.first]

    def remove(self, item):
        """Take it out from wherever it is; ValueError if it is nowhere."""
        found: list = [self.popleft() for _ in range(self.count)]
        try:
            found.remove(item)
        finally:
            for each in found:
                self.append(each)

    def clear(self):
        """Forget everything. What that ends may come back here, and finds it empty."""
        empty: list = [None] * FEWEST
        forgotten = self.slots
        self.slots = empty
        self.first = self.count = 0
        forgotten.clear()
        return 0


if not cython.compiled:

    class Ring(deque):  # type: ignore[no-redef,type-arg]
        """As compiled."""

        def peek(self):
            return self[0]

    def length(ring):
        """How many there are. (Compiled: inline, in the .pxd.)"""
        return len(ring)
