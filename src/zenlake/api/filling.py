# SPDX-License-Identifier: Apache-2.0
"""The record batch that an ArrowChannel is filling. Compiled: each sample goes from where it was read into the columns here."""

import cython

if cython.compiled:
    from cython.cimports.cpython.time import time_ns
    from cython.cimports.zenlake.columns.live import LiveSamples
    from cython.cimports.zenlake.columns.usual import AHEAD
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.runtime.lock import Lock
    from cython.cimports.zenlake.wire.memory import take
    from cython.cimports.zenlake.wire.reader import Reader
else:
    from time import time_ns

    from zenlake.columns.live import LiveSamples
    from zenlake.columns.usual import AHEAD
    from zenlake.network.forward import Listener
    from zenlake.runtime.lock import Lock
    from zenlake.wire.memory import take
    from zenlake.wire.reader import Reader

__all__ = ["Filling"]


class Filling(Listener):
    """A listener that hands a batch over when it is full, or when its first sample is `age` seconds old.

    Where memory is asked for, the garbage collector may run, and with it anybody's finalizer: what that puts while a row or a
    batch is being made is kept, and is the next row.
    """

    def __init__(self, samples, channel, age, replies=False):
        self.runs = not replies
        self.samples = samples
        self.channel = channel
        self.lock = Lock()  # a local publisher's thread and the loop may come at once
        self.age = age
        self.replies = replies  # answers to a query, instead of publications
        self.errors = []  # the payloads of those that are errors
        self.generation = 0
        self.source = None
        self.sn = 0
        self.received_ns = 0
        self.busy = False  # whether a row or a batch is being made
        self.later = []
        self.door = None  # by which the last run came, and in which epoch: then ids stand for what they stood for
        self.epoch = 0
        self.steady = False  # whether it took a frame to its end

    def take(self, key, reader):
        if self.replies and not reader.response.is_reply:
            self.errors.append(reader.response.err.payload.value or b"")
            return 0
        self.lock.acquire()  # a column that grows lets go of the interpreter
        if self.busy:
            return self.put_off(key, reader)
        self.busy = True
        try:
            self.add(key, reader)
            if self.later:
                self.catch_up()
        finally:
            self.busy = False
            self.lock.release()
        return 0

    def take_run(self, door, reader):
        self.lock.acquire()
        if self.busy:
            self.lock.release()
            return 0
        self.busy = True
        try:
            count: cython.Py_ssize_t = self.add_run(door, reader)
            if self.later:
                self.catch_up()
        finally:
            self.busy = False
            self.lock.release()
        return count

    def add(self, key, reader):
        first: cython.bint = self.look_at_clock(reader)
        full: cython.bint
        if self.replies:
            full = self.samples.add_reply(key, reader, self.received_ns)
        else:
            full = self.samples.add_push(key, reader, self.received_ns)
        if full:
            self.hand_over()
        elif first and self.source is not None:
            self.wait()
        return 0

    def add_run(self, door, reader):
        """As `add`, for the usual publications that lie ahead.

        All of the frame, if those of the frame before were all ours; else a few, and twice as many again and again while all are.
        """
        samples: LiveSamples = self.samples
        first: cython.bint
        noted: cython.Py_ssize_t
        named: cython.Py_ssize_t
        total: cython.Py_ssize_t = 0
        size: cython.Py_ssize_t = reader.c.end - reader.c.at if self.steady else 2 * (samples.last + AHEAD)
        while True:
            first = self.look_at_clock(reader)
            noted = samples.note_run(reader, size, self.received_ns)
            try:
                named = self.name_run(door, noted)
            except MemoryError:
                samples.end_run(reader, 0)
                raise
            total += named
            if samples.end_run(reader, named):
                self.hand_over()
            elif first and named and self.source is not None:
                self.wait()
            if noted == 0 or named < noted:
                self.steady = reader.c.at == reader.c.end
                return total
            size *= 2

    def name_run(self, door, count):
        """Give the rows of a run their keys, up to the first that is not for us alone; returns how many these are."""
        samples: LiveSamples = self.samples
        if door is not self.door or door.epoch.number != self.epoch:
            samples.forget_ids()
            self.door = door
            self.epoch = door.epoch.number
        named: cython.Py_ssize_t = samples.name_rows(0, count)
        while named < count and samples.has_room():
            id: cython.longlong = samples.id_at(named)
            key: bytes = door.key_for(self, id)
            if key is None:
                break
            samples.learn(id, key)
            if door.epoch.number != self.epoch:  # somebody's finalizer declared something, while memory was asked for
                break
            named = samples.name_rows(named, count)
        return named

    def look_at_clock(self, reader):
        """What comes in one frame comes at one time. Returns whether the next row is the first of its batch."""
        first: cython.bint = self.samples.samples.row == 0
        if first or not reader.in_frame or reader.frame.sn != self.sn:
            self.received_ns = time_ns()
            self.sn = reader.frame.sn
        return first

    def put_off(self, key, reader):
        """A finalizer of this thread puts something, while a row or a batch is being made here: it is the next row."""
        try:
            message = take(reader.c.data, reader.start, reader.c.at - reader.start)
            self.later.append((key, message, reader.frame.reliable))
        finally:
            self.lock.release()
        return 0

    def catch_up(self):
        reader: Reader = Reader()
        while self.later:
            key, message, reliable = self.later.pop(0)
            reader.bind(message)
            reader.begin_network(0, len(message))
            reader.frame.reliable = reliable
            reader.next()
            self.add(key, reader)
        return 0

    def wait(self):
        """Hand the batch over in a while, if it has not been by then."""
        generation = self.generation
        self.source.after(self.age, lambda: self.late(generation))

    def late(self, generation):
        with self.lock:
            if generation == self.generation:
                self.finish()

    def finish(self):
        """Hand over what there is, and what comes meanwhile."""
        if self.busy:
            return
        self.busy = True
        try:
            self.hand_over()
            if self.later:
                self.catch_up()
        finally:
            self.busy = False

    def hand_over(self):
        self.generation += 1
        if len(self.samples):
            self.channel.push(self.samples.finish())
        return 0

    def close(self, discard=False):
        with self.lock:
            self.finish()
            self.finish()  # what came meanwhile
            self.door = None
        self.channel._close(discard)
