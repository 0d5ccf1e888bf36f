# SPDX-License-Identifier: Apache-2.0
"""Fast path for replies to queries of the application (compiled).

A reply usually passes through `queries`, which encodes it again for the face that sent the query. This is not needed if the
application sent the query and has a listener for all replies. Then only the key of the reply is resolved, and
repeated keys are recognised by their bytes. No object is created for such a reply. All other replies (errors, keys that do
not match the query) are passed to `queries`.
"""

import cython
from cython.cimports.zenlake.wire.raw_memory import copy, equal_bytes, take
from cython.cimports.zenlake.wire.writer import WireWriter

__all__ = ["ReplyFastPath"]

SLOTS = cython.declare(cython.Py_ssize_t, 1024)  # cached keys; the slot is a hash of the last bytes of the key
FACTOR = cython.declare(cython.uint, 31)


class ReplyFastPath:
    """Fast path for the replies to one query.

    Threading: runs on the event loop thread, except `is_over`, which any thread sets to stop delivery.
    """

    def __init__(self, get, listener, lock):
        self.get = get
        self.listener = listener
        self.acquire = lock.acquire  # the lock of the query: no reply is delivered after its end
        self.release = lock.release
        self.is_over = False
        self.key_buffer = WireWriter(64)
        self.full_keys = [None] * SLOTS
        self.app_keys = [None] * SLOTS

    def take(self, reader, remote_keys, local_keys):
        """Deliver the reply in `reader.response`, whose sender declared these keys. Return False if `queries` must handle it."""
        if self.is_over or not reader.response.is_reply:
            return False
        wire = reader.response.key
        key: bytes = self.key(wire, remote_keys if wire.sender else local_keys)
        if key is None:
            return False
        self.acquire()
        try:
            if not self.is_over:
                self.listener.take(key, reader)
        finally:
            self.release()
        return True

    def key(self, wire, declared):
        """Return the key of a reply as the application sees it, or None if it does not match the query."""
        w: WireWriter = self.key_buffer
        w.clear()
        size: cython.Py_ssize_t
        if wire.scope:
            size = declared.size_of(wire.scope) if wire.scope < declared.room else -1
            if size < 0:
                return None
            w.need(size)
            copy(w.data, 0, declared.data, declared.at[wire.scope], size)
            w.at = size
        if wire.suffix.size > 0:
            w.need(wire.suffix.size)
            copy(w.data, w.at, wire.suffix.data, wire.suffix.at, wire.suffix.size)
            w.at += wire.suffix.size
        slot: cython.uint = w.at
        i: cython.Py_ssize_t
        for i in range(max(0, w.at - 8), w.at):
            slot = slot * FACTOR + w.data[i]
        slot &= SLOTS - 1
        full_key: bytes = self.full_keys[slot]
        if full_key is None or len(full_key) != w.at or not equal_bytes(w.data, 0, full_key, 0, w.at):
            full_key = take(w.data, 0, w.at)
            app_key = self.get.resolve_key(full_key)
            if app_key is None:
                return None
            self.full_keys[slot] = full_key
            self.app_keys[slot] = app_key
        return self.app_keys[slot]
