# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""`put`, of a session and of a publisher. Compiled: programs call it for every message.

Most puts are of nothing but bytes. They take the short way of `network.publishing.Post`, in which all but the payload is
written already; every other goes to `_put`, which has all the fields.
"""

from typing import Any

import cython

from zenlake.api.arguments import as_key, as_qos
from zenlake.api.stamps import TimestampInstrumentation
from zenlake.choices import CongestionControl, Locality, Priority
from zenlake.encoding import Encoding
from zenlake.keyexpr import KeyExpr
from zenlake.values import SourceInfo, Timestamp

if cython.compiled:
    from cython.cimports.zenlake.network.publishing import Post
else:
    from zenlake.network.publishing import Post

__all__ = ["Life", "PublisherPut", "SessionPut"]

MOST_POSTS = 4096  # keys and settings that were put on, remembered


class Life:
    """Whether a session is open, for all that belongs to it: `over` says why it is not."""

    def __init__(self):
        self.over = None


class SessionPut:
    """What a Session is, as far as `put` is concerned."""

    def __init__(self) -> None:
        self._life = Life()
        self._posts: dict[Any, Any] = {}

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
            and self._life.over is None
            # What is of another type, and may be equal, is refused on the long way.
            and (congestion_control is None or type(congestion_control) is CongestionControl)
            and (priority is None or type(priority) is Priority)
            and (express is None or express is True or express is False)
            and (allowed_destination is None or type(allowed_destination) is Locality)
        ):
            name = (key_expr, congestion_control, priority, express, allowed_destination)
            found = self._posts.get(name)
            if found is None:
                qos = as_qos(congestion_control, priority, express, allowed_destination)
                found = self._post(as_key(key_expr), None, qos)  # type: ignore[attr-defined]
                if len(self._posts) >= MOST_POSTS:
                    self._posts.clear()
                if found is not None:
                    self._posts[name] = found
            post: Post = found
            if post is not None:
                post.put(payload)
                return
        self.try_put(  # type: ignore[attr-defined]
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
    """What a Publisher is, as far as `put` is concerned."""

    def __init__(self, life: Any, post: Any) -> None:
        self._life = life
        self._post = post  # None where there is none, and once it is undeclared

    def put(
        self,
        /,
        payload: Any,
        *,
        encoding: Encoding | str | None = None,
        attachment: Any = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: TimestampInstrumentation | None = None,
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
            and self._life.over is None
            and self._post is not None
        ):
            self._post.put(payload)
        else:
            self.try_put(  # type: ignore[attr-defined]
                payload,
                encoding=encoding,
                attachment=attachment,
                timestamp=timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source_info,
            )
