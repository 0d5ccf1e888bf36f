# SPDX-License-Identifier: Apache-2.0
"""Transmit handle of an open connection: encoded samples go into its queue without a call into the connection.

All samples are sent through it: those that are forwarded, and those of the application. The runtime subclasses it
(`runtime.flush_policy`). Connections with an egress filter or low latency have none.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids

__all__ = ["QueueHandle"]

NO_LIMIT = cython.declare(cython.Py_ssize_t, 0x7FFFFFFFFFFFFFFF)


class QueueHandle:
    """A transmit queue, its lock, and a function that has the queue written.

    `limit` is the size from which messages take the normal path, which can move them into shared memory.
    """

    def __init__(self, queue, guard, schedule):
        self.queue = queue
        self.guard = guard
        self.schedule = schedule
        self.limit = NO_LIMIT
        self.is_scheduled = False
        self.is_held = False  # whether the dispatcher has begun a sequence

    @property
    def is_over(self):
        """Whether the queue is over its limit."""
        return self.queue.is_over

    @property
    def is_memory_full(self):
        """Whether the last message was refused because of the memory limit of all connections."""
        return self.queue.is_over_budget

    @property
    def queued_bytes(self):
        """Queued bytes."""
        return self.queue.held

    def begin(self):
        """Begin a sequence of messages. Other threads cannot send until `end`."""
        self.guard.acquire()

    def add(self, message, qos, reliable):
        """Queue a message between `begin` and `end`. Return False, without effect, if there is no room."""
        if not self.queue.is_open or self.queue.ended:
            return True  # just closed: the node is notified separately
        droppable: cython.bint = qos & message_ids.QOS_BLOCKING == 0 or not reliable
        return self.queue.push(message, qos & 7, reliable, qos & message_ids.QOS_EXPRESS != 0, droppable)

    def end(self, express):
        """End the sequence and have it written, at once if it is `express`."""
        self.guard.release()
        if not self.is_scheduled and self.queue.begun + self.queue.complete > 0:
            self.is_scheduled = True
            self.schedule()

    def send(self, message, qos, reliable):
        """Queue a message and have it written. Return False, without effect, if there is no room."""
        is_queued: cython.bint = False
        self.begin()
        try:
            is_queued = self.add(message, qos, reliable)
        finally:
            self.end(qos & message_ids.QOS_EXPRESS != 0)
        return is_queued
