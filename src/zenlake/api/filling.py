# SPDX-License-Identifier: Apache-2.0
"""The record batch that an ArrowChannel is filling. Compiled: each sample goes from the reader's record into the columns here."""

import cython

if cython.compiled:
    from cython.cimports.cpython.time import time_ns
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.runtime.lock import Lock
    from cython.cimports.zenlake.wire.memory import take
    from cython.cimports.zenlake.wire.reader import Reader
else:
    from time import time_ns

    from zenlake.network.forward import Listener
    from zenlake.runtime.lock import Lock
    from zenlake.wire.memory import take
    from zenlake.wire.reader import Reader

__all__ = ["Filling"]


class Filling(Listener):
    """A listener that hands a batch over when it is full, or when its first sample is `age` seconds old."""

    def __init__(self, samples, channel, age):
        self.samples = samples
        self.channel = channel
        self.lock = Lock()  # a local publisher's thread and the loop may come at once
        self.age = age
        self.generation = 0
        self.source = None
        self.sn = 0
        self.received_ns = 0
        self.busy = False  # whether a row or a batch is being made
        self.later = []

    def take(self, key, reader):
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

    def add(self, key, reader):
        first: cython.bint = self.samples.samples.row == 0
        # What comes in one frame comes at one time.
        if first or not reader.in_frame or reader.frame.sn != self.sn:
            self.received_ns = time_ns()
            self.sn = reader.frame.sn
        if self.samples.add_push(key, reader, self.received_ns):
            self.hand_over()
        elif first and self.source is not None:
            self.wait()
        return 0

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
        self.channel._close(discard)
