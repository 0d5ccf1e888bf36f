# SPDX-License-Identifier: Apache-2.0
"""`Session`: a node's door to the network.

A session belongs to the process that opened it. In a child that was forked it is closed, and says so; a session that
nobody closed is closed when the program ends.
"""

import atexit
import os
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zenlake.api.arguments import as_flag, as_key, as_locality
from zenlake.api.arriving import Keys, Samples
from zenlake.api.asking import Asking
from zenlake.api.declared import Queryable, Subscriber
from zenlake.api.handlers import Receiver, Threaded, receiver
from zenlake.api.opening import QUERY_TIMEOUT, Attempt, open_node
from zenlake.api.publishing import Publishing
from zenlake.api.quality import Overwrites
from zenlake.api.sample import Sample
from zenlake.api.stamps import Stamper, TimestampCallback, TimestampContext
from zenlake.choices import Locality
from zenlake.config import Config
from zenlake.errors import ClosedError
from zenlake.keyexpr import KeyExpr
from zenlake.values import EntityGlobalId, Timestamp, ZenohId

if TYPE_CHECKING:
    from zenlake.api.discovery import Discovery
    from zenlake.api.info import SessionInfo
    from zenlake.api.liveliness import Liveliness

__all__ = ["Session"]

FORKED = "this session was opened before a fork and belongs to the parent process: open another one here"
_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


class Session(Publishing, Asking):
    """What everything is declared on, published and asked with. Use it in a `with`, or `close` it."""

    def __init__(
        self,
        config: Config,
        timestamp_callback: TimestampCallback | None = None,
        attempt: Attempt | None = None,
        discovery: "Discovery | None" = None,
    ) -> None:
        super().__init__()
        self._life.over = "session closed"
        timeout = config.get("queries_default_timeout")
        self._default_timeout = (QUERY_TIMEOUT if timeout is None else timeout) / 1000
        self._overwrites = Overwrites(config.get("qos/publication") or [])
        self._keys = Keys()
        self._receivers: weakref.WeakSet[Receiver[Any]] = weakref.WeakSet()
        self._held: set[Any] = set()  # declarations that go on in the background
        self._node = open_node(config, attempt, discovery)
        context = TimestampContext(self.zid(), self._node.whatami)
        self._stamper = Stamper(context, self._node.new_timestamp, timestamp_callback)
        self._life.over = None
        _sessions.add(self)

    # Itself

    @property
    def info(self) -> "SessionInfo":
        """Who it is connected to."""
        from zenlake.api.info import SessionInfo

        return SessionInfo(self)

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId(self.zid(), 1)

    def zid(self, /) -> ZenohId:
        """The id of its node."""
        return ZenohId.from_wire(self._node.zid)

    def is_closed(self, /) -> bool:
        """Whether it was closed, here or by its process's fork."""
        return self._life.over is not None

    def close(self, /) -> None:
        """Undeclare everything, tell the others, and stop. What was received can still be read. Twice is harmless."""
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
        """A timestamp of this node's clock, later than all before it."""
        return self._live().new_timestamp()  # type: ignore[no-any-return]

    def counters(self) -> dict[str, int]:
        """What was dropped or refused so far, by cause."""
        return dict(self._live().counters())

    def _live(self) -> Any:
        if self._life.over is not None:
            raise ClosedError(self._life.over)
        return self._node

    @property
    def _is_parents(self) -> bool:
        """Whether this process was forked from the one that opened it."""
        return self._life.over is FORKED

    def _here(self) -> None:
        """What only reads works on when the session is closed; but not in a child that was forked."""
        if self._is_parents:
            raise ClosedError(FORKED)

    # Receiving

    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: Any = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Receive the samples of a key expression: into a channel, or by a callback."""
        key, origin = as_key(key_expr), as_locality("allowed_origin", allowed_origin)
        node = self._live()
        target: Receiver[Sample] = self._receiver(handler)
        deliver = target.deliver or Samples(target.push, target.channel, self._keys, self._stamper)
        entity = node.declare_subscriber(key.utf8, deliver, origin)
        return self._declared(Subscriber(self, key, target, entity))

    def declare_queryable(
        self,
        /,
        key_expr: KeyExpr | str,
        handler: Any = None,
        *,
        complete: bool | None = None,
        allowed_origin: Locality | None = None,
    ) -> Queryable[Any]:
        """Receive the queries that match a key expression, to answer them. `complete`: it knows every key of it."""
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
                push(Query(owner, asked, asked_for, reader.request))

        entity = node.declare_queryable(key.utf8, deliver, is_complete, origin)
        return self._declared(Queryable(self, key, target, entity))

    def liveliness(self, /) -> "Liveliness":
        """Tokens that say what is alive, and how to hear of them."""
        from zenlake.api.liveliness import Liveliness

        return Liveliness(self)

    # Key expressions

    def declare_keyexpr(self, /, key_expr: KeyExpr | str) -> KeyExpr:
        """A key expression that is used often. (How it travels is the node's affair: this checks and keeps it.)"""
        self._live()
        return as_key(key_expr)

    def undeclare(self, /, obj: Any) -> None:
        """Undeclare a key expression, or anything else that was declared."""
        self._live()
        if isinstance(obj, KeyExpr):
            return
        if not hasattr(obj, "undeclare"):
            raise TypeError(f"undeclare takes what was declared (a KeyExpr, a Subscriber ...), not {obj!r}")
        obj.undeclare()

    # For what it declares

    def _receiver(self, handler: Any) -> Receiver[Any]:
        target: Receiver[Any] = receiver(handler, _own)
        target.source(self._node)
        self._receivers.add(target)
        return target

    def _declared(self, declared: Any) -> Any:
        self._node.settle()
        if declared._background:
            self._held.add(declared)
        return declared

    def _undeclare(self, entity: Any) -> None:
        if self._life.over is None:
            self._node.undeclare(entity)
            self._node.settle()

    def _forget(self, entity: Any, end: Callable[[], None] | None = None) -> None:
        """Undeclare, from wherever the garbage collector runs."""

        def forget() -> None:
            self._undeclare(entity)
            if end is not None:
                end()

        if self._life.over is None:
            self._node.soon(forget)

    def _soon(self, call: Callable[[], object]) -> None:
        if self._life.over is None:
            self._node.soon(call)

    def _entity_id(self, entity: Any) -> EntityGlobalId:
        return EntityGlobalId(self.zid(), entity.id)


def _own(handler: Any) -> Receiver[Any] | None:
    make = getattr(handler, "_receiver", None)
    return None if make is None else make()


# The ends of a process


@atexit.register
def _close_all() -> None:
    for session in list(_sessions):
        session.close()
    Threaded.finish()


def _after_fork() -> None:
    """In the child: its threads are gone, and its locks may be held by them for ever. Touch none of them."""
    for session in list(_sessions):
        session._life.over = FORKED
        for each in list(session._receivers):
            each.orphan()
    _sessions.clear()


os.register_at_fork(after_in_child=_after_fork)
