# SPDX-License-Identifier: Apache-2.0
"""Lakes: decoded tables of wire logs as Delta or Iceberg tables, local or in an object store, with each row exactly once.

    lake = Lake("s3://bucket/lake")
    groups = lake.plan(log, pieces, tables)  # the parts that are not landed
    files = write_parts(lake.location, log, groups, LandingBatch("nightly", 0), "0-0")  # by tasks, on any machine
    lake.commit(files, batch)  # by one process, repeated as needed

This package knows logs and files, not Spark: the caller plans, retries and stores offsets.
"""

from zenlake.lake.compaction import CompactionResult, compact, remove_orphans
from zenlake.lake.lake import Lake
from zenlake.lake.landed_intervals import LandedIntervals, Piece, pieces, replan
from zenlake.lake.layout import DataFile, LandingBatch
from zenlake.lake.migration import convert, export
from zenlake.lake.parquet_writer import write_parts, write_rows
from zenlake.tables.lake_reader import is_lake

__all__ = [
    "CompactionResult", "DataFile", "Lake", "LandedIntervals", "LandingBatch", "Piece", "compact", "convert", "export", "is_lake",
    "pieces", "remove_orphans", "replan", "write_parts", "write_rows",
]  # fmt: skip
