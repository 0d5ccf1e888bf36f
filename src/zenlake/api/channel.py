# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""Channels: queues between the event loop thread and the consumer. Compiled: every sample passes through one.

Threading: a channel never blocks the event loop thread. A full FIFO asks its `source` (the node, for its connections) to pause
reading, and resumes it when the channel is half empty. Items that are already in progress are kept. Therefore no item is lost,
and memory is bounded by one read of the network. A full ring drops its oldest item and counts it.

The channel of a callback is also bounded for publishers of the same session (`has_room_for`): they wait, or their item is dropped.
A channel that the program reads itself has no such bound, because the publishing thread may also be the reading thread.
"""

import threading
import time
from collections import deque
from typing import Any

import cython
from cython.cimports.zenlake.runtime.deferred_wakeup import Wakeup

from zenlake.errors import ClosedError

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as get_ident
else:
    from threading import get_ident

__all__ = ["Channel"]

DEFAULT_CAPACITY = 256
FORKED = (
    "this channel was created before a fork and belongs to the parent process; declare or query again in this process"
)
# Seconds. A wait without limit is a sequence of these, because only a wait with a limit can be interrupted on every platform.
MAX_WAIT = 3600.0
# Callback threads. Their own puts do not wait for space, because other threads wait for these threads.
CALLING: set[int] = set()


def wake_first(wakeups):
    """Wake the longest-waiting thread."""
    if wakeups:
        try:
            wakeup: Wakeup = wakeups.popleft()
        except IndexError:  # uncompiled: already removed
            return 0
        wakeup.wake()
    return 0


class LazyItems:
    """A queued group of items. Each item is created when it is read."""

    if not cython.compiled:  # compiled: an attribute, in the .pxd
        left: int = 0  # number of remaining items

    def next(self):
        """Return the next item. It is called `left` times. Another thread may call it before it returns."""


class Channel:
    """Both ends of a channel. `_push` and `_close` fill it; methods without an underscore read it. No item is None."""

    def __init__(
        self, capacity: int = DEFAULT_CAPACITY, ring: bool = False, refuses: bool = False, holds: bool = False
    ) -> None:
        self.items = deque[Any]()
        self.several: Any = None  # the group of the next items
        self.count = 0  # number of queued items, including those to be created
        self.capacity = capacity
        self.ring = ring  # when full, drop the oldest item
        self.refuses = refuses  # when full, drop the newest item
        self.holds = holds  # when full, a publisher of the same session waits
        self.held = deque[Any]()
        self.jammed = False  # a wait for space timed out, and no item has been taken since
        self.lock = threading.Lock()
        self.waiting = deque[Any]()
        self.closed = False
        self.orphaned = False  # by a fork, before it was closed
        self.paused = False
        self.source: Any = None
        self.wake: Any = None
        self.dropped = 0  # number of dropped items

    # Reading end

    def try_recv(self, /) -> Any:
        """Return the next item, or None if the channel is empty. Raise ClosedError if it is also closed."""
        item = self.pop()
        if item is None and self.closed and self.count == 0:
            raise self.closed_error()
        if self.paused:
            self.release_held()
        return item

    def recv(self, /, timeout: float | None = None) -> Any:
        """Return the next item, blocking up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No item arrived in time.
            ClosedError: The channel is closed and empty.
        """
        return self.take(timeout)

    def take(self, timeout):
        item = self.pop()
        if item is None:
            item = self.wait(timeout)
        self.jammed = False
        if self.paused or self.held:
            self.release_held()
        return item

    def pop(self):
        """Return the next item, or None if the channel is empty."""
        if self.several is None:
            if not self.items:
                return None
            item = self.items.popleft()
            if not isinstance(item, LazyItems):
                self.count -= 1
                return item
            self.several = item
        several: LazyItems = self.several
        several.left -= 1
        self.count -= 1
        if several.left == 0:
            self.several = None
        return several.next()

    def wait(self, timeout):
        """Wait for an item. Each waiting thread has its own wakeup; a push takes and triggers the first one."""
        end = None if timeout is None else time.monotonic() + timeout
        wakeup: Wakeup = Wakeup()
        self.waiting.append(wakeup)  # before the check, so that a push after the check sees it
        try:
            while True:
                item = self.pop()
                if item is not None:
                    return item
                if self.closed:
                    raise self.closed_error()
                left = MAX_WAIT if end is None else end - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"no item arrived within {timeout:g} s")
                if self.source is not None:
                    self.source.check_wait()
                if wakeup.wait(left):
                    self.waiting.append(wakeup)  # another thread may have been faster
        finally:
            try:
                self.waiting.remove(wakeup)
            except ValueError:  # triggered just now: wake another thread for that item
                if self.count:
                    self.notify()

    def closed_error(self):
        return ClosedError(FORKED if self.orphaned else "the channel is empty and closed")

    def notify(self):
        """Wake one waiting thread after a push."""
        return wake_first(self.waiting)

    def _feed(self, callback: Any, failed: Any) -> None:
        """Call `callback` with every item until the channel is closed. Call `failed()` whenever it raises."""
        item = None
        CALLING.add(get_ident())
        try:
            while True:
                try:
                    while True:
                        item = self.take(None)
                        callback(item)
                        item = None  # releasing a query finishes it
                except Exception as error:
                    if item is not None:  # the callback raised, not the channel
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
            if self.orphaned:  # items of the parent process are missing here, so this is not a normal end
                raise
            raise StopIteration from None

    def __iter__(self, /) -> Any:
        return self

    def __len__(self, /) -> int:
        """Return the number of queued items."""
        return self.count

    def __bool__(self, /) -> bool:
        return True  # an empty channel is true

    def __repr__(self, /) -> str:
        return f"Handler({self.count} of {self.capacity}{', closed' if self.closed else ''})"

    # Filling end

    def _push(self, item: Any) -> None:
        self.push(item)

    def has_room_for(self, block):
        """Return whether a sample may be pushed. If the channel is full, wait for space: briefly, or longer with `block`."""
        return not self.holds or self.count < self.capacity or self.hold(block)

    def hold(self, block):
        """Wait for space.

        After the timeout, count a droppable item and return False. An item that must not be dropped is admitted.
        """
        if self.source is None or self.source.inside:  # received from the network, which is being paused
            return True
        patience: cython.double = 0.0
        if get_ident() not in CALLING and (block or not self.jammed):
            patience = self.source.patience(block)
        end: cython.double = time.monotonic() + patience
        wakeup: Wakeup = Wakeup()
        self.held.append(wakeup)  # before the check, so that a reader after the check sees it
        try:
            while self.count >= self.capacity and not self.closed:
                left: cython.double = end - time.monotonic()
                if left <= 0:
                    if not block:
                        self.jammed |= patience > 0
                        self.forget()
                    return block
                if wakeup.wait(left):
                    self.held.append(wakeup)  # another thread may have been faster
            return True
        finally:
            try:
                self.held.remove(wakeup)
            except ValueError:  # triggered just now: leave the space to another thread
                self.unblock_writer()

    def push(self, item):
        """Add an item. Return 1 if it was dropped."""
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
        """Add a group of items. Not for channels that drop single items."""
        if self.closed:
            return 0
        many: cython.Py_ssize_t = several.left
        if self.count + many > self.capacity and not self.paused:
            self.full()
        self.add(several, many)
        while many > 0 and self.waiting:
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
        """Drop the oldest item of a ring, or pause the source of a FIFO. Return True if the new item must be dropped."""
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
        """Count a dropped item."""
        self.dropped += 1
        if self.source is not None:
            self.source.count_drop()
        return 0

    def unblock_writer(self):
        """Wake the thread that waits longest for space."""
        return wake_first(self.held) if self.count < self.capacity else 0

    def release_held(self):
        self.unblock_writer()
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
        """Close the channel. Queued items can still be read, unless they are discarded."""
        self.closed = True  # without a lock, because the garbage collector may call this
        if discard:
            self.discard()
        while self.waiting:
            self.notify()
        while self.held:
            wake_first(self.held)
        if self.paused:
            self.paused = False
            if self.source is not None:
                self.source.resume(self)
        if self.wake is not None:
            self.wake()

    def discard(self):
        self.items.clear()
        self.several = None
        self.count = 0  # no item was pushed in the meantime: closed
        return 0

    def _orphan(self) -> None:
        """Close the channel in a forked child, where locks may be held by threads that do not exist."""
        self.lock = threading.Lock()
        self.waiting = deque[Any]()
        self.held = deque[Any]()
        self.source = self.wake = None
        self.orphaned = not self.closed
        self.closed = True


if not cython.compiled:

    class Channel(Channel):  # type: ignore[no-redef]
        """Uncompiled form. In the compiled form, no thread switch separates a change of the items from that of their number."""

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
