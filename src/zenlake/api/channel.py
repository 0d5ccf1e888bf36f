# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""What is received waits here until it is read. Compiled: every sample goes through one.

A channel never makes the node's thread wait. A FIFO that is full asks its `source` (the node, for its connections) to
pause and lets go when it has been read half empty; what was already under way is kept, so nothing is lost and memory
stays bounded by what one read of the network brings. A ring that is full forgets its oldest item, and counts it.

A callback's channel is bounded for publishers of the same session too (`admits`): they wait, or what they put is dropped. A channel
that a program reads itself is not: the thread that puts may be the one that would have to read.
"""

import threading
import time
from typing import Any

import cython

from zenlake.errors import ClosedError

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
    from cython.cimports.zenlake.ring import Ring, length
    from cython.cimports.zenlake.runtime.waking import Bell
else:
    from threading import get_ident

    from zenlake.ring import Ring, length
    from zenlake.runtime.waking import Bell

__all__ = ["Channel"]

DEFAULT_CAPACITY = 256
FORKED = "what this receives was asked for before a fork and belongs to the parent process: ask again here"
# A wait without a limit is many of these: only one with a limit can be interrupted everywhere.
LONGEST_WAIT = 3600.0
# The threads of callbacks: for what they put themselves they must not wait, since they are waited for.
CALLING: set[int] = set()


def ring_first(bells):
    """Of those who wait, the one who waits longest may look."""
    if length(bells):
        try:
            bell: Bell = bells.popleft()
        except IndexError:  # uncompiled: it has just gone
            return 0
        bell.ring()
    return 0


class Several:
    """Items that wait as one: each is made when it is read."""

    if not cython.compiled:  # compiled: an attribute, in the .pxd
        left: int = 0  # how many they are still

    def next(self):
        """The next of them. Called `left` times, and again before it returns if another thread asks meanwhile."""


class Channel:
    """Both ends: `_push` and `_close` fill it, what has no underscore reads it. No item is None."""

    def __init__(
        self, capacity: int = DEFAULT_CAPACITY, ring: bool = False, refuses: bool = False, holds: bool = False
    ) -> None:
        self.items = Ring()
        self.several: Any = None  # of which the next items are
        self.count = 0  # how many wait, with those that are to be made
        self.capacity = capacity
        self.ring = ring  # when it is full, it forgets the oldest
        self.refuses = refuses  # when it is full, it does not take the newest
        self.holds = holds  # when it is full, a publisher of the same session has to wait
        self.held = Ring()
        self.jammed = False  # somebody waited for room in vain, and nothing was taken since
        self.lock = threading.Lock()
        self.waiting = Ring()
        self.closed = False
        self.orphaned = False  # by a fork, before it was closed
        self.paused = False
        self.source: Any = None
        self.wake: Any = None
        self.dropped = 0  # items that there was no room for

    # The reading end

    def try_recv(self, /) -> Any:
        """The next item, or None if there is none now. ClosedError when none will ever come."""
        item = self.pop()
        if item is None and self.closed and self.count == 0:
            raise self.ended()
        if self.paused:
            self.let_go()
        return item

    def recv(self, /, timeout: float | None = None) -> Any:
        """The next item; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        return self.take(timeout)

    def take(self, timeout):
        item = self.pop()
        if item is None:
            item = self.wait(timeout)
        self.jammed = False
        if self.paused or length(self.held):
            self.let_go()
        return item

    def pop(self):
        """The next item, or None if there is none now."""
        if self.several is None:
            if length(self.items) == 0:
                return None
            item = self.items.popleft()
            if not isinstance(item, Several):
                self.count -= 1
                return item
            self.several = item
        several: Several = self.several
        several.left -= 1
        self.count -= 1
        if several.left == 0:
            self.several = None
        return several.next()

    def wait(self, timeout):
        """Each who waits has a bell of its own: whoever pushes takes the first and rings it."""
        end = None if timeout is None else time.monotonic() + timeout
        bell: Bell = Bell()
        self.waiting.append(bell)  # before looking: so whoever pushes after the look sees it
        try:
            while True:
                item = self.pop()
                if item is not None:
                    return item
                if self.closed:
                    raise self.ended()
                left = LONGEST_WAIT if end is None else end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"nothing came in {timeout:g} s")
                if self.source is not None:
                    self.source.check_wait()
                if bell.wait(left):
                    self.waiting.append(bell)  # somebody else may have been quicker
        finally:
            try:
                self.waiting.remove(bell)
            except ValueError:  # rung in this moment, for an item that is left to another
                if self.count:
                    self.notify()

    def ended(self):
        return ClosedError(FORKED if self.orphaned else "the channel is empty and closed")

    def notify(self):
        """Something came: one of those who wait may look."""
        return ring_first(self.waiting)

    def _feed(self, callback: Any, failed: Any) -> None:
        """Call it with every item, until there will be no more; `failed()` whenever it raises."""
        item = None
        CALLING.add(get_ident())
        try:
            while True:
                try:
                    while True:
                        item = self.take(None)
                        callback(item)
                        item = None  # a query that is let go is finished
                except Exception as error:
                    if item is not None:  # what it was called with
                        failed()
                    elif isinstance(error, ClosedError):
                        return
                    else:
                        raise
                item = None
        finally:
            CALLING.discard(get_ident())

    def __next__(self, /) -> Any:
        try:
            return self.recv()
        except ClosedError:
            if self.orphaned:  # what the parent will receive is missing here: that is no end
                raise
            raise StopIteration from None

    def __iter__(self, /) -> Any:
        return self

    def __len__(self, /) -> int:
        """How many items wait."""
        return self.count

    def __bool__(self, /) -> bool:
        return True  # an empty channel is still a channel

    def __repr__(self, /) -> str:
        return f"Handler({self.count} of {self.capacity}{', closed' if self.closed else ''})"

    # The filling end

    def _push(self, item: Any) -> None:
        self.push(item)

    def admits(self, block):
        """Before a sample is pushed: whether it may be. Where there is no room this waits, for long if it is to `block`."""
        return not self.holds or self.count < self.capacity or self.hold(block)

    def hold(self, block):
        """Wait for room. False, and counted, if there is none and it may be dropped; what must not be is admitted at last."""
        if self.source is None or self.source.inside:  # it came over the network, which is being paused
            return True
        patience: cython.double = 0.0
        if get_ident() not in CALLING and (block or not self.jammed):
            patience = self.source.patience(block)
        end: cython.double = time.monotonic() + patience
        bell: Bell = Bell()
        self.held.append(bell)  # before looking: so whoever takes an item after the look sees it
        try:
            while self.count >= self.capacity and not self.closed:
                left: cython.double = end - time.monotonic()
                if left <= 0:
                    if not block:
                        self.jammed |= patience > 0
                        self.forget()
                    return block
                if bell.wait(left):
                    self.held.append(bell)  # somebody else may have been quicker
            return True
        finally:
            try:
                self.held.remove(bell)
            except ValueError:  # rung in this moment: the room is left to another
                self.let_in()

    def push(self, item):
        """1 if there was no room for it."""
        if self.closed:
            return 0
        if self.count >= self.capacity and not self.paused and self.full():
            return 1
        self.add(item, 1)
        self.notify()
        if self.wake is not None:
            self.wake()
        return 0

    def push_several(self, several):
        """As many a `push`. Not into one that drops what there is no room for, one by one."""
        if self.closed:
            return 0
        many: cython.Py_ssize_t = several.left
        if self.count + many > self.capacity and not self.paused:
            self.full()
        self.add(several, many)
        while many > 0 and length(self.waiting):
            self.notify()
            many -= 1
        if self.wake is not None:
            self.wake()
        return 0

    def add(self, item, many):
        self.items.append(item)
        self.count += many
        return 0

    def full(self):
        """Make room in a ring, have a FIFO's source pause. True if there is no room for what comes."""
        if self.refuses or (self.ring and self.capacity == 0):
            self.forget()
            return 1
        if self.ring:
            with self.lock:
                crowded = self.count >= self.capacity
                if crowded:
                    self.pop()
            if crowded:
                self.forget()
        elif not self.paused and self.source is not None:
            self.paused = True
            self.source.pause(self)
        return 0

    def forget(self):
        """Count what there was no room for."""
        self.dropped += 1
        if self.source is not None:
            self.source.forgotten()
        return 0

    def let_in(self):
        """Whoever waits for room longest may look."""
        return ring_first(self.held) if self.count < self.capacity else 0

    def let_go(self):
        self.let_in()
        if not self.paused:
            return 0
        if self.count <= self.capacity // 2:
            with self.lock:
                if not self.paused:
                    return 0
                self.paused = False
            if self.source is not None:
                self.source.resume(self)
        return 0

    def _close(self, discard: bool = False) -> None:
        """Nothing will come any more; what is there can still be read, unless it is to be discarded."""
        self.closed = True  # without a lock: the garbage collector may call this
        if discard:
            self.discard()
        while length(self.waiting):
            self.notify()
        while length(self.held):
            ring_first(self.held)
        if self.paused:
            self.paused = False
            if self.source is not None:
                self.source.resume(self)
        if self.wake is not None:
            self.wake()

    def discard(self):
        self.items.clear()
        self.several = None
        self.count = 0  # nothing was pushed meanwhile: it is closed
        return 0

    def _orphan(self) -> None:
        """In a child that was forked: nothing will come, and the locks may be held by threads that are not here."""
        self.lock = threading.Lock()
        self.waiting = Ring()
        self.held = Ring()
        self.source = self.wake = None
        self.orphaned = not self.closed
        self.closed = True


if not cython.compiled:

    class Channel(Channel):  # type: ignore[no-redef]
        """As compiled, where no other thread comes between the items and their number."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.guard = threading.RLock()

        def pop(self):
            with self.guard:
                return super().pop()

        def add(self, item, many):
            with self.guard:
                return super().add(item, many)

        def discard(self):
            with self.guard:
                return super().discard()

        def _orphan(self) -> None:
            super()._orphan()
            self.guard = threading.RLock()
