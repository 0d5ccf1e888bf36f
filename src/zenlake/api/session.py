# SPDX-License-Identifier: Apache-2.0
"""`Session`: a node's door to the network, and `open`, which makes one.

A session belongs to the process that opened it. In a child that was forked it is closed, and says so; a session that
nobody closed is closed when the program ends.
"""

import atexit
import os
import weakref
from collections.abc import Callable
from typing import Any

from zenlake.api.cancellation import CancellationToken
from zenlake.api.declared import Publisher, Querier, Queryable, Subscriber
from zenlake.api.handlers import Receiver, receiver
from zenlake.api.info import SessionInfo
from zenlake.api.liveliness import Liveliness
from zenlake.api.opening import open_node
from zenlake.api.query import Query
from zenlake.api.sample import Keys, Sample, Samples
from zenlake.api.samples import Reply, reply_from_response
from zenlake.api.stamps import Stamper, TimestampCallback, TimestampContext, TimestampInstrumentation
from zenlake.api.zbytes import as_buffer
from zenlake.choices import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
)
from zenlake.config import Config
from zenlake.encoding import Encoding
from zenlake.errors import ClosedError, InvalidValue
from zenlake.keyexpr import KeyExpr
from zenlake.parameters import Selector
from zenlake.values import EntityGlobalId, SourceInfo, Timestamp, ZenohId

__all__ = ["Session", "open"]

_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()

MOST_POSTS = 4096  # keys and settings that were put on, remembered

FIXED = {  # what a put has that says nothing about it
    "priority": Priority.DATA,
    "congestion": CongestionControl.DROP,
    "express": False,
    "reliable": True,
    "destination": Locality.ANY,
}


def open(
    config: Config | None = None, *, timestamp_callback: TimestampCallback | None = None
) -> "Session":  # fmt: skip
    """Open a session, as the configuration says: by default as a peer that finds others by multicast."""
    if config is not None and not isinstance(config, Config):
        raise TypeError(f"open takes a zenlake.Config, not {type(config).__name__}")
    return Session(config if config is not None else Config(), timestamp_callback)


class Session:
    """What everything is declared on, published and asked with. Use it in a `with`, or `close` it."""

    def __init__(self, config: Config, timestamp_callback: TimestampCallback | None = None) -> None:
        self._closed: str | None = "session closed"
        self._default_timeout = (config.get("queries_default_timeout") or 10_000) / 1000
        self._keys = Keys()
        self._posts: dict[Any, Callable[[bytes], bool]] = {}
        self._receivers: weakref.WeakSet[Receiver[Any]] = weakref.WeakSet()
        self._held: set[Any] = set()  # declarations that go on in the background
        self._node = open_node(config)
        context = TimestampContext(self.zid(), self._node.whatami)
        self._stamper = Stamper(context, self._node.new_timestamp, timestamp_callback)
        self._closed = None
        _sessions.add(self)

    # Itself

    @property
    def info(self) -> SessionInfo:
        """Who it is connected to."""
        return SessionInfo(self)

    @property
    def id(self) -> EntityGlobalId:
        return EntityGlobalId(self.zid(), 1)

    def zid(self, /) -> ZenohId:
        return ZenohId.from_wire(self._node.zid)

    def is_closed(self, /) -> bool:
        return self._closed is not None

    def close(self, /) -> None:
        """Undeclare everything, tell the others, and stop. What was received can still be read. Twice is harmless."""
        if self._closed is not None:
            return
        self._closed = "session closed"
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
        if getattr(self, "_closed", "") is None:
            self._closed = "session closed"
            self._node.abandon()
            self._end()

    def __repr__(self) -> str:
        return f"Session({self.zid()}{', closed' if self._closed else ''})"

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
        if self._closed is not None:
            raise ClosedError(self._closed)
        return self._node

    # Publishing

    def put(
        self,
        /,
        key_expr: KeyExpr | str,
        payload: Any,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Send a value to whoever listens to the key."""
        if (
            type(payload) is bytes
            and encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
            and self._closed is None
        ):  # as most are: nothing but bytes
            name = (key_expr, congestion_control, priority, express, allowed_destination)
            post = self._posts.get(name) or self._new_post(name)
            if post is not None:
                post(payload)
                return
        self._send(
            _key(key_expr).utf8,
            as_buffer(payload),
            _encoding(encoding),
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            _fixed(congestion_control, priority, express, allowed_destination),
        )

    def try_put(
        self,
        /,
        key_expr: KeyExpr | str,
        payload: Any,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> bool:
        """The same, and tells whether it was queued: False if a connection had no room and dropped it."""
        return self._send(
            _key(key_expr).utf8,
            as_buffer(payload),
            _encoding(encoding),
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            _fixed(congestion_control, priority, express, allowed_destination),
        )

    def delete(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Tell whoever listens that the key's value is no more."""
        self._send(
            _key(key_expr).utf8,
            None,
            None,
            attachment,
            timestamp,
            timestamp_instrumentation,
            source_info,
            _fixed(congestion_control, priority, express, allowed_destination),
        )

    def _send(
        self,
        key: bytes,
        payload: Any,
        encoding: Encoding | None,
        attachment: Any,
        timestamp: Timestamp | None,
        instrumentation: TimestampInstrumentation | None,
        source: SourceInfo | None,
        fixed: dict[str, Any],
    ) -> bool:
        """Every put and delete comes through here. False if it was dropped."""
        if self._closed is not None:
            raise ClosedError(self._closed)
        if attachment is not None:
            attachment = as_buffer(attachment)
        options = fixed if instrumentation is None else {**fixed, "stack": self._stamper.sent(instrumentation)}
        if payload is None:
            sent = self._node.delete(key, attachment=attachment, timestamp=timestamp, source=source, **options)
        else:
            sent = self._node.put(
                key,
                payload,
                encoding=_told(encoding),
                attachment=attachment,
                timestamp=timestamp,
                source=source,
                **options,
            )
        return sent  # type: ignore[no-any-return]

    def _new_post(self, name: Any) -> Callable[[bytes], bool] | None:
        key_expr, *settings = name
        post = self._post(_key(key_expr), None, _fixed(*settings))
        if post is not None:
            if len(self._posts) >= MOST_POSTS:
                self._posts.clear()
            self._posts[name] = post
        return post

    def _post(
        self, key_expr: KeyExpr, encoding: Encoding | None, fixed: dict[str, Any]
    ) -> Callable[[bytes], bool] | None:
        """A short way for puts of nothing but bytes; None if the node has none."""
        post = self._live().post(key_expr.utf8, encoding=_told(encoding), **fixed)
        return None if post is None else post.put  # type: ignore[no-any-return]

    def declare_publisher(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        reliability: Reliability | None = None,
        allowed_destination: Locality | None = None,
    ) -> Publisher:
        """Something to put with on one key expression, again and again."""
        key = _key(key_expr)
        destination = Locality.ANY if allowed_destination is None else allowed_destination
        node = self._live()
        entity = node.declare_publisher(key.utf8, destination)
        node.settle()
        return Publisher(
            self,
            key,
            entity,
            _encoding(encoding) or Encoding.ZENOH_BYTES,
            CongestionControl.DEFAULT if congestion_control is None else congestion_control,
            Priority.DEFAULT if priority is None else priority,
            bool(express),
            Reliability.RELIABLE if reliability is None else reliability,
            destination,
        )

    def put_table(
        self,
        /,
        table: Any,
        *,
        congestion_control: CongestionControl | None = None,
        source_info: SourceInfo | None = None,
    ) -> int:
        """Send a value for each row of an Arrow table or batch: columns `key` and `payload` and, if they are there,
        `kind`, `encoding`, `attachment`, `timestamp`, `priority`, `congestion`, `express`, `reliable`. Returns the number of
        rows sent. `source_info` is that of the first row, from which the others count on."""
        from zenlake.api.arrow import put_table

        return put_table(self, table, None, None, _fixed(congestion_control, None, None, None), source_info)

    # Receiving

    def declare_subscriber(
        self, /, key_expr: KeyExpr | str, handler: Any = None, *, allowed_origin: Locality | None = None
    ) -> Subscriber[Any]:
        """Receive the samples of a key expression: into a channel, or by a callback."""
        key = _key(key_expr)
        node = self._live()
        target: Receiver[Sample] = self._receiver(handler)
        deliver = target.deliver or Samples(target.push, self._keys, self._stamper).deliver
        entity = node.declare_subscriber(key.utf8, deliver, _locality(allowed_origin))
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
        key = _key(key_expr)
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

        entity = node.declare_queryable(key.utf8, deliver, bool(complete), _locality(allowed_origin))
        return self._declared(Queryable(self, key, target, entity))

    def liveliness(self, /) -> Liveliness:
        """Tokens that say what is alive, and how to hear of them."""
        return Liveliness(self)

    # Asking

    def get(
        self,
        /,
        selector: Selector | KeyExpr | str,
        handler: Any = None,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        payload: Any = None,
        encoding: Encoding | str | None = None,
        attachment: Any = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
        cancellation_token: CancellationToken | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        budget: int | None = None,
    ) -> Any:
        """Ask, and receive a Reply for each answer; the channel closes when all have answered.

        With a `budget`, after so many replies at the latest.
        """
        chosen = selector if isinstance(selector, Selector) else Selector(selector)
        fixed = self._asking(
            target, consolidation, accept_replies, timeout, congestion_control, priority, express, allowed_destination
        )
        return self._get(
            chosen.key_expr,
            str(chosen.parameters),
            handler,
            payload,
            encoding,
            attachment,
            source_info,
            cancellation_token,
            timestamp_instrumentation,
            budget,
            fixed,
        )

    def get_table(self, /, selector: Selector | KeyExpr | str, **options: Any) -> Any:
        """Ask, wait for all answers, and give them as a pyarrow.Table: a row for each reply. Options are those of `get`."""
        from zenlake.api.arrow import get_table

        return get_table(self, selector, **options)

    def declare_querier(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        target: QueryTarget | None = None,
        consolidation: ConsolidationMode | QueryConsolidation | None = None,
        accept_replies: ReplyKeyExpr | None = None,
        timeout: float | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        allowed_destination: Locality | None = None,
    ) -> Querier:
        """Something to ask with on one key expression, again and again."""
        key = _key(key_expr)
        fixed = self._asking(
            target, consolidation, accept_replies, timeout, congestion_control, priority, express, allowed_destination
        )
        node = self._live()
        entity = node.declare_querier(key.utf8, _locality(allowed_destination))
        node.settle()
        accepts = ReplyKeyExpr.DEFAULT if accept_replies is None else accept_replies
        return Querier(self, key, entity, accepts, fixed)

    def _asking(
        self,
        target: QueryTarget | None,
        consolidation: ConsolidationMode | QueryConsolidation | None,
        accept_replies: ReplyKeyExpr | None,
        timeout: float | None,
        congestion_control: CongestionControl | None,
        priority: Priority | None,
        express: bool | None,
        destination: Locality | None,
    ) -> dict[str, Any]:
        if timeout is not None and timeout < 0:
            raise ValueError("negative timeout")
        mode = consolidation.mode if isinstance(consolidation, QueryConsolidation) else consolidation
        return {
            "target": QueryTarget.DEFAULT if target is None else target,
            "consolidation": ConsolidationMode.AUTO if mode is None else mode,
            "accept_any": accept_replies == ReplyKeyExpr.ANY,
            "timeout": self._default_timeout if timeout is None else timeout,
            "congestion": CongestionControl.BLOCK if congestion_control is None else congestion_control,
            "priority": Priority.DATA if priority is None else priority,
            "express": bool(express),
            "destination": _locality(destination),
        }

    def _get(
        self,
        key_expr: KeyExpr,
        parameters: str,
        handler: Any,
        payload: Any,
        encoding: Encoding | str | None,
        attachment: Any,
        source: SourceInfo | None,
        token: CancellationToken | None,
        instrumentation: TimestampInstrumentation | None,
        budget: int | None,
        fixed: dict[str, Any],
    ) -> Any:
        if budget is not None and budget < 1:
            raise InvalidValue(f"a budget of {budget} replies: at least one, or None for all")
        node = self._live()
        if token is not None:
            token.check()
        if fixed["accept_any"] and "_anyke" not in parameters:
            parameters = f"{parameters};_anyke" if parameters else "_anyke"
        target: Receiver[Reply] = self._receiver(handler)
        keys, push, stamper = self._keys, target.push, self._stamper
        left = budget
        asking: Any = None

        def deliver(key: bytes | None, reader: Any) -> None:
            nonlocal left
            if left is not None:
                if left == 0:
                    return
                left -= 1
            if target.deliver is not None:
                target.deliver(key, reader)
            else:
                push(reply_from_response(None if key is None else keys.valid(key), reader.response, stamper))
            if left == 0:
                if asking is not None:
                    asking.cancel()
                done()

        def done() -> None:
            target.close()
            if token is not None:
                token.remove(target)

        def cancel() -> None:
            if asking is not None:
                asking.cancel()
            target.close(True)

        options = fixed if instrumentation is None else {**fixed, "stack": self._stamper.sent(instrumentation)}
        asking = node.get(
            key_expr.utf8,
            deliver,
            done,
            parameters=parameters,
            payload=None if payload is None else bytes(as_buffer(payload)),
            encoding=_encoding(encoding),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            source=source,
            **options,
        )
        if left == 0:
            asking.cancel()
        if token is not None:
            token.add(target, cancel, target.idle)
        return target.handler

    # Key expressions

    def declare_keyexpr(self, /, key_expr: KeyExpr | str) -> KeyExpr:
        """A key expression that is used often. (How it travels is the node's affair: this checks and keeps it.)"""
        self._live()
        return _key(key_expr)

    def undeclare(self, /, obj: Any) -> None:
        """Undeclare a key expression, or anything else that was declared."""
        self._live()
        if not isinstance(obj, KeyExpr):
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
        if self._closed is None:
            self._node.undeclare(entity)
            self._node.settle()

    def _forget(self, entity: Any, end: Callable[[], None] | None = None) -> None:
        """Undeclare, from wherever the garbage collector runs."""

        def forget() -> None:
            self._undeclare(entity)
            if end is not None:
                end()

        if self._closed is None:
            self._node.soon(forget)

    def _soon(self, call: Callable[[], object]) -> None:
        if self._closed is None:
            self._node.soon(call)

    def _entity_id(self, entity: Any) -> EntityGlobalId:
        return EntityGlobalId(self.zid(), entity.id)


def _own(handler: Any) -> Receiver[Any] | None:
    make = getattr(handler, "_receiver", None)
    return None if make is None else make()


def _key(key_expr: KeyExpr | str) -> KeyExpr:
    return key_expr if isinstance(key_expr, KeyExpr) else KeyExpr(key_expr)


def _encoding(encoding: Encoding | str | None) -> Encoding | None:
    return encoding if encoding is None or isinstance(encoding, Encoding) else Encoding(encoding)


def _told(encoding: Encoding | None) -> Encoding | None:
    """What need not be said is not."""
    return None if encoding is not None and encoding.id == 0 and encoding.schema is None else encoding


def _locality(locality: Locality | None) -> Locality:
    return Locality.ANY if locality is None else locality


def _fixed(
    congestion_control: CongestionControl | None,
    priority: Priority | None,
    express: bool | None,
    destination: Locality | None,
) -> dict[str, Any]:
    if congestion_control is None and priority is None and express is None and destination is None:
        return FIXED
    return {
        "priority": Priority.DATA if priority is None else priority,
        "congestion": CongestionControl.DROP if congestion_control is None else congestion_control,
        "express": bool(express),
        "reliable": True,
        "destination": _locality(destination),
    }


# The ends of a process


@atexit.register
def _close_all() -> None:
    for session in list(_sessions):
        session.close()


def _after_fork() -> None:
    """In the child: its threads are gone, and its locks may be held by them for ever. Touch none of them."""
    for session in list(_sessions):
        session._closed = (
            "this session was opened before a fork and belongs to the parent process: open another one here"
        )
        for each in list(session._receivers):
            each.orphan()
    _sessions.clear()


os.register_at_fork(after_in_child=_after_fork)
