# SPDX-License-Identifier: Apache-2.0
"""Offsets of a log as Spark keeps them: `{"#log": "9f2c...", "tap-1": [7, 0]}`.

For each writer the next block to be read, and the identity of the log, so that a checkpoint is never continued with another one.
Keys are sorted and writers of whom nothing was seen are left out: Spark compares offsets as text.
"""

import heapq
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from zenlake.errors import LogError, LogRemoved

if TYPE_CHECKING:
    from zenlake.log import Log, Offsets, Range

LOG = "#log"  # no writer can be called so


def told(log: "Log", offsets: Mapping[str, Any]) -> dict[str, Any]:
    """Offsets for Spark."""
    return {LOG: log.id, **{name: list(offset) for name, offset in sorted(offsets.items()) if any(offset)}}


def parsed(plain: Any) -> dict[str, Any]:
    """What a user or a checkpoint says, if it has the right form."""
    if not isinstance(plain, dict):
        raise ValueError("not an object")
    for name, offset in plain.items():
        if name == LOG:
            if not isinstance(offset, str):
                raise ValueError(f"{LOG} is a text")
        elif not (
            isinstance(offset, list)
            and len(offset) == 2
            and all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in offset)
        ):
            raise ValueError(f"{name!r}: an offset is [segment, block]")
    return plain


def of(log: "Log", plain: Mapping[str, Any]) -> "Offsets":
    """Offsets from Spark or a user, if they are this log's."""
    known = plain.get(LOG)
    if known is not None and known != log.id:
        raise LogError(
            f"zenoh: the offsets belong to log {known}, but at {log.files.path} there is log {log.id}: "
            "start a new query, with a new checkpoint, or put the old log back"
        )
    return {name: offset for name, offset in plain.items() if name != LOG}


def refuse_unknown(log: "Log", offsets: "Offsets") -> None:
    """Offsets that somebody typed must lie in the log."""
    latest = log.latest()
    for name, offset in offsets.items():
        if name not in latest:
            raise LogError(f"zenoh: no writer {name!r} in {log.files.path}; there are {', '.join(latest)}")
        if offset > latest[name]:
            raise LogError(f"zenoh: the log of {name} ends at {latest[name]}, before {offset}")


def continued(log: "Log", start: "Offsets", latest: "Offsets", fail_on_data_loss: bool) -> "Offsets":
    """Where to go on reading: at `start`, unless what comes next is gone and that is allowed. If a power cut took the end of the
    log's index, there is nothing to read until the writer has made it again."""
    found = dict(start)
    for name, offset in start.items():
        end = latest.get(name)
        if (end is None or end < offset) and not log.has_lost(name, offset):
            raise LogError(
                f"zenoh: {log.files.path} has been read up to {offset} of {name}, but ends at {end or 'nothing'}: it was emptied "
                "or replaced. Put it back, or start a new query, with a new checkpoint"
            )
    try:
        log.plan(start, start)
    except LogRemoved as error:
        if fail_on_data_loss:
            raise not_read(error) from None
        found = {name: log.next(name, offset) for name, offset in start.items()}
    return found


def planned(
    log: "Log",
    start: "Offsets",
    end: "Offsets",
    fail_on_data_loss: bool,
    since: int | None = None,
    until: int | None = None,
) -> "list[Range]":
    """The blocks between two offsets, each by itself; all that there were, or that are left."""
    try:
        return log.plan(start, end, 1, since, until, whole=fail_on_data_loss)
    except LogRemoved as error:
        raise not_read(error) from None


def not_read(error: LogRemoved) -> LogRemoved:
    return LogRemoved(f"zenoh: {error}. They were not read; failOnDataLoss=false goes on with what is there")


def admitted(log: "Log", start: "Offsets", end: "Offsets", batches: int | None, size: int | None) -> "Offsets":
    """How far to read in one go: blocks of all writers in the order of receipt, at least one, until a limit is reached."""
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
