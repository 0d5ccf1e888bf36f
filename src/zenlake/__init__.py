# SPDX-License-Identifier: Apache-2.0
"""Zenlake: every Zenoh message, as a table; and Zenoh itself, natively: `import zenlake as zenoh`.

Names are loaded when they are first used, so that a program pays only for what it needs.
"""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from zenlake.loading import loaded as _loaded

if _os.environ.get("ZENLAKE_PURE"):  # run the .py files even where compiled ones lie beside them
    from zenlake import _pure as _pure

if _TYPE_CHECKING:
    from zenlake.api.cancellation import CancellationToken
    from zenlake.api.declared import (
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
    from zenlake.api.logs import init_log_from_env_or, try_init_log_from_env
    from zenlake.api.query import Query
    from zenlake.api.samples import Reply, ReplyError, Sample
    from zenlake.api.scouting import Hello, Scout, scout
    from zenlake.api.session import Session
    from zenlake.api.stamps import (
        TimestampContext,
        TimestampInstrumentation,
        TimestampInstrumentationBuilder,
        TimestampStack,
        TimestampStackRecord,
    )
    from zenlake.api.start import open
    from zenlake.api.zbytes import ZBytes
    from zenlake.choices import (
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
    from zenlake.clock import NTP64
    from zenlake.config import Config
    from zenlake.encoding import Encoding
    from zenlake.errors import ZenlakeError as ZError
    from zenlake.keyexpr import KeyExpr
    from zenlake.parameters import Parameters, Selector
    from zenlake.tables import read
    from zenlake.values import EntityGlobalId, SourceInfo, Timestamp, TimestampId, ZenohId

__version__ = "0.1.0"

_CHOICES = (
    "CongestionControl ConsolidationMode InterceptionPoint Locality Priority QueryConsolidation QueryTarget Reliability "
    "ReplyKeyExpr SampleKind SetIntersectionLevel WhatAmI WhatAmIMatcher"
)
_WHERE = {
    "api.cancellation": "CancellationToken",
    "api.declared": "LivelinessToken MatchingListener MatchingStatus Publisher Querier Queryable Subscriber",
    "api.handlers": "Handler",
    "api.info": "Link LinkEvent LinkEventsListener SessionInfo Transport TransportEvent TransportEventsListener",
    "api.liveliness": "Liveliness",
    "api.logs": "init_log_from_env_or try_init_log_from_env",
    "api.query": "Query",
    "api.samples": "Reply ReplyError Sample",
    "api.scouting": "Hello Scout scout",
    "api.session": "Session",
    "api.stamps": "TimestampContext TimestampInstrumentation TimestampInstrumentationBuilder TimestampStack "
    "TimestampStackRecord",
    "api.start": "open",
    "api.zbytes": "ZBytes",
    "choices": _CHOICES,
    "clock": "NTP64",
    "config": "Config",
    "encoding": "Encoding",
    "errors": "ZError",
    "keyexpr": "KeyExpr",
    "parameters": "Parameters Selector",
    "tables": "read",
    "values": "EntityGlobalId SourceInfo Timestamp TimestampId ZenohId",
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names.split()}
_SUBMODULES = ("handlers", "ext", "aio", "shm")

__all__ = [*_MODULE, "handlers", "ext", "aio"]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _loaded(f"zenlake.{name}")
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'zenlake' has no attribute {name!r}")
    value = getattr(_loaded(f"zenlake.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE, "handlers", "ext", "aio"})
