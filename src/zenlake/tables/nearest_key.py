# SPDX-License-Identifier: Apache-2.0
"""Explanation of a key filter that selects no row: the key of the recording that resembles it most."""

from difflib import get_close_matches

import pyarrow.compute as pc

from zenlake.core.keyexpr import KeyExpr
from zenlake.tables.paths import PATHS, files
from zenlake.tables.read import batches, intersects

__all__ = ["explain_no_match"]

MAX_KEYS = 20_000  # distinct keys that are compared, in the order of the recording


def explain_no_match(path: PATHS, table: str, keys: str) -> str:
    """Return why no row has a key that intersects `keys`. The recording is read again, only for its keys."""
    no_row = f"no row of {table} has a key that intersects {keys}"
    if "-" in files(path):  # the standard input cannot be read again
        return no_row
    found: dict[str, None] = {}
    for batch in batches(path, table, columns=["key"], damaged=lambda _: None):
        found |= dict.fromkeys(pc.unique(batch.column("key").drop_null()).to_pylist())
        if len(found) >= MAX_KEYS:
            break
    if any(intersects(KeyExpr(keys), key) for key in found):
        return f"{no_row} in the selected time; the recording has such keys at other times"
    nearest = get_close_matches(keys, found, n=1, cutoff=0.0)
    return f"{no_row}; nearest key: {nearest[0]}" if nearest else f"{no_row}: it has no row with a key"
