# SPDX-License-Identifier: Apache-2.0
"""Extensions: serialization that all Zenoh bindings share, and advanced publishers and subscribers."""

from zenlake.api.advanced_publisher import (
    AdvancedPublisher,
    CacheConfig,
    MissDetectionConfig,
    RepliesConfig,
    declare_advanced_publisher,
)
from zenlake.api.advanced_subscriber import (
    AdvancedSubscriber,
    HistoryConfig,
    Miss,
    RecoveryConfig,
    SampleMissListener,
    declare_advanced_subscriber,
)
from zenlake.api.serialization import (
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Int128,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    UInt128,
    ZDeserializeError,
    z_deserialize,
    z_serialize,
)

__all__ = [
    "AdvancedPublisher",
    "AdvancedSubscriber",
    "CacheConfig",
    "Float32",
    "Float64",
    "HistoryConfig",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Int128",
    "Miss",
    "MissDetectionConfig",
    "RecoveryConfig",
    "RepliesConfig",
    "SampleMissListener",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "UInt128",
    "ZDeserializeError",
    "declare_advanced_publisher",
    "declare_advanced_subscriber",
    "z_deserialize",
    "z_serialize",
]
