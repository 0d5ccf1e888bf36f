# SPDX-License-Identifier: Apache-2.0
"""Row sources: captures, logs and lakes, distinguished by the content of the path."""

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from zenlake import log
from zenlake.capture import parallel as capture
from zenlake.tables import lake_reader

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
    """Decode the selected tables of captures, logs or lakes. Yield (table, record batch) as they fill.

    All captures are read as one. Parts of a log or lake without rows between `since` and `until` (ns) are skipped. `keep`
    filters the rows of a record batch. `damaged` is called with the errors of a log; without it they are raised.
    """
    logs = [path for path in paths if log.is_log(path)]
    lakes = [path for path in paths if path not in logs and ("://" in path or os.path.isdir(path))]
    captures = [path for path in paths if path not in (*logs, *lakes)]
    if captures or not paths:
        yield from capture.decode(captures, tables, threads=threads, keep=keep)
    yield from capture.hold_results(log.decode(logs, tables, since=since, until=until, damaged=damaged), keep)
    for lake in lakes:
        yield from capture.hold_results(lake_reader.read(lake, tables, since, until), keep)
