# SPDX-License-Identifier: Apache-2.0
"""asyncio on top of the session: nothing here touches the network, it only waits without holding up the event loop.

A channel tells the event loop when something came; a call that may block runs in a worker thread. A put that may be dropped
never waits longer than a millisecond and is made at once.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from typing import Any, Generic, TypeVar

from zenlake.api import session as blocking
from zenlake.api.cancellation import CancellationToken
from zenlake.api.handlers import Callback, Handler
from zenlake.choices import CongestionControl
from zenlake.config import Config
from zenlake.errors import ClosedError

__all__ = [
    "Liveliness",
    "Opening",
    "Publisher",
    "Querier",
    "Queryable",
    "Receiving",
    "Replies",
    "Session",
    "Subscriber",
    "Token",
    "open",
]

T = TypeVar("T")


class Channel(Generic[T]):
    """The reading end of a channel, in an event loop."""

    def __init__(self, handler: Handler[T]) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._waiting: list[asyncio.Future[None]] = []
        self._told = False
        handler.wake = self._wake

    def _wake(self) -> None:
        """In any thread: something came."""
        if not self._told:
            self._told = True
            try:
                self._loop.call_soon_threadsafe(self._tell)
            except RuntimeError:  # the event loop has ended
                self._handler.wake = None

    def _tell(self) -> None:
        self._told = False
        for each in self._waiting:
            if not each.done():
                each.set_result(None)

    def try_recv(self) -> T | None:
        return self._handler.try_recv()

    async def recv(self) -> T:
        while True:
            item = self._handler.try_recv()
            if item is not None:
                return item
            came = self._loop.create_future()
            self._waiting.append(came)
            try:
                await came
            finally:
                self._waiting.remove(came)


class Receiving:
    """What receives: `await recv()`, or `async for`."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared
        self._channel: Channel[Any] | None = None
        if isinstance(declared.handler, Handler):
            self._channel = Channel(declared.handler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._declared, name)

    @property
    def _reading(self) -> Channel[Any]:
        if self._channel is None:
            raise ClosedError("it has a callback: there is nothing to receive here")
        return self._channel

    def try_recv(self) -> Any:
        return self._reading.try_recv()

    async def recv(self) -> Any:
        """What comes next. (For a limit, `asyncio.timeout` or `asyncio.wait_for`.)"""
        return await self._reading.recv()

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                item = await self._reading.recv()
            except ClosedError:
                return
            yield item

    async def undeclare(self) -> None:
        await asyncio.to_thread(self._declared.undeclare)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._declared.__exit__)


class Subscriber(Receiving):
    """Receives samples."""


class Queryable(Receiving):
    """Receives queries. Their `reply` is called as ever: it waits for nothing but room on the connection."""


class Replies:
    """The answers to a query: `async for reply in session.get(...)`, or `replies = await session.get(...)` first.

    Leaving it, or being cancelled in it, ends the query.
    """

    def __init__(self, ask: Callable[[CancellationToken], Any], token: CancellationToken | None) -> None:
        self._ask = ask
        self._token = token or CancellationToken()
        self._channel: Channel[Any] | None = None

    def _begin(self) -> Channel[Any]:
        if self._channel is None:
            self._channel = Channel(self._ask(self._token))
        return self._channel

    def __await__(self) -> Generator[Any, None, "Replies"]:
        self._begin()
        return self
        yield

    def try_recv(self) -> Any:
        return self._begin().try_recv()

    async def recv(self) -> Any:
        return await self._begin().recv()

    async def __aiter__(self) -> AsyncIterator[Any]:
        channel = self._begin()
        try:
            while True:
                try:
                    item = await channel.recv()
                except ClosedError:
                    return
                yield item
        finally:
            self._token.cancel()

    def cancel(self) -> None:
        """Want no more answers."""
        self._token.cancel()


class Token:
    """A liveliness token."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared

    async def undeclare(self) -> None:
        await asyncio.to_thread(self._declared.undeclare)

    async def __aenter__(self) -> "Token":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._declared.__exit__)


class Publisher:
    """Puts on one key expression."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._declared, name)

    async def put(self, payload: Any, **options: Any) -> None:
        await _send(self._declared.congestion_control, partial(self._declared.put, payload, **options))

    async def delete(self, **options: Any) -> None:
        await _send(self._declared.congestion_control, partial(self._declared.delete, **options))

    def declare_matching_listener(self, handler: Any = None) -> Receiving:
        return Receiving(self._declared.declare_matching_listener(_handler(handler)))

    async def undeclare(self) -> None:
        await asyncio.to_thread(self._declared.undeclare)

    async def __aenter__(self) -> "Publisher":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._declared.__exit__)


class Querier:
    """Asks on one key expression."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._declared, name)

    def get(
        self, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get = self._declared.get
        return Replies(lambda token: get(handler, cancellation_token=token, **options), cancellation_token)

    async def undeclare(self) -> None:
        await asyncio.to_thread(self._declared.undeclare)

    async def __aenter__(self) -> "Querier":
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._declared.__exit__)


class Liveliness:
    """`session.liveliness()`."""

    def __init__(self, liveliness: Any) -> None:
        self._liveliness = liveliness

    async def declare_token(self, key_expr: Any) -> Token:
        return Token(await asyncio.to_thread(self._liveliness.declare_token, key_expr))

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber:
        declare = partial(self._liveliness.declare_subscriber, key_expr, _handler(handler), **options)
        return Subscriber(await asyncio.to_thread(declare))

    def get(
        self, key_expr: Any, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get = self._liveliness.get
        return Replies(lambda token: get(key_expr, handler, cancellation_token=token, **options), cancellation_token)


class Session:
    """A session in an event loop. `blocking` is the one that it stands on."""

    def __init__(self, session: blocking.Session) -> None:
        self.blocking = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.blocking, name)

    async def put(self, key_expr: Any, payload: Any, **options: Any) -> None:
        congestion = options.get("congestion_control")
        await _send(congestion, partial(self.blocking.put, key_expr, payload, **options))

    async def delete(self, key_expr: Any, **options: Any) -> None:
        await _send(options.get("congestion_control"), partial(self.blocking.delete, key_expr, **options))

    async def declare_publisher(self, key_expr: Any, **options: Any) -> Publisher:
        return Publisher(await asyncio.to_thread(partial(self.blocking.declare_publisher, key_expr, **options)))

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber:
        declare = partial(self.blocking.declare_subscriber, key_expr, _handler(handler), **options)
        return Subscriber(await asyncio.to_thread(declare))

    async def declare_queryable(self, key_expr: Any, handler: Any = None, **options: Any) -> Queryable:
        declare = partial(self.blocking.declare_queryable, key_expr, _handler(handler), **options)
        return Queryable(await asyncio.to_thread(declare))

    async def declare_querier(self, key_expr: Any, **options: Any) -> Querier:
        return Querier(await asyncio.to_thread(partial(self.blocking.declare_querier, key_expr, **options)))

    def get(
        self, selector: Any, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get = self.blocking.get
        return Replies(lambda token: get(selector, handler, cancellation_token=token, **options), cancellation_token)

    async def get_table(self, selector: Any, **options: Any) -> Any:
        return await asyncio.to_thread(partial(self.blocking.get_table, selector, **options))

    async def put_table(self, table: Any, **options: Any) -> int:
        return await asyncio.to_thread(lambda: self.blocking.put_table(table, **options))

    def liveliness(self) -> Liveliness:
        return Liveliness(self.blocking.liveliness())

    async def undeclare(self, obj: Any) -> None:
        await asyncio.to_thread(self.blocking.undeclare, getattr(obj, "_declared", obj))

    async def close(self) -> None:
        await asyncio.to_thread(self.blocking.close)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self.blocking)


class Opening:
    """What `open` gives: `await` it, or use it in an `async with`."""

    def __init__(self, config: Config | None, options: dict[str, Any]) -> None:
        self._config = config
        self._options = options
        self._session: Session | None = None

    async def _open(self) -> Session:
        opening = asyncio.ensure_future(asyncio.to_thread(partial(blocking.open, self._config, **self._options)))
        try:
            self._session = Session(await asyncio.shield(opening))
        except asyncio.CancelledError:  # a session that nobody waits for any more is closed as soon as it is open
            opening.add_done_callback(_close_opened)
            raise
        return self._session

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


def _close_opened(opening: "asyncio.Future[blocking.Session]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()._node.abandon()


def open(config: Config | None = None, **options: Any) -> Opening:
    """Open a session: `async with open(config) as session`, or `session = await open(config)`."""
    return Opening(config, options)


def _handler(handler: Any) -> Any:
    """A coroutine function as a callback: each item makes a task of the event loop."""
    call = handler.callback if isinstance(handler, Callback) else handler
    if not asyncio.iscoroutinefunction(call):
        return handler
    loop = asyncio.get_running_loop()

    def start(item: Any) -> None:
        asyncio.run_coroutine_threadsafe(call(item), loop).add_done_callback(_log)

    drop = handler.drop if isinstance(handler, Callback) else None
    return Callback(start, drop, indirect=False)


def _log(done: Any) -> None:
    from zenlake.api.handlers import log

    if not done.cancelled() and done.exception() is not None:
        log.error("callback error", exc_info=done.exception())


async def _send(congestion: CongestionControl | None, send: Callable[[], None]) -> None:
    """At once if it may be dropped; in a worker thread if it may have to wait for room."""
    if congestion is None or congestion == CongestionControl.DROP:
        send()
    else:
        await asyncio.to_thread(send)
