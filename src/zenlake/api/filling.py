# SPDX-License-Identifier: Apache-2.0
"""The record batch that an ArrowChannel is filling. Compiled: each sample goes from the reader's record into the columns here."""

import cython

if cython.compiled:
    from cython.cimports.cpython.time import time_ns
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.runtime.lock import Lock
else:
    from time import time_ns

    from zenlake.network.forward import Listener
    from zenlake.runtime.lock import Lock

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

    def take(self, key, reader):
        self.lock.acquire()  # a column that grows lets go of the interpreter
        try:
            first: cython.bint = self.samples.samples.row == 0
            # What comes in one frame comes at one time.
            if first or not reader.in_frame or reader.frame.sn != self.sn:
                self.received_ns = time_ns()
                self.sn = reader.frame.sn
            if self.samples.add_push(key, reader, self.received_ns):
                self.hand_over()
            elif first and self.source is not None:
                self.wait()
        finally:
            self.lock.release()
        return 0

    def wait(self):
        """Hand the batch over in a while, if it has not been by then."""
        generation = self.generation
        self.source.after(self.age, lambda: self.late(generation))

    def late(self, generation):
        with self.lock:
            if generation == self.generation:
                self.hand_over()

    def hand_over(self):
        self.generation += 1
        if len(self.samples):
            self.channel.push(self.samples.finish())
        return 0

    def close(self, discard=False):
        with self.lock:
            self.hand_over()
        self.channel._close(discard)
