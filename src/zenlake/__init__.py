# SPDX-License-Identifier: Apache-2.0
"""Zenlake: every Zenoh message, as a table."""

import os as _os

if _os.environ.get("ZENLAKE_PURE"):  # run the .py files even where compiled ones lie beside them
    from zenlake import _pure as _pure

__version__ = "0.1.0"
