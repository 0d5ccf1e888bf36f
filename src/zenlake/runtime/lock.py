# SPDX-License-Identifier: Apache-2.0
"""A lock that a thread may take again while it holds it, for what is locked once a message.

`threading.RLock` costs 80 ns each time, most of it for calling it. Compiled code runs nobody else's until it lets go of the
interpreter, so a free lock is taken by writing down whose it is; only who finds it taken waits at a real lock, the gate.
Uncompiled it is `threading.RLock`.
"""

import threading

import cython

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
else:
    from threading import get_ident

__all__ = ["Lock"]


class Lock:
    """As `threading.RLock`, for `with` and for `threading.Condition` too."""

    def __init__(self):
        self.owner = 0
        self.depth = 0
        self.waiting = 0
        self.gate = threading.Lock()
        self.gated = False  # whether the gate is shut, on behalf of whoever holds the lock

    def acquire(self):
        me: cython.ulong = get_ident()
        if self.depth == 0 and self.waiting == 0:
            self.owner = me
            self.depth = 1
        elif self.depth > 0 and self.owner == me:
            self.depth += 1
        else:
            self.wait(me)
        return True

    def wait(self, me):
        """Somebody has it, or waits for it already."""
        if not self.gated and self.depth > 0:
            self.gated = True
            self.gate.acquire()  # at once: it is open
        self.waiting += 1
        try:
            self.gate.acquire()
        finally:
            self.waiting -= 1
        self.gated = True
        self.owner = me
        self.depth = 1
        return 0

    def release(self):
        self.depth -= 1
        if self.depth == 0 and self.gated:
            self.gated = False
            self.gate.release()
        return 0

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()

    # What a Condition asks for

    def _is_owned(self):
        return self.depth > 0 and self.owner == get_ident()

    def _release_save(self):
        depth = self.depth
        self.depth = 1
        self.release()
        return depth

    def _acquire_restore(self, depth):
        self.acquire()
        self.depth = depth


if not cython.compiled:
    Lock = threading.RLock  # type: ignore[assignment,misc]
