# SPDX-License-Identifier: Apache-2.0
"""What a session declares and its user holds: publishers, subscribers, queryables, queriers, tokens, listeners.

Each ends when it is undeclared, when its `with` block ends, when the session closes, or when nobody holds it any more
(unless a callback was given: that goes on in the background until the session ends).
"""

from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from zenlake.api.arguments import as_encoding
from zenlake.api.handlers import Receiver, receiver
from zenlake.api.putting import PublisherPut
from zenlake.api.zbytes import as_buffer
from zenlake.choices import CongestionControl, Priority, Reliability, ReplyKeyExpr
from zenlake.encoding import Encoding
from zenlake.errors import ClosedError
from zenlake.keyexpr import KeyExpr
from zenlake.values import EntityGlobalId, SourceInfo, Timestamp

if TYPE_CHECKING:
    from zenlake.api.cancellation import CancellationToken
    from zenlake.api.session import Session
    from zenlake.api.stamps import TimestampInstrumentation

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


class Declared:
    """Something that can be undeclared, once."""

    _session: "Session"
    _entity: Any = None
    _background = False
    _name = "object"

    def undeclare(self, /) -> None:
        """End it. What was received and not read yet is lost; a second call is an error."""
        entity = self._alive()
        self._entity = None
        self._end(entity)

    def _end(self, entity: Any) -> None:
        self._session._undeclare(entity)

    def _alive(self) -> Any:
        if self._entity is None:
            raise ClosedError(f"Undeclared {self._name}")
        return self._entity

    def __enter__(self, /) -> Any:
        self._alive()
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        if self._entity is not None:
            self.undeclare()

    def __del__(self) -> None:
        entity = self._entity
        if entity is not None and not self._background:
            self._session._forget(entity)

    def __reduce__(self) -> Any:
        raise TypeError(f"a {type(self).__name__} belongs to its session and cannot be copied or pickled")


class Receiving(Declared, Generic[H]):
    """A declaration that receives, into a channel or a callback."""

    _receiver: Receiver[Any]

    @property
    def handler(self) -> H:
        """The channel; None if there is a callback instead."""
        if self._entity is None or self._session._life.over is not None:
            self._alive()
            self._session._here()
        return self._receiver.handler  # type: ignore[no-any-return]

    def try_recv(self, /) -> Any:
        """What came next, or None if there is nothing now."""
        return self.handler.try_recv()  # type: ignore[attr-defined]

    def recv(self, /, timeout: float | None = None) -> Any:
        """What comes next; waits for it, but not longer than `timeout` seconds (then TimeoutError)."""
        handler: Any = self.handler
        return handler.recv() if timeout is None else handler.recv(timeout)

    def __iter__(self, /) -> Any:
        return iter(self.handler)  # type: ignore[call-overload]

    def _end(self, entity: Any) -> None:
        super()._end(entity)
        self._receiver.close()

    def __del__(self) -> None:
        entity = self._entity
        if entity is not None and not self._background:
            self._session._forget(entity, self._receiver.close)

    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[assignment,var-annotated]


class Subscriber(Receiving[H]):
    """Receives the samples of its key expression: iterate over it, `recv`, or give it a callback."""

    _name = "subscriber"

    def __init__(self, session: "Session", key_expr: KeyExpr, receiver: Receiver[Any], entity: Any) -> None:
        self._session = session
        self._key_expr = key_expr
        self._receiver = receiver
        self._entity = entity
        self._background = receiver.background

    @property
    def id(self) -> EntityGlobalId:
        return self._session._entity_id(self._alive())

    @property
    def key_expr(self) -> KeyExpr:
        self._alive()
        return self._key_expr

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key_expr!r}{'' if self._entity is not None else ', undeclared'})"


class Queryable(Subscriber[H]):
    """Receives the queries that its key expression matches, to be answered with `query.reply(...)`."""

    _name = "queryable"


class LivelinessToken(Declared):
    """Says that its key is alive, until it is undeclared or the connection breaks."""

    _name = "LivelinessToken"

    def __init__(self, session: "Session", key_expr: KeyExpr, entity: Any) -> None:
        self._session = session
        self._key_expr = key_expr
        self._entity = entity

    def __repr__(self) -> str:
        return f"LivelinessToken({self._key_expr!r}{'' if self._entity is not None else ', undeclared'})"


class MatchingStatus:
    """Whether anybody listens to a publisher, or would answer a querier."""

    __slots__ = ("matching",)

    def __init__(self, matching: bool) -> None:
        self.matching = matching

    def __repr__(self) -> str:
        return f"MatchingStatus(matching={self.matching})"

    def __bool__(self) -> bool:
        return self.matching

    def __eq__(self, other: object) -> bool:
        return self.matching == other.matching if isinstance(other, MatchingStatus) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.matching)


class Matching(Declared):
    """What a publisher and a querier have in common: others match them or do not."""

    _listeners: list[Receiver[Any]]
    _key_expr: KeyExpr

    @property
    def id(self) -> EntityGlobalId:
        return self._session._entity_id(self._alive())

    @property
    def key_expr(self) -> KeyExpr:
        self._alive()
        return self._key_expr

    @property
    def matching_status(self) -> MatchingStatus:
        entity = self._alive()
        self._session._here()
        return MatchingStatus(entity.matching)

    def declare_matching_listener(self, /, handler: Any = None) -> "MatchingListener[Any]":
        """Be told when somebody begins to match (at once if somebody does), and when nobody does any more."""
        entity = self._alive()
        target: Receiver[MatchingStatus] = receiver(handler)
        target.source(self._session._node)
        listeners = self._listeners
        listeners.append(target)
        self._session._receivers.add(target)

        def tell(matching: bool) -> None:
            status = MatchingStatus(matching)
            for each in list(listeners):
                each.push(status)

        entity.on_matching = tell
        if entity.matching:
            target.push(MatchingStatus(True))
        return MatchingListener(self._session, target, listeners)

    def _end(self, entity: Any) -> None:
        entity.on_matching = None
        super()._end(entity)
        for listener in self._listeners:
            listener.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._key_expr!r}{'' if self._entity is not None else ', undeclared'})"


class Listening(Receiving[H]):
    """A receiver among others of one declaration's news."""

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
    """Receives a MatchingStatus at each change."""

    _name = "matching listener"


class Publisher(PublisherPut, Matching):
    """Puts on one key expression, with settings that are made once."""

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
        super().__init__(session._life, session._post(key_expr, encoding, self._fixed))

    @property
    def encoding(self) -> Encoding:
        self._alive()
        return self._encoding

    @property
    def congestion_control(self) -> CongestionControl:
        self._alive()
        return self._fixed["congestion"]  # type: ignore[no-any-return]

    @property
    def priority(self) -> Priority:
        self._alive()
        return self._fixed["priority"]  # type: ignore[no-any-return]

    @property
    def reliability(self) -> Reliability:
        self._alive()
        return Reliability.RELIABLE if self._fixed["reliable"] else Reliability.BEST_EFFORT

    def try_put(
        self,
        /,
        payload: Any,
        *,
        encoding: Encoding | str | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """As `put`, and tells whether it was queued: False if a connection, or a callback of this session, had no room for it."""
        self._alive()
        return self._session._send(
            self._key_expr.utf8,
            as_buffer(payload),
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
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Tell whoever listens that the key's value is no more."""
        self._alive()
        self._session._send(
            self._key_expr.utf8, None, None, attachment, timestamp, timestamp_instrumentation, source_info, self._fixed
        )

    def _end(self, entity: Any) -> None:
        self._post = None
        super()._end(entity)

    def put_table(self, /, table: Any) -> int:
        """As `Session.put_table`, on this key: a column `key` may be missing, but not say another."""
        from zenlake.api.arrow import put_table

        self._alive()
        return put_table(self._session, table, self._key_expr, self._encoding, self._fixed)


class Querier(Matching):
    """Asks on one key expression, with settings that are made once."""

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
        self._alive()
        return self._accept_replies

    def get(
        self,
        /,
        handler: Any = None,
        *,
        parameters: Any = None,
        payload: Any = None,
        encoding: Encoding | str | None = None,
        attachment: Any = None,
        source_info: SourceInfo | None = None,
        cancellation_token: "CancellationToken | None" = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
    ) -> Any:
        """Ask, and receive a Reply for each answer; the channel closes when all have answered."""
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

    __class_getitem__ = classmethod(GenericAlias)  # type: ignore[var-annotated]


def _text(parameters: Any) -> str:
    from zenlake.parameters import Parameters

    return "" if parameters is None else str(Parameters(parameters))
