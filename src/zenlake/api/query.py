# SPDX-License-Identifier: Apache-2.0
"""`Query`: a question that a queryable received, and the ways to answer it."""

import warnings
from typing import TYPE_CHECKING, Any

from zenlake.api.arguments import as_encoding, as_flag, as_key, given
from zenlake.api.sample import Sample, payload_of
from zenlake.api.stamps import TimestampStack
from zenlake.api.zbytes import ZBytes, as_buffer
from zenlake.choices import CongestionControl, Priority, ReplyKeyExpr, SampleKind
from zenlake.encoding import Encoding
from zenlake.errors import ClosedError, InvalidValue
from zenlake.keyexpr import KeyExpr
from zenlake.parameters import Parameters, Selector
from zenlake.values import SourceInfo, Timestamp

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = ["Query"]


class Query:
    """A question. The one who asked waits until it is dropped: with `drop`, at the end of a `with`, or when forgotten."""

    __slots__ = (
        "_asked",
        "_attachment",
        "_encoding",
        "_key_expr",
        "_open",
        "_parameters",
        "_payload",
        "_session",
        "_source_info",
        "_stack",
    )  # fmt: skip

    def __init__(self, session: "Session", asked: Any, key_expr: KeyExpr, request: Any) -> None:
        question = request.query
        has_body, attachment = question.body.size >= 0, question.attachment.value
        stack = session._stamper.received(request.timestamp_stack.value)
        self._session = session
        self._asked = asked
        self._open = True
        self._key_expr = key_expr
        self._parameters = (question.parameters.value or b"").decode(errors="replace")
        self._payload = payload_of(question.body) if has_body else None
        self._encoding = question.encoding.value if has_body else None
        self._attachment = None if attachment is None else ZBytes(attachment)
        self._source_info = question.source.value
        self._stack = stack

    def _alive(self) -> Any:
        if not self._open:
            raise ClosedError("Dropped query")
        return self._asked

    def _answerable(self) -> Any:
        asked = self._alive()
        self._session._here()
        return asked

    @property
    def selector(self) -> Selector:
        self._alive()
        return Selector(self._key_expr, self._parameters)

    @property
    def key_expr(self) -> KeyExpr:
        self._alive()
        return self._key_expr

    @property
    def parameters(self) -> Parameters:
        self._alive()
        return Parameters(self._parameters)

    @property
    def payload(self) -> ZBytes | None:
        self._alive()
        return self._payload

    @property
    def encoding(self) -> Encoding | None:
        self._alive()
        return self._encoding

    @property
    def attachment(self) -> ZBytes | None:
        self._alive()
        return self._attachment

    @property
    def source_info(self) -> SourceInfo | None:
        self._alive()
        return self._source_info

    @property
    def timestamp_stack(self) -> TimestampStack | None:
        self._alive()
        return self._stack

    def accepts_replies(self, /) -> ReplyKeyExpr:
        """Whether answers may be on other keys than those asked for."""
        self._alive()
        return ReplyKeyExpr.ANY if "_anyke" in Parameters(self._parameters) else ReplyKeyExpr.MATCHING_QUERY

    def reply(
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
    ) -> None:
        """Answer with a value. A query may have many answers."""
        asked = self._answerable()
        _ignored("reply", congestion_control, priority)
        asked.reply(
            self._key(key_expr),
            bytes(as_buffer(payload)),
            encoding=as_encoding(encoding),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            timestamp=given("timestamp", timestamp, Timestamp, None),
            express=as_flag("express", express),
            stack=self._answered(),
        )

    def reply_del(
        self,
        /,
        key_expr: KeyExpr | str,
        *,
        congestion_control: CongestionControl | None = None,
        priority: Priority | None = None,
        express: bool | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
    ) -> None:
        """Answer that the key's value was deleted."""
        asked = self._answerable()
        _ignored("reply_del", congestion_control, priority)
        asked.reply_del(
            self._key(key_expr),
            attachment=None if attachment is None else bytes(as_buffer(attachment)),
            timestamp=given("timestamp", timestamp, Timestamp, None),
            express=as_flag("express", express),
            stack=self._answered(),
        )

    def reply_err(self, /, payload: Any, *, encoding: Encoding | str | None = None) -> None:
        """Answer that it went wrong, and how."""
        self._answerable().reply_err(bytes(as_buffer(payload)), as_encoding(encoding), stack=self._answered())

    def _reply_sample(self, sample: Sample) -> None:
        """Answer with a sample as it is, with its source and its time."""
        attachment = None if sample.attachment is None else bytes(sample.attachment)
        about = {"attachment": attachment, "timestamp": sample.timestamp, "source": sample.source_info}
        if sample.kind is SampleKind.PUT:
            self._answerable().reply(sample.key_expr.utf8, bytes(sample.payload), encoding=sample.encoding, **about)
        else:
            self._answerable().reply_del(sample.key_expr.utf8, **about)

    def drop(self, /) -> None:
        """There will be no more answers."""
        if self._open:
            self._open = False
            if not self._session._is_parents:
                self._asked.finish()

    def _answered(self) -> bytes | None:
        return None if self._stack is None else self._session._stamper.answered(self._stack)

    def _key(self, key_expr: KeyExpr | str) -> bytes:
        key = as_key(key_expr)
        if self.accepts_replies() is ReplyKeyExpr.MATCHING_QUERY and not key.intersects(self._key_expr):
            raise InvalidValue(
                f"a reply on `{key}` to a query for `{self._key_expr}`: it does not match, and the one who asked did "
                "not say accept_replies=ReplyKeyExpr.ANY"
            )
        return key.utf8

    def __enter__(self, /) -> "Query":
        return self

    def __exit__(self, /, *_args: Any, **_kwargs: Any) -> None:
        self.drop()

    def __del__(self) -> None:
        if getattr(self, "_open", False):
            self._open = False
            self._session._soon(self._asked.finish)

    def __str__(self) -> str:
        parameters = f"?{self._parameters}" if self._parameters else ""
        return f'Query {{ selector: "{self._key_expr}{parameters}" }}'

    def __repr__(self) -> str:
        return f"Query({str(self._key_expr)!r}, {self._parameters!r}{'' if self._open else ', dropped'})"

    def __reduce__(self) -> Any:
        raise TypeError("a Query belongs to its session and cannot be copied or pickled")


def _ignored(name: str, congestion_control: CongestionControl | None, priority: Priority | None) -> None:
    given("congestion_control", congestion_control, CongestionControl, None)
    given("priority", priority, Priority, None)
    for argument, value in (("congestion_control", congestion_control), ("priority", priority)):
        if value is not None:
            warnings.warn(
                f"{argument} in Query.{name} is ignored: an answer travels as its question did", DeprecationWarning, 3
            )
