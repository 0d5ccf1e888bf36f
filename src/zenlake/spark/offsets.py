# SPDX-License-Identifier: Apache-2.0
"""Offsets of a log in Spark's form: `{"#log": "9f2c...", "tap-1": [7, 0]}`.

For each writer the next block, and the identity of the log, so that a checkpoint is never continued with another log. A stream
adds its table (`#table`), for the same reason.
Keys are sorted and writers without blocks are omitted, because Spark compares offsets as text.
"""

import heapq
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zenlake.errors import LogError, LogRemoved

if TYPE_CHECKING:
    from zenlake.log import BlockRange, Log, Offsets

LOG, TABLE = "#log", "#table"  # not valid writer names
BEHIND = "#behind"  # only in offsets that are reported


def encode_offsets(log: "Log", offsets: Mapping[str, Any], table: str | None = None) -> dict[str, Any]:
    """Format offsets for Spark, of a stream of this table."""
    about = {LOG: log.id} if table is None else {LOG: log.id, TABLE: table}
    return {**about, **{name: list(offset) for name, offset in sorted(offsets.items()) if any(offset)}}


def parse_offsets(plain: Any) -> dict[str, Any]:
    """Parse offsets of a user or checkpoint."""
    if not isinstance(plain, dict):
        raise ValueError("expected a JSON object")
    for name, offset in plain.items():
        if name in (LOG, TABLE):
            if not isinstance(offset, str):
                raise ValueError(f"invalid {name}; expected a string")
        elif name != BEHIND and not (
            isinstance(offset, list)
            and len(offset) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in offset)
        ):
            raise ValueError(f"{name!r}: expected an offset [segment, block]")
    return {name: offset for name, offset in plain.items() if name != BEHIND}


def of(log: "Log", plain: Mapping[str, Any]) -> "Offsets":
    """Parse offsets and check that they belong to this log."""
    known = plain.get(LOG)
    if known is not None and known != log.id:
        raise LogError(
            f"zenoh: the offsets belong to log {known}, but {log.files.path} is log {log.id}; "
            "start a new query with a new checkpoint, or restore the old log"
        )
    return {name: offset for name, offset in plain.items() if name not in (LOG, TABLE)}


def refuse_other_table(plain: Mapping[str, Any], table: str | None) -> None:
    """Check that offsets of a checkpoint are of a stream of this table. Earlier versions did not store it."""
    known = plain.get(TABLE)
    if known not in (None, table):
        raise LogError(
            f"zenoh: the checkpoint was made with table={known!r}, not {table!r}; its offsets would skip rows: "
            "use another checkpoint"
        )


def refuse_unknown(log: "Log", offsets: "Offsets") -> None:
    """Check that offsets of a user are in the log."""
    latest = log.latest()
    for name, offset in offsets.items():
        if name not in latest:
            raise LogError(f"zenoh: unknown writer {name!r} in {log.files.path}; expected one of {', '.join(latest)}")
        if offset > latest[name]:
            raise LogError(
                f"zenoh: offset {offset} is behind the end of writer {name}; expected at most {latest[name]}"
            )


def continue_from(log: "Log", start: "Offsets", latest: "Offsets", fail_on_data_loss: bool) -> "Offsets":
    """Return the offsets to continue from: `start`, unless the next blocks are missing and that is allowed.

    If a power cut truncated the index of the log, there is nothing to read until the writer has rebuilt it.
    """
    found = dict(start)
    for name, offset in start.items():
        end = latest.get(name)
        if (end is None or end < offset) and not log.has_lost(name, offset):
            raise LogError(
                f"zenoh: {log.files.path} was read up to {offset} of {name}, but it ends at {end or 'the beginning'}: "
                "it was emptied or replaced. Restore it, or start a new query with a new checkpoint"
            )
    try:
        log.plan(start, start)
    except LogRemoved as error:
        if fail_on_data_loss:
            raise count_unread(error) from None
        found = {name: log.next(name, offset) for name, offset in start.items()}
    return found


def plan_range(
    log: "Log",
    start: "Offsets",
    end: "Offsets",
    fail_on_data_loss: bool,
    since: int | None = None,
    until: int | None = None,
) -> "list[BlockRange]":
    """Return the single blocks between two offsets, all or those that remain."""
    try:
        return log.plan(start, end, 1, since, until, whole=fail_on_data_loss)
    except LogRemoved as error:
        raise count_unread(error) from None


def count_unread(error: LogRemoved) -> LogRemoved:
    return LogRemoved(
        f"zenoh: {error}. They were not read; failOnDataLoss=false continues with the next existing blocks"
    )


def measure_lag(log: "Log", offsets: "Offsets") -> dict[str, float]:
    """Return what the log has after these offsets: batches, bytes, and the seconds since the first of them was received."""
    left = log.plan(offsets)
    oldest = min((part.since for part in left), default=None)
    return {
        "batches": sum(part.rows for part in left),
        "bytes": sum(part.size for part in left),
        "seconds": 0.0 if oldest is None else max(0.0, round(time.time() - oldest / 1e9, 3)),
    }


def limit_offsets(log: "Log", start: "Offsets", end: "Offsets", batches: int | None, size: int | None) -> "Offsets":
    """Return the end of the next micro-batch: blocks of all writers in order of receipt, at least one, up to a limit."""
    found = dict(start)
    rows = held = 0
    waiting = [_blocks(log, name, start.get(name, [0, 0]), stop) for name, stop in sorted(end.items())]
    for i, (_, writer, offset, record) in enumerate(heapq.merge(*waiting, key=lambda block: block[:2])):
        rows += record.rows
        held += record.size
        if i > 0 and ((batches is not None and rows > batches) or (size is not None and held > size)):
            break
        found[writer] = offset
    return found


def _blocks(log: "Log", writer: str, start: list[int], stop: list[int]) -> Iterator[tuple[int, str, list[int], Any]]:
    for segment in log.segments(writer):
        if start[0] <= segment <= stop[0]:
            index = log.index(writer, segment)
            first = start[1] if segment == start[0] else 0
            last = min(stop[1], len(index)) if segment == stop[0] else len(index)
            for block in range(first, last):
                record = index[block]
                yield record.first, writer, [segment, block + 1], record
