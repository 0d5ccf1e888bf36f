# SPDX-License-Identifier: Apache-2.0
"""Flush policy: decides when, and on which thread, queued batches are written (compiled). `connection` has the rules."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.network.prepared_put import ThreadQueueHandle
from cython.cimports.zenlake.transport.tx_queue import TxQueue

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


class FlushPolicy(ThreadQueueHandle):
    """Transmit handle of a connection. All methods except `send` and `begin` need its lock."""

    def __init__(self, lock, direct, loop, flush, turn, watch):
        ThreadQueueHandle.__init__(self)
        self.queue = None
        self.lock = lock
        self.direct = direct  # whether the sending thread may write
        self.loop = loop
        self.flush = flush
        self.turn = turn
        self.watch = watch
        self.blocked = False
        self.is_scheduled = False
        self.last = 0.0  # times of the last message and of the last write
        self.flushed = 0.0

    def send(self, message, qos, reliable):
        self.lock.acquire()
        try:
            if not self.add(message, qos, reliable):
                return False
            self.on_send(qos & message_ids.QOS_EXPRESS != 0, self.queue.complete)
        finally:
            self.lock.release()
        return True

    def begin(self):
        self.lock.acquire()

    def add(self, message, qos, reliable):
        queue: TxQueue = self.queue
        if not queue.is_open or queue.ended:
            return True  # just closed: the node is notified separately
        droppable: cython.bint = qos & message_ids.QOS_BLOCKING == 0 or not reliable
        return queue.push(message, qos & 7, reliable, qos & message_ids.QOS_EXPRESS != 0, droppable)

    def end(self):
        try:
            self.on_send(False, self.queue.complete)
        finally:
            self.lock.release()

    def on_send(self, express, complete):
        """Write queued messages now, or have them written. `complete` is the number of full batches in the queue."""
        if self.blocked:
            return 0
        if not self.direct or get_ident() == self.loop:
            if not self.is_scheduled:
                self.is_scheduled = True
                self.turn()
            return 0
        now: cython.double = monotonic()
        if express or now - self.last > QUIET or now - self.flushed > GATHER or complete:
            self.flush(now)
            self.last = self.flushed = monotonic()
        else:
            self.last = now
            if not self.is_scheduled:
                self.is_scheduled = True
                self.watch()
        return 0
