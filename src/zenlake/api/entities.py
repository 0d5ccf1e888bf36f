# SPDX-License-Identifier: Apache-2.0
"""Declared entities: publishers, subscribers, queryables, queriers, liveliness tokens and matching listeners.

An entity ends when it is undeclared, when its `with` statement ends, when the session closes, or when it is no longer
referenced. An entity with a callback stays declared without a reference until the session closes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

from zenlake.api._put_fast_path import PublisherPut
from zenlake.api._validation import as_encoding
from zenlake.api.handlers import Handler, Receiver, make_receiver
from zenlake.api.zbytes import as_payload
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Priority, Reliability, ReplyKeyExpr
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import ClosedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zenlake.api._options import (
        CallbackAndHandler,
        CallbackKind,
        ChannelKind,
        IntoParameters,
        IntoPayload,
        QuerierGetOptions,
    )
    from zenlake.api.cancellation import CancellationToken
    from zenlake.api.reply import Reply
    from zenlake.api.session import Session
    from zenlake.api.timestamp_stack import TimestampInstrumentation

__all__ = [
    "LivelinessToken",
    "MatchingListener",
    "MatchingStatus",
    "Publisher",
    "Querier",
    "Queryable",
    "Subscriber",
]

H = TypeVar("H")
T = TypeVar("T")


class Declared:
    """Base class of entities that can be undeclared once."""

    _session: "Session"
    _entity: Any = None
    _background = False
    _name = "object"
    _key_expr: KeyExpr

    def undeclare(self, /) -> None:
        """Undeclare this entity. Items that were received but not read are lost.

        Raises:
            ClosedError: It is already undeclared.
        """
        entity = self._alive()
        self._entity = None
        self._end(entity)

    def _end(self, entity: Any) -> None:
        self._session._undeclare(entity)

    def _alive(self) -> Any:
        if self._entity is None:
            raise ClosedError(f"Undeclared {self._name}")
        return self._entity

    def __enter__(self, /) -> Self:
        self._alive()
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        if self._entity is not None:
            self.undeclare()

    def __del__(self) -> None:
        entity = self._entity
        if entity is not None and not self._background:
            self._session._forget(entity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key_expr!r}{'' if self._entity is not None else ', undeclared'})"

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its session and cannot be copied or pickled")


class Keyed(Declared):
    """Base class of entities with an id and a key expression."""

    @property
    def id(self) -> EntityGlobalId:
        """The global id of this entity."""
        return self._session._entity_id(self._alive())

    @property
    def key_expr(self) -> KeyExpr:
        """The key expression of this entity."""
        self._alive()
        return self._key_expr


class Receiving(Declared, Generic[H]):
    """Base class of entities that receive items, into a channel or a callback."""

    _receiver: Receiver[Any]

    @property
    def handler(self) -> H:
        """The channel. None with a callback."""
        if self._entity is None or self._session._life.over is not None:
            self._alive()
            self._session._check_process()
        return self._receiver.handler

    def try_recv(self: "Receiving[Handler[T]]", /) -> T | None:
        """Return the next item, or None if the channel is empty."""
        return self.handler.try_recv()

    def recv(self: "Receiving[Handler[T]]", /, timeout: float | None = None) -> T:
        """Return the next item, blocking up to `timeout` seconds.

        Args:
            timeout: Seconds to wait. Default: no limit.

        Raises:
            TimeoutError: No item arrived in time.
            ClosedError: The entity is undeclared and the channel is empty.
        """
        handler = self.handler
        return handler.recv() if timeout is None else handler.recv(timeout)

    def __iter__(self: "Receiving[Handler[T]]", /) -> Iterator[T]:
        return iter(self.handler)

    def _end(self, entity: Any) -> None:
        super()._end(entity)
        self._receiver.close()

    def __del__(self) -> None:
        entity = self._entity
        if entity is not None and not self._background:
            self._session._forget(entity, self._receiver.close)

    __class_getitem__: Any = classmethod(GenericAlias)


class Subscriber(Keyed, Receiving[H]):
    """A subscriber. Iterate over it, or call `recv`, to receive samples.

    Created by `Session.declare_subscriber`.
    """

    _name = "subscriber"

    def __init__(self, session: "Session", key_expr: KeyExpr, receiver: Receiver[Any], entity: Any) -> None:
        self._session = session
        self._key_expr = key_expr
        self._receiver = receiver
        self._entity = entity
        self._background = receiver.background


class Queryable(Subscriber[H]):
    """A queryable. Iterate over it, or call `recv`, to receive queries. Reply with `Query.reply`.

    Created by `Session.declare_queryable`.
    """

    _name = "queryable"


class LivelinessToken(Declared):
    """A liveliness token. Its key is alive until the token is undeclared or the connection ends.

    Created by `Liveliness.declare_token`.
    """

    _name = "LivelinessToken"

    def __init__(self, session: "Session", key_expr: KeyExpr, entity: Any) -> None:
        self._session = session
        self._key_expr = key_expr
        self._entity = entity


@dataclass(frozen=True, slots=True)
class MatchingStatus:
    """Whether a publisher has matching subscribers, or a querier has matching queryables.

    Attributes:
        matching: True if there is at least one match.
    """

    matching: bool

    def __bool__(self) -> bool:
        return self.matching


class Matching(Keyed):
    """Base class of publishers and queriers: matching status and listeners."""

    _listeners: list[Receiver[Any]]

    @property
    def matching_status(self) -> MatchingStatus:
        """Whether there are matching subscribers (of a publisher) or queryables (of a querier)."""
        entity = self._alive()
        self._session._check_process()
        return MatchingStatus(entity.has_match)

    @overload
    def declare_matching_listener(
        self, /, handler: "ChannelKind[MatchingStatus]" = None
    ) -> "MatchingListener[Handler[MatchingStatus]]": ...
    @overload
    def declare_matching_listener(
        self, /, handler: "CallbackAndHandler[MatchingStatus, H]"
    ) -> "MatchingListener[H]": ...
    @overload
    def declare_matching_listener(self, /, handler: "CallbackKind[MatchingStatus]") -> "MatchingListener[None]": ...

    def declare_matching_listener(self, /, handler: Any = None) -> "MatchingListener[Any]":
        """Declare a listener for changes of the matching status.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.

        Returns:
            The listener. It receives a `MatchingStatus` immediately if there is a match, and at each change.

        Raises:
            ClosedError: This entity is undeclared.
        """
        entity = self._alive()
        target: Receiver[MatchingStatus] = make_receiver(handler)
        target.source(self._session._node)
        listeners = self._listeners
        listeners.append(target)
        self._session._receivers.add(target)

        def notify(matching: bool) -> None:
            status = MatchingStatus(matching)
            for each in list(listeners):
                each.push(status)

        entity.on_matching = notify
        if entity.has_match:
            target.push(MatchingStatus(True))
        return MatchingListener(self._session, target, listeners)

    def _end(self, entity: Any) -> None:
        entity.on_matching = None
        super()._end(entity)
        for listener in self._listeners:
            listener.close()


class Listening(Receiving[H]):
    """Base class of listeners that share the events of one entity."""

    def __init__(self, session: "Session", receiver: Receiver[Any], listeners: list[Receiver[Any]]) -> None:
        self._session = session
        self._receiver = self._entity = receiver
        self._background = receiver.background
        self._listeners = listeners

    def _end(self, entity: Any) -> None:
        if entity in self._listeners:
            self._listeners.remove(entity)
        entity.close()

    def __del__(self) -> None:
        if self._entity is not None and not self._background:
            self._end(self._entity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._receiver.handler!r})"


class MatchingListener(Listening[H]):
    """A matching listener. It receives a `MatchingStatus` at each change.

    Created by `Publisher.declare_matching_listener` and `Querier.declare_matching_listener`.
    """

    _name = "matching listener"


class Publisher(PublisherPut, Matching):
    """A publisher: repeated puts on one key expression with fixed settings.

    Created by `Session.declare_publisher`.
    """

    _name = "publisher"

    def __init__(
        self,
        session: "Session",
        key_expr: KeyExpr,
        entity: Any,
        encoding: Encoding,
        qos: dict[str, Any],
    ) -> None:
        self._session = session
        self._key_expr = key_expr
        self._entity = entity
        self._encoding = encoding
        self._listeners = []
        self._fixed = qos
        super().__init__(session._life, session._get_prepared_put(key_expr, encoding, self._fixed))

    @property
    def encoding(self) -> Encoding:
        """Default encoding of payloads."""
        self._alive()
        return self._encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """Behaviour of a full queue."""
        self._alive()
        return self._fixed["congestion"]

    @property
    def priority(self) -> Priority:
        """Priority of samples."""
        self._alive()
        return self._fixed["priority"]

    @property
    def reliability(self) -> Reliability:
        """Reliability of samples."""
        self._alive()
        return Reliability.RELIABLE if self._fixed["reliable"] else Reliability.BEST_EFFORT

    def try_put(
        self,
        /,
        payload: "IntoPayload",
        *,
        encoding: Encoding | str | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """Publish a value like `put`, and return whether it was queued.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: the encoding of the publisher.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            source_info: Identity and sequence number of the source.

        Returns:
            False if a connection, or a callback of this session, had no room and dropped the sample.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        self._alive()
        return self._session._send(
            self._key_expr.utf8,
            as_payload(payload),
            as_encoding(encoding) or self._encoding,
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            self._fixed,
        )

    def delete(
        self,
        /,
        *,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a deletion. Matching subscribers receive a `Sample` of kind DELETE.

        Args:
            attachment: Bytes that accompany the deletion.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            source_info: Identity and sequence number of the source.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        self._alive()
        self._session._send(
            self._key_expr.utf8, None, None, attachment, timestamp, timestamp_instrumentation, source_info, self._fixed
        )

    def _end(self, entity: Any) -> None:
        self._get_prepared_put = None
        super()._end(entity)

    def put_table(self, /, table: Any) -> int:
        """Publish one sample for each row of a table, on the key of this publisher.

        Args:
            table: As for `Session.put_table`. The column `key` is optional and must equal the publisher's key.

        Returns:
            The number of rows sent.

        Raises:
            InvalidValue: A column or value is invalid. No row was sent.
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        from zenlake.api.arrow import put_table

        self._alive()
        return put_table(self._session, table, self._key_expr, self._encoding, self._fixed)


class Querier(Matching):
    """A querier: repeated queries on one key expression with fixed settings.

    Created by `Session.declare_querier`.
    """

    _name = "querier"

    def __init__(
        self, session: "Session", key_expr: KeyExpr, entity: Any, accept_replies: ReplyKeyExpr, fixed: dict[str, Any]
    ) -> None:
        self._session = session
        self._key_expr = key_expr
        self._entity = entity
        self._accept_replies = accept_replies
        self._fixed = fixed
        self._listeners = []

    @property
    def accept_replies(self) -> ReplyKeyExpr:
        """Whether replies may have keys that do not match the query."""
        self._alive()
        return self._accept_replies

    @overload
    def get(
        self, /, handler: "ChannelKind[Reply]" = None, **options: "Unpack[QuerierGetOptions]"
    ) -> "Handler[Reply]": ...
    @overload
    def get(self, /, handler: "CallbackAndHandler[Reply, H]", **options: "Unpack[QuerierGetOptions]") -> "H": ...
    @overload
    def get(self, /, handler: "CallbackKind[Reply]", **options: "Unpack[QuerierGetOptions]") -> "None": ...

    def get(
        self,
        /,
        handler: Any = None,
        *,
        parameters: "IntoParameters | None" = None,
        payload: "IntoPayload | None" = None,
        encoding: Encoding | str | None = None,
        attachment: "IntoPayload | None" = None,
        source_info: SourceInfo | None = None,
        cancellation_token: "CancellationToken | None" = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
    ) -> Any:
        """Send a query and receive a `Reply` for each reply.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            parameters: Parameters of the selector.
            payload: Payload of the query.
            encoding: Encoding of the payload.
            attachment: Bytes that accompany the query.
            source_info: Identity and sequence number of the source.
            cancellation_token: Token that can cancel the query.
            timestamp_instrumentation: Timestamps to record along the way.

        Returns:
            The channel, which closes when the query is complete. None with a callback.

        Raises:
            ClosedError: The querier is undeclared, the session is closed, or the token was cancelled.
        """
        self._alive()
        return self._session._get(
            self._key_expr,
            str(parameters) if isinstance(parameters, str) else _text(parameters),
            handler,
            payload,
            encoding,
            attachment,
            source_info,
            cancellation_token,
            timestamp_instrumentation,
            None,
            self._fixed,
        )

    __class_getitem__: Any = classmethod(GenericAlias)


def _text(parameters: Any) -> str:
    from zenlake.core.selector import Parameters

    return "" if parameters is None else str(Parameters(parameters))
