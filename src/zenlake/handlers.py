# SPDX-License-Identifier: Apache-2.0
"""Handlers of received items: channels and callbacks."""

from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from zenlake.api.handlers import Callback, DefaultHandler, FifoChannel, Handler, RingChannel

if _TYPE_CHECKING:
    from zenlake.api.arrow import ArrowChannel

__all__ = ["Handler", "DefaultHandler", "FifoChannel", "RingChannel", "Callback", "ArrowChannel"]


def __getattr__(name: str) -> _Any:
    if name == "ArrowChannel":  # imported on use, because Arrow takes long to load
        from zenlake.api.arrow import ArrowChannel

        return ArrowChannel
    raise AttributeError(f"module 'zenlake.handlers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
