# SPDX-License-Identifier: Apache-2.0
"""What lands in a lake: a Spark sink whose tasks write Parquet themselves and whose commit is the lake's.

Two kinds of rows come in. Where nothing is transformed they say only which part of a log is meant, and the task decodes it: the
data never crosses into the JVM. Transformed rows come as they are. Spark gives a commit the number of its batch but not the
query's id, so tasks, which know it, hand it over.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from zenlake.lake import Batch, Staged

__all__ = ["LakeSink"]


class LakeSink(DataSource):  # type: ignore[misc]  # PySpark is not checked
    """Registered by `zenlake.spark.land`, which gives all its options; not for use by hand."""

    @classmethod
    def name(cls) -> str:
        return "zenlake_lake"

    def streamWriter(self, schema: "StructType", overwrite: bool) -> "LakeWriter":
        given = self.options
        tables = given["tables"].split(",")
        return LakeWriter(given["path"], given.get("log"), tables, given.get("already") == "refuse")


@dataclass
class Landed(WriterCommitMessage):  # type: ignore[misc]
    """What a task has staged, and for which query."""

    query: str
    files: "list[Staged]"


class LakeWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """Made anew for each batch, and again for its commit."""

    def __init__(self, lake: str, log: str | None, tables: list[str], refuse: bool) -> None:
        self.lake = lake
        self.log = log
        self.tables = tables
        self.refuse = refuse

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> Landed:
        from zenlake.lake import Batch, stage_rows

        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = Batch(query, int(context.getLocalProperty("streaming.sql.batchId")))
        task = str(context.partitionId())
        if self.log is not None:
            return Landed(query, self._decode(iterator, batch, task))
        [table] = self.tables
        first = next(iterator, None)
        if first is None:
            return Landed(query, [])
        return Landed(query, stage_rows(self.lake, table, _chain(first, iterator), first.schema, batch, task))

    def _decode(self, iterator: Iterator["pa.RecordBatch"], batch: "Batch", task: str) -> "list[Staged]":
        from zenlake.errors import LogError
        from zenlake.lake import replanned, stage
        from zenlake.spark.log_reader import opened

        assert self.log is not None
        wanted = [row for each in iterator for row in each.to_pylist()]
        if not wanted:
            return []
        log = opened(self.log)
        if {row["log"] for row in wanted} != {log.id}:
            raise LogError(f"zenoh: {self.log} is another log on this executor than on the driver")
        pieces = replanned(log, [json.loads(row["piece"]) for row in wanted])
        return stage(self.lake, log, pieces, self.tables, batch, task, refuse=self.refuse)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        from zenlake.lake import Batch, Lake, replanned, stage
        from zenlake.log import Log

        landed = [message for message in messages if isinstance(message, Landed)]
        if not landed:
            return
        batch = Batch(landed[0].query, batchId)

        def restage(table: str, parts: list[list[Any]]) -> "list[Staged]":
            assert self.log is not None
            log = Log(self.log)
            restaged.append(table)
            return stage(self.lake, log, replanned(log, parts), [table], batch, f"again-{len(restaged)}")

        restaged: list[str] = []
        files = [file for message in landed for file in message.files]
        Lake(self.lake).commit(files, batch, restage, refuse=self.refuse)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """What was staged stays until the next commit of this query removes it: a file that is half written harms nobody."""


def _chain(first: "pa.RecordBatch", rest: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    yield first
    yield from rest
