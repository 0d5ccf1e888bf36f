# SPDX-License-Identifier: Apache-2.0
"""Advanced subscribers: query history, recover missed samples, and report lost ones."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, overload

from zenlake.api._validation import as_count, as_flag, as_key, as_locality, as_period, as_seconds, require_type
from zenlake.api.entities import Declared, H, Listening, Receiving, Subscriber
from zenlake.api.handlers import Callback, Handler, Receiver
from zenlake.api.reorder_buffer import Miss, ReorderBuffer
from zenlake.api.reply import Reply, Sample
from zenlake.api.serialization import UInt32, ZDeserializeError, z_deserialize
from zenlake.core.enums import (
    ConsolidationMode,
    Locality,
    QueryTarget,
    ReplyKeyExpr,
    SampleKind,
)
from zenlake.core.identifiers import EntityGlobalId, ZenohId
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import ClosedError, InvalidValue

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from zenlake.api._options import AdvancedSubscriberOptions, CallbackAndHandler, CallbackKind, ChannelKind
    from zenlake.api.session import Session
__all__ = [
    "AdvancedSubscriber",
    "HistoryConfig",
    "Miss",
    "RecoveryConfig",
    "SampleMissListener",
    "declare_advanced_subscriber",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryConfig:
    """Settings of the history query of a new subscriber.

    Attributes:
        detect_late_publishers: Whether to query also the publishers that appear later.
        max_samples: Maximum number of samples per publisher.
        max_age: Maximum age of samples in seconds.

    Raises:
        InvalidValue: A value is out of range.
    """

    detect_late_publishers: bool | None = None
    max_samples: int | None = None
    max_age: float | None = None

    def __post_init__(self) -> None:
        as_flag("detect_late_publishers", self.detect_late_publishers)
        if self.max_samples is not None:
            as_count("max_samples", self.max_samples)
        if self.max_age is not None and not as_seconds("max_age", self.max_age):
            raise InvalidValue("invalid max_age=0; expected more than 0 seconds, or None for no limit")

    @property
    def parameters(self) -> str:
        parts = [] if self.max_samples is None else [f"_max={int(self.max_samples)}"]
        return ";".join(parts if self.max_age is None else [*parts, f"_time=[now(-{float(self.max_age):f}s)..]"])


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryConfig:
    """Settings of the recovery of missed samples. Exactly one attribute must be set.

    Attributes:
        periodic_queries: Period of recovery queries, as timedelta or seconds.
        heartbeat: Whether to query when a heartbeat shows a missed sample.

    Raises:
        InvalidValue: No attribute or both are set, or the period is not positive.
    """

    periodic_queries: timedelta | float | None = None
    heartbeat: bool | None = None

    def __post_init__(self) -> None:
        if self.periodic_queries is not None and self.heartbeat is not None:
            raise InvalidValue("periodic_queries and heartbeat are both set; set only one of them")
        if self.periodic_queries is None and not as_flag("heartbeat", self.heartbeat):
            raise InvalidValue("no recovery is set; pass periodic_queries=timedelta(...) or heartbeat=True")
        self.period  # noqa: B018  # validates the period

    @property
    def period(self) -> float | None:
        """Seconds between recovery queries, or None."""
        period = self.periodic_queries
        if period is None:
            return None
        return as_period("periodic_queries", period.total_seconds() if isinstance(period, timedelta) else period)


class AdvancedSubscriber(Receiving[H]):
    """A subscriber that orders samples, queries history and missed samples, and reports losses."""

    _name = "advanced subscriber"

    def __init__(
        self,
        session: "Session",
        key_expr: KeyExpr,
        receiver: Receiver[Any],
        origin: Locality,
        history: HistoryConfig | None,
        recovery: RecoveryConfig | None,
        detection: bool,
    ) -> None:
        self._session = session
        self._key_expr = key_expr
        self._receiver = receiver
        self._background = receiver.background
        self._history = history
        self._misses: list[Receiver[Miss]] = []
        depth = None if history is None else history.max_samples
        self._ordering = ordering = ReorderBuffer(receiver.push, self._on_miss, recovery is not None, depth)
        self._parts: list[Any] = []
        if history is not None:
            ordering.begin_query()
        self._entity = session.declare_subscriber(
            key_expr, Callback(self._on_sample, receiver.close, indirect=False), allowed_origin=origin
        )
        if history is not None:
            self._send_query(key_expr / "@adv/**", history.parameters, ordering.end_query)
            if history.detect_late_publishers:
                found = Callback(self._on_publisher, indirect=False)
                self._parts.append(
                    session.liveliness().declare_subscriber(key_expr / "@adv/pub/**", found, history=True)
                )
        if recovery is not None and recovery.heartbeat:
            beat = Callback(self._on_heartbeat, indirect=False)
            self._parts.append(session.declare_subscriber(key_expr / "@adv/pub/**", beat, allowed_origin=origin))
        period = None if recovery is None else recovery.period
        if period is not None:
            self._parts.append(session._node.call_periodically(period, self._query_all_sources))
        if detection:
            own = self._entity.id
            self._parts.append(session.liveliness().declare_token(key_expr / f"@adv/sub/{own.zid}/{own.eid}/_"))

    @property
    def id(self) -> EntityGlobalId:
        """Global id of this subscriber."""
        return self._alive().id

    @property
    def key_expr(self) -> KeyExpr:
        """Key expression that samples must match."""
        self._alive()
        return self._key_expr

    @overload
    def sample_miss_listener(self, /, handler: "ChannelKind[Miss]" = None) -> "SampleMissListener[Handler[Miss]]": ...
    @overload
    def sample_miss_listener(self, /, handler: "CallbackAndHandler[Miss, H]") -> "SampleMissListener[H]": ...
    @overload
    def sample_miss_listener(self, /, handler: "CallbackKind[Miss]") -> "SampleMissListener[None]": ...

    def sample_miss_listener(self, /, handler: Any = None) -> "SampleMissListener[Any]":
        """Declare a listener for lost samples.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.

        Returns:
            The listener. It receives a `Miss` for each run of lost samples.
        """
        self._alive()
        target = self._session._receiver(handler)
        self._misses.append(target)
        return SampleMissListener(self._session, target, self._misses)

    @overload
    def detect_publishers(
        self, /, handler: "ChannelKind[Sample]" = None, *, history: bool | None = None
    ) -> "Subscriber[Handler[Sample]]": ...
    @overload
    def detect_publishers(
        self, /, handler: "CallbackAndHandler[Sample, H]", *, history: bool | None = None
    ) -> "Subscriber[H]": ...
    @overload
    def detect_publishers(
        self, /, handler: "CallbackKind[Sample]", *, history: bool | None = None
    ) -> "Subscriber[None]": ...

    def detect_publishers(self, /, handler: Any = None, *, history: bool | None = None) -> Subscriber[Any]:
        """Declare a subscriber for advanced publishers: PUT when one appears, DELETE when it disappears.

        Args:
            handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
            history: Whether to receive a PUT sample for each existing publisher.

        Returns:
            The subscriber.
        """
        self._alive()
        return self._session.liveliness().declare_subscriber(self._key_expr / "@adv/pub/**", handler, history=history)

    def _end(self, entity: Any) -> None:
        for part in self._parts:
            (part.undeclare if isinstance(part, Declared) else part)()
        entity.undeclare()
        self._receiver.close()
        for each in self._misses:
            each.close()

    def __del__(self) -> None:
        if not self._background:
            for part in getattr(self, "_parts", ()):
                if not isinstance(part, Declared):
                    part()

    # Received samples

    def _on_sample(self, sample: Sample) -> None:
        self._ordering.sample(sample)

    def _on_miss(self, miss: Miss) -> None:
        for each in list(self._misses):
            each.push(miss)

    def _on_heartbeat(self, beat: Sample) -> None:
        """Handle a heartbeat: query the samples that are missing."""
        source = _source(beat.key_expr)
        if source is None or beat.kind is not SampleKind.PUT:
            return
        try:
            number = z_deserialize(UInt32, beat.payload)
        except ZDeserializeError:
            return
        missing = self._ordering.missing_range(source, number)
        if missing is not None:
            self._send_query(beat.key_expr, f"_sn={missing}", lambda: self._ordering.end_query(source))

    def _on_publisher(self, token: Sample) -> None:
        """Query the history of a publisher that appeared after this subscriber."""
        if token.kind is SampleKind.PUT and self._history is not None:
            source = _source(token.key_expr)
            self._ordering.begin_query(source)
            self._send_query(token.key_expr, self._history.parameters, lambda: self._ordering.end_query(source))

    def _query_all_sources(self) -> None:
        for source, first in self._ordering.sources():
            self._ordering.begin_query(source)
            key = self._key_expr / f"@adv/*/{source.zid}/{source.eid}/**"
            self._send_query(key, f"_sn={first}..", partial(self._ordering.end_query, source))

    def _send_query(self, key: KeyExpr, parameters: str, on_done: Callable[[], None]) -> None:
        own = self._key_expr

        def reply(reply: Reply) -> None:
            sample = reply.ok
            if sample is not None and own.intersects(sample.key_expr):
                self._ordering.sample(sample)

        try:
            self._session.get(
                f"{key}?{parameters}",
                Callback(reply, on_done, indirect=False),
                consolidation=ConsolidationMode.NONE,
                accept_replies=ReplyKeyExpr.ANY,
                target=QueryTarget.ALL,
            )
        except ClosedError:
            on_done()


class SampleMissListener(Listening[H], Generic[H]):
    """A listener that receives a `Miss` for each run of lost samples."""

    _name = "sample miss listener"


def _source(key: KeyExpr) -> EntityGlobalId | None:
    """Return the publisher of a key `.../@adv/pub/<zid>/<eid>/...`. None for a publisher without sequence numbers."""
    chunks = str(key).split("/")
    try:
        at = len(chunks) - 1 - chunks[::-1].index("@adv")
        return EntityGlobalId(ZenohId.parse(chunks[at + 2]), int(chunks[at + 3]))
    except (ValueError, IndexError):
        return None


@overload
def declare_advanced_subscriber(
    session: "Session",
    key_expr: KeyExpr | str,
    handler: "ChannelKind[Sample]" = None,
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[Handler[Sample]]": ...
@overload
def declare_advanced_subscriber(
    session: "Session",
    key_expr: KeyExpr | str,
    handler: "CallbackAndHandler[Sample, H]",
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[H]": ...
@overload
def declare_advanced_subscriber(
    session: "Session",
    key_expr: KeyExpr | str,
    handler: "CallbackKind[Sample]",
    **options: "Unpack[AdvancedSubscriberOptions]",
) -> "AdvancedSubscriber[None]": ...


def declare_advanced_subscriber(
    session: "Session",
    key_expr: KeyExpr | str,
    handler: Any = None,
    *,
    allowed_origin: Locality | None = None,
    history: HistoryConfig | None = None,
    recovery: RecoveryConfig | None = None,
    subscriber_detection: bool | None = None,
) -> AdvancedSubscriber[Any]:
    """Declare an advanced subscriber.

    Args:
        session: The session.
        key_expr: The key expression to subscribe to.
        handler: A channel from `zenlake.handlers`, a callback, or `(callback, handler)`. Default: a FIFO channel.
        allowed_origin: Publishers to receive from.
        history: Settings of the history query. Default: no history.
        recovery: Settings of the recovery of missed samples. Default: no recovery.
        subscriber_detection: Whether to declare a liveliness token.

    Returns:
        The subscriber.

    Raises:
        KeyExprError: The key expression is invalid.
        ClosedError: The session is closed.

    Example:
        ```python
        history = zenlake.ext.HistoryConfig(detect_late_publishers=True)
        zenlake.ext.declare_advanced_subscriber(session, "robots/*/pose", print, history=history)
        ```
    """
    key, origin = as_key(key_expr), as_locality("allowed_origin", allowed_origin)
    require_type("history", history, HistoryConfig, None)
    require_type("recovery", recovery, RecoveryConfig, None)
    is_detected = as_flag("subscriber_detection", subscriber_detection)
    session._live()
    target = session._receiver(handler)
    subscriber: AdvancedSubscriber[Any] = AdvancedSubscriber(
        session, key, target, origin, history, recovery, is_detected
    )
    session._register(subscriber)
    return subscriber
