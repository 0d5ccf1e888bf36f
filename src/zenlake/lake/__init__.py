# SPDX-License-Identifier: Apache-2.0
"""A lake: the decoded tables of wire logs as Parquet files, each row once.

    lake = Lake("lake")
    staged = stage(lake, log, pieces, Batch(query="nightly", number=0), "0-0")  # by tasks, wherever they run
    lake.commit(staged, batch)  # by one process, as often as needed

Knows logs and files, not Spark: whoever plans, retries and remembers offsets is a caller.
"""

from zenlake.lake.commit import Lake
from zenlake.lake.compaction import Compacted, compact
from zenlake.lake.coverage import Coverage, Piece, pieces, replanned
from zenlake.lake.layout import Batch, Staged, is_lake
from zenlake.lake.staging import stage, stage_rows

__all__ = [
    "Batch", "Compacted", "Coverage", "Lake", "Piece", "Staged", "compact", "is_lake", "pieces", "replanned", "stage",
    "stage_rows",
]  # fmt: skip
