# SPDX-License-Identifier: Apache-2.0
"""Where what is received goes: a channel that is read when one likes, or a callback.

A callback has a thread of its own, fed through a channel. One that raises is logged, and the next item is handed on.
"""

import os
import threading
import warnings
from collections import deque
from collections.abc import Callable
from types import GenericAlias
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from zenlake.api.channel import DEFAULT_CAPACITY, Channel
from zenlake.errors import InvalidValue
from zenlake.runtime.waking import ring_held
from zenlake.telling import logger

__all__ = ["Handler", "DefaultHandler", "FifoChannel", "RingChannel", "Callback", "Receiver", "Threaded", "receiver"]

log = logger("zenlake.handlers")

PATIENCE = 10.0  # seconds for one item, while the process waits to end

T = TypeVar("T")


class Pausable(Protocol):
    """Who fills a channel and can be asked to stop for a while."""

    def pause(self, channel: object) -> None: ...
    def resume(self, channel: object) -> None: ...
    def check_wait(self) -> None: ...
    def patience(self, block: bool) -> float: ...
    def forgotten(self) -> None: ...
    @property
    def inside(self) -> bool: ...


class Handler(Channel, Generic[T]):
    """The reading end of a channel: `recv`, `try_recv`, or iterate until it is closed. `dropped`: what a full ring forgot."""

    if TYPE_CHECKING:

        def try_recv(self, /) -> T | None: ...
        def recv(self, /, timeout: float | None = None) -> T: ...
        def __next__(self, /) -> T: ...


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


FULL = ("block", "drop_oldest", "drop_newest")


class Callback(Generic[T]):
    """A function for each item, and one to call when there will be no more.

    With `indirect` (the default) it runs in a thread of its own. Without, it runs where the item is received: faster,
    but it must not wait for anything, since meanwhile the node does nothing else.

    For one that is too slow, `capacity` items wait, then `full` says what happens. "block": connections are not read; a publisher
    of the same session waits, for a moment only if it may drop what it puts, which is dropped then.
    "drop_oldest" and "drop_newest": nobody waits. What is dropped is counted in `session.counters()`.
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
            raise InvalidValue(f"full={full!r} is none: {', '.join(map(repr, FULL))}")
        if not indirect and (capacity is not None or full != FULL[0]):
            raise InvalidValue("a callback with indirect=False has no queue: leave out capacity and full")
        if capacity == 0:
            raise InvalidValue("a callback with a capacity of 0 would never be called: at least 1")
        self._callback = callback
        self._drop = drop
        self._indirect = indirect
        self._capacity = DEFAULT_CAPACITY if capacity is None else _capacity(capacity)
        self._full = full

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

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def full(self) -> str:
        return self._full

    def __repr__(self) -> str:
        queue = f", capacity={self._capacity}, full={self._full!r}" if self._indirect else ""
        return f"Callback({self._callback!r}, {self._drop!r}, indirect={self._indirect}{queue})"


for _kind in (Handler, DefaultHandler, FifoChannel, RingChannel, Callback):
    _kind.__class_getitem__ = classmethod(GenericAlias)  # type: ignore[union-attr,assignment,attr-defined]


class Receiver(Generic[T]):
    """What a declaration fills: `push` an item, `close` at the end. `handler` is what its user reads."""

    __slots__ = (
        "__weakref__",
        "background",
        "channel",
        "close",
        "deliver",
        "forgotten",
        "handler",
        "idle",
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
        forgotten: Callable[[], None] = lambda: None,
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
        """A Listener, which takes messages as they lie in their reader, instead of `push`."""
        self.channel = channel
        """Where `push` puts items, if it does nothing else with them."""
        self.forgotten = forgotten
        """Called by the garbage collector, so it may take no lock: a session was forgotten with all that it declared."""

    def __del__(self) -> None:
        self.forgotten()


class Threaded(Generic[T]):
    """A callback in a thread of its own.

    The thread is a daemon, for a session that nobody closed must not keep the process alive; so what waits for a callback
    when its declaration ends is waited for at exit (`finish`).
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
            self.channel._close(True)  # also when the callback ended its thread: what nobody reads must not fill up
            _call_drop(self._drop)
            self._done.set()
            Threaded.running.discard(self)

    def close(self, discard: bool = False) -> None:
        """No more comes. Called by the garbage collector too, so it takes no lock."""
        self._ending = True
        self.channel._close(discard)

    @classmethod
    def finish(cls) -> None:
        """As the process ends: let those whose declarations have ended take what waits for them, and be dropped."""
        for each in list(cls.running):
            if each._ending:
                each._finish()

    def _finish(self) -> None:
        left = len(self.channel)
        while not self._done.wait(PATIENCE):
            if len(self.channel) == left:
                log.warning(
                    "a callback has not returned in %g s: the process ends without it; %d items are lost",
                    PATIENCE,
                    left,
                )
                return
            left = len(self.channel)

    def idle(self, timeout: float | None) -> bool:
        return threading.current_thread() is self._thread or self._done.wait(timeout)

    def orphan(self) -> None:
        """In a child that was forked: the thread is not here, and nobody must wait for it."""
        self.channel._orphan()
        self._done = threading.Event()
        self._done.set()


os.register_at_fork(after_in_child=Threaded.running.clear)  # its threads are the parent's

END = object()  # behind the last item of a callback that was closed while it runs


class Direct(Generic[T]):
    """A callback in the thread that receives. What it brings about to be called with again waits until it returns."""

    def __init__(self, callback: Callable[[T], Any], drop: Callable[[], Any] | None) -> None:
        self._callback = callback
        self._drop = drop
        self._lock = threading.Lock()
        self._closed = False
        self._within: dict[int, deque[Any]] = {}  # by thread: what came while it runs there

    def push(self, item: Any) -> None:
        ring_held()  # who knows how long it takes
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
                item = None  # a query that is let go is finished
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
        forgotten=thread.close,  # else its thread would wait for ever
    )


def _attach(channel: Handler[Any], source: Pausable) -> None:
    channel.source = source
