# SPDX-License-Identifier: Apache-2.0
"""Wake-ups of threads that wait for received items.

Performance: a thread that is woken while the event loop holds the GIL cannot run and sleeps again: two more context
switches per message. So the event loop defers wake-ups (`hold`) until it has released the GIL, just before it
polls. This applies only while it reads from one connection. Before any other work, and before a callback of the user, it
sends the deferred wake-ups (`release_wakeups`).

In uncompiled modules, wake-ups are immediate.
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

__all__ = ["Wakeup", "release_wakeups"]

INTERRUPTED = cython.declare(cython.int, 2)

# The event loop that defers wake-ups (one at a time: loops seldom share a process), and the deferred wake-ups.
HOLDER = cython.declare(cython.ulong, 0)
HELD = cython.declare(list, [])


class Wakeup:
    """A wake-up from one thread to another: one `wake` for each `wait`."""

    def __init__(self):
        self.lock = PyThread_allocate_lock()
        if self.lock == cython.NULL:
            raise MemoryError
        PyThread_acquire_lock(self.lock, 0)

    def __dealloc__(self):
        if cython.compiled and self.lock != cython.NULL:
            PyThread_acquire_lock(self.lock, 0)
            PyThread_release_lock(self.lock)  # unlocked, so that it can be freed
            PyThread_free_lock(self.lock)

    def wait(self, seconds):
        """Return whether `wake` was called within this time. Signal handlers run immediately and may raise."""
        end: cython.double = monotonic() + seconds
        answer: cython.int
        while True:
            late: cython.longlong = cython.cast(cython.longlong, max(0.0, end - monotonic()) * 1e6)
            with cython.nogil:
                answer = PyThread_acquire_lock_timed(self.lock, late, 1)  # noqa: F821
            if answer != INTERRUPTED:
                return answer != 0
            PyErr_CheckSignals()

    def wake(self):
        if get_ident() == HOLDER:
            HELD.append(self)
        else:
            PyThread_release_lock(self.lock)
        return 0


if not cython.compiled:

    class Wakeup:  # type: ignore[no-redef]
        """The uncompiled version, without deferral."""

        def __init__(self):
            self.lock = threading.Lock()
            self.lock.acquire()

        def wait(self, seconds):
            return self.lock.acquire(True, seconds)

        def wake(self):
            self.lock.release()


def defer_wakeups(me):
    """Defer the wake-ups of an event loop thread from now on. 0: of no thread."""
    global HOLDER
    if me != HOLDER:
        release_wakeups()
        HOLDER = me
    return 0


def release_wakeups():
    """Send the deferred wake-ups and end the deferral."""
    global HOLDER
    wakeup: Wakeup
    HOLDER = 0
    while HELD:
        wakeup = HELD.pop(0)
        wakeup.wake()
    return 0


def take_wakeups(me):
    """Return the deferred wake-ups of this event loop, to send after it releases the GIL, or None."""
    global HELD, HOLDER
    if me != HOLDER:
        return None
    HOLDER = 0
    if not HELD:
        return None
    found = HELD
    HELD = []
    return found


def discard_wakeups():
    """Drop deferred wake-ups in a forked child: their threads do not exist there, and thread ids may be reused."""
    global HELD, HOLDER
    HOLDER = 0
    HELD = []


os.register_at_fork(after_in_child=discard_wakeups)
