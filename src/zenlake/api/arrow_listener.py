# SPDX-License-Identifier: Apache-2.0
"""Record batch builder of an ArrowChannel. Compiled: each sample is copied from the read buffer into the columns here."""

import cython
from cython.cimports.zenlake._compat.rlock import FastRLock
from cython.cimports.zenlake.columns.live_samples import LiveSamples
from cython.cimports.zenlake.network.forwarding import PushListener
from cython.cimports.zenlake.wire.batch_reader import BatchReader
from cython.cimports.zenlake.wire.push_scan import AHEAD
from cython.cimports.zenlake.wire.raw_memory import take

if cython.compiled:
    from cython.cimports.cpython.time import time_ns
else:
    from time import time_ns

__all__ = ["ArrowListener"]


class ArrowListener(PushListener):
    """A listener that emits a record batch when it is full, or when its first sample is `age` seconds old.

    An allocation may run the garbage collector and any finalizer. Samples that a finalizer puts while a row or batch is being built
    are kept as the next rows.
    """

    def __init__(self, samples, channel, age, replies=False):
        self.accepts_runs = not replies
        self.samples = samples
        self.channel = channel
        self.lock = FastRLock()  # a local publisher's thread and the event loop thread may run at the same time
        self.age = age
        self.replies = replies  # whether it receives replies to a query instead of publications
        self.errors = []  # payloads of error replies
        self.generation = 0
        self.source = None
        self.sn = 0
        self.received_ns = 0
        self.busy = False  # whether a row or a batch is being built
        self.later = []
        self.dispatcher = None  # connection and epoch of the last run: while they are the same, ids have the same keys
        self.epoch = 0
        self.steady = False  # whether the last run read its frame to the end

    def take(self, key, reader):
        if self.replies and not reader.response.is_reply:
            self.errors.append(reader.response.err.payload.value or b"")
            return 0
        self.lock.acquire()  # a growing column releases the GIL
        if self.busy:
            return self.defer(key, reader)
        self.busy = True
        try:
            self.add(key, reader)
            if self.later:
                self.catch_up()
        finally:
            self.busy = False
            self.lock.release()
        return 0

    def take_run(self, dispatcher, reader):
        self.lock.acquire()
        if self.busy:
            self.lock.release()
            return 0
        self.busy = True
        try:
            count: cython.Py_ssize_t = self.add_run(dispatcher, reader)
            if self.later:
                self.catch_up()
        finally:
            self.busy = False
            self.lock.release()
        return count

    def add(self, key, reader):
        first: cython.bint = self.check_clock(reader)
        full: cython.bint
        if self.replies:
            full = self.samples.add_reply(key, reader, self.received_ns)
        else:
            full = self.samples.add_push(key, reader, self.received_ns)
        if full:
            self.deliver_batch()
        elif first and self.source is not None:
            self.wait()
        return 0

    def add_run(self, dispatcher, reader):
        """Add the common publications at the read position, like `add`.

        Read the whole frame if all publications of the previous frame matched. Otherwise begin with a few, and double
        their number while all match.
        """
        samples: LiveSamples = self.samples
        first: cython.bint
        staged: cython.Py_ssize_t
        named: cython.Py_ssize_t
        total: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = reader.c.end - reader.c.at if self.steady else 2 * (samples.last + AHEAD)
        while True:
            first = self.check_clock(reader)
            staged = samples.stage_run(reader, size, self.received_ns)
            try:
                named = self.name_run(dispatcher, staged)
            except MemoryError:
                samples.end_run(reader, 0)
                raise
            total += named
            if samples.end_run(reader, named):
                self.deliver_batch()
            elif first and named and self.source is not None:
                self.wait()
            if staged == 0 or named < staged:
                self.steady = reader.c.at == reader.c.end
                return total
            size *= 2

    def name_run(self, dispatcher, count):
        """Set the keys of a run's rows, up to the first row that others receive too. Return the number of rows."""
        samples: LiveSamples = self.samples
        if dispatcher is not self.dispatcher or dispatcher.epoch.number != self.epoch:
            samples.forget_ids()
            self.dispatcher = dispatcher
            self.epoch = dispatcher.epoch.number
        named: cython.Py_ssize_t = samples.resolve_keys(0, count)
        while named < count and samples.has_room():
            id: cython.longlong = samples.id_at(named)
            key: bytes = dispatcher.app_key_for(self, id)
            if key is None:
                break
            samples.set_key(id, key)
            if dispatcher.epoch.number != self.epoch:  # a finalizer declared an entity during an allocation
                break
            named = samples.resolve_keys(named, count)
        return named

    def check_clock(self, reader):
        """Set the receive time, which the rows of a frame share. Return whether the next row is the first of its batch."""
        first: cython.bint = self.samples.samples.row == 0
        if first or not reader.in_frame or reader.frame.sn != self.sn:
            self.received_ns = time_ns()
            self.sn = reader.frame.sn
        return first

    def defer(self, key, reader):
        """Keep a sample that a finalizer puts on this thread while a row or batch is being built. It becomes the next row."""
        try:
            message = take(reader.c.data, reader.start, reader.c.at - reader.start)
            self.later.append((key, message, reader.frame.reliable))
        finally:
            self.lock.release()
        return 0

    def catch_up(self):
        reader: BatchReader = BatchReader()
        while self.later:
            key, message, reliable = self.later.pop(0)
            reader.bind(message)
            reader.begin_network(0, len(message))
            reader.frame.reliable = reliable
            reader.next()
            self.add(key, reader)
        return 0

    def wait(self):
        """Start the timer that emits the batch."""
        generation = self.generation
        self.source.after(self.age, lambda: self.late(generation))

    def late(self, generation):
        with self.lock:
            if generation == self.generation:
                self.finish()

    def finish(self):
        """Emit the current batch, and the samples that arrive in the meantime."""
        if self.busy:
            return
        self.busy = True
        try:
            self.deliver_batch()
            if self.later:
                self.catch_up()
        finally:
            self.busy = False

    def deliver_batch(self):
        self.generation += 1
        if len(self.samples):
            self.channel.push(self.samples.finish())
        return 0

    def close(self, discard=False):
        with self.lock:
            self.finish()
            self.finish()  # samples that arrived in the meantime
            self.dispatcher = None
        self.channel._close(discard)
