# SPDX-License-Identifier: Apache-2.0
"""Where rows come from: captures, logs and lakes, told apart by what lies at the path."""

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from zenlake import log
from zenlake.capture import parallel as capture
from zenlake.tables import stored

__all__ = ["decode"]


def decode(
    paths: Sequence[str],
    tables: Mapping[str, Sequence[str] | None],
    since: int | None = None,
    until: int | None = None,
    *,
    threads: int | None = None,
    keep: capture.Keep | None = None,
    damaged: log.Damaged | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables asked for (each with the columns wanted, or None for all), as (table, record batch) while they fill.

    All captures given are one. Of a log or a lake, parts without a row between `since` and `until` (ns) are not read. `keep`
    chooses among the rows of a record batch. `damaged` is told what cannot be read of a log; without it that is an error.
    """
    logs = [path for path in paths if log.is_log(path)]
    lakes = [path for path in paths if path not in logs and os.path.isdir(path)]
    captures = [path for path in paths if path not in (*logs, *lakes)]
    if captures or not paths:
        yield from capture.decode(captures, tables, threads=threads, keep=keep)
    yield from capture.kept(log.decode(logs, tables, since=since, until=until, damaged=damaged), keep)
    for lake in lakes:
        yield from capture.kept(stored.read(lake, tables, since, until), keep)
