# SPDX-License-Identifier: Apache-2.0
"""Queries as the application sees them: `Get` is sent, `IncomingQuery` is received, `LivelinessGet` requests tokens."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from zenlake.core.encoding import Encoding
from zenlake.core.enums import ConsolidationMode
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp
from zenlake.core.keyexpr import intersects, validate
from zenlake.errors import InvalidValue, KeyExprError
from zenlake.network.consolidation import Consolidation, resolve_mode
from zenlake.network.forwarding import PushListener
from zenlake.network.reply_fast_path import ReplyFastPath
from zenlake.wire.network import Response
from zenlake.wire.zenoh_body import Del, Err, Put, Reply

if TYPE_CHECKING:
    from zenlake.network.local_face import LocalFace
    from zenlake.network.queries import PendingQuery

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
        self.question: PendingQuery | None = None
        self.consolidation = Consolidation(resolve_mode(consolidation, parameters))
        self.is_done = False
        self._deliver = deliver
        self._done = done
        self._accept_any = accept_any or "_anyke" in parameters
        self._lock = application.node.new_lock()

    def shown_at_once(self, listener: PushListener) -> None:
        """Deliver replies to a listener directly on reception. The caller holds the node's lock and has not sent the query yet.

        Not used if replies must be counted or inspected on their way.
        """
        question = self.question
        if question is None or question.budget or self.application.node.is_guarded:
            return
        if all(face.lane is not None for face in question.outstanding if not face.is_application):
            question.answers = ReplyFastPath(self, listener, self._lock)

    def accepted(self, key: bytes) -> bytes | None:
        """Return the key of a reply as the application sees it, or None if it is invalid or does not match the query."""
        try:
            validate(key)
        except KeyExprError:
            return None
        return self.application.namespace.own(key) if self._wants(key) else None

    def _wants(self, key: bytes) -> bool:
        return self._accept_any or intersects(self.key, key)

    def answered(self, reader: Any, message: bytes) -> None:
        """Handle a reply, live in its reader."""
        response = reader.response
        key: bytes | None = response.key.suffix.value
        own = None if key is None else self.application.namespace.own(key)
        with self._lock:
            if self.is_done:
                return
            if response.is_reply:
                if key is None or own is None or not self._wants(key):
                    self.application.node.counters["replies on a key that does not match"] += 1
                    return
                stamp = response.reply.body.timestamp
                time = None if stamp.id.size < 0 else (stamp.ntp64, stamp.id.value)
                if not self.consolidation.see(own, time, message):
                    return
            self.application.node.call(self._deliver, own, reader)

    def end(self) -> None:
        """End the query: deliver the consolidated replies, then call `done`."""
        node = self.application.node
        with self._lock:
            if self.is_done:
                return
            for key, message in self.consolidation.kept():
                reader = node.reader(message)
                try:
                    reader.next()
                    node.call(self._deliver, key, reader)
                finally:
                    node.done(reader)
            self.is_done = True
            node.call(self._done)

    def cancel(self) -> None:
        """Refuse further replies and call `done`."""
        node = self.application.node
        with node.lock:
            self.application.gets.pop(self.id, None)
            if self.question is not None:
                node.queries.cancel(self.question)
        self.end()


class IncomingQuery:
    """A received query: any number of replies, then `finish` once."""

    def __init__(
        self, application: "LocalFace", id: int, question: "PendingQuery", key: bytes, responder: EntityGlobalId
    ) -> None:
        self.application = application
        self.key = key
        self.accepts_any = False
        """Whether the querier accepts replies on keys that do not match the query."""
        self.together: list[IncomingQuery] = []
        """Unfinished queries of all queryables that received the same request."""
        self._id = id
        self._question = question
        self._responder = responder

    @property
    def is_finished(self) -> bool:
        return self not in self.together

    def reply(
        self, key: bytes, payload: Buffer, *, encoding: Encoding | None = None, attachment: Buffer | None = None,
        timestamp: Timestamp | None = None, source: SourceInfo | None = None, express: bool = False,
        stack: bytes | None = None,
    ) -> None:  # fmt: skip
        """Reply with a value."""
        put = Put(payload=payload, encoding=encoding, attachment=attachment, timestamp=timestamp, source=source)
        self._check(key)
        self._answer(key, Reply(body=put), express, stack)

    def reply_del(
        self, key: bytes, *, attachment: Buffer | None = None, timestamp: Timestamp | None = None,
        source: SourceInfo | None = None, express: bool = False, stack: bytes | None = None,
    ) -> None:  # fmt: skip
        """Reply with the deletion of a key."""
        self._check(key)
        self._answer(key, Reply(body=Del(attachment=attachment, timestamp=timestamp, source=source)), express, stack)

    def reply_err(
        self, payload: Buffer, encoding: Encoding | None = None, express: bool = False, stack: bytes | None = None
    ) -> None:
        """Reply with an error."""
        self._answer(self.key, Err(payload=payload, encoding=encoding), express, stack)

    def _check(self, key: bytes) -> None:
        if not self.accepts_any and not intersects(self.key, key):
            raise InvalidValue(
                f"reply key `{key.decode()}` does not match the query on `{self.key.decode()}`: "
                "reply on a matching key, or send the query with `_anyke` to accept any key"
            )

    def _answer(self, key: bytes, body: Reply | Err, express: bool, stack: bytes | None) -> None:
        node, key = self.application.node, self.application.namespace.whole(key)
        if self.is_finished:
            raise InvalidValue("this query is finished; send replies before `finish`")
        qos = self._question.qos | (0x10 if express else 0)
        message = Response(
            id=self._id, key=key.decode(), qos=qos, responder=self._responder, body=body, timestamp_stack=stack
        ).encode()
        with node.lock:
            if self.application.requests.get(self._id) is not self._question:
                node.counters["replies to unknown queries"] += 1
                return  # the query has ended already
            sends = node.queries.response(self.application, self._id, key, message)
        node._perform(sends)

    def finish(self) -> None:
        """End the replies. Repeated calls have no effect."""
        with self.application.node.lock:
            if self.is_finished:
                return
            self.together.remove(self)
            left = len(self.together)
        if not left:
            self.application.finish(self._id, self._question)


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
        self._seen: set[bytes] = set()

    def found(self, key: bytes) -> None:
        if not self.is_done and key not in self._seen:
            self._seen.add(key)
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
