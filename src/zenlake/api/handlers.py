# SPDX-License-Identifier: Apache-2.0
"""Where what is received goes: a channel that is read when one likes, or a callback.

A channel never makes the node's thread wait. A FIFO that is full asks its `sources` (the connections that fill it) to
pause and lets go when it has been read half empty; what was already under way is kept, so nothing is lost and memory
stays bounded by what one read of the network brings. A ring that is full forgets its oldest item, and counts it.

A callback has a thread of its own, fed through a FIFO. One that raises is logged, and the next item is handed on.
"""

import logging
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable
from types import GenericAlias
from typing import Any, Generic, Protocol, TypeVar

from zenlake.errors import ClosedError, InvalidValue

__all__ = ["Handler", "DefaultHandler", "FifoChannel", "RingChannel", "Callback", "Receiver", "receiver"]

log = logging.getLogger("zenlake.handlers")

DEFAULT_CAPACITY = 256
LONGEST_WAIT = (
    3600.0  # a wait without a limit is many of these: only a lock with a timeout can be interrupted everywhere
)

T = TypeVar("T")


class Pausable(Protocol):
    """Who fills a channel and can be asked to stop for a while."""

    def pause(self, channel: object) -> None: ...
    def resume(self, channel: object) -> None: ...


class Handler(Generic[T]):
    """The reading end of a channel: `recv`, `try_recv`, or iterate until it is closed."""

    __slots__ = (
        "_capacity",
        "_closed",
        "_items",
        "_lock",
        "_paused",
        "_ready",
        "_ring",
        "_source",
        "_waiting",
        "_wake",
        "dropped",
    )

    def __init__(self, capacity: int = DEFAULT_CAPACITY, ring: bool = False) -> None:
        self._items: deque[T] = deque()
        self._capacity = capacity
        self._ring = ring
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._waiting = 0
        self._closed = False
        self._paused = False
        self._source: Pausable | None = None
        self._wake: Callable[[], object] | None = None
        self.dropped = 0
        """Items that a full ring forgot."""

    def try_recv(self, /) -> T | None:
        """The next item, or None if there is none now. ClosedError when none will ever come."""
        try:
            item = self._items.popleft()
        except IndexError:
            if self._closed and not self._items:
                raise ClosedError("the channel is empty and closed") from None
            return None
        if self._paused:
            self._let_go()
        return item

    def recv(self, /, timeout: float | None = None) -> T:
        """The next item; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        try:  # the usual case of a busy channel
            item = self._items.popleft()
        except IndexError:
            item = self._wait(timeout)
        if self._paused:
            self._let_go()
        return item

    def _wait(self, timeout: float | None) -> T:
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock:
            self._waiting += 1  # before looking: so whoever pushes after the look notifies
            try:
                while not self._items:
                    if self._closed:
                        raise ClosedError("the channel is empty and closed")
                    left = LONGEST_WAIT if end is None else end - time.monotonic()
                    if left <= 0:
                        raise TimeoutError(f"nothing came in {timeout:g} s")
                    self._ready.wait(left)
                return self._items.popleft()
            finally:
                self._waiting -= 1

    def __iter__(self, /) -> "Handler[T]":
        return self

    def __next__(self, /) -> T:
        try:
            return self.recv()
        except ClosedError:
            raise StopIteration from None

    def __len__(self, /) -> int:
        """How many items wait."""
        return len(self._items)

    __bool__ = lambda self: True  # noqa: E731  # an empty handler is still a handler

    def __repr__(self) -> str:
        return f"Handler({len(self._items)} of {self._capacity}{', closed' if self._closed else ''})"

    # The filling end

    def _push(self, item: T) -> None:
        items = self._items
        if self._closed:
            return
        if len(items) >= self._capacity:
            if self._ring:
                if self._capacity == 0:
                    self.dropped += 1
                    return
                with self._lock:
                    if len(items) >= self._capacity:
                        items.popleft()
                        self.dropped += 1
            elif not self._paused and self._source is not None:
                self._paused = True
                self._source.pause(self)
        items.append(item)
        if self._waiting:
            with self._lock:
                self._ready.notify()
        if self._wake is not None:
            self._wake()

    def _let_go(self) -> None:
        if len(self._items) <= self._capacity // 2:
            with self._lock:
                if not self._paused:
                    return
                self._paused = False
            if self._source is not None:
                self._source.resume(self)

    def _close(self, discard: bool = False) -> None:
        """Nothing will come any more; what is there can still be read, unless it is to be discarded."""
        with self._lock:
            self._closed = True
            if discard:
                self._items.clear()
            self._ready.notify_all()
            paused, self._paused = self._paused, False
        if paused and self._source is not None:
            self._source.resume(self)
        if self._wake is not None:
            self._wake()

    def _orphan(self) -> None:
        """In a child that was forked: nothing will come, and the locks may be held by threads that are not here."""
        self._lock = threading.Lock()
        self._ready = threading.Condition(self._lock)
        self._source = self._wake = None
        self._closed = True


class DefaultHandler(Generic[T]):
    """The channel that one gets without asking: a FIFO of 256 items."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DefaultHandler()"


class FifoChannel(Generic[T]):
    """Keeps every item. While it is full, those who fill it over the network are not read from."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _capacity(capacity)

    def __repr__(self) -> str:
        return f"FifoChannel({self.capacity})"


class RingChannel(Generic[T]):
    """Keeps the newest items and forgets the oldest."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _capacity(capacity)

    def __repr__(self) -> str:
        return f"RingChannel({self.capacity})"


def _capacity(capacity: int) -> int:
    if not isinstance(capacity, int):
        raise TypeError(f"a capacity is a whole number, not {type(capacity).__name__}")
    if capacity < 0:
        raise InvalidValue(f"a capacity of {capacity}: it must not be negative")
    return capacity


class Callback(Generic[T]):
    """A function for each item, and one to call when there will be no more.

    With `indirect` (the default) it runs in a thread of its own. Without, it runs where the item is received: faster,
    but it must not wait for anything, since meanwhile the node does nothing else.
    """

    __slots__ = ("_callback", "_drop", "_indirect")

    def __init__(
        self, callback: Callable[[T], Any], drop: Callable[[], Any] | None = None, *, indirect: bool = True
    ) -> None:
        self._callback = callback
        self._drop = drop
        self._indirect = indirect

    def __call__(self, arg: T, /) -> Any:
        return self._callback(arg)

    @property
    def callback(self) -> Callable[[T], Any]:
        return self._callback

    @property
    def drop(self) -> Callable[[], Any] | None:
        return self._drop

    @property
    def indirect(self) -> bool:
        return self._indirect

    def __repr__(self) -> str:
        return f"Callback({self._callback!r}, {self._drop!r}, indirect={self._indirect})"


for _kind in (Handler, DefaultHandler, FifoChannel, RingChannel, Callback):
    _kind.__class_getitem__ = classmethod(GenericAlias)  # type: ignore[union-attr,assignment,attr-defined]


class Receiver(Generic[T]):
    """What a declaration fills: `push` an item, `close` at the end. `handler` is what its user reads."""

    __slots__ = ("__weakref__", "background", "close", "deliver", "handler", "idle", "orphan", "push", "source")

    def __init__(
        self,
        push: Callable[[T], None],
        close: Callable[..., None],
        handler: Any,
        background: bool = False,
        idle: Callable[[float | None], bool] = lambda timeout: True,
        source: Callable[[Pausable], None] = lambda source: None,
        orphan: Callable[[], None] = lambda: None,
        deliver: Callable[[Any, Any], None] | None = None,
    ) -> None:
        self.push = push
        self.close = close
        self.handler = handler
        self.background = background
        """Whether it goes on when its user forgets the declaration."""
        self.idle = idle
        """Waits until no callback runs any more; False if one still does after the timeout."""
        self.source = source
        """Tells it whom to pause when it is full."""
        self.orphan = orphan
        """After a fork, in the child: closes it without touching its locks."""
        self.deliver = deliver
        """Takes messages as they lie in their reader, instead of `push`."""


class Threaded(Generic[T]):
    """A callback in a thread of its own."""

    def __init__(self, callback: Callable[[T], Any], drop: Callable[[], Any] | None) -> None:
        self.channel: Handler[T] = Handler()
        self._callback = callback
        self._drop = drop
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="zenlake-callback", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        recv, callback = self.channel.recv, self._callback
        try:
            while True:
                item = recv()
                try:
                    callback(item)
                except Exception:
                    log.exception("callback error")
                del item  # a query that is let go is finished
        except ClosedError:
            pass
        finally:
            _call_drop(self._drop)
            self._done.set()

    def idle(self, timeout: float | None) -> bool:
        return threading.current_thread() is self._thread or self._done.wait(timeout)


class Direct(Generic[T]):
    """A callback in the thread that receives."""

    def __init__(self, callback: Callable[[T], Any], drop: Callable[[], Any] | None) -> None:
        self._callback = callback
        self._drop = drop
        self._lock = threading.Lock()
        self._closed = False

    def push(self, item: T) -> None:
        try:
            self._callback(item)
        except Exception:
            log.exception("callback error")

    def close(self, discard: bool = False) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        _call_drop(self._drop)


def _call_drop(drop: Callable[[], Any] | None) -> None:
    if drop is not None:
        try:
            drop()
        except Exception:
            log.exception("callback error")


def receiver(handler: Any, own: Callable[[Any], Receiver[T] | None] = lambda handler: None) -> Receiver[T]:
    """From what a user passed as `handler`. `own` knows kinds of channel that only some declarations can fill."""
    if handler is None or isinstance(handler, DefaultHandler):
        return _channel(Handler())
    if isinstance(handler, FifoChannel):
        return _channel(Handler(handler.capacity))
    if isinstance(handler, RingChannel):
        return _channel(Handler(handler.capacity, ring=True))
    if (special := own(handler)) is not None:
        return special
    if callable(handler):
        return _callback(handler, None, background=True)
    if isinstance(handler, tuple) and len(handler) == 2 and callable(handler[0]):
        if callable(handler[1]):
            warnings.warn(
                "Passing drop-callback as the second of a tuple does nothing: use zenlake.handlers.Callback(callback, drop)",
                stacklevel=3,
            )
        return _callback(handler[0], handler[1], background=False)
    raise InvalidValue(
        f"handler {handler!r} is none: pass a callable, Callback, FifoChannel(n), RingChannel(n), DefaultHandler() "
        "or a tuple (callable, object that reads)"
    )


def _channel(channel: Handler[T]) -> Receiver[T]:
    return Receiver(
        channel._push,
        channel._close,
        channel,
        source=lambda source: _attach(channel, source),
        orphan=channel._orphan,
    )


def _callback(callback: Any, handler: Any, background: bool) -> Receiver[T]:
    call, drop, indirect = callback, None, True
    if isinstance(callback, Callback):
        call, drop, indirect = callback.callback, callback.drop, callback.indirect
    if not indirect:
        direct: Direct[T] = Direct(call, drop)
        return Receiver(direct.push, direct.close, handler, background)
    thread: Threaded[T] = Threaded(call, drop)
    channel = thread.channel
    return Receiver(
        channel._push,
        channel._close,
        handler,
        background,
        thread.idle,
        lambda source: _attach(channel, source),
        channel._orphan,
    )


def _attach(channel: Handler[Any], source: Pausable) -> None:
    channel._source = source
