# SPDX-License-Identifier: Apache-2.0
"""`Query`: a query that a queryable received."""

import warnings
from typing import TYPE_CHECKING, Any

from zenlake.api._validation import as_encoding, as_flag, as_key, require_type
from zenlake.api.sample import Sample, read_payload
from zenlake.api.timestamp_stack import TimestampStack
from zenlake.api.zbytes import ZBytes, as_buffer, with_buffer
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Priority, ReplyKeyExpr, SampleKind
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.selector import Parameters, Selector
from zenlake.errors import ClosedError, InvalidValue

if TYPE_CHECKING:
    from zenlake.api._options import IntoPayload
    from zenlake.api.session import Session

__all__ = ["Query"]


class Query:
    """A query that a queryable received. Reply with `reply`, `reply_del` or `reply_err`.

    The querier waits until the query is dropped: by `drop`, at the end of a `with` statement, or when it is no longer
    referenced.
    """

    __slots__ = (
        "_attachment",
        "_encoding",
        "_incoming",
        "_key_expr",
        "_open",
        "_parameters",
        "_payload",
        "_session",
        "_source_info",
        "_stack",
    )  # fmt: skip

    def __init__(self, session: "Session", incoming: Any, key_expr: KeyExpr, request: Any, shared: Any) -> None:
        question = request.query
        has_body, attachment = question.body.size >= 0, question.attachment.value
        stack = session._stamper.received_stack(request.timestamp_stack.value)
        self._session = session
        self._incoming = incoming
        self._open = True
        self._key_expr = key_expr
        self._parameters = (question.parameters.value or b"").decode(errors="replace")
        payload = read_payload(question.body) if has_body else None
        if payload is not None and shared is not None and shared.buffer is not None:
            payload = with_buffer(payload, shared.buffer)
        self._payload = payload
        self._encoding = question.encoding.value if has_body else None
        self._attachment = None if attachment is None else ZBytes(attachment)
        self._source_info = question.source.value
        self._stack = stack

    def _alive(self) -> Any:
        if not self._open:
            raise ClosedError("Dropped query")
        return self._incoming

    def _answerable(self) -> Any:
        incoming = self._alive()
        self._session._check_process()
        return incoming

    @property
    def selector(self) -> Selector:
        """Key expression and parameters."""
        self._alive()
        return Selector(self._key_expr, self._parameters)

    @property
    def key_expr(self) -> KeyExpr:
        """Key expression of the query."""
        self._alive()
        return self._key_expr

    @property
    def parameters(self) -> Parameters:
        """Parameters of the query."""
        self._alive()
        return Parameters(self._parameters)

    @property
    def payload(self) -> ZBytes | None:
        """Payload of the query, or None."""
        self._alive()
        return self._payload

    @property
    def encoding(self) -> Encoding | None:
        """Encoding of the payload. None without a payload."""
        self._alive()
        return self._encoding

    @property
    def attachment(self) -> ZBytes | None:
        """Attachment of the query, or None."""
        self._alive()
        return self._attachment

    @property
    def source_info(self) -> SourceInfo | None:
        """Identity and sequence number of the source, or None."""
        self._alive()
        return self._source_info

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        """Timestamps recorded along the way, or None."""
        self._alive()
        return self._stack

    def accepts_replies(self, /) -> ReplyKeyExpr:
        """Return whether replies may have keys that do not match the query."""
        self._alive()
        return ReplyKeyExpr.ANY if "_anyke" in Parameters(self._parameters) else ReplyKeyExpr.MATCHING_QUERY

    def reply(
        self,
        /,
        key_expr: KeyExpr | str,
        payload: "IntoPayload",
        *,
        encoding: Encoding | str | None = None,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Reply with a value. A query may have several replies.

        Args:
            key_expr: Key of the reply.
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: `zenoh/bytes`.
            congestion_control: Ignored. A reply has the settings of its query.
            priority: Ignored. A reply has the settings of its query.
            express: Send immediately instead of batching.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the reply.

        Raises:
            InvalidValue: The key does not match the query, and the querier does not accept other keys.
            ClosedError: The query was dropped, or the session is closed.
        """
        incoming = self._answerable()
        _ignore("reply", congestion_control, priority)
        incoming.reply(
            self._key(key_expr),
            bytes(as_buffer(payload)),
            encoding=as_encoding(encoding),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            timestamp=require_type("timestamp", timestamp, Timestamp, None),
            express=as_flag("express", express),
            stack=self._reply_stack(),
        )

    def reply_del(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Reply with a deletion.

        Args:
            key_expr: Key of the reply.
            congestion_control: Ignored. A reply has the settings of its query.
            priority: Ignored. A reply has the settings of its query.
            express: Send immediately instead of batching.
            attachment: Bytes that accompany the deletion.
            timestamp: Timestamp of the reply.

        Raises:
            InvalidValue: The key does not match the query, and the querier does not accept other keys.
            ClosedError: The query was dropped, or the session is closed.
        """
        incoming = self._answerable()
        _ignore("reply_del", congestion_control, priority)
        incoming.reply_del(
            self._key(key_expr),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            timestamp=require_type("timestamp", timestamp, Timestamp, None),
            express=as_flag("express", express),
            stack=self._reply_stack(),
        )

    def reply_err(self, /, payload: "IntoPayload", *, encoding: Encoding | str | None = None) -> None:
        """Reply with an error.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: `zenoh/bytes`.

        Raises:
            ClosedError: The query was dropped, or the session is closed.
        """
        self._answerable().reply_err(bytes(as_buffer(payload)), as_encoding(encoding), stack=self._reply_stack())

    def _reply_sample(self, sample: Sample) -> None:
        """Reply with a sample, including its source and timestamp."""
        attachment = None if sample.attachment is None else bytes(sample.attachment)
        about = {"attachment": attachment, "timestamp": sample.timestamp, "source": sample.source_info}
        if sample.kind is SampleKind.PUT:
            self._answerable().reply(sample.key_expr.utf8, bytes(sample.payload), encoding=sample.encoding, **about)
        else:
            self._answerable().reply_del(sample.key_expr.utf8, **about)

    def drop(self, /) -> None:
        """Finish the query. No more replies can be sent."""
        if self._open:
            self._open = False
            if not self._session._is_parents:
                self._incoming.finish()

    def _drop_soon(self) -> None:
        """Drop the query on the event loop thread, which never waits for a connection."""
        if self._open:
            self._open = False
            self._session._call_soon(self._incoming.finish)

    def _reply_stack(self) -> bytes | None:
        return None if self._stack is None else self._session._stamper.reply_stack(self._stack)

    def _accepts(self, key: KeyExpr) -> bool:
        """Return whether a reply may have this key."""
        return self.accepts_replies() is ReplyKeyExpr.ANY or key.intersects(self._key_expr)

    def _key(self, key_expr: KeyExpr | str) -> bytes:
        key = as_key(key_expr)
        if not self._accepts(key):
            raise InvalidValue(
                f"reply key `{key}` does not match the query `{self._key_expr}`; reply on a matching key, or query with "
                "accept_replies=ReplyKeyExpr.ANY"
            )
        return key.utf8

    def __enter__(self, /) -> "Query":
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        self.drop()

    def __del__(self) -> None:
        if hasattr(self, "_open"):
            self._drop_soon()

    def __str__(self) -> str:
        parameters = f"?{self._parameters}" if self._parameters else ""
        return f'Query {{ selector: "{self._key_expr}{parameters}" }}'

    def __repr__(self) -> str:
        return f"Query({str(self._key_expr)!r}, {self._parameters!r}{'' if self._open else ', dropped'})"

    def __reduce__(self) -> Any:
        raise TypeError("a Query belongs to its session and cannot be copied or pickled")


def _ignore(name: str, congestion_control: CongestionControl | None, priority: Priority | None) -> None:
    require_type("congestion_control", congestion_control, CongestionControl, None)
    require_type("priority", priority, Priority, None)
    for argument, value in (("congestion_control", congestion_control), ("priority", priority)):
        if value is not None:
            warnings.warn(
                f"{argument} in Query.{name} is ignored: a reply has the settings of its query", DeprecationWarning, 3
            )
