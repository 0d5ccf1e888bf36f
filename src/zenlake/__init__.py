# SPDX-License-Identifier: Apache-2.0
"""Zenoh sessions (`import zenlake as zenoh`), and recorded Zenoh traffic as tables.

Names are loaded when they are first used, so that a program pays only for what it needs.
"""

import os as _os
import sys as _sys
from importlib import import_module as _import_module
from typing import Any as _Any

if _sys.byteorder != "little" or _sys.platform not in ("linux", "darwin") or _sys.version_info < (3, 11):
    from zenlake._platform_check import check_platform as _check_platform

    _check_platform(_sys.byteorder, _sys.platform, _sys.version_info)

if _os.environ.get("ZENLAKE_PURE"):  # run the .py files although compiled modules exist
    from zenlake._compat import source_only_finder as _source_only_finder

try:
    from zenlake.wire.raw_memory import COMPILED as _COMPILED
except ModuleNotFoundError as _error:
    if _error.name != "cython":
        raise
    _COMPILED = False
if not _COMPILED and not _os.environ.get("ZENLAKE_PURE"):
    from zenlake._compat import cython_shadow as _cython_shadow

    _cython_shadow.install()

__version__ = "0.1.0"

_CHOICES = (
    "CongestionControl ConsolidationMode InterceptionPoint Locality Priority QueryConsolidation QueryTarget Reliability "
    "ReplyKeyExpr SampleKind SetIntersectionLevel WhatAmI WhatAmIMatcher"
)
_WHERE = {
    "api.cancellation": "CancellationToken",
    "api.entities": "LivelinessToken MatchingListener MatchingStatus Publisher Querier Queryable Subscriber",
    "api.handlers": "Handler",
    "api.info": "Link LinkEvent LinkEventsListener SessionInfo Transport TransportEvent TransportEventsListener",
    "api.liveliness": "Liveliness",
    "api.logging": "init_log_from_env_or try_init_log_from_env",
    "api.query": "Query",
    "api.reply": "Reply ReplyError Sample",
    "api.scouting": "Hello Scout scout",
    "api.session": "Session",
    "api.timestamp_stack": "TimestampContext TimestampInstrumentation TimestampInstrumentationBuilder TimestampStack "
    "TimestampStackRecord",
    "api._open": "open",
    "api.zbytes": "ZBytes",
    "core.enums": _CHOICES,
    "core.ntp64": "NTP64",
    "config": "Config",
    "core.encoding": "Encoding",
    "errors": "ZError",
    "core.keyexpr": "KeyExpr",
    "core.selector": "Parameters Selector",
    "tables": "read",
    "core.identifiers": "EntityGlobalId SourceInfo Timestamp TimestampId ZenohId",
}
_MODULE = {name: module for module, names in _WHERE.items() for name in names.split()}
_SUBMODULES = ("handlers", "ext", "aio", "shm")

__all__ = [*_MODULE, *_SUBMODULES]


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(f"zenlake.{name}")
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'zenlake' has no attribute {name!r}")
    value = getattr(_import_module(f"zenlake.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
