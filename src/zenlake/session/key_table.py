# SPDX-License-Identifier: Apache-2.0
"""Key ids that one side declared.

The texts are in one arena, so that a lookup without the GIL is two array reads. PADDING bytes follow the last text, so
that a short one is copied with one fixed-size copy (`copy_padded`). An id that is redeclared with another text keeps
its first meaning, as in real nodes (probe declare_keyexpr_redefine).
"""

from array import array

import cython
from cython.cimports.zenlake.wire.raw_memory import PADDING, take

UNKNOWN = cython.declare(cython.int, -1)
MAX_IDS = cython.declare(cython.int, 65536)
ENTRY_COST = cython.declare(cython.int, 16)  # bytes for an id, besides its key


class KeyMemory:
    """The memory that the key ids of several sessions use together, in bytes.

    Every reader of the same messages must compute the same tables. So the limits depend only on the messages: `limit`
    is for all sessions that share this object, and `table_limit` is for one side of one session. `refused` counts declarations
    beyond `limit`.
    """

    def __init__(self, limit=1 << 30, table_limit=16 << 20):
        self.limit = limit
        self.table_limit = table_limit
        self.used = 0
        self.refused = 0


class KeyTable:
    """Table of key ids 1..65535."""

    def __init__(self):
        self.room = 0
        self.count = 0
        self.used = 0
        self.wasted = 0
        self.keep(bytearray(64 + PADDING))
        self.at = array("q")
        self.size = array("i")
        self.grow_ids(16)

    def keep(self, text):
        self.text = text
        self.data = cython.address(self.text[0]) if cython.compiled else text

    def grow_ids(self, room):
        at, size = array("q", bytes(8 * room)), array("i", b"\xff" * (4 * room))  # -1: not declared
        at_view, size_view = memoryview(at), memoryview(size)
        at_view[: self.room] = memoryview(self.at)[: self.room]
        size_view[: self.room] = memoryview(self.size)[: self.room]
        self.at, self.size, self.room = at, size, room

    def declare(self, id, key):
        """Declare a key id. Return False if it already has another key."""
        if not 0 < id < MAX_IDS:
            raise ValueError(f"invalid key id {id}; expected 1 to 65535")
        if id >= self.room:
            self.grow_ids(min(max(id + 1, 2 * self.room), MAX_IDS))
        if self.size[id] >= 0:
            return take(self.data, self.at[id], self.size[id]) == key
        if self.used + len(key) + PADDING > len(self.text):
            self.make_room(len(key))
        text = memoryview(self.text)
        text[self.used : self.used + len(key)] = key
        self.at[id] = self.used
        self.size[id] = len(key)
        self.used += len(key)
        self.count += 1
        return True

    def cost(self):
        """Return the bytes that the keys and their ids use."""
        return self.used - self.wasted + ENTRY_COST * self.count

    def forget(self, id):
        """Undeclare an id. Keys declared through it stay."""
        if self.contains(id):
            self.wasted += self.size[id]
            self.size[id] = UNKNOWN
            self.count -= 1

    def make_room(self, size):
        """Remove undeclared texts. Grow if that is not sufficient."""
        keys = self.save()
        self.used = 0
        self.wasted = 0
        need = size + sum(len(key) for key in keys.values())
        self.keep(bytearray(max(2 * need, 64) + PADDING))
        text = memoryview(self.text)
        for id, key in keys.items():
            text[self.used : self.used + len(key)] = key
            self.at[id] = self.used
            self.used += len(key)

    def contains(self, id):
        return 0 < id < self.room and self.size[id] >= 0

    if not cython.compiled:  # compiled: inline, in the .pxd

        def size_of(self, id):
            """Return the length of a key, or -1 if the id is not declared."""
            return self.size[id] if 0 < id < self.room else UNKNOWN

    def get(self, id):
        """Return the key as bytes, or None."""
        return take(self.data, self.at[id], self.size[id]) if self.contains(id) else None

    def save(self):
        return {id: self.get(id) for id in range(self.room) if self.contains(id)}

    def __len__(self):
        return self.count
