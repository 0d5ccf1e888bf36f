# SPDX-License-Identifier: Apache-2.0
"""FIFO queue without per-item calls into another module (replaces `collections.deque` in compiled code).

It keeps its memory when emptied, because most queues are filled and emptied by every message.

Threading: compiled code holds the GIL between two lines, so no lock is needed. Creating a list may run the garbage collector,
and finalizers with it. Uncompiled it is `collections.deque`.
"""

from collections import deque

import cython

__all__ = ["FastDeque", "length"]

MIN_SLOTS = cython.declare(cython.Py_ssize_t, 16)


class FastDeque:
    """A FIFO queue. Items must not be None."""

    def __init__(self):
        self.slots = [None] * MIN_SLOTS
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
        if len(larger) > len(self.slots):  # unless a finalizer has grown it in the meantime
            for i in range(self.count):
                larger[i] = self.slots[(self.first + i) & (len(self.slots) - 1)]
            self.slots = larger
            self.first = 0
        return 0

    def popleft(self):
        """Remove and return the oldest item. The queue must not be empty."""
        item = self.slots[self.first]
        self.slots[self.first] = None
        self.first = (self.first + 1) & (len(self.slots) - 1)
        self.count -= 1
        return item

    def peek(self):
        """Return the oldest item. The queue must not be empty."""
        return self.slots[self.first]

    def remove(self, item):
        """Remove an item. Raise ValueError if it is missing."""
        found: list = [self.popleft() for _ in range(self.count)]
        try:
            found.remove(item)
        finally:
            for each in found:
                self.append(each)

    def clear(self):
        """Remove all items. Finalizers of items see an empty queue."""
        empty: list = [None] * MIN_SLOTS
        forgotten = self.slots
        self.slots = empty
        self.first = self.count = 0
        forgotten.clear()
        return 0


if not cython.compiled:

    class FastDeque(deque):  # type: ignore[no-redef,type-arg]
        """The same interface, uncompiled."""

        def peek(self):
            return self[0]

    def length(queue):
        """Return the number of items (compiled: inline, in the .pxd)."""
        return len(queue)
