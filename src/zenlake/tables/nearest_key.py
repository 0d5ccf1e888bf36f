# SPDX-License-Identifier: Apache-2.0
"""Explanation of an empty result: the key that resembles a key filter most, or a recording without Zenoh."""

from difflib import get_close_matches

import pyarrow.compute as pc

from zenlake.core.keyexpr import KeyExpr
from zenlake.log import is_log
from zenlake.tables.lake_reader import is_lake
from zenlake.tables.paths import PATHS, files
from zenlake.tables.read import batches, intersects

__all__ = ["NO_ZENOH", "explain_no_match", "has_messages"]

NO_ZENOH = "no Zenoh message found; Zenoh uses TCP and UDP port 7447, and multicast UDP port 7446, by default"
MAX_KEYS = 20_000  # distinct keys that are compared, in the order of the recording


def has_messages(path: PATHS) -> bool:
    """Return whether a recording contains a message or a sample, or is a log or lake, which may be empty. It is read again."""
    if any(is_log(each) or is_lake(each) for each in files(path)):
        return True
    tables = ("messages", "samples", "events")
    return any(next(iter(batches(path, each, columns=["received"], damaged=lambda _: None)), None) for each in tables)


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
