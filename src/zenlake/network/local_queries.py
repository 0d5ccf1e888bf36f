# SPDX-License-Identifier: Apache-2.0
"""Queries as the application sees them: `Get` is sent, `IncomingQuery` is received, `LivelinessGet` requests tokens."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp
from zenlake.core.keyexpr import intersects, validate
from zenlake.errors import InvalidValue, KeyExprError
from zenlake.network.consolidation import Consolidation, resolve_mode
from zenlake.network.forwarding import PushListener
from zenlake.network.reply_fast_path import ReplyFastPath
from zenlake.wire import message_ids
from zenlake.wire.network import Response
from zenlake.wire.zenoh_body import Del, Err, Put, Reply

if TYPE_CHECKING:
    from zenlake.network.face import Face
    from zenlake.network.local_face import LocalFace
    from zenlake.network.queries import OutgoingMessage, PendingQuery

__all__ = ["Get", "LivelinessGet", "IncomingQuery"]

Buffer = bytes | bytearray | memoryview


class Get:
    """A query of the application. Its callbacks never run concurrently, and none runs after `done`."""

    def __init__(
        self, application: "LocalFace", key: bytes, deliver: Callable[..., object], done: Callable[[], object],
        parameters: str, consolidation: ConsolidationMode, accept_any: bool,
    ) -> None:  # fmt: skip
        self.application = application
        self.key = key
        self.id = 0
        self.pending: PendingQuery | None = None
        self.consolidation = Consolidation(resolve_mode(consolidation, parameters))
        self.is_done = False
        self._deliver = deliver
        self._done = done
        self._accept_any = accept_any or "_anyke" in parameters
        self._lock = application.node.new_lock()

    def enable_fast_path(self, listener: PushListener) -> None:
        """Deliver replies to a listener directly on reception. The caller holds the node's lock and has not sent the query yet.

        Not used if replies must be counted or inspected on their way.
        """
        pending = self.pending
        if pending is None or pending.budget or self.application.node.is_guarded:
            return
        if all(face.queue_handle is not None for face in pending.outstanding if not face.is_application):
            pending.fast_path = ReplyFastPath(self, listener, self._lock)

    def resolve_key(self, key: bytes) -> bytes | None:
        """Return the key of a reply as the application sees it, or None if it is invalid or does not match the query."""
        try:
            validate(key)
        except KeyExprError:
            return None
        return self.application.namespace.strip_prefix(key) if self._accepts_key(key) else None

    def _accepts_key(self, key: bytes) -> bool:
        return self._accept_any or intersects(self.key, key)

    def on_reply(self, reader: Any, message: bytes) -> None:
        """Handle a reply, live in its reader."""
        response = reader.response
        key: bytes | None = response.key.suffix.value
        app_key = None if key is None else self.application.namespace.strip_prefix(key)
        with self._lock:
            if self.is_done:
                return
            if response.is_reply:
                if key is None or app_key is None or not self._accepts_key(key):
                    self.application.node.counters["replies on a key that does not match"] += 1
                    return
                stamp = response.reply.body.timestamp
                time = None if stamp.id.size < 0 else (stamp.ntp64, stamp.id.value)
                if not self.consolidation.accept(app_key, time, message):
                    return
            self.application.node.call(self._deliver, app_key, reader)

    def end(self) -> None:
        """End the query: deliver the consolidated replies, then call `done`."""
        node = self.application.node
        with self._lock:
            if self.is_done:
                return
            for key, message in self.consolidation.take_replies():
                reader = node.borrow_reader(message)
                try:
                    reader.next()
                    node.call(self._deliver, key, reader)
                finally:
                    node.return_reader(reader)
            self.is_done = True
            node.call(self._done)

    def cancel(self) -> None:
        """Refuse further replies and call `done`."""
        node = self.application.node
        with node.lock:
            self.application.gets.pop(self.id, None)
            if self.pending is not None:
                node.queries.cancel(self.pending)
        self.end()


class IncomingQuery:
    """A received query: any number of replies, then `finish` once."""

    def __init__(
        self, application: "LocalFace", id: int, pending: "PendingQuery", key: bytes, responder: EntityGlobalId
    ) -> None:
        self.application = application
        self.key = key
        self.accepts_any = False
        """Whether the querier accepts replies on keys that do not match the query."""
        self.siblings: list[IncomingQuery] = []
        """Unfinished queries of all queryables that received the same request."""
        self._id = id
        self._pending = pending
        self._responder = responder

    @property
    def is_finished(self) -> bool:
        return self not in self.siblings

    @property
    def source(self) -> "Face":
        """The face that sent the query."""
        return self._pending.source

    @property
    def is_over(self) -> bool:
        """Whether the querier accepts no more replies."""
        return self._pending.is_over

    def reply(
        self, key: bytes, payload: Buffer, *, encoding: Encoding | None = None, attachment: Buffer | None = None,
        timestamp: Timestamp | None = None, source: SourceInfo | None = None, express: bool = False,
        stack: bytes | None = None,
    ) -> None:  # fmt: skip
        """Reply with a value."""
        put = Put(payload=payload, encoding=encoding, attachment=attachment, timestamp=timestamp, source=source)
        self._check_key(key)
        self._send_reply(key, Reply(body=put), express, stack)

    def reply_del(
        self, key: bytes, *, attachment: Buffer | None = None, timestamp: Timestamp | None = None,
        source: SourceInfo | None = None, express: bool = False, stack: bytes | None = None,
    ) -> None:  # fmt: skip
        """Reply with the deletion of a key."""
        self._check_key(key)
        self._send_reply(
            key, Reply(body=Del(attachment=attachment, timestamp=timestamp, source=source)), express, stack
        )

    def reply_err(
        self, payload: Buffer, encoding: Encoding | None = None, express: bool = False, stack: bytes | None = None
    ) -> None:
        """Reply with an error."""
        self._send_reply(self.key, Err(payload=payload, encoding=encoding), express, stack)

    def queue_reply(self, key: bytes, payload: Buffer, encoding: Encoding) -> None:
        """Reply with a value as soon as the node's lock is free. The caller holds it, and the key matches the query."""
        node = self.application.node
        node.queue_call(
            partial(node._send, self._route_reply(key, Reply(body=Put(payload=payload, encoding=encoding))))
        )

    def _check_key(self, key: bytes) -> None:
        if not self.accepts_any and not intersects(self.key, key):
            raise InvalidValue(
                f"reply key `{key.decode()}` does not match the query on `{self.key.decode()}`: "
                "reply on a matching key, or send the query with `_anyke` to accept any key"
            )

    def _send_reply(self, key: bytes, body: Reply | Err, express: bool, stack: bytes | None) -> None:
        self.application.node._perform(self._route_reply(key, body, express, stack))

    def _route_reply(
        self, key: bytes, body: Reply | Err, express: bool = False, stack: bytes | None = None
    ) -> "list[OutgoingMessage]":
        """Return the messages to send for a reply."""
        node, key = self.application.node, self.application.namespace.add_prefix(key)
        if self.is_finished:
            raise InvalidValue("this query is finished; send replies before `finish`")
        qos = self._pending.qos | (message_ids.QOS_EXPRESS if express else 0)
        message = Response(
            id=self._id, key=key.decode(), qos=qos, responder=self._responder, body=body, timestamp_stack=stack
        ).encode()
        with node.lock:
            if self.application.requests.get(self._id) is not self._pending:
                node.counters["replies to unknown queries"] += 1
                return []  # the query has ended already
            return node.queries.response(self.application, self._id, key, message)

    def finish(self) -> None:
        """End the replies. Repeated calls have no effect."""
        with self.application.node.lock:
            if self.is_finished:
                return
            self.siblings.remove(self)
            remaining = len(self.siblings)
        if not remaining:
            self.application.finish(self._id, self._pending)


class LivelinessGet:
    """A single request for the current tokens."""

    def __init__(
        self, application: "LocalFace", id: int, deliver: Callable[[bytes], object],
        done: Callable[[bool], object], deadline: float,
    ) -> None:  # fmt: skip
        self.application = application
        self.id = id
        self.deadline = deadline
        self.is_done = False
        self._deliver = deliver
        self._done = done
        self._delivered_keys: set[bytes] = set()

    def on_token(self, key: bytes) -> None:
        if not self.is_done and key not in self._delivered_keys:
            self._delivered_keys.add(key)
            self._deliver(key)

    def end(self, timed_out: bool) -> None:
        if not self.is_done:
            self.is_done = True
            self._done(timed_out)

    def cancel(self) -> None:
        """Refuse further replies and call `done`."""
        node = self.application.node
        with node.lock:
            self.application.liveliness_gets.pop(self.id, None)
            node.interests.end(self.application, self.id)
        self.end(True)
