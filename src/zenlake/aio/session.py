# SPDX-License-Identifier: Apache-2.0
"""asyncio API on top of the blocking session.

This module does not access the network. It waits without blocking the event loop. `recv` is awaited (`aio.handlers`). Calls that
may block run in a worker thread. Messages have a thread pool of their own: those that wait for a full connection must not occupy
the worker threads that `close` needs. By default, a message that may be dropped waits at most a millisecond, so it is sent directly
on the event loop thread.

Each class wraps the blocking class of the same name. Methods that may wait are defined here, and the others are delegated.
`tests/aio/test_session.py` lists both groups.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, overload

from zenlake.aio.handlers import Handler, as_handler, readable, within
from zenlake.api import handlers
from zenlake.api import session as blocking
from zenlake.api._open import check_config
from zenlake.api.cancellation import CancellationToken
from zenlake.api.reply import Reply
from zenlake.api.session_node import OpenAttempt
from zenlake.config import Config
from zenlake.core.enums import CongestionControl

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Unpack

    from zenlake.api import query as blocking_query
    from zenlake.api._options import (
        AnyHandler,
        CallbackAndHandler,
        CallbackKind,
        ChannelKind,
        DeleteOptions,
        IntoKeyExpr,
        IntoPayload,
        IntoSelector,
        PublisherDeleteOptions,
        PublisherOptions,
        PublisherPutOptions,
        PutOptions,
        QuerierOptions,
        QueryableOptions,
        QueryPayload,
        ReplyDelOptions,
        ReplyOptions,
        SessionQueryOptions,
        SubscriberOptions,
    )
    from zenlake.api.arrow import ArrowChannel
    from zenlake.api.entities import MatchingStatus
    from zenlake.api.info import Link, LinkEvent, Transport, TransportEvent
    from zenlake.api.sample import Sample
    from zenlake.api.scouting import Hello
    from zenlake.api.timestamp_stack import TimestampStack
    from zenlake.api.zbytes import ZBytes
    from zenlake.core.encoding import Encoding
    from zenlake.core.enums import Priority, Reliability, ReplyKeyExpr, WhatAmI, WhatAmIMatcher
    from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId
    from zenlake.core.keyexpr import KeyExpr
    from zenlake.core.selector import Parameters, Selector

__all__ = [
    "Handler",
    "LinkEventsListener",
    "Liveliness",
    "LivelinessToken",
    "MatchingListener",
    "Opening",
    "Publisher",
    "Querier",
    "Query",
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
H = TypeVar("H")
W = TypeVar("W")

_senders = ThreadPoolExecutor(64, thread_name_prefix="zenlake-send")


class Wrapper(Generic[W]):
    """Common base of wrappers. Names that are not defined here are delegated to `blocking`, the object of the blocking API."""

    def __init__(self, blocking: W) -> None:
        self.blocking = blocking

    if not TYPE_CHECKING:  # subclasses have the types

        def __getattr__(self, name: str) -> Any:
            return getattr(self.blocking, name)

    def __repr__(self) -> str:
        return repr(self.blocking)


class Declared(Wrapper[Any]):
    """An entity that a session declared. Use it in an `async with`, or call `undeclare`."""

    async def undeclare(self) -> None:
        """Undeclare the entity."""
        await asyncio.to_thread(self.blocking.undeclare)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.blocking.__exit__)


class Keyed(Declared):
    """Common base of entities with an id and a key expression."""

    if TYPE_CHECKING:  # delegated

        @property
        def id(self) -> EntityGlobalId: ...
        @property
        def key_expr(self) -> KeyExpr: ...


class Receiving(Declared, Generic[H]):
    """A receiving entity: `await recv()`, or `async for`."""

    _item_class: ClassVar[type[Any] | None] = None
    """Class that wraps received items, if it differs from that of the blocking API."""

    def __init__(self, declared: Any) -> None:
        super().__init__(declared)
        found = declared.handler
        self._channel: Handler[Any] | None = None
        if isinstance(found, handlers.Handler):
            self._channel = Handler(found, self._item_class)

    @property
    def handler(self) -> H:
        """The channel, or None if the entity has a callback."""
        found: Any = self.blocking.handler  # raises if undeclared
        channel: Any = self._channel
        return found if channel is None else channel

    @property
    def _reading(self) -> Handler[Any]:
        return readable(self._channel)

    def try_recv(self: "Receiving[Handler[T]]") -> T | None:
        """Return the next item, or None if the channel is empty.

        Raises:
            ClosedError: The channel is closed and empty.
        """
        return self._reading.try_recv()

    async def recv(self: "Receiving[Handler[T]]", timeout: float | None = None) -> T:
        """Return the next item, waiting up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No item arrived in time.
            ClosedError: The channel is closed and empty.
        """
        item: T = await self._reading.recv(timeout)
        return item

    def __aiter__(self: "Receiving[Handler[T]]") -> AsyncIterator[T]:
        return self._reading.__aiter__()


class Subscriber(Keyed, Receiving[H]):
    """Subscriber that receives samples."""


class Query(Wrapper["blocking_query.Query"]):
    """A query that a queryable received. Use it in an `async with`, or call `drop`, to finish it."""

    if TYPE_CHECKING:  # delegated

        @property
        def selector(self) -> Selector: ...
        @property
        def key_expr(self) -> KeyExpr: ...
        @property
        def parameters(self) -> Parameters: ...
        @property
        def payload(self) -> ZBytes | None: ...
        @property
        def encoding(self) -> Encoding | None: ...
        @property
        def attachment(self) -> ZBytes | None: ...
        @property
        def source_info(self) -> SourceInfo | None: ...
        @property
        def timestamp_stack(self) -> TimestampStack | None: ...
        def accepts_replies(self) -> ReplyKeyExpr: ...

    async def reply(self, key_expr: "IntoKeyExpr", payload: "IntoPayload", **options: "Unpack[ReplyOptions]") -> None:
        """Reply with a value. A query may have several replies.

        Args:
            key_expr: Key of the reply.
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.Query.reply`.

        Raises:
            InvalidValue: The key does not match the query, and the querier does not accept other keys.
            ClosedError: The query was dropped, or the session is closed.
        """
        await _send(False, partial(self.blocking.reply, key_expr, payload, **options))

    async def reply_del(self, key_expr: "IntoKeyExpr", **options: "Unpack[ReplyDelOptions]") -> None:
        """Reply with a deletion.

        Args:
            key_expr: Key of the reply.
            options: As for `zenlake.Query.reply_del`.

        Raises:
            InvalidValue: The key does not match the query, and the querier does not accept other keys.
            ClosedError: The query was dropped, or the session is closed.
        """
        await _send(False, partial(self.blocking.reply_del, key_expr, **options))

    async def reply_err(self, payload: "IntoPayload", *, encoding: "Encoding | str | None" = None) -> None:
        """Reply with an error.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: `zenoh/bytes`.

        Raises:
            ClosedError: The query was dropped, or the session is closed.
        """
        await _send(False, partial(self.blocking.reply_err, payload, encoding=encoding))

    def drop(self) -> None:
        """Finish the query. No more replies can be sent. This never waits."""
        self.blocking._drop_soon()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.drop()

    def __str__(self) -> str:
        return str(self.blocking)


class Queryable(Subscriber[H]):
    """Queryable that receives queries.

    Each query is a `Query` of this module. A callback that is not a coroutine function runs in a thread and receives a
    `zenlake.Query`.
    """

    _item_class = Query


class MatchingListener(Receiving[H]):
    """Listener that receives a MatchingStatus at each change."""


class TransportEventsListener(Receiving[H]):
    """Listener that receives a TransportEvent at each change."""


class LinkEventsListener(Receiving[H]):
    """Listener that receives a LinkEvent at each change."""


class Replies:
    """Replies to a query: `async for reply in session.get(...)`, or `replies = await session.get(...)` first.

    Leaving the loop, or cancelling its task, cancels the query. With a callback, `await` it: the query is sent, and the callback
    receives the replies. Sending may wait for a full connection, but does not block the event loop.
    """

    def __init__(self, send: Callable[[CancellationToken], Any], shared: CancellationToken | None) -> None:
        self._send = send
        self._shared = shared
        self._token = CancellationToken()  # a separate token, so that leaving this query cancels no other
        self._request: asyncio.Task[None] | None = None
        self._channel: Handler[Reply] | None = None

    def _start(self) -> "asyncio.Task[None]":
        if self._request is None:
            self._request = asyncio.ensure_future(self._send_query())
        return self._request

    async def _send_query(self) -> None:
        if self._shared is not None:
            self._shared.check()
            self._shared.add(self, self._token.cancel, lambda timeout: True)
        try:
            found = await _send(False, partial(self._send, self._token))
        except BaseException:
            if self._shared is not None:
                self._shared.remove(self)
            raise
        if isinstance(found, handlers.Handler):
            self._channel = Handler(found)

    async def _read(self) -> Handler[Reply]:
        await asyncio.shield(self._start())
        return readable(self._channel)

    async def _wait_until_sent(self) -> "Replies":
        try:
            await asyncio.shield(self._start())
        except asyncio.CancelledError:
            await self.cancel()
            raise
        return self

    def __await__(self) -> Generator[Any, None, "Replies"]:
        return self._wait_until_sent().__await__()

    def try_recv(self) -> Reply | None:
        """Return the next item, or None if the channel is empty.

        Raises:
            ClosedError: The channel is closed and empty.
        """
        request = self._start()
        if not request.done():
            return None
        request.result()
        return readable(self._channel).try_recv()

    async def recv(self, timeout: float | None = None) -> Reply:
        """Return the next item, waiting up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No item arrived in time.
            ClosedError: The channel is closed and empty.
        """
        item = self.try_recv()
        return await within(timeout, self._next()) if item is None else item

    async def _next(self) -> Reply:
        return await (await self._read()).recv()

    async def __aiter__(self) -> AsyncIterator[Reply]:
        try:
            async for item in await self._read():
                yield item
        finally:
            await self.cancel()

    async def cancel(self) -> None:
        """Cancel the query. Return when none of its callbacks is running."""
        if self._shared is not None:
            self._shared.remove(self)
        if self._channel is None:
            await asyncio.to_thread(self._token.cancel)
        else:
            self._token.cancel()


class LivelinessToken(Declared):
    """Liveliness token: its key is alive until the token is undeclared or the session ends."""


class Matching(Keyed):
    """Common base of publisher and querier: matching status."""

    if TYPE_CHECKING:  # delegated

        @property
        def matching_status(self) -> MatchingStatus: ...

    @overload
    async def declare_matching_listener(
        self, handler: "ChannelKind[MatchingStatus]" = None
    ) -> "MatchingListener[Handler[MatchingStatus]]": ...
    @overload
    async def declare_matching_listener(
        self, handler: "CallbackAndHandler[MatchingStatus, H]"
    ) -> "MatchingListener[H]": ...
    @overload
    async def declare_matching_listener(self, handler: "CallbackKind[MatchingStatus]") -> "MatchingListener[None]": ...

    async def declare_matching_listener(self, handler: Any = None) -> MatchingListener[Any]:
        """Declare a listener for changes of the matching status.

        It receives a MatchingStatus immediately if there is a match, and at each change.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.

        Returns:
            The listener.
        """
        return MatchingListener(await asyncio.to_thread(self.blocking.declare_matching_listener, as_handler(handler)))


class PublisherBase(Keyed):
    """Common base of publishers."""

    if TYPE_CHECKING:  # delegated

        @property
        def encoding(self) -> Encoding: ...
        @property
        def congestion_control(self) -> CongestionControl: ...
        @property
        def priority(self) -> Priority: ...

    async def _send(self, send: Callable[[], T]) -> T:
        return await _send(self.blocking.congestion_control == CongestionControl.DROP, send)


class Publisher(PublisherBase, Matching):
    """Publisher on one key expression."""

    if TYPE_CHECKING:  # delegated

        @property
        def reliability(self) -> Reliability: ...

    async def put(self, payload: "IntoPayload", **options: "Unpack[PublisherPutOptions]") -> None:
        """Publish a value on the key of this publisher.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.Publisher.put`.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        await self._send(partial(self.blocking.put, payload, **options))

    async def try_put(self, payload: "IntoPayload", **options: "Unpack[PublisherPutOptions]") -> bool:
        """Publish a value like `put`, and return whether it was queued.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.Publisher.try_put`.

        Returns:
            False if a connection, or a callback of this session, had no room and dropped the sample.
        """
        return await self._send(partial(self.blocking.try_put, payload, **options))

    async def delete(self, **options: "Unpack[PublisherDeleteOptions]") -> None:
        """Publish a deletion.

        Args:
            options: As for `zenlake.Publisher.delete`.
        """
        await self._send(partial(self.blocking.delete, **options))

    async def put_table(self, table: Any) -> int:
        """Publish one sample for each row of a table.

        Args:
            table: A table, as for `zenlake.Publisher.put_table`.

        Returns:
            The number of queued samples.
        """
        return await asyncio.to_thread(self.blocking.put_table, table)


class Querier(Matching):
    """Querier on one key expression."""

    if TYPE_CHECKING:  # delegated

        @property
        def accept_replies(self) -> ReplyKeyExpr: ...

    def get(
        self,
        handler: "AnyHandler[Reply]" = None,
        *,
        cancellation_token: CancellationToken | None = None,
        **options: "Unpack[QueryPayload]",
    ) -> Replies:
        """Send a query.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            cancellation_token: Token that cancels the query.
            options: As for `zenlake.Querier.get`.

        Returns:
            The replies: `async for reply in ...`.
        """
        get, target = self.blocking.get, as_handler(handler)
        return Replies(lambda token: get(target, cancellation_token=token, **options), cancellation_token)


class Liveliness(Wrapper[Any]):
    """Liveliness API of a session (`session.liveliness()`)."""

    async def declare_token(self, key_expr: "IntoKeyExpr") -> LivelinessToken:
        """Declare a liveliness token: the key is alive until the token is undeclared or the session ends.

        Args:
            key_expr: Key of the token.

        Returns:
            The token.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        return LivelinessToken(await asyncio.to_thread(self.blocking.declare_token, key_expr))

    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "ChannelKind[Sample]" = None, *, history: bool | None = None
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "CallbackAndHandler[Sample, H]", *, history: bool | None = None
    ) -> "Subscriber[H]": ...
    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "CallbackKind[Sample]", *, history: bool | None = None
    ) -> "Subscriber[None]": ...

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber[Any]:
        """Declare a liveliness subscriber: receive a PUT sample for a new token, and a DELETE sample when it ends.

        Args:
            key_expr: Key expression that tokens must match.
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            options: As for `zenlake.Liveliness.declare_subscriber`.

        Returns:
            The subscriber.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        declare = partial(self.blocking.declare_subscriber, key_expr, as_handler(handler, bounded=True), **options)
        return Subscriber(await asyncio.to_thread(declare))

    def get(
        self,
        key_expr: "IntoKeyExpr",
        handler: "AnyHandler[Reply]" = None,
        *,
        timeout: float | None = None,
        cancellation_token: CancellationToken | None = None,
    ) -> Replies:
        """Request the tokens that match a key expression.

        Args:
            key_expr: Key expression that tokens must match.
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            timeout: Seconds until the query ends. Default: the configuration's `queries_default_timeout`.
            cancellation_token: Token that cancels the query.

        Returns:
            The replies: `async for reply in ...`.
        """
        get, target = self.blocking.get, as_handler(handler)
        return Replies(
            lambda token: get(key_expr, target, timeout=timeout, cancellation_token=token), cancellation_token
        )


class SessionInfo(Wrapper[Any]):
    """Information about a session (`session.info`)."""

    if TYPE_CHECKING:  # delegated

        def zid(self) -> ZenohId: ...
        def routers_zid(self) -> list[ZenohId]: ...
        def peers_zid(self) -> list[ZenohId]: ...
        def transports(self) -> list[Transport]: ...
        def links(self) -> list[Link]: ...

    @overload
    async def declare_transport_events_listener(
        self, handler: "ChannelKind[TransportEvent]" = None, *, history: bool | None = None
    ) -> "TransportEventsListener[Handler[TransportEvent]]": ...
    @overload
    async def declare_transport_events_listener(
        self, handler: "CallbackAndHandler[TransportEvent, H]", *, history: bool | None = None
    ) -> "TransportEventsListener[H]": ...
    @overload
    async def declare_transport_events_listener(
        self, handler: "CallbackKind[TransportEvent]", *, history: bool | None = None
    ) -> "TransportEventsListener[None]": ...

    async def declare_transport_events_listener(
        self, handler: Any = None, *, history: bool | None = None
    ) -> TransportEventsListener[Any]:
        """Declare a listener for opened and closed transports.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            history: Whether to receive an event for each open transport.

        Returns:
            The listener.
        """
        declare = partial(self.blocking.declare_transport_events_listener, as_handler(handler), history=history)
        return TransportEventsListener(await asyncio.to_thread(declare))

    @overload
    async def declare_link_events_listener(
        self, handler: "ChannelKind[LinkEvent]" = None, *, history: bool | None = None
    ) -> "LinkEventsListener[Handler[LinkEvent]]": ...
    @overload
    async def declare_link_events_listener(
        self, handler: "CallbackAndHandler[LinkEvent, H]", *, history: bool | None = None
    ) -> "LinkEventsListener[H]": ...
    @overload
    async def declare_link_events_listener(
        self, handler: "CallbackKind[LinkEvent]", *, history: bool | None = None
    ) -> "LinkEventsListener[None]": ...

    async def declare_link_events_listener(
        self, handler: Any = None, *, history: bool | None = None
    ) -> LinkEventsListener[Any]:
        """Declare a listener for added and removed links.

        Args:
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            history: Whether to receive an event for each existing link.

        Returns:
            The listener.
        """
        declare = partial(self.blocking.declare_link_events_listener, as_handler(handler), history=history)
        return LinkEventsListener(await asyncio.to_thread(declare))


class Session(Wrapper[blocking.Session]):
    """A session for asyncio. `blocking` is the wrapped session.

    Example:
        ```python
        async with zenlake.aio.open() as session:
            subscriber = await session.declare_subscriber("robots/**")
            await session.put("robots/7/goal", "home")
            async for sample in subscriber:
                print(sample.key_expr, sample.payload.to_string())
        ```
    """

    if TYPE_CHECKING:  # delegated

        def zid(self) -> ZenohId: ...
        def is_closed(self) -> bool: ...
        @property
        def id(self) -> EntityGlobalId: ...
        def new_timestamp(self) -> Timestamp: ...
        def counters(self) -> dict[str, int]: ...

    @property
    def info(self) -> SessionInfo:
        """Information about the session and its connections."""
        return SessionInfo(self.blocking.info)

    async def put(self, key_expr: "IntoKeyExpr", payload: "IntoPayload", **options: "Unpack[PutOptions]") -> None:
        """Publish a value. Matching subscribers receive a `Sample` of kind PUT.

        Args:
            key_expr: The key to publish on.
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.Session.put`.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.
        """
        await self._send(options, partial(self.blocking.put, key_expr, payload, **options))

    async def try_put(self, key_expr: "IntoKeyExpr", payload: "IntoPayload", **options: "Unpack[PutOptions]") -> bool:
        """Publish a value like `put`, and return whether it was queued.

        Args:
            key_expr: The key to publish on.
            payload: Text, bytes, or any object with the buffer protocol.
            options: As for `zenlake.Session.try_put`.

        Returns:
            False if a connection, or a callback of this session, had no room and dropped the sample.
        """
        return await self._send(options, partial(self.blocking.try_put, key_expr, payload, **options))

    async def delete(self, key_expr: "IntoKeyExpr", **options: "Unpack[DeleteOptions]") -> None:
        """Publish a deletion. Matching subscribers receive a `Sample` of kind DELETE.

        Args:
            key_expr: The key to delete.
            options: As for `zenlake.Session.delete`.
        """
        await self._send(options, partial(self.blocking.delete, key_expr, **options))

    async def _send(self, options: Mapping[str, object], send: Callable[[], T]) -> T:
        droppable = options.get("congestion_control") in (None, CongestionControl.DROP)
        return await _send(droppable and not self.blocking._overwrites, send)  # a configuration may override it

    async def declare_publisher(self, key_expr: "IntoKeyExpr", **options: "Unpack[PublisherOptions]") -> Publisher:
        """Declare a publisher for repeated puts on one key expression.

        Args:
            key_expr: The key to publish on.
            options: As for `zenlake.Session.declare_publisher`.

        Returns:
            The publisher.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        return Publisher(await asyncio.to_thread(partial(self.blocking.declare_publisher, key_expr, **options)))

    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "ChannelKind[Sample]" = None, **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "ArrowChannel", **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[Handler[Any]]": ...
    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "CallbackAndHandler[Sample, H]", **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[H]": ...
    @overload
    async def declare_subscriber(
        self, key_expr: "IntoKeyExpr", handler: "CallbackKind[Sample]", **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[None]": ...

    async def declare_subscriber(self, key_expr: Any, handler: Any = None, **options: Any) -> Subscriber[Any]:
        """Declare a subscriber.

        Args:
            key_expr: Key expression that samples must match.
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            options: As for `zenlake.Session.declare_subscriber`.

        Returns:
            The subscriber: `await subscriber.recv()`, or `async for sample in subscriber`.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        declare = partial(self.blocking.declare_subscriber, key_expr, as_handler(handler, bounded=True), **options)
        return Subscriber(await asyncio.to_thread(declare))

    @overload
    async def declare_queryable(
        self, key_expr: "IntoKeyExpr", handler: "ChannelKind[Query]" = None, **options: "Unpack[QueryableOptions]"
    ) -> "Queryable[Handler[Query]]": ...
    @overload
    async def declare_queryable(
        self,
        key_expr: "IntoKeyExpr",
        handler: "CallbackAndHandler[Query, H] | CallbackAndHandler[blocking_query.Query, H]",
        **options: "Unpack[QueryableOptions]",
    ) -> "Queryable[H]": ...
    @overload
    async def declare_queryable(
        self,
        key_expr: "IntoKeyExpr",
        handler: "CallbackKind[Query] | CallbackKind[blocking_query.Query]",
        **options: "Unpack[QueryableOptions]",
    ) -> "Queryable[None]": ...

    async def declare_queryable(self, key_expr: Any, handler: Any = None, **options: Any) -> Queryable[Any]:
        """Declare a queryable, which replies to queries.

        Args:
            key_expr: Key expression of the data.
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            options: As for `zenlake.Session.declare_queryable`.

        Returns:
            The queryable.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        declare = partial(self.blocking.declare_queryable, key_expr, as_handler(handler, True, Query), **options)
        return Queryable(await asyncio.to_thread(declare))

    async def declare_querier(self, key_expr: "IntoKeyExpr", **options: "Unpack[QuerierOptions]") -> Querier:
        """Declare a querier for repeated queries on one key expression.

        Args:
            key_expr: Key expression of the queries.
            options: As for `zenlake.Session.declare_querier`.

        Returns:
            The querier.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        return Querier(await asyncio.to_thread(partial(self.blocking.declare_querier, key_expr, **options)))

    async def declare_keyexpr(self, key_expr: "IntoKeyExpr") -> "KeyExpr":
        """Validate a key expression that is used often.

        Args:
            key_expr: The key expression.

        Returns:
            The validated key expression.

        Raises:
            KeyExprError: The key expression is invalid.
        """
        return self.blocking.declare_keyexpr(key_expr)

    def get(
        self,
        selector: "IntoSelector",
        handler: "AnyHandler[Reply]" = None,
        *,
        cancellation_token: CancellationToken | None = None,
        **options: "Unpack[SessionQueryOptions]",
    ) -> Replies:
        """Send a query.

        Args:
            selector: Key expression with optional parameters.
            handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
            cancellation_token: Token that cancels the query.
            options: As for `zenlake.Session.get`.

        Returns:
            The replies: `async for reply in ...`.

        Raises:
            KeyExprError: The key expression is invalid.

        Example:
            ```python
            async for reply in session.get("robots/*/status"):
                print(reply.ok.payload.to_string() if reply.ok else reply.err)
            ```
        """
        get, target = self.blocking.get, as_handler(handler)
        return Replies(lambda token: get(selector, target, cancellation_token=token, **options), cancellation_token)

    async def get_table(
        self,
        selector: "IntoSelector",
        *,
        cancellation_token: CancellationToken | None = None,
        **options: "Unpack[SessionQueryOptions]",
    ) -> "pa.Table":
        """Send a query and return all replies as a pyarrow.Table. Cancelling the task cancels the query.

        Args:
            selector: Key expression with optional parameters.
            cancellation_token: Token that cancels the query.
            options: As for `zenlake.Session.get_table`.

        Returns:
            The table.

        Raises:
            QueryError: A reply is an error.
        """
        token = CancellationToken() if cancellation_token is None else cancellation_token
        try:
            return await asyncio.to_thread(
                partial(self.blocking.get_table, selector, cancellation_token=token, **options)
            )
        except asyncio.CancelledError:
            token.cancel()
            raise

    async def put_table(self, table: Any, **options: Any) -> int:
        """Publish one sample for each row of a table.

        Args:
            table: A table, as for `zenlake.Session.put_table`.
            options: As for `zenlake.Session.put_table`.

        Returns:
            The number of queued samples.
        """
        return await asyncio.to_thread(lambda: self.blocking.put_table(table, **options))

    def liveliness(self) -> Liveliness:
        """Return the liveliness interface of the session."""
        return Liveliness(self.blocking.liveliness())

    async def undeclare(self, obj: Any) -> None:
        """Undeclare an entity.

        Args:
            obj: A publisher, subscriber, queryable, querier, token or listener.
        """
        await asyncio.to_thread(self.blocking.undeclare, getattr(obj, "blocking", obj))

    async def close(self) -> None:
        """Undeclare all entities and close the session."""
        await asyncio.to_thread(self.blocking.close)

    async def __aenter__(self) -> "Session":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Opening:
    """Result of `open`: `await` it, or use it in an `async with`."""

    def __init__(self, config: Config | None, options: dict[str, Any]) -> None:
        self._config = config
        self._options = options
        self._session: Session | None = None

    async def _open(self) -> Session:
        loop, attempt = asyncio.get_running_loop(), OpenAttempt()
        opened: asyncio.Future[blocking.Session] = loop.create_future()
        make = partial(blocking.Session, check_config(self._config), attempt=attempt, **self._options)

        def work() -> None:
            try:
                finish: Callable[[], None] = partial(_settle, opened, make())
            except BaseException as error:
                finish = partial(_fail, opened, error)
            try:
                loop.call_soon_threadsafe(finish)
            except RuntimeError:  # the event loop is closed
                attempt.give_up()

        # A separate thread, because an event loop waits for its worker threads at the end, and `open` may take arbitrarily long.
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
    if not future.done():  # cancelled
        future.set_result(result)


def _fail(future: "asyncio.Future[Any]", error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def open(config: Config | None = None, **options: Any) -> Opening:
    """Open a session.

    Use it as `async with zenlake.aio.open(config) as session`, or `session = await zenlake.aio.open(config)`.

    Args:
        config: The configuration. Default: `Config()`.
        options: As for `zenlake.open`.

    Returns:
        An object to await, or to use in an `async with`.

    Raises:
        ConfigError: The configuration is invalid.
        ZenlakeError: No connection was possible.
    """
    return Opening(config, options)


class Scout(Receiving[H]):
    """Scouting that runs until it is stopped, its `async with` ends, or it is no longer referenced."""

    async def stop(self) -> None:
        """Stop scouting."""
        await asyncio.to_thread(self.blocking.stop)


@overload
async def scout(
    handler: "ChannelKind[Hello]" = None,
    what: "WhatAmIMatcher | WhatAmI | str | None" = None,
    config: Config | None = None,
) -> "Scout[Handler[Hello]]": ...
@overload
async def scout(
    handler: "CallbackAndHandler[Hello, H]",
    what: "WhatAmIMatcher | WhatAmI | str | None" = None,
    config: Config | None = None,
) -> "Scout[H]": ...
@overload
async def scout(
    handler: "CallbackKind[Hello]", what: "WhatAmIMatcher | WhatAmI | str | None" = None, config: Config | None = None
) -> "Scout[None]": ...


async def scout(handler: Any = None, what: Any = None, config: Config | None = None) -> Scout[Any]:
    """Search for nodes, and receive a Hello from each that replies.

    Args:
        handler: A channel, a callback or a coroutine function. Default: a FIFO channel.
        what: Roles to look for. Default: all.
        config: Configuration with the multicast address and interface.

    Returns:
        The running scout. It ends with `stop`.

    Example:
        ```python
        async with await zenlake.aio.scout() as scout:
            print(await scout.recv(timeout=3.0))
        ```
    """
    from zenlake.api import scouting

    return Scout(await asyncio.to_thread(scouting.scout, as_handler(handler), what, config))


async def _send(droppable: bool, send: Callable[[], T]) -> T:
    """Send directly if the message may be dropped, otherwise in a worker thread, because it may wait for space."""
    return send() if droppable else await asyncio.get_running_loop().run_in_executor(_senders, send)
