# SPDX-License-Identifier: Apache-2.0
"""Flush policy: decides when, and on which thread, queued batches are written (compiled). `connection` has the rules."""

import cython
from cython.cimports.zenlake.transport.queue_handle import QueueHandle

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.cpython.time import monotonic
else:
    from threading import get_ident
    from time import monotonic

__all__ = ["FlushPolicy"]

# QUIET: seconds between two messages above which gathering does not pay (a write costs about as much).
# GATHER: seconds for which messages of heavy traffic are gathered.
QUIET = cython.declare(cython.double, 5e-6)
GATHER = cython.declare(cython.double, 200e-6)


class FlushPolicy(QueueHandle):
    """Transmit handle of a connection. All methods except `send` and `begin` need its lock."""

    def __init__(self, lock, direct, loop, flush, turn, watch):
        QueueHandle.__init__(self, None, lock, turn)
        self.lock = lock
        self.direct = direct  # whether the sending thread may write
        self.loop = loop
        self.flush = flush
        self.watch = watch
        self.blocked = False
        self.is_watched = False
        self.last = 0.0  # times of the last message and of the last write
        self.flushed = 0.0

    def begin(self):
        self.lock.acquire()

    def end(self, express):
        try:
            self.on_send(express, self.queue.complete)
        finally:
            self.lock.release()

    def on_send(self, express, complete):
        """Write queued messages now, or have them written. `complete` is the number of full batches in the queue."""
        if self.blocked:
            return 0
        if not self.direct or get_ident() == self.loop:
            if not self.is_scheduled:
                self.is_scheduled = True
                self.schedule()
            return 0
        now: cython.double = monotonic()
        if express or now - self.last > QUIET or now - self.flushed > GATHER or complete:
            self.flush(now)
            self.last = self.flushed = monotonic()
        else:
            self.last = now
            if not self.is_watched:
                self.is_watched = True
                self.watch()
        return 0
