# SPDX-License-Identifier: Apache-2.0
"""Handlers of received items: channels and callbacks.

A callback has its own thread, which reads from a channel. An exception in a callback is logged, and the callback is called
with the next item.
"""

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from logging import getLogger
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from zenlake.api.channel import DEFAULT_CAPACITY, Channel
from zenlake.errors import InvalidValue
from zenlake.runtime.deferred_wakeup import release_wakeups

__all__ = [
    "Handler",
    "DefaultHandler",
    "FifoChannel",
    "RingChannel",
    "Callback",
    "Receiver",
    "Threaded",
    "make_receiver",
]

log = getLogger("zenlake.handlers")

PATIENCE = 10.0  # seconds per item that the process waits for a callback at exit

T = TypeVar("T")


class Pausable(Protocol):
    """A producer of items that can be paused."""

    def pause(self, channel: object) -> None: ...
    def resume(self, channel: object) -> None: ...
    def check_wait(self) -> None: ...
    def patience(self, block: bool) -> float: ...
    def count_drop(self) -> None: ...
    @property
    def inside(self) -> bool: ...


class Handler(Channel, Generic[T]):
    """The reading end of a channel. Call `recv` or `try_recv`, or iterate until it is closed.

    Attributes:
        dropped: Number of items that a full ring dropped.
    """

    if TYPE_CHECKING:

        def try_recv(self, /) -> T | None: ...
        def recv(self, /, timeout: float | None = None) -> T: ...
        def __next__(self, /) -> T: ...
        def __iter__(self, /) -> "Handler[T]": ...


class DefaultHandler(Generic[T]):
    """The default channel: a FIFO of 256 items."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DefaultHandler()"


class _BoundedChannel(Generic[T]):
    __slots__ = ("capacity",)

    def __init__(self, capacity: int) -> None:
        self.capacity = _capacity(capacity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.capacity})"


class FifoChannel(_BoundedChannel[T]):
    """A channel that keeps every item. A full channel applies backpressure: connections are not read.

    Args:
        capacity: Number of items.

    Attributes:
        capacity: Number of items.
    """

    __slots__ = ()


class RingChannel(_BoundedChannel[T]):
    """A channel that keeps the newest items and drops the oldest.

    Args:
        capacity: Number of items.

    Attributes:
        capacity: Number of items.
    """

    __slots__ = ()


def _capacity(capacity: int) -> int:
    if not isinstance(capacity, int):
        raise TypeError(f"invalid capacity of type {type(capacity).__name__}; expected int")
    if capacity < 0:
        raise InvalidValue(f"invalid capacity={capacity}; expected 0 or more")
    return capacity


FULL = ("block", "drop_oldest", "drop_newest")


class Callback(Generic[T]):
    """A callback with settings.

    Args:
        callback: Called with each item.
        drop: Called after the last item.
        indirect: Whether the callback has its own thread. With False it runs on the receiving thread. This is faster, but
            the callback must not wait, because the node does nothing else in the meantime.
        capacity: Number of queued items. Default: 256.
        full: Behaviour of a full queue. `"block"` applies backpressure: connections are not read, and a publisher of the
            same session waits. `"drop_oldest"` and `"drop_newest"` drop items. `session.counters()` counts dropped items.

    Raises:
        InvalidValue: An argument is invalid.
    """

    __slots__ = ("_callback", "_capacity", "_drop", "_full", "_indirect")

    def __init__(
        self,
        callback: Callable[[T], Any],
        drop: Callable[[], Any] | None = None,
        *,
        indirect: bool = True,
        capacity: int | None = None,
        full: str = FULL[0],
    ) -> None:
        if full not in FULL:
            raise InvalidValue(f"invalid full={full!r}; expected {', '.join(map(repr, FULL[:-1]))} or {FULL[-1]!r}")
        if not indirect and (capacity is not None or full != FULL[0]):
            raise InvalidValue("a callback with indirect=False has no queue; remove capacity and full")
        if capacity == 0:
            raise InvalidValue("invalid capacity=0; expected at least 1, otherwise the callback is never called")
        self._callback = callback
        self._drop = drop
        self._indirect = indirect
        self._capacity = DEFAULT_CAPACITY if capacity is None else _capacity(capacity)
        self._full = full

    def __call__(self, arg: T, /) -> Any:
        return self._callback(arg)

    @property
    def callback(self) -> Callable[[T], Any]:
        """The function that is called with each item."""
        return self._callback

    @property
    def drop(self) -> Callable[[], Any] | None:
        """The function that is called after the last item, or None."""
        return self._drop

    @property
    def indirect(self) -> bool:
        """Whether the callback has its own thread."""
        return self._indirect

    @property
    def capacity(self) -> int:
        """Number of queued items."""
        return self._capacity

    @property
    def full(self) -> str:
        """Behaviour of a full queue."""
        return self._full

    def __repr__(self) -> str:
        queue = f", capacity={self._capacity}, full={self._full!r}" if self._indirect else ""
        return f"Callback({self._callback!r}, {self._drop!r}, indirect={self._indirect}{queue})"


_kind: Any
for _kind in (Handler, DefaultHandler, FifoChannel, RingChannel, Callback):
    _kind.__class_getitem__ = classmethod(GenericAlias)


class Receiver(Generic[T]):
    """The writing end of a handler: `push` an item, `close` at the end. The user reads `handler`."""

    __slots__ = (
        "__weakref__",
        "background",
        "channel",
        "close",
        "deliver",
        "handler",
        "idle",
        "on_collect",
        "orphan",
        "push",
        "source",
    )

    def __init__(
        self,
        push: Callable[[T], None],
        close: Callable[..., None],
        handler: Any,
        background: bool = False,
        idle: Callable[[float | None], bool] = lambda timeout: True,
        source: Callable[[Pausable], None] = lambda source: None,
        orphan: Callable[[], None] = lambda: None,
        deliver: Any = None,
        channel: Channel | None = None,
        on_collect: Callable[[], None] = lambda: None,
    ) -> None:
        self.push = push
        self.close = close
        self.handler = handler
        self.background = background
        """Whether the entity stays declared without a reference."""
        self.idle = idle
        """Wait until no callback runs. Return False after the timeout."""
        self.source = source
        """Set the producer to pause when the channel is full."""
        self.orphan = orphan
        """Close in a forked child, without using the locks."""
        self.deliver = deliver
        """A `Listener` that takes messages from the reader directly, instead of `push`."""
        self.channel = channel
        """The channel, if `push` does nothing but append to it."""
        self.on_collect = on_collect
        """Called by a finalizer, when a session and its entities lost their last reference. Must not take a lock."""

    def __del__(self) -> None:
        self.on_collect()


class Threaded(Generic[T]):
    """A callback with its own thread.

    The thread is a daemon, because an open session must not keep the process alive. `finish` therefore waits at exit for
    the queued items of ended declarations.
    """

    running: "ClassVar[set[Threaded[Any]]]" = set()

    def __init__(self, callback: Callback[T]) -> None:
        self.channel: Handler[T] = Handler(
            callback.capacity,
            ring=callback.full == "drop_oldest",
            refuses=callback.full == "drop_newest",
            holds=callback.full == "block",
        )
        self._callback = callback.callback
        self._drop = callback.drop
        self._done = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="zenlake-callback", daemon=True)
        Threaded.running.add(self)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.channel._feed(self._callback, lambda: log.exception("callback error"))
        finally:
            self.channel._close(
                True
            )  # also if the callback ended its thread: a channel without a reader must not fill up
            _call_drop(self._drop)
            self._done.set()
            Threaded.running.discard(self)

    def close(self, discard: bool = False) -> None:
        """Close the channel. Finalizers call this too, so it takes no lock."""
        self._ending = True
        self.channel._close(discard)

    @classmethod
    def finish(cls) -> None:
        """Wait at exit until callbacks of ended declarations have processed their queue, and call `drop`."""
        for each in list(cls.running):
            if each._ending:
                each._finish()

    def _finish(self) -> None:
        left = len(self.channel)
        while not self._done.wait(PATIENCE):
            if len(self.channel) == left:
                log.warning(
                    "a callback did not return within %g s; exiting without it, %d items are lost",
                    PATIENCE,
                    left,
                )
                return
            left = len(self.channel)

    def idle(self, timeout: float | None) -> bool:
        return threading.current_thread() is self._thread or self._done.wait(timeout)

    def orphan(self) -> None:
        """Detach in a forked child, where the thread does not exist."""
        self.channel._orphan()
        self._done = threading.Event()
        self._done.set()


os.register_at_fork(after_in_child=Threaded.running.clear)  # the threads belong to the parent

END = object()  # marks the end of the queue of a callback that is closed while it runs


class Direct(Generic[T]):
    """A callback on the receiving thread. Items that it causes itself are queued until it returns."""

    def __init__(self, callback: Callable[[T], Any], drop: Callable[[], Any] | None) -> None:
        self._callback = callback
        self._drop = drop
        self._lock = threading.Lock()
        self._closed = False
        self._within: dict[int, deque[Any]] = {}  # queued items by thread, while the callback runs on it

    def push(self, item: Any) -> None:
        release_wakeups()  # before a callback of unknown duration
        me = threading.get_ident()
        waiting = self._within.get(me)
        if waiting is not None:
            waiting.append(item)
            return
        waiting = self._within[me] = deque((item,))
        try:
            while waiting:
                item = waiting.popleft()
                try:
                    self._end() if item is END else self._callback(item)
                except Exception:
                    log.exception("callback error")
                item = None  # releasing a query finishes it
        finally:
            del self._within[me]

    def close(self, discard: bool = False) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        waiting = self._within.get(threading.get_ident())
        if waiting is None:
            return self._end()
        if discard:
            waiting.clear()
        waiting.append(END)

    def _end(self) -> None:
        _call_drop(self._drop)


def _call_drop(drop: Callable[[], Any] | None) -> None:
    if drop is not None:
        try:
            drop()
        except Exception:
            log.exception("callback error")


def make_receiver(handler: Any, own: Callable[[Any], Receiver[T] | None] = lambda handler: None) -> Receiver[T]:
    """Return the receiver for a user's `handler` argument. `own` handles channels of certain entities only."""
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
        f"invalid handler {handler!r}; expected a callable, Callback, FifoChannel(n), RingChannel(n), DefaultHandler() "
        "or a tuple (callable, handler)"
    )


def _channel(channel: Handler[T]) -> Receiver[T]:
    return Receiver(
        channel._push,
        channel._close,
        channel,
        source=lambda source: _attach(channel, source),
        orphan=channel._orphan,
        channel=channel,
    )


def _callback(callback: Any, handler: Any, background: bool) -> Receiver[T]:
    chosen: Callback[T] = callback if isinstance(callback, Callback) else Callback(callback)
    if not chosen.indirect:
        direct: Direct[T] = Direct(chosen.callback, chosen.drop)
        return Receiver(direct.push, direct.close, handler, background)
    thread: Threaded[T] = Threaded(chosen)
    channel = thread.channel
    return Receiver(
        channel._push,
        thread.close,
        handler,
        background,
        thread.idle,
        lambda source: _attach(channel, source),
        thread.orphan,
        channel=channel,
        on_collect=thread.close,  # otherwise the thread would never end
    )


def _attach(channel: Handler[Any], source: Pausable) -> None:
    channel.source = source
