# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""Fast path of `Session.put` and `Publisher.put` (compiled: runs for every message).

A put of plain bytes uses `network.prepared_put.PreparedPut`, which has encoded everything but the payload. Every other put calls
`try_put`, which accepts all fields.
"""

from typing import TYPE_CHECKING, Any

from cython.cimports.zenlake.network.prepared_put import PreparedPut

from zenlake.api._validation import as_key, as_qos
from zenlake.api.timestamp_stack import TimestampInstrumentation
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Locality, Priority
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr

if TYPE_CHECKING:
    from zenlake.api._options import IntoPayload


__all__ = ["SessionLifetime", "PublisherPut", "SessionPut"]

MAX_PREPARED_PUTS = 4096  # cached combinations of key and settings


class SessionLifetime:
    """State of a session, shared with its entities. `over` is the reason why it is closed, or None."""

    def __init__(self):
        self.over = None


class SessionPut:
    """The method `put` of `Session`."""

    def __init__(self) -> None:
        self._life = SessionLifetime()
        self._posts: dict[Any, Any] = {}

    def put(
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
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        allowed_destination: Locality | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value. Matching subscribers receive a `Sample` of kind PUT.

        Args:
            key_expr: The key to publish on.
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: `zenoh/bytes`.
            congestion_control: Behaviour of a full queue. Default: `DROP`.
            priority: Priority. Default: `DATA`.
            express: Send immediately instead of batching.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            allowed_destination: Subscribers that receive the sample. Default: local and remote ones.
            source_info: Identity and sequence number of the source.

        Raises:
            KeyExprError: The key expression is invalid.
            ClosedError: The session is closed.

        Example:
            ```python
            session.put("robots/7/goal", "home", encoding="text/plain")
            ```
        """
        session: Any = self
        if (
            type(payload) is bytes
            and encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
            and self._life.over is None
            # The normal path refuses values of other types, which may compare equal.
            and (congestion_control is None or type(congestion_control) is CongestionControl)
            and (priority is None or type(priority) is Priority)
            and (express is None or express is True or express is False)
            and (allowed_destination is None or type(allowed_destination) is Locality)
        ):
            name = (key_expr, congestion_control, priority, express, allowed_destination)
            found = self._posts.get(name)
            if found is None:
                qos = as_qos(congestion_control, priority, express, allowed_destination)
                found = session._get_prepared_put(as_key(key_expr), None, qos)
                if len(self._posts) >= MAX_PREPARED_PUTS:
                    self._posts.clear()
                if found is not None:
                    self._posts[name] = found
            post: PreparedPut = found
            if post is not None:
                post.put(payload)
                return
        session.try_put(
            key_expr,
            payload,
            encoding=encoding,
            congestion_control=congestion_control,
            priority=priority,
            express=express,
            attachment=attachment,
            timestamp=timestamp,
            timestamp_instrumentation=timestamp_instrumentation,
            allowed_destination=allowed_destination,
            source_info=source_info,
        )


class PublisherPut:
    """The method `put` of `Publisher`."""

    def __init__(self, life: Any, post: Any) -> None:
        self._life = life
        self._get_prepared_put = post  # None if the node has no fast path, and after undeclare

    def put(
        self,
        /,
        payload: "IntoPayload",
        *,
        encoding: Encoding | str | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
        source_info: SourceInfo | None = None,
    ) -> None:
        """Publish a value on the key of this publisher.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: the encoding of the publisher.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the sample. Default: a router adds one.
            timestamp_instrumentation: Timestamps to record along the way.
            source_info: Identity and sequence number of the source.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        if (
            type(payload) is bytes
            and encoding is None
            and attachment is None
            and timestamp is None
            and timestamp_instrumentation is None
            and source_info is None
            and self._life.over is None
            and self._get_prepared_put is not None
        ):
            self._get_prepared_put.put(payload)
        else:
            publisher: Any = self
            publisher.try_put(
                payload,
                encoding=encoding,
                attachment=attachment,
                timestamp=timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source_info,
            )
