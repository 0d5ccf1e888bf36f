# SPDX-License-Identifier: Apache-2.0
# Types of __init__.py, which imports its names when they are first used.
from zenlake import aio, ext, handlers, shm
from zenlake.api._open import open
from zenlake.api.cancellation import CancellationToken
from zenlake.api.entities import (
    LivelinessToken,
    MatchingListener,
    MatchingStatus,
    Publisher,
    Querier,
    Queryable,
    Subscriber,
)
from zenlake.api.handlers import Handler
from zenlake.api.info import (
    Link,
    LinkEvent,
    LinkEventsListener,
    SessionInfo,
    Transport,
    TransportEvent,
    TransportEventsListener,
)
from zenlake.api.liveliness import Liveliness
from zenlake.api.logging import init_log_from_env_or, try_init_log_from_env
from zenlake.api.query import Query
from zenlake.api.reply import Reply, ReplyError, Sample
from zenlake.api.scouting import Hello, Scout, scout
from zenlake.api.session import Session
from zenlake.api.timestamp_stack import (
    TimestampContext,
    TimestampInstrumentation,
    TimestampInstrumentationBuilder,
    TimestampStack,
    TimestampStackRecord,
)
from zenlake.api.zbytes import ZBytes
from zenlake.config import Config
from zenlake.core.encoding import Encoding
from zenlake.core.enums import (
    CongestionControl,
    ConsolidationMode,
    InterceptionPoint,
    Locality,
    Priority,
    QueryConsolidation,
    QueryTarget,
    Reliability,
    ReplyKeyExpr,
    SampleKind,
    SetIntersectionLevel,
    WhatAmI,
    WhatAmIMatcher,
)
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, TimestampId, ZenohId
from zenlake.core.keyexpr import KeyExpr
from zenlake.core.ntp64 import NTP64
from zenlake.core.selector import Parameters, Selector
from zenlake.errors import ZenlakeError as ZError
from zenlake.tables import read

__version__: str

__all__ = [
    "open",
    "CancellationToken",
    "LivelinessToken",
    "MatchingListener",
    "MatchingStatus",
    "Publisher",
    "Querier",
    "Queryable",
    "Subscriber",
    "Handler",
    "Link",
    "LinkEvent",
    "LinkEventsListener",
    "SessionInfo",
    "Transport",
    "TransportEvent",
    "TransportEventsListener",
    "Liveliness",
    "init_log_from_env_or",
    "try_init_log_from_env",
    "Query",
    "Reply",
    "ReplyError",
    "Sample",
    "Hello",
    "Scout",
    "scout",
    "Session",
    "TimestampContext",
    "TimestampInstrumentation",
    "TimestampInstrumentationBuilder",
    "TimestampStack",
    "TimestampStackRecord",
    "ZBytes",
    "Config",
    "Encoding",
    "CongestionControl",
    "ConsolidationMode",
    "InterceptionPoint",
    "Locality",
    "Priority",
    "QueryConsolidation",
    "QueryTarget",
    "Reliability",
    "ReplyKeyExpr",
    "SampleKind",
    "SetIntersectionLevel",
    "WhatAmI",
    "WhatAmIMatcher",
    "EntityGlobalId",
    "SourceInfo",
    "Timestamp",
    "TimestampId",
    "ZenohId",
    "KeyExpr",
    "NTP64",
    "Parameters",
    "Selector",
    "ZError",
    "read",
    "handlers",
    "ext",
    "aio",
    "shm",
]
