# SPDX-License-Identifier: Apache-2.0
"""Prometheus metrics of a landing: content of the lake, lag behind the log, duration of a batch."""

import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from zenlake.lake import Lake
from zenlake.log import Log

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from zenlake.runtime.metrics import Figure

__all__ = ["figures", "find_failure"]


def figures(
    query: "StreamingQuery", source: str | os.PathLike[str], lake: str | os.PathLike[str]
) -> "Iterator[Figure]":
    """Return the metrics for a `MetricsPage`, of a query from `zenlake.spark.land`. Totals are those of the lake."""
    yield "zenlake_land_running", "1 while the landing query runs, else 0.", {}, float(query.isActive)
    for table, counts in sorted(Lake(lake).totals().items()):
        labels = {"table": table}
        yield "zenlake_land_rows_total", "Rows of the table in the lake.", labels, counts["rows"]
        yield "zenlake_land_bytes_total", "Bytes of the Parquet files of the table.", labels, counts["bytes"]
        yield "zenlake_land_files_total", "Parquet files of the table.", labels, counts["files"]
    progress = query.lastProgress
    if progress is None:
        return
    yield "zenlake_land_batches_total", "Micro-batches committed.", {}, progress["batchId"] + 1
    yield (
        "zenlake_land_batch_seconds",
        "Duration of the last micro-batch in seconds.",
        {},
        progress["batchDuration"] / 1000,
    )
    yield from _lag(Log(source), progress["sources"][0]["endOffset"])


def _lag(log: Log, end: str | dict[str, Any] | None) -> "Iterator[Figure]":
    from zenlake.spark.offsets import measure_lag, of

    # PySpark reports offsets as JSON text.
    behind = measure_lag(log, of(log, json.loads(end) if isinstance(end, str) else end or {}))
    yield "zenlake_land_lag_bytes", "Bytes of the log that are not landed yet.", {}, behind["bytes"]
    yield (
        "zenlake_land_lag_seconds",
        "Age in seconds of the oldest batch that is not landed yet.",
        {},
        behind["seconds"],
    )


def find_failure(query: "StreamingQuery") -> str:
    """Return why landing stopped, or an empty text."""
    if query.isActive:
        return ""
    error = query.exception()
    return "the query has ended" if error is None else f"the query failed: {str(error).partition(chr(10))[0]}"
