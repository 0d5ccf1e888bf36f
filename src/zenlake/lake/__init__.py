# SPDX-License-Identifier: Apache-2.0
"""Lakes: decoded tables of wire logs as Parquet files, each row exactly once.

    lake = Lake("lake")
    staged = stage(lake, log, pieces, Batch(query="nightly", number=0), "0-0")  # by tasks, on any machine
    lake.commit(staged, batch)  # by one process, repeated as needed

This package knows logs and files, not Spark: the caller plans, retries and stores offsets.
"""

from zenlake.lake.commit import Lake
from zenlake.lake.compaction import CompactionResult, compact
from zenlake.lake.landed_intervals import LandedIntervals, Piece, pieces, replan
from zenlake.lake.layout import LandingBatch, Staged, is_lake
from zenlake.lake.staging import stage, stage_rows

__all__ = [
    "LandingBatch", "CompactionResult", "LandedIntervals", "Lake", "Piece", "Staged", "compact", "is_lake", "pieces",
    "replan", "stage",
    "stage_rows",
]  # fmt: skip
