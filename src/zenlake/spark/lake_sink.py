# SPDX-License-Identifier: Apache-2.0
"""Spark sinks whose commit is that of the lake: of landings, and of `refresh`.

A landing has two kinds of rows. Without a transformation, a row describes files that a task has written
(`zenlake.spark.lake_source`). Transformed rows are written by the tasks of this sink. Spark passes the batch number to
a commit, but not the query id. The tasks, which know the id, therefore pass it on.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from zenlake.spark.lake_source import batch_of_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from zenlake.lake import DataFile
    from zenlake.lake.table_format import TableFormat
    from zenlake.tables.lake_reader import SnapshotFile

__all__ = ["LakeSink", "TableSink"]


class LakeSink(DataSource):  # PySpark is not checked
    """Sink that `zenlake.spark.land` registers with all options. Not for direct use."""

    @classmethod
    def name(cls) -> str:
        return "zenlake_lake"

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "LakeWriter":
        given = self.options
        tables = given["tables"].split(",")
        whole = given.get("failOnDataLoss", "true").strip().lower() == "true"
        return LakeWriter(given["path"], given.get("log"), tables, given.get("already") == "refuse", whole)


@dataclass
class WrittenParts(WriterCommitMessage):
    """The files of a task, and its query."""

    query: str
    files: "list[DataFile]"


class LakeWriter(DataSourceStreamArrowWriter):
    """Writer of one batch. Spark creates it for each batch, and again for the commit."""

    def __init__(self, lake: str, log: str | None, tables: list[str], refuse: bool, whole: bool) -> None:
        self.lake = lake
        self.log = log
        self.tables = tables
        self.refuse = refuse
        self.whole = whole  # all blocks must exist

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WrittenParts:
        from zenlake.lake import DataFile, write_rows
        from zenlake.tables.lake_location import Location

        batch, task = batch_of_task()
        if self.log is not None:
            files = [file for rows in iterator for row in rows.to_pylist() for file in json.loads(row["files"])]
            return WrittenParts(batch.query, [DataFile(**file) for file in files])
        [table] = self.tables
        rows = ((table, each) for each in iterator)
        return WrittenParts(batch.query, write_rows(Location(self.lake), rows, {}, batch, task))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        from zenlake.lake import Lake, LandingBatch, replan, write_parts
        from zenlake.log import Log
        from zenlake.spark.log_reader import decode_share

        written = [message for message in messages if isinstance(message, WrittenParts)]
        if not written:
            return
        batch, lake = LandingBatch(written[0].query, batchId), Lake(self.lake)

        def restage(table: str, parts: list[list[Any]]) -> "list[DataFile]":
            assert self.log is not None
            log = Log(self.log)
            groups = lake.plan(log, replan(log, parts, self.whole), [table])
            decode = partial(decode_share, fail_on_data_loss=self.whole)
            return write_parts(lake.location, log, groups, batch, "again", decode)

        lake.commit([file for message in written for file in message.files], batch, restage, refuse=self.refuse)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Leave the files as orphans."""


class TableSink(DataSource):
    """Sink of `refresh`. Not for direct use."""

    @classmethod
    def name(cls) -> str:
        return "zenlake_table"

    def writer(self, schema: "StructType", overwrite: bool) -> "TableWriter":
        given = self.options
        days = json.loads(given["days"])
        return TableWriter(given["lake"], given["table"], days, json.loads(given["numbers"]))


class TableWriter(DataSourceArrowWriter):
    """Writer that replaces days of a table, or with `days` None the whole table, in one transaction."""

    def __init__(self, lake: str, table: str, days: list[str] | None, numbers: dict[str, int]) -> None:
        self.lake = lake
        self.table = table
        self.days = days
        self.numbers = numbers

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WrittenParts:
        from zenlake.lake import LandingBatch, write_rows
        from zenlake.tables.lake_location import Location

        rows = ((self.table, each.select([name for name in each.schema.names if name != "day"])) for each in iterator)
        batch = LandingBatch("refresh", 0)
        partitioned = self.days is not None
        return WrittenParts("refresh", write_rows(Location(self.lake), rows, {}, batch, "0", partitioned=partitioned))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        from zenlake.lake import Lake

        files = [file for message in messages if isinstance(message, WrittenParts) for file in message.files]

        def choose(opened: "TableFormat") -> "list[SnapshotFile]":
            return [file for file in opened.files() if self.days is None or file.day in self.days]

        Lake(self.lake).replace(self.table, files, choose, None, self.numbers)
