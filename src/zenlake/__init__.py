# SPDX-License-Identifier: Apache-2.0
"""Zenlake: every Zenoh message, as a table."""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _os.environ.get("ZENLAKE_PURE"):  # run the .py files even where compiled ones lie beside them
    from zenlake import _pure as _pure

if _TYPE_CHECKING:
    from zenlake.tables import read

__version__ = "0.1.0"
__all__ = ["read"]


def __getattr__(name: str) -> _Any:
    """`zenlake.read` without paying for Arrow in programs that never call it."""
    if name == "read":
        from zenlake.tables import read

        return read
    raise AttributeError(f"module 'zenlake' has no attribute {name!r}")
