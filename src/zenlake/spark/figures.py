# SPDX-License-Identifier: Apache-2.0
"""The figures of a landing for Prometheus: what is in the lake, how far behind the log it is, how long a batch takes."""

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zenlake.lake import Lake
from zenlake.log import Log

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from zenlake.runtime.metrics import Figure

__all__ = ["figures", "trouble"]


def figures(
    query: "StreamingQuery", source: str | os.PathLike[str], lake: str | os.PathLike[str]
) -> "Iterator[Figure]":
    """For a `MetricsPage`, of a query that `zenlake.spark.land` returned. Totals are the lake's, whichever query landed it."""
    yield "zenlake_land_running", "Whether the query runs.", {}, float(query.isActive)
    for table, counts in sorted(Lake(lake).ledger.last().totals.items()):
        labels = {"table": table}
        yield "zenlake_land_rows_total", "Rows landed.", labels, counts["rows"]
        yield "zenlake_land_bytes_total", "Bytes of the Parquet files landed.", labels, counts["bytes"]
        yield "zenlake_land_files_total", "Files landed.", labels, counts["files"]
    progress = query.lastProgress
    if progress is None:
        return
    yield "zenlake_land_batches_total", "Micro-batches.", {}, progress["batchId"] + 1
    yield "zenlake_land_batch_seconds", "How long the last one took.", {}, progress["batchDuration"] / 1000
    yield from _lag(Log(source), progress["sources"][0]["endOffset"])


def _lag(log: Log, end: object) -> "Iterator[Figure]":
    from zenlake.spark.offsets import of

    left = log.plan(of(log, end) if isinstance(end, dict) else {})
    oldest = min((part.since for part in left), default=None)
    late = 0.0 if oldest is None else max(0.0, time.time() - oldest / 1e9)
    yield "zenlake_land_lag_bytes", "Bytes of the log that are not landed.", {}, sum(part.size for part in left)
    yield "zenlake_land_lag_seconds", "How long ago the first of them was received.", {}, late


def trouble(query: "StreamingQuery") -> str:
    """Why nothing is landed any more; empty if all is well."""
    if query.isActive:
        return ""
    error = query.exception()
    return "the query has ended" if error is None else f"the query failed: {str(error).partition(chr(10))[0]}"
