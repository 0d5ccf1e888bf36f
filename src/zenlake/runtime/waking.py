# SPDX-License-Identifier: Apache-2.0
"""How the loop wakes a thread that waits for what has come.

A thread that is woken while the loop still has the interpreter runs only to find that out, and sleeps again: two more changes
of thread for each message. So the loop holds back what it rings (`hold`) until it has let go of the interpreter, just before
it waits; but only while it reads from one connection: before anything else is done, and before a user's function is called,
it rings (`ring_held`).

Uncompiled everything is rung at once.
"""

import os
import threading

import cython

if cython.compiled:
    from cython.cimports.cpython.exc import PyErr_CheckSignals
    from cython.cimports.cpython.pythread import (
        PyThread_acquire_lock,
        PyThread_allocate_lock,
        PyThread_free_lock,
        PyThread_release_lock,
    )
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.cpython.time import monotonic

__all__ = ["Bell", "ring_held"]

INTERRUPTED = cython.declare(cython.int, 2)

# The loop that holds back what it rings (one at a time: loops seldom share a process), and what that was.
HOLDER = cython.declare(cython.ulong, 0)
HELD = cython.declare(list, [])


class Bell:
    """One thread waits for it, another rings it: once for each wait."""

    def __init__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == cython.NULL:
            raise MemoryError
        PyThread_acquire_lock(self.lock, 0)

    def __dealloc__(self):
        if cython.compiled and self.lock != cython.NULL:
            PyThread_acquire_lock(self.lock, 0)
            PyThread_release_lock(self.lock)  # open, so that it may be freed
            PyThread_free_lock(self.lock)

    def wait(self, seconds):
        """Whether it was rung in this time. A signal's handler runs at once, and may raise."""
        end: cython.double = monotonic() + seconds
        answer: cython.int
        while True:
            late: cython.longlong = cython.cast(cython.longlong, max(0.0, end - monotonic()) * 1e6)
            with cython.nogil:
                answer = PyThread_acquire_lock_timed(self.lock, late, 1)  # type: ignore[name-defined]  # noqa: F821
            if answer != INTERRUPTED:
                return answer != 0
            PyErr_CheckSignals()

    def ring(self):
        if get_ident() == HOLDER:
            HELD.append(self)
        else:
            PyThread_release_lock(self.lock)
        return 0


if not cython.compiled:

    class Bell:  # type: ignore[no-redef]
        """As compiled, without holding back."""

        def __init__(self):
            self.lock = threading.Lock()
            self.lock.acquire()

        def wait(self, seconds):
            return self.lock.acquire(True, seconds)

        def ring(self):
            self.lock.release()


def hold(me):
    """In a loop's thread (0: in none): from now on, hold back what this thread rings."""
    global HOLDER
    if me != HOLDER:
        ring_held()
        HOLDER = me
    return 0


def ring_held():
    """Ring what is held back, and hold back no more."""
    global HOLDER
    bell: Bell
    HOLDER = 0
    while HELD:
        bell = HELD.pop(0)
        bell.ring()
    return 0


def take_held(me):
    """What this loop has held back, for it to ring when it has let go of the interpreter; None if there is nothing."""
    global HELD, HOLDER
    if me != HOLDER:
        return None
    HOLDER = 0
    if not HELD:
        return None
    found = HELD
    HELD = []
    return found


def forget_held():
    """In a child that was forked: nobody of those waits here, and its threads may have the same numbers."""
    global HELD, HOLDER
    HOLDER = 0
    HELD = []


os.register_at_fork(after_in_child=forget_held)
