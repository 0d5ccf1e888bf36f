# SPDX-License-Identifier: Apache-2.0
"""asyncio on top of the session: nothing here touches the network, it only waits without holding up the event loop.

What is received is awaited (`awaited`); a call that may block runs in a worker thread. A put that may be dropped
never waits longer than a millisecond and is made at once. Each class stands on the blocking one of its name: what may have
to wait is written anew here, the rest is that one's. `tests/api/test_aio.py` lists which is which.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator
from functools import partial
from typing import Any, TypeVar

from zenlake.api import handlers
from zenlake.api import session as blocking
from zenlake.api.awaited import Handler, as_handler, readable
from zenlake.api.cancellation import CancellationToken
from zenlake.api.opening import Attempt
from zenlake.api.start import checked
from zenlake.choices import CongestionControl
from zenlake.config import Config

__all__ = [
    "Handler",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "Opening",
    "Publisher",
    "Querier",
    "Queryable",
    "Receiving",
    "Replies",
    "Scout",
    "Session",
    "SessionInfo",
    "Subscriber",
    "TransportEventsListener",
    "open",
    "scout",
]

T = TypeVar("T")


class Declared:
    """What a session declared: used in an `async with`, or undeclared."""

    def __init__(self, declared: Any) -> None:
        self._declared = declared

    def __getattr__(self, name: str) -> Any:
        return getattr(self._declared, name)

    def __repr__(self) -> str:
        return repr(self._declared)

    async def undeclare(self) -> None:
        """End it."""
        await asyncio.to_thread(self._declared.undeclare)

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._declared.__exit__)


class Receiving(Declared):
    """What receives: `await recv()`, or `async for`."""

    def __init__(self, declared: Any) -> None:
        super().__init__(declared)
        found = declared.handler
        self._channel: Handler[Any] | None = Handler(found) if isinstance(found, handlers.Handler) else None

    @property
    def handler(self) -> Any:
        """The channel; None if there is a callback instead."""
        found = self._declared.handler  # which refuses where it is undeclared
        return found if self._channel is None else self._channel

    @property
    def _reading(self) -> Handler[Any]:
        return readable(self._channel)

    def try_recv(self) -> Any:
        """What came next, or None if there is nothing now."""
        return self._reading.try_recv()

    async def recv(self, timeout: float | None = None) -> Any:
        """What comes next; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        return await self._reading.recv(timeout)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self._reading.__aiter__()


class Subscriber(Receiving):
    """Receives samples."""


class Queryable(Receiving):
    """Receives queries. Their `reply` is called as ever: it waits for nothing but room on the connection."""


class MatchingListener(Receiving):
    """Receives a MatchingStatus at each change."""


class TransportEventsListener(Receiving):
    """Receives a TransportEvent at each change."""


class LinkEventsListener(Receiving):
    """Receives a LinkEvent at each change."""


class Replies:
    """The answers to a query: `async for reply in session.get(...)`, or `replies = await session.get(...)` first.

    Leaving it, or being cancelled in it, ends the query. With a callback, `await` it: the query is sent, and answers go there.
    """

    def __init__(self, ask: Callable[[CancellationToken], Any], shared: CancellationToken | None) -> None:
        self._ask = ask
        self._shared = shared
        self._token = CancellationToken()  # its own: leaving this query ends no other
        self._asked = False
        self._channel: Handler[Any] | None = None

    def _begin(self) -> None:
        if self._asked:
            return
        if self._shared is not None:
            self._shared.check()
        found = self._ask(self._token)
        self._asked = True
        if self._shared is not None:
            self._shared.add(self, self._token.cancel, lambda timeout: True)
        if isinstance(found, handlers.Handler):
            self._channel = Handler(found)

    @property
    def _reading(self) -> Handler[Any]:
        self._begin()
        return readable(self._channel)

    def __await__(self) -> Generator[Any, None, "Replies"]:
        self._begin()
        return self
        yield

    def try_recv(self) -> Any:
        """What came next, or None if there is nothing now."""
        return self._reading.try_recv()

    async def recv(self, timeout: float | None = None) -> Any:
        """What comes next; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        return await self._reading.recv(timeout)

    async def __aiter__(self) -> AsyncIterator[Any]:
        try:
            async for item in self._reading:
                yield item
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """Want no more answers; returns when no callback of theirs runs any more."""
        if self._shared is not None:
            self._shared.remove(self)
        if self._channel is None:
            await asyncio.to_thread(self._token.cancel)
        else:
            self._token.cancel()


class LivelinessToken(Declared):
    """Says that its key is alive."""


class Matching(Declared):
    """What a publisher and a querier have in common: others match them or do not."""

    async def declare_matching_listener(self, handler: Any = None) -> MatchingListener:
        """Be told when somebody begins to match (at once if somebody does), and when nobody does any more."""
        return MatchingListener(await asyncio.to_thread(self._declared.declare_matching_listener, as_handler(handler)))


class Publisher(Matching):
    """Puts on one key expression."""

    async def put(self, payload: Any, **options: Any) -> None:
        await self._send(partial(self._declared.put, payload, **options))

    async def try_put(self, payload: Any, **options: Any) -> bool:
        return await self._send(partial(self._declared.try_put, payload, **options))

    async def delete(self, **options: Any) -> None:
        await self._send(partial(self._declared.delete, **options))

    async def put_table(self, table: Any) -> int:
        return await asyncio.to_thread(self._declared.put_table, table)

    async def _send(self, send: Callable[[], T]) -> T:
        return await _send(self._declared.congestion_control == CongestionControl.DROP, send)


class Querier(Matching):
    """Asks on one key expression."""

    def get(
        self, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get, target = self._declared.get, as_handler(handler)
        return Replies(lambda token: get(target, cancellation_token=token, **options), cancellation_token)


class Liveliness:
    """`session.liveliness()`."""

    def __init__(self, liveliness: Any) -> None:
        self._liveliness = liveliness

    async def declare_token(self, key_expr: Any) -> LivelinessToken:
        return LivelinessToken(await asyncio.to_thread(self._liveliness.declare_token, key_expr))

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber:
        declare = partial(self._liveliness.declare_subscriber, key_expr, as_handler(handler, bounded=True), **options)
        return Subscriber(await asyncio.to_thread(declare))

    def get(
        self, key_expr: Any, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get, target = self._liveliness.get, as_handler(handler)
        return Replies(lambda token: get(key_expr, target, cancellation_token=token, **options), cancellation_token)


class SessionInfo:
    """`session.info`."""

    def __init__(self, info: Any) -> None:
        self._info = info

    def __getattr__(self, name: str) -> Any:
        return getattr(self._info, name)

    async def declare_transport_events_listener(
        self, handler: Any = None, *, history: bool | None = None
    ) -> TransportEventsListener:
        declare = partial(self._info.declare_transport_events_listener, as_handler(handler), history=history)
        return TransportEventsListener(await asyncio.to_thread(declare))

    async def declare_link_events_listener(
        self, handler: Any = None, *, history: bool | None = None
    ) -> LinkEventsListener:
        declare = partial(self._info.declare_link_events_listener, as_handler(handler), history=history)
        return LinkEventsListener(await asyncio.to_thread(declare))


class Session:
    """A session in an event loop. `blocking` is the one that it stands on."""

    def __init__(self, session: blocking.Session) -> None:
        self.blocking = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self.blocking, name)

    @property
    def info(self) -> SessionInfo:
        return SessionInfo(self.blocking.info)

    async def put(self, key_expr: Any, payload: Any, **options: Any) -> None:
        await self._send(options, partial(self.blocking.put, key_expr, payload, **options))

    async def try_put(self, key_expr: Any, payload: Any, **options: Any) -> bool:
        return await self._send(options, partial(self.blocking.try_put, key_expr, payload, **options))

    async def delete(self, key_expr: Any, **options: Any) -> None:
        await self._send(options, partial(self.blocking.delete, key_expr, **options))

    async def _send(self, options: dict[str, Any], send: Callable[[], T]) -> T:
        droppable = options.get("congestion_control") in (None, CongestionControl.DROP)
        return await _send(droppable and not self.blocking._overwrites, send)  # which a configuration may overrule

    async def declare_publisher(self, key_expr: Any, **options: Any) -> Publisher:
        return Publisher(await asyncio.to_thread(partial(self.blocking.declare_publisher, key_expr, **options)))

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber:
        declare = partial(self.blocking.declare_subscriber, key_expr, as_handler(handler, bounded=True), **options)
        return Subscriber(await asyncio.to_thread(declare))

    async def declare_queryable(self, key_expr: Any, handler: Any = None, **options: Any) -> Queryable:
        declare = partial(self.blocking.declare_queryable, key_expr, as_handler(handler, bounded=True), **options)
        return Queryable(await asyncio.to_thread(declare))

    async def declare_querier(self, key_expr: Any, **options: Any) -> Querier:
        return Querier(await asyncio.to_thread(partial(self.blocking.declare_querier, key_expr, **options)))

    async def declare_keyexpr(self, key_expr: Any) -> Any:
        return self.blocking.declare_keyexpr(key_expr)

    def get(
        self, selector: Any, handler: Any = None, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Replies:
        get, target = self.blocking.get, as_handler(handler)
        return Replies(lambda token: get(selector, target, cancellation_token=token, **options), cancellation_token)

    async def get_table(
        self, selector: Any, *, cancellation_token: CancellationToken | None = None, **options: Any
    ) -> Any:
        """Ask, wait for all answers, and give them as a pyarrow.Table. Being cancelled ends the query."""
        token = CancellationToken() if cancellation_token is None else cancellation_token
        try:
            return await asyncio.to_thread(
                partial(self.blocking.get_table, selector, cancellation_token=token, **options)
            )
        except asyncio.CancelledError:
            token.cancel()
            raise

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
        loop, attempt = asyncio.get_running_loop(), Attempt()
        opened: asyncio.Future[blocking.Session] = loop.create_future()
        make = partial(blocking.Session, checked(self._config), attempt=attempt, **self._options)

        def work() -> None:
            try:
                tell: Callable[[], None] = partial(_settle, opened, make())
            except BaseException as error:
                tell = partial(_fail, opened, error)
            try:
                loop.call_soon_threadsafe(tell)
            except RuntimeError:  # the event loop has ended
                attempt.give_up()

        # A thread of its own: those of the event loop's are waited for when it ends, and opening may take for ever.
        threading.Thread(target=work, name="zenlake-open", daemon=True).start()
        try:
            self._session = Session(await opened)
        except asyncio.CancelledError:
            attempt.give_up()
            raise
        return self._session

    def __await__(self) -> Generator[Any, None, Session]:
        return self._open().__await__()

    async def __aenter__(self) -> Session:
        return await self._open()

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


def _settle(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():  # cancelled, that is
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def open(config: Config | None = None, **options: Any) -> Opening:
    """Open a session: `async with open(config) as session`, or `session = await open(config)`."""
    return Opening(config, options)


class Scout(Receiving):
    """Asks who is there until it is stopped, at the end of its `async with`, or when nobody holds it."""

    async def stop(self) -> None:
        """Ask no more."""
        await asyncio.to_thread(self._declared.stop)


async def scout(handler: Any = None, what: Any = None, config: Config | None = None) -> Scout:
    """Look for nodes of these roles (all, by default) and receive a Hello from each that answers."""
    from zenlake.api import scouting

    return Scout(await asyncio.to_thread(scouting.scout, as_handler(handler), what, config))


async def _send(droppable: bool, send: Callable[[], T]) -> T:
    """At once if it may be dropped; in a worker thread if it may have to wait for room."""
    return send() if droppable else await asyncio.to_thread(send)
