# SPDX-License-Identifier: Apache-2.0
"""Advanced publishers: a cache for late subscribers, sequence numbers and heartbeats for miss detection.

A publisher adds sequence numbers (or timestamps) to its samples and keeps the newest in a cache that replies to queries. It
may send its last sequence number in heartbeats. Cache, heartbeats and liveliness token have a key of their own:
`<key>/@adv/pub/<node>/<entity or uhlc>/_`.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zenlake.api._validation import as_count, as_flag, as_period, as_qos, require_type
from zenlake.api.entities import Declared, Publisher
from zenlake.api.handlers import Callback
from zenlake.api.reply import Sample
from zenlake.api.serialization import UInt32, z_serialize
from zenlake.api.zbytes import ZBytes
from zenlake.core.encoding import Encoding
from zenlake.core.enums import (
    CongestionControl,
    Locality,
    Priority,
    Reliability,
    SampleKind,
)
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.ntp64 import ns_from_ntp64
from zenlake.core.selector import TimeRange
from zenlake.errors import ClosedError, ConfigError, InvalidValue

if TYPE_CHECKING:
    from zenlake.api._options import IntoPayload
    from zenlake.api.query import Query
    from zenlake.api.session import Session
    from zenlake.api.timestamp_stack import TimestampInstrumentation
__all__ = ["AdvancedPublisher", "CacheConfig", "MissDetectionConfig", "RepliesConfig", "declare_advanced_publisher"]

U32 = 0xFFFFFFFF
MAX_DIGITS = 20  # of a number in the parameters of a query


@dataclass(frozen=True, slots=True, kw_only=True)
class RepliesConfig:
    """QoS settings of the replies of a cache.

    Attributes:
        congestion_control: Behaviour of a full queue.
        priority: Priority.
        express: Send immediately instead of batching.
    """

    congestion_control: CongestionControl | None = None
    priority: Priority | None = None
    express: bool | None = None

    def __post_init__(self) -> None:
        as_qos(self.congestion_control, self.priority, self.express, None)


class CacheConfig:
    """Settings of a publisher's cache.

    Args:
        max_samples: Number of samples to keep. Default: 1.
        replies_config: QoS settings of replies.

    Attributes:
        max_samples: Number of samples to keep.
        replies_config: QoS settings of replies.
    """

    __slots__ = ("max_samples", "replies_config")

    def __init__(self, max_samples: int | None = None, *, replies_config: RepliesConfig | None = None) -> None:
        self.max_samples = 1 if max_samples is None else as_count("max_samples", max_samples)
        self.replies_config = require_type("replies_config", replies_config, RepliesConfig, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissDetectionConfig:
    """Settings of miss detection: samples have sequence numbers.

    Attributes:
        heartbeat: Seconds between heartbeats with the last sequence number.
        sporadic_heartbeat: Seconds between heartbeats that are sent only after a new sample.
    """

    heartbeat: float | None = None
    sporadic_heartbeat: float | None = None

    def __post_init__(self) -> None:
        for name in ("heartbeat", "sporadic_heartbeat"):
            if getattr(self, name) is not None:
                as_period(name, getattr(self, name))


class AdvancedPublisher(Declared):
    """A publisher with a cache, sequence numbers, heartbeats and a liveliness token, as configured.

    Created by `declare_advanced_publisher`.
    """

    _name = "advanced publisher"

    def __init__(
        self,
        publisher: Publisher,
        cache: CacheConfig | None,
        detection: MissDetectionConfig | None,
        publisher_detection: bool,
    ) -> None:
        session = publisher._session
        self._session = session
        self._publisher = self._entity = publisher
        self._key_expr = publisher._key_expr
        self._lock = threading.Lock()
        self._cache_lock = threading.Lock()
        """Lock of the cache. The event loop takes it, so it is not held while a put waits for a full connection."""
        self._numbered = detection is not None
        self._next = 0
        self._last_beat = 0
        self._id = publisher.id
        self._cache: deque[Sample] | None = None if cache is None else deque(maxlen=cache.max_samples)
        self._parts: list[Declared] = []
        self._stop: Callable[[], None] | None = None
        if cache is not None and not self._numbered and not session._node.node.adds_timestamps:
            raise ConfigError(
                "an advanced publisher with a cache needs timestamps or sequence numbers; set timestamping/enabled in the "
                "configuration, or pass sample_miss_detection"
            )
        place = str(self._id.eid) if self._numbered else "uhlc"
        beside = publisher.key_expr / f"@adv/pub/{self._id.zid}/{place}/_"
        if self._cache is not None:
            self._parts.append(
                session.declare_queryable(
                    beside, Callback(_cache_replier(self._cache, self._cache_lock), indirect=False)
                )
            )
        if publisher_detection:
            self._parts.append(session.liveliness().declare_token(beside))
        period = None if detection is None else detection.sporadic_heartbeat or detection.heartbeat
        if detection is not None and period is not None:
            sporadic = detection.sporadic_heartbeat is not None
            block = CongestionControl.BLOCK if sporadic else None
            heart = session.declare_publisher(beside, congestion_control=block)
            self._parts.append(heart)
            self._stop = session._node.call_periodically(float(period), lambda: self._beat(heart, sporadic))

    def _beat(self, heart: Publisher, sporadic: bool) -> None:
        count = self._next
        if count and not (sporadic and count == self._last_beat):
            self._last_beat = count
            with suppress(ClosedError):  # another thread undeclared the publisher or closed the session
                heart.put(z_serialize(UInt32((count - 1) & U32)))

    def _end(self, entity: Any) -> None:
        if self._stop is not None:
            self._stop()
        for part in self._parts:
            part.undeclare()
        if entity._entity is not None:
            entity.undeclare()

    def __del__(self) -> None:
        self._entity = None  # its parts end by themselves, except the timer
        stop = getattr(self, "_stop", None)
        if stop is not None:
            stop()

    @property
    def id(self) -> EntityGlobalId:
        """Global id of this publisher."""
        self._alive()
        return self._id

    @property
    def key_expr(self) -> KeyExpr:
        """Key expression to publish on."""
        self._alive()
        return self._key_expr

    @property
    def encoding(self) -> Encoding:
        """Default encoding of payloads."""
        return self._alive().encoding

    @property
    def congestion_control(self) -> CongestionControl:
        """Behaviour of a full queue."""
        return self._alive().congestion_control

    @property
    def priority(self) -> Priority:
        """Priority of samples."""
        return self._alive().priority

    def put(
        self,
        /,
        payload: "IntoPayload",
        *,
        encoding: Encoding | str | None = None,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
    ) -> None:
        """Publish a value and store it in the cache.

        Args:
            payload: Text, bytes, or any object with the buffer protocol.
            encoding: Encoding of the payload. Default: the encoding of the publisher.
            attachment: Bytes that accompany the payload.
            timestamp: Timestamp of the sample.
            timestamp_instrumentation: Timestamps to record along the way.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        publisher: Publisher = self._alive()
        self._session._check_process()  # before the lock, which a thread of the parent may hold
        kept = (
            encoding
            if isinstance(encoding, Encoding)
            else publisher.encoding
            if encoding is None
            else Encoding(encoding)
        )
        payload = ZBytes(payload)
        with self._lock:  # samples must be sent in the order of their sequence numbers
            source, timestamp = self._mark(timestamp)
            self._keep(attachment, source, payload=payload, encoding=kept, timestamp=timestamp)
            publisher.put(
                payload,
                encoding=encoding,
                attachment=attachment,
                timestamp=timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )

    def delete(
        self,
        /,
        *,
        attachment: "IntoPayload | None" = None,
        timestamp: Timestamp | None = None,
        timestamp_instrumentation: "TimestampInstrumentation | None" = None,
    ) -> None:
        """Publish a deletion and store it in the cache.

        Args:
            attachment: Bytes that accompany the deletion.
            timestamp: Timestamp of the sample. Default: the current time.
            timestamp_instrumentation: Timestamps to record along the way.

        Raises:
            ClosedError: The publisher is undeclared, or the session is closed.
        """
        publisher: Publisher = self._alive()
        self._session._check_process()  # before the lock, which a thread of the parent may hold
        with self._lock:
            source, timestamp = self._mark(timestamp)
            self._keep(attachment, source, kind=SampleKind.DELETE, timestamp=timestamp)
            publisher.delete(
                attachment=attachment,
                timestamp=timestamp,
                timestamp_instrumentation=timestamp_instrumentation,
                source_info=source,
            )

    def _mark(self, timestamp: Timestamp | None) -> tuple[SourceInfo | None, Timestamp | None]:
        source = None
        if self._numbered:
            source = SourceInfo(self._id, self._next & U32)
            self._next += 1
        if timestamp is None and self._session._node.node.adds_timestamps:
            timestamp = self._session.new_timestamp()
        return source, timestamp

    def _keep(self, attachment: Any, source: SourceInfo | None, **fields: Any) -> None:
        if self._cache is not None:
            more = None if attachment is None else ZBytes(attachment)
            sample = Sample(self._publisher.key_expr, attachment=more, source_info=source, **fields)
            with self._cache_lock:
                self._cache.append(sample)


def _cache_replier(cache: deque[Sample], lock: threading.Lock) -> Callable[["Query"], None]:
    """Return a callback that replies from the cache: `_sn=first..last`, `_max=count` (the newest), `_time=[...]`."""

    def answer(query: "Query") -> None:
        with query:
            parameters = query.parameters
            try:
                time = parameters.time_range()
            except InvalidValue:
                return query.reply_err("invalid `_time`; expected a time range such as [now(-1h)..now()]")
            numbers, most = parameters.get("_sn"), _number(parameters.get("_max") or "")
            with lock:
                samples = [each for each in cache if _is_requested(each, numbers, time, query._session._node.node.wall)]
            if most is not None:
                samples = samples[-most:] if most else []
            if samples and query._accepts(samples[0].key_expr):
                for sample in samples:
                    query._reply_sample(sample)

    return answer


def _number(text: str) -> int | None:
    """Return the number that a parameter of a query states, or None."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else None


def _is_requested(sample: Sample, numbers: str | None, time: TimeRange | None, wall: Callable[[], int]) -> bool:
    if numbers is not None:
        first, _, last = numbers.partition("..")
        if first or last:
            if sample.source_info is None:
                return False
            number = sample.source_info.source_sn
            least, most = _number(first), _number(last)
            if (least is not None and number < least) or (most is not None and number > most):
                return False
    if time is None or sample.timestamp is None:
        return True
    return time.contains(ns_from_ntp64(sample.timestamp.ntp64), ns_from_ntp64(wall()))


def declare_advanced_publisher(
    session: "Session",
    key_expr: KeyExpr | str,
    *,
    encoding: Encoding | str | None = None,
    congestion_control: CongestionControl | None = None,
    priority: Priority | None = None,
    express: bool | None = None,
    reliability: Reliability | None = None,
    allowed_destination: Locality | None = None,
    cache: CacheConfig | None = None,
    sample_miss_detection: MissDetectionConfig | None = None,
    publisher_detection: bool | None = None,
) -> AdvancedPublisher:
    """Declare an advanced publisher.

    Args:
        session: The session.
        key_expr: The key expression to publish on.
        encoding: Default encoding of payloads.
        congestion_control: Behaviour of a full queue.
        priority: Priority.
        express: Send immediately instead of batching.
        reliability: Reliability.
        allowed_destination: Subscribers that receive the samples.
        cache: Settings of the cache for late subscribers. Default: no cache.
        sample_miss_detection: Settings of miss detection. Default: no sequence numbers.
        publisher_detection: Whether to declare a liveliness token.

    Returns:
        The publisher.

    Raises:
        KeyExprError: The key expression is invalid.
        ConfigError: The cache needs timestamps, which the configuration disables.
        ClosedError: The session is closed.

    Example:
        ```python
        publisher = zenlake.ext.declare_advanced_publisher(session, "robots/7/pose", cache=zenlake.ext.CacheConfig(10))
        publisher.put("1.0 2.0")
        ```
    """
    require_type("cache", cache, CacheConfig, None)
    require_type("sample_miss_detection", sample_miss_detection, MissDetectionConfig, None)
    is_detected = as_flag("publisher_detection", publisher_detection)
    publisher = session.declare_publisher(
        key_expr,
        encoding=encoding,
        congestion_control=congestion_control,
        priority=priority,
        express=express,
        reliability=reliability,
        allowed_destination=allowed_destination,
    )
    return AdvancedPublisher(publisher, cache, sample_miss_detection, is_detected)
