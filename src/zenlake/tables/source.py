# SPDX-License-Identifier: Apache-2.0
"""Where rows come from: captures and logs, told apart by what lies at the path."""

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from zenlake import log
from zenlake.capture import parallel as capture

__all__ = ["decode"]


def decode(
    paths: Sequence[str],
    tables: Mapping[str, Sequence[str] | None],
    since: int | None = None,
    until: int | None = None,
    *,
    threads: int | None = None,
    keep: capture.Keep | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables asked for (each with the columns wanted, or None for all), as (table, record batch) while they fill.

    All captures given are one. Of a log, blocks without a row between `since` and `until` (ns) are not read. `keep` chooses
    among the rows of a record batch.
    """
    logs = [path for path in paths if log.is_log(path)]
    captures = [path for path in paths if path not in logs]
    if captures or not logs:
        yield from capture.decode(captures, tables, threads=threads, keep=keep)
    yield from capture.kept(log.decode(logs, tables, since=since, until=until), keep)
