# SPDX-License-Identifier: Apache-2.0
"""How much all connections of a node may hold together. Each queue and inbox adds to it what it holds and takes it away again."""

from contextlib import nullcontext

import cython

__all__ = ["Budget"]


class Budget:
    """In bytes: full batches, and messages in parts, whether they are sent or received."""

    def __init__(self, limit, lock=None):
        self.limit = limit
        self.held = 0
        self.refused = 0  # messages that were not taken for it
        self.lock = lock or nullcontext()

    def add(self, size):
        if cython.compiled:
            self.held += size  # in one step: nobody else has the GIL
        else:
            with self.lock:
                self.held += size
        return 0

    @property
    def is_full(self):
        return self.held >= self.limit
