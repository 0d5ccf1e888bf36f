# SPDX-License-Identifier: Apache-2.0
"""Explanation of an empty result: the nearest key, the time of the recording, or a recording without Zenoh."""

from difflib import get_close_matches

import pyarrow.compute as pc

from zenlake.core.keyexpr import KeyExpr
from zenlake.log import is_log
from zenlake.tables.lake_reader import is_lake
from zenlake.tables.paths import PATHS, files
from zenlake.tables.read import batches, intersects

__all__ = ["FOREIGN", "NO_ZENOH", "explain_no_match", "explain_no_time", "has_messages"]

NO_ZENOH = "no Zenoh message found; Zenoh uses TCP and UDP port 7447, and multicast UDP port 7446, by default"
FOREIGN = "capture foreign"  # the event of a stream of another protocol
MAX_KEYS = 20_000  # distinct keys that are compared, in the order of the recording


def has_messages(path: PATHS) -> bool:
    """Return whether a recording contains Zenoh, or is a log or lake, which may be empty. It is read again.

    An event of an encrypted or damaged session counts as Zenoh. An event of another protocol does not.
    """
    if any(is_log(each) or is_lake(each) for each in files(path)):
        return True
    if any(batch.num_rows for batch in batches(path, "messages", columns=["received"], damaged=lambda _: None)):
        return True
    kinds = batches(path, "events", columns=["kind"], damaged=lambda _: None)
    return any(pc.any(pc.not_equal(batch.column("kind"), FOREIGN)).as_py() for batch in kinds)


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


def explain_no_time(path: PATHS, table: str) -> str:
    """Return why no row was received in the selected time. The recording is read again, only for its times."""
    no_row = f"no row of {table} was received in the selected time"
    if "-" in files(path):
        return no_row
    found = [
        pc.min_max(batch.column("received"))
        for batch in batches(path, table, columns=["received"], damaged=lambda _: None)
    ]
    times = [each[end].as_py() for each in found for end in ("min", "max") if each[end].is_valid]
    if not times:
        return f"{no_row}: it has no row with a time"
    return f"{no_row}; its rows are from {min(times).isoformat()} to {max(times).isoformat()}"
