# SPDX-License-Identifier: Apache-2.0
"""Compaction of a lake by Spark's tasks: one task for each day of a table. Landing may continue."""

import os
from collections.abc import Iterable, Sequence
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from zenlake.lake import CompactionResult, DataFile
    from zenlake.lake.compaction import CompactionJob

__all__ = ["compact"]


def compact(
    spark: "SparkSession", lake: str | os.PathLike[str], tables: Sequence[str] | None = None, before: date | None = None
) -> "list[CompactionResult]":
    """Merge the small files of a lake, sorted by key and then by time. The rows do not change.

    Args:
        spark: The Spark session. Through Spark Connect, this process does the work.
        lake: Folder or address of the lake.
        tables: Names of the tables. Default: all.
        before: Only days before this date, in UTC. Default: today.

    Returns:
        The number of files before and after, for each table.

    Raises:
        LakeError: A table does not exist, or its files were replaced during the compaction.
    """
    from zenlake.lake import Lake
    from zenlake.lake.compaction import compact, rewrite

    def run(jobs: "Sequence[CompactionJob]") -> "Iterable[list[DataFile]]":
        try:
            context = spark.sparkContext
        except Exception:  # Spark Connect has no context
            return map(rewrite, jobs)
        found: list[list[DataFile]] = context.parallelize(jobs, max(len(jobs), 1)).map(rewrite).collect()
        return found

    return compact(Lake(lake), tables, before, run=run)
