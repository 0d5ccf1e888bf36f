# SPDX-License-Identifier: Apache-2.0
"""Landing, first half: a stream of a log whose tasks decode and write Parquet.

The driver plans which parts of the log are not landed. One row describes the files of one task. Data never enters the JVM, but
Spark can count it, because the rows pass through its operators to the sink (`zenlake.spark.lake_sink`), whose commit adds them to
the lake. Both run in the same task and are retried together.
"""

import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import InputPartition

from zenlake.spark import log_source
from zenlake.spark.log_reader import plan_shares
from zenlake.spark.log_source import LogSource
from zenlake.spark.log_stream import LogStream
from zenlake.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from zenlake.lake import LandingBatch
    from zenlake.log import BlockRange, Log, Offsets
    from zenlake.spark.log_source import LogOptions

__all__ = ["CHOOSING", "COUNTS", "LakeSource", "LandStream", "batch_of_task"]

LANDED = 128 << 20  # bytes of a log that one task lands, as one file per table and day
SMALL = 16 << 20  # bytes of a log that are worth a task of their own

# Result of a task: the files as JSON, the bytes of log, the rows (of all tables, and of samples),
# and the bytes of Parquet.
WRITTEN = "files string, batches bigint, bytes bigint, rows bigint, samples bigint, written bigint"
COUNTS = ("batches", "bytes", "rows", "samples", "written")
_WRITTEN = pa.schema([("files", pa.string()), *((name, pa.int64()) for name in COUNTS)])

# A landing takes whole tables without an end: options that select rows of one table, or an end, are refused.
CHOOSING = ("table", "columns", "keyExpr", "needs", *log_source.BATCH_ONLY)
OPTIONS = {
    **{name: meaning for name, meaning in log_source.OPTIONS.items() if name not in CHOOSING},
    "lake": "address of the lake; set by zenlake.spark.land, like the following two",
    "tables": "decoded tables to land",
    "already": "behaviour for landed parts: skip or refuse",
}


class LakeSource(LogSource):
    """Source that `zenlake.spark.land` registers with its last three options. Not for direct use."""

    def __init__(self, options: dict[str, str]) -> None:
        super(LogSource, self).__init__(options)
        self.validated_options = Options("zenoh", options, OPTIONS)
        self.settings = log_source.parse_options(self.validated_options)

    @classmethod
    def name(cls) -> str:
        return "zenlake_landing"

    def schema(self) -> str:
        return WRITTEN

    def streamReader(self, schema: "StructType") -> "LandStream":
        lake, tables = self.validated_options.text("lake"), self.validated_options.names("tables")
        assert lake is not None
        assert tables is not None
        return LandStream(self.settings, lake, tables, self.validated_options.text("already") == "refuse")


class LandStream(LogStream):
    """Stream of the appended blocks of a log, as staged files of a lake."""

    largest = LANDED

    def __init__(self, settings: "LogOptions", lake: str, tables: list[str], refuse: bool) -> None:
        super().__init__(settings)
        self.table = None  # the note of the checkpoint has the tables (`zenlake.spark.land`)
        self.lake = lake
        self.tables = tables
        self.refuse = refuse

    def split(self, blocks: "list[BlockRange]") -> "list[tuple[BlockRange, ...]]":
        """Return fewer shares than cores if the blocks are few: each share becomes a file per table."""
        worthwhile = -(-sum(block.size for block in blocks) // SMALL)
        return plan_shares(blocks, max(min(self.settings.min_partitions, worthwhile), 1), self.largest)

    def make_partitions(
        self, log: "Log", shares: "list[tuple[BlockRange, ...]]", begin: "Offsets", stop: "Offsets"
    ) -> list[InputPartition]:
        """Return the task descriptions for the parts that are not landed."""
        from zenlake.lake import Lake, pieces

        lake = Lake(self.lake)
        found = iter(pieces([each for share in shares for each in share], begin, stop))
        tasks = []
        for share in shares:
            share_blocks = [next(found) for _ in share]
            # With `refuse`, the commit decides: it knows whether this batch is a repeated one.
            groups = [(share_blocks, self.tables)] if self.refuse else lake.plan(log, share_blocks, self.tables)
            plain = [([piece.plain() for piece in part], names) for part, names in groups]
            counts = [sum(getattr(each, name) for each in share) if groups else 0 for name in ("rows", "size")]
            tasks.append(InputPartition((log.id, plain, counts)))
        return tasks

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not partition.value:
            return
        from zenlake.errors import LogError
        from zenlake.lake import replan, write_parts
        from zenlake.spark.log_reader import open_log, refuse_gaps
        from zenlake.tables.lake_location import Location

        known, plain, (batches, size) = partition.value
        log = open_log(self.settings.path)
        if known != log.id:
            raise LogError(f"zenoh: {self.settings.path} is a different log on this executor than on the driver")
        groups = [(replan(log, parts, self.settings.fail_on_data_loss), names) for parts, names in plain]
        if self.settings.fail_on_gap:
            refuse_gaps(log, [piece.range for pieces, _ in groups for piece in pieces])
        batch, task = batch_of_task()
        files = write_parts(Location(self.lake), log, groups, batch, task, self.decode)
        counts = {
            "batches": batches,
            "bytes": size,
            "rows": sum(file.rows for file in files),
            "samples": sum(file.rows for file in files if file.table == "samples"),
            "written": sum(file.size for file in files),
        }
        yield row(json.dumps([file.plain() for file in files]), [counts[name] for name in COUNTS])

    def decode(
        self, log: "Log", ranges: "Sequence[BlockRange]", tables: "Mapping[str, Sequence[str] | None]"
    ) -> Iterator[tuple[str, pa.RecordBatch]]:
        from zenlake.spark.log_reader import decode_share

        return decode_share(log, ranges, tables, self.settings.fail_on_data_loss)


def row(files: str, counts: Sequence[int]) -> pa.RecordBatch:
    """Build a batch from buffers. From Python values, pyarrow would import pandas first, which takes longer."""
    text = files.encode()
    columns = [pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("=2i", 0, len(text))), pa.py_buffer(text))]
    for count in counts:
        columns.append(pa.Array.from_buffers(pa.int64(), 1, [None, pa.py_buffer(struct.pack("=q", count))]))
    return pa.RecordBatch.from_arrays(columns, schema=_WRITTEN)


def batch_of_task() -> "tuple[LandingBatch, str]":
    """Return the micro-batch and query of a task, and its name."""
    from zenlake.lake import LandingBatch

    context = TaskContext.get()
    query = context.getLocalProperty("sql.streaming.queryId")
    return LandingBatch(query, int(context.getLocalProperty("streaming.sql.batchId"))), str(context.partitionId())
