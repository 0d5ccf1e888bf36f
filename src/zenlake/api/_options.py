# SPDX-License-Identifier: Apache-2.0
"""Types of arguments that several public methods share. Type checkers read this module; it is not imported at run time."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypedDict, TypeVar

from typing_extensions import Buffer

from zenlake.api.advanced_publisher import CacheConfig, MissDetectionConfig
from zenlake.api.advanced_subscriber import HistoryConfig, RecoveryConfig
from zenlake.api.cancellation import CancellationToken
from zenlake.api.handlers import Callback, DefaultHandler, FifoChannel, RingChannel
from zenlake.api.timestamp_stack import TimestampInstrumentation
from zenlake.api.zbytes import ZBytes
from zenlake.core.encoding import Encoding
from zenlake.core.enums import (
    CongestionControl,
    ConsolidationMode,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
)
from zenlake.core.identifiers import SourceInfo, Timestamp
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.selector import Parameters, Selector

T = TypeVar("T")
H = TypeVar("H")

IntoKeyExpr: TypeAlias = KeyExpr | str
IntoSelector: TypeAlias = Selector | KeyExpr | str
IntoParameters: TypeAlias = Parameters | Mapping[str, str] | str
IntoPayload: TypeAlias = ZBytes | str | Buffer

# The three forms of a handler argument. A channel is the default.
ChannelKind: TypeAlias = DefaultHandler[T] | FifoChannel[T] | RingChannel[T] | None
CallbackAndHandler: TypeAlias = tuple[Callable[[T], Any], H]
CallbackKind: TypeAlias = Callable[[T], Any] | Callback[T]
AnyHandler: TypeAlias = ChannelKind[T] | CallbackAndHandler[T, Any] | CallbackKind[T]


class AdvancedDeleteOptions(TypedDict, total=False):
    """Options of `AdvancedPublisher.delete`."""

    attachment: IntoPayload | None
    timestamp: Timestamp | None
    timestamp_instrumentation: TimestampInstrumentation | None


class SampleOptions(AdvancedDeleteOptions, total=False):
    """Fields of a publication that accompany its payload."""

    source_info: SourceInfo | None


class QosOptions(TypedDict, total=False):
    """Quality of service of a message."""

    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    allowed_destination: Locality | None


class ReplyDelOptions(TypedDict, total=False):
    """Options of `Query.reply_del`."""

    congestion_control: CongestionControl | None
    priority: Priority | None
    express: bool | None
    attachment: IntoPayload | None
    timestamp: Timestamp | None


class ReplyOptions(ReplyDelOptions, total=False):
    """Options of `Query.reply`."""

    encoding: Encoding | str | None


class DeleteOptions(SampleOptions, QosOptions):
    """Options of `Session.delete`."""


class PutOptions(DeleteOptions, total=False):
    """Options of `Session.put`."""

    encoding: Encoding | str | None


class PublisherDeleteOptions(SampleOptions):
    """Options of `Publisher.delete`."""


class PublisherPutOptions(SampleOptions, total=False):
    """Options of `Publisher.put`."""

    encoding: Encoding | str | None


class PublisherOptions(QosOptions, total=False):
    """Options of `Session.declare_publisher`."""

    encoding: Encoding | str | None
    reliability: Reliability | None


class AdvancedPutOptions(AdvancedDeleteOptions, total=False):
    """Options of `AdvancedPublisher.put`."""

    encoding: Encoding | str | None


class AdvancedPublisherOptions(PublisherOptions, total=False):
    """Options of `declare_advanced_publisher`."""

    cache: CacheConfig | None
    sample_miss_detection: MissDetectionConfig | None
    publisher_detection: bool | None


class SubscriberOptions(TypedDict, total=False):
    """Options of `Session.declare_subscriber`."""

    allowed_origin: Locality | None


class QueryableOptions(SubscriberOptions, total=False):
    """Options of `Session.declare_queryable`."""

    complete: bool | None


class LivelinessGetOptions(TypedDict, total=False):
    """Options of `Liveliness.get`."""

    timeout: float | None
    cancellation_token: CancellationToken | None


class AdvancedSubscriberOptions(SubscriberOptions, total=False):
    """Options of `declare_advanced_subscriber`."""

    history: HistoryConfig | None
    recovery: RecoveryConfig | None
    subscriber_detection: bool | None


class QuerierOptions(QosOptions, total=False):
    """Options of `Session.declare_querier`."""

    target: QueryTarget | None
    consolidation: ConsolidationMode | QueryConsolidation | None
    accept_replies: ReplyKeyExpr | None
    timeout: float | None


class QueryPayload(TypedDict, total=False):
    """Fields of one query."""

    payload: IntoPayload | None
    encoding: Encoding | str | None
    attachment: IntoPayload | None
    source_info: SourceInfo | None
    timestamp_instrumentation: TimestampInstrumentation | None


class QuerierGetOptions(QueryPayload, total=False):
    """Options of `Querier.get`."""

    parameters: IntoParameters | None
    cancellation_token: CancellationToken | None


class SessionQueryOptions(QuerierOptions, QueryPayload, total=False):
    """Options of `Session.get`, without the token."""

    budget: int | None


class GetOptions(SessionQueryOptions, total=False):
    """Options of `Session.get`."""

    cancellation_token: CancellationToken | None
