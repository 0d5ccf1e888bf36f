# SPDX-License-Identifier: Apache-2.0
"""`Reply` and `ReplyError`, and their construction from a decoded RESPONSE."""

from typing import Any

from zenlake.api.sample import Sample, make_sample, read_payload
from zenlake.api.timestamp_stack import TimestampStack, TimestampStamper
from zenlake.api.zbytes import ZBytes
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId
from zenlake.core.keyexpr import KeyExpr

__all__ = ["Sample", "Reply", "ReplyError", "reply_from_response"]

BYTES = Encoding.ZENOH_BYTES


class ReplyError:
    """An error reply of a queryable.

    Attributes:
        payload: Payload of the error.
        encoding: Encoding of the payload.
        timestamp_stack: Timestamps recorded along the way, or None.
    """

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
    """One reply to a query: a sample (`ok`) or an error (`err`).

    Attributes:
        result: The `Sample` or `ReplyError`.
        replier_id: Global id of the queryable, or None.
    """

    __slots__ = ("replier_id", "result")

    def __init__(self, result: Sample | ReplyError, replier_id: EntityGlobalId | None = None) -> None:
        self.result = result
        self.replier_id = replier_id

    @property
    def ok(self) -> Sample | None:
        """The sample, or None for an error."""
        return self.result if isinstance(self.result, Sample) else None

    @property
    def err(self) -> ReplyError | None:
        """The error, or None for a sample."""
        return self.result if isinstance(self.result, ReplyError) else None

    def __repr__(self) -> str:
        return f"Reply({self.result!r})"


def reply_from_response(key_expr: KeyExpr | None, response: Any, stamper: TimestampStamper) -> Reply:
    stack = stamper.received_stack(response.timestamp_stack.value)
    result: Sample | ReplyError
    if response.is_reply and key_expr is not None:
        reply = response.reply
        result = make_sample(key_expr, reply.put, reply.delete, reply.is_put, response.qos, stack)
    else:
        err = response.err
        result = ReplyError(read_payload(err.payload), err.encoding.value or BYTES, stack)
    return Reply(result, response.responder.value)
