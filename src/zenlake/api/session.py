# SPDX-License-Identifier: Apache-2.0
"""`Session`: the entry point of the API.

A session belongs to the process that opened it. In a forked child it raises `ClosedError`. An open session is closed
when the program ends.
"""

import atexit
import os
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, overload

from zenlake.api._session_publish import PublishMixin
from zenlake.api._session_query import QueryMixin
from zenlake.api._validation import as_flag, as_key, as_locality
from zenlake.api.config_mapping import QUERY_TIMEOUT
from zenlake.api.entities import Queryable, Subscriber
from zenlake.api.handlers import Handler, Receiver, Threaded, make_receiver
from zenlake.api.publication_qos import QosOverwrites
from zenlake.api.sample import Sample
from zenlake.api.sample_decoder import KeyExprCache, SampleListener
from zenlake.api.session_node import OpenAttempt, open_node
from zenlake.api.timestamp_stack import TimestampCallback, TimestampContext, TimestampStamper
from zenlake.config import Config
from zenlake.core.enums import Locality
from zenlake.core.identifiers import EntityGlobalId, Timestamp, ZenohId
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import ClosedError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zenlake.api._options import (
        CallbackAndHandler,
        CallbackKind,
        ChannelKind,
        QueryableOptions,
        SubscriberOptions,
    )
    from zenlake.api.arrow import ArrowChannel
    from zenlake.api.info import SessionInfo
    from zenlake.api.liveliness import Liveliness
    from zenlake.api.query import Query
    from zenlake.api.scouting_service import ScoutingService

__all__ = ["Session"]

H = TypeVar("H")

FORKED = "this session was opened before a fork and belongs to the parent process; open another one in this process"
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


class Session(PublishMixin, QueryMixin):
    """A Zenoh session: publish, subscribe, query, and declare entities.

    Create one with `zenlake.open`. Use it in a `with` statement, or call `close`.

    Threading: all methods may be called from any thread of the process that opened the session.

    Example:
        ```python
        with zenlake.open() as session:
            subscriber = session.declare_subscriber("robots/**")
            session.put("robots/7/goal", "home")
            print(subscriber.recv(timeout=1.0).payload.to_string())
        ```
    """

    def __init__(
        self,
        config: Config,
        timestamp_callback: TimestampCallback | None = None,
        attempt: OpenAttempt | None = None,
        discovery: "ScoutingService | None" = None,
    ) -> None:
        super().__init__()
        self._life.over = "session closed"
        timeout = config.get("queries_default_timeout")
        self._default_timeout = (QUERY_TIMEOUT if timeout is None else timeout) / 1000
        self._overwrites = QosOverwrites(config.get("qos/publication") or [])
        self._keys = KeyExprCache()
        self._receivers: weakref.WeakSet[Receiver[Any]] = weakref.WeakSet()
        self._held: set[Any] = set()  # declarations with callbacks, active until the session closes
        self._node = open_node(config, attempt, discovery)
        context = TimestampContext(self.zid(), self._node.whatami)
        self._stamper = TimestampStamper(context, self._node.new_timestamp, timestamp_callback)
        self._life.over = None
        _sessions.add(self)

    # Session

    @property
    def info(self) -> "SessionInfo":
        """Information about this session and its connections."""
        from zenlake.api.info import SessionInfo

        return SessionInfo(self)

    @property
    def id(self) -> EntityGlobalId:
        """The global id of this session."""
        return EntityGlobalId(self.zid(), 1)

    def zid(self, /) -> ZenohId:
        """Return the ZenohID of this session's node."""
        return ZenohId.from_wire(self._node.zid)

    def is_closed(self, /) -> bool:
        """Return whether the session is closed, or belongs to the parent process after a fork."""
        return self._life.over is not None

    def close(self, /) -> None:
        """Undeclare all entities and close the session. Received items can still be read. A second call has no effect."""
        if self._life.over is not None:
            return
        self._life.over = "session closed"
        _sessions.discard(self)
        self._node.close()
        self._end()

    def _end(self) -> None:
        for each in list(self._receivers):
            each.close()
        self._held.clear()

    def __enter__(self, /) -> "Session":
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if self._life.over is None:
            self._life.over = "session closed"
            self._node.abandon()
            self._end()

    def __repr__(self) -> str:
        return f"Session({self.zid()}{', closed' if self._life.over else ''})"

    def __reduce__(self) -> Any:
        raise TypeError(
            "a Session belongs to its process and cannot be copied or pickled: pass its Config and open another"
        )

    def new_timestamp(self, /) -> Timestamp:
        """Return a new timestamp of this node's hybrid logical clock. Timestamps are strictly increasing.

        Raises:
            ClosedError: The session is closed.
        """
        return self._live().new_timestamp()

    def counters(self) -> dict[str, int]:
        """Return the number of dropped and refused messages, by cause.

        Raises:
            ClosedError: The session is closed.
        """
        return dict(self._live().counters())

    def _live(self) -> Any:
        if self._life.over is not None:
            raise ClosedError(self._life.over)
        return self._node

    @property
    def _is_parents(self) -> bool:
        """Whether this process is a forked child of the process that opened the session."""
        return self._life.over is FORKED

    def _check_process(self) -> None:
        """Raise `ClosedError` in a forked child. Read-only operations remain valid on a closed session."""
        if self._is_parents:
            raise ClosedError(FORKED)

    # Receiving

    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "ChannelKind[Sample]" = None, **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "ArrowChannel", **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[Handler[Any]]": ...
    @overload
    def declare_subscriber(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: "CallbackAndHandler[Sample, H]",
        **options: "Unpack[SubscriberOptions]",
    ) -> "Subscriber[H]": ...
    @overload
    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: "CallbackKind[Sample]", **options: "Unpack[SubscriberOptions]"
    ) -> "Subscriber[None]": ...

    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: Any = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Declare a subscriber: receive the samples that match a key expression.

        Args:
            key_expr: The key expression to subscribe to.
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            allowed_origin: Publishers to receive from. Default: local and remote ones.

        Returns:
            The subscriber. With a channel, it is undeclared when it is no longer referenced. With a callback, it stays
            declared until the session closes.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            session.declare_subscriber("robots/*/pose", lambda sample: print(sample.key_expr, sample.payload))
            ```
        """
        key, origin = as_key(key_expr), as_locality("allowed_origin", allowed_origin)
        node = self._live()
        target: Receiver[Sample] = self._receiver(handler)
        deliver = target.deliver or SampleListener(target.push, target.channel, self._keys, self._stamper)
        entity = node.declare_subscriber(key.utf8, deliver, origin)
        return self._register(Subscriber(self, key, target, entity))

    @overload
    def declare_queryable(
        self, /, key_expr: KeyExpr | str, handler: "ChannelKind[Query]" = None, **options: "Unpack[QueryableOptions]"
    ) -> "Queryable[Handler[Query]]": ...
    @overload
    def declare_queryable(
        self, /, key_expr: KeyExpr | str, handler: "CallbackAndHandler[Query, H]", **options: "Unpack[QueryableOptions]"
    ) -> "Queryable[H]": ...
    @overload
    def declare_queryable(
        self, /, key_expr: KeyExpr | str, handler: "CallbackKind[Query]", **options: "Unpack[QueryableOptions]"
    ) -> "Queryable[None]": ...

    def declare_queryable(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: Any = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Any]:
        """Declare a queryable: receive the queries that match a key expression, and reply to them.

        Args:
            key_expr: The key expression to reply on.
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            complete: Whether this queryable has the data for all keys of the key expression.
            allowed_origin: Queriers to receive from. Default: local and remote ones.

        Returns:
            The queryable.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            session.declare_queryable("robots/7/battery", lambda query: query.reply("robots/7/battery", "87"))
            ```
        """
        from zenlake.api.query import Query

        key, origin = as_key(key_expr), as_locality("allowed_origin", allowed_origin)
        is_complete = as_flag("complete", complete)
        node = self._live()
        target: Receiver[Query] = self._receiver(handler)
        keys, push = self._keys, target.push
        session = weakref.ref(self)

        def deliver(asked: Any, reader: Any) -> None:
            asked_for, owner = keys.valid(asked.key), session()
            if asked_for is None or owner is None:
                asked.finish()
            else:
                push(Query(owner, asked, asked_for, reader.request, reader.shared))

        entity = node.declare_queryable(key.utf8, deliver, is_complete, origin)
        return self._register(Queryable(self, key, target, entity))

    def liveliness(self, /) -> "Liveliness":
        """Return the liveliness interface: declare tokens, query them, and subscribe to their changes."""
        from zenlake.api.liveliness import Liveliness

        return Liveliness(self)

    # Key expressions

    def declare_keyexpr(self, /, key_expr: KeyExpr | str) -> KeyExpr:
        """Validate a key expression that is used often.

        The node selects key ids itself, so this does not change how the key expression is sent.

        Args:
            key_expr: The key expression.

        Returns:
            The validated key expression, for use in other calls.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.
        """
        self._live()
        return as_key(key_expr)

    def undeclare(self, /, obj: Any) -> None:
        """Undeclare a key expression or an entity.

        Args:
            obj: A `KeyExpr`, or an object returned by a `declare_...` method.

        Raises:
            TypeError: `obj` cannot be undeclared.
            ClosedError: The session is closed, or the entity is already undeclared.
        """
        self._live()
        if isinstance(obj, KeyExpr):
            return
        if not hasattr(obj, "undeclare"):
            raise TypeError(f"cannot undeclare {obj!r}; expected a KeyExpr or a declared entity such as a Subscriber")
        obj.undeclare()

    # Declared entities

    def _receiver(self, handler: Any) -> Receiver[Any]:
        target: Receiver[Any] = make_receiver(handler, _own)
        target.source(self._node)
        self._receivers.add(target)
        return target

    def _register(self, declared: Any) -> Any:
        self._node.settle()
        if declared._background:
            self._held.add(declared)
        return declared

    def _undeclare(self, entity: Any) -> None:
        if self._life.over is None:
            self._node.undeclare(entity)
            self._node.settle()

    def _forget(self, entity: Any, end: Callable[[], None] | None = None) -> None:
        """Undeclare from a finalizer, which may run on any thread."""

        def forget() -> None:
            self._undeclare(entity)
            if end is not None:
                end()

        if self._life.over is None:
            self._node.call_soon(forget)

    def _call_soon(self, call: Callable[[], object]) -> None:
        if self._life.over is None:
            self._node.call_soon(call)

    def _entity_id(self, entity: Any) -> EntityGlobalId:
        return EntityGlobalId(self.zid(), entity.id)


# Errors about arguments name the method as users know it.
for _mixin in (PublishMixin, QueryMixin):
    for _name, _method in vars(_mixin).items():
        if isinstance(_method, FunctionType):
            _method.__qualname__ = f"Session.{_name}"


def _own(handler: Any) -> Receiver[Any] | None:
    make = getattr(handler, "_receiver", None)
    return None if make is None else make()


# Exit and fork


@atexit.register
def _close_all() -> None:
    for session in list(_sessions):
        session.close()
    Threaded.finish()


def _after_fork() -> None:
    """Mark all sessions as closed in a forked child. Its threads do not exist, and they may have held locks."""
    for session in list(_sessions):
        session._life.over = FORKED
        for each in list(session._receivers):
            each.orphan()
    _sessions.clear()


os.register_at_fork(after_in_child=_after_fork)
