# SPDX-License-Identifier: Apache-2.0
"""What subscribers and queries give: `Sample`, `Reply`, `ReplyError`; and how they are made from what a reader found.

A reader's record lasts only as long as the callback that it was handed to, so all that is kept is copied here, once.
"""

from typing import Any

from zenlake.api.stamps import Stamper, TimestampStack
from zenlake.api.zbytes import ZBytes
from zenlake.choices import CongestionControl, Priority, SampleKind
from zenlake.encoding import Encoding
from zenlake.errors import KeyExprError
from zenlake.keyexpr import KeyExpr
from zenlake.values import EntityGlobalId, SourceInfo, Timestamp

__all__ = ["Sample", "Reply", "ReplyError", "Keys", "sample_from_push", "reply_from_response"]

PUT, DELETE = SampleKind.PUT, SampleKind.DELETE
BYTES = Encoding.ZENOH_BYTES
NOTHING = ZBytes()
DROP, BLOCK, BLOCK_FIRST = CongestionControl.DROP, CongestionControl.BLOCK, CongestionControl.BLOCK_FIRST
PRIORITIES = (Priority.REAL_TIME, *Priority)  # by the wire's number; 0 is Zenoh's own and never a sample's
MOST_KEYS = 4096


class Sample:
    """A value that was put on a key, or the news that it was deleted."""

    __slots__ = (
        "attachment",
        "congestion_control",
        "encoding",
        "express",
        "key_expr",
        "kind",
        "payload",
        "priority",
        "source_info",
        "timestamp",
        "timestamp_stack",
    )

    def __init__(
        self,
        key_expr: KeyExpr,
        payload: ZBytes = NOTHING,
        kind: SampleKind = PUT,
        encoding: Encoding = BYTES,
        timestamp: Timestamp | None = None,
        congestion_control: CongestionControl = DROP,
        priority: Priority = Priority.DATA,
        express: bool = False,
        attachment: ZBytes | None = None,
        source_info: SourceInfo | None = None,
        timestamp_stack: TimestampStack | None = None,
    ) -> None:
        self.key_expr = key_expr
        self.payload = payload
        self.kind = kind
        self.encoding = encoding
        self.timestamp = timestamp
        self.congestion_control = congestion_control
        self.priority = priority
        self.express = express
        self.attachment = attachment
        self.source_info = source_info
        self.timestamp_stack = timestamp_stack

    def __repr__(self) -> str:
        stamp = "" if self.timestamp is None else f", timestamp={self.timestamp}"
        return f"Sample({self.key_expr!r}, {self.payload!r}, {self.kind}, {str(self.encoding)!r}{stamp})"


class ReplyError:
    """What a queryable answered instead of a sample."""

    __slots__ = ("encoding", "payload", "timestamp_stack")

    def __init__(
        self, payload: ZBytes, encoding: Encoding = BYTES, timestamp_stack: TimestampStack | None = None
    ) -> None:
        self.payload = payload
        self.encoding = encoding
        self.timestamp_stack = timestamp_stack

    def __repr__(self) -> str:
        return f"ReplyError({self.payload!r}, {str(self.encoding)!r})"


class Reply:
    """One answer to a query: a sample (`ok`) or an error (`err`)."""

    __slots__ = ("replier_id", "result")

    def __init__(self, result: Sample | ReplyError, replier_id: EntityGlobalId | None = None) -> None:
        self.result = result
        self.replier_id = replier_id

    @property
    def ok(self) -> Sample | None:
        return self.result if isinstance(self.result, Sample) else None

    @property
    def err(self) -> ReplyError | None:
        return self.result if isinstance(self.result, ReplyError) else None

    def __repr__(self) -> str:
        return f"Reply({self.result!r})"


class Keys:
    """Key expressions by their bytes: the same few keys come again and again."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, KeyExpr] = {}

    def __call__(self, utf8: bytes) -> KeyExpr:
        known = self._known.get(utf8)
        if known is None:
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            known = self._known[utf8] = KeyExpr.from_wire(utf8)
        return known

    def valid(self, utf8: bytes) -> KeyExpr | None:
        """None for what is no key expression: a peer may send anything."""
        try:
            return self(utf8)
        except KeyExprError:
            return None


def sample_from_push(key_expr: KeyExpr, push: Any, stamper: Stamper) -> Sample:
    stack = stamper.received(push.timestamp_stack.value)
    return _sample(key_expr, push.put if push.is_put else push.delete, push.is_put, push.qos, stack)


def _sample(key_expr: KeyExpr, body: Any, is_put: bool, qos: int, stack: TimestampStack | None) -> Sample:
    attachment = body.attachment.value
    congestion = BLOCK if qos & 0x08 else BLOCK_FIRST if qos & 0x20 else DROP
    return Sample(
        key_expr,
        ZBytes(body.payload.value) if is_put else NOTHING,
        PUT if is_put else DELETE,
        (body.encoding.value or BYTES) if is_put else BYTES,
        body.timestamp.value,
        congestion,
        PRIORITIES[qos & 0x07],
        qos & 0x10 != 0,
        None if attachment is None else ZBytes(attachment),
        body.source.value,
        stack,
    )


def reply_from_response(key_expr: KeyExpr | None, response: Any, stamper: Stamper) -> Reply:
    stack = stamper.received(response.timestamp_stack.value)
    result: Sample | ReplyError
    if response.is_reply and key_expr is not None:
        reply = response.reply
        result = _sample(key_expr, reply.put if reply.is_put else reply.delete, reply.is_put, response.qos, stack)
    else:
        err = response.err
        result = ReplyError(ZBytes(err.payload.value), err.encoding.value or BYTES, stack)
    return Reply(result, response.responder.value)
