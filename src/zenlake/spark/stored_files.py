# SPDX-License-Identifier: Apache-2.0
"""Parquet files of a table's snapshot as a DataFrame.

Spark itself reads local files. It reads a store only with jars that are not on PyPI, so Python tasks do that here: the source
`zenlake_files`, with Spark's filters.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from zenlake.spark.filter_pushdown import combine_filters, expression, time_bounds
from zenlake.spark.source_base import PushdownMixin

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from zenlake.tables.lake_location import Location
    from zenlake.tables.lake_reader import SnapshotFile

__all__ = ["FilesSource", "read_files"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
SHARE = 128 << 20  # bytes of Parquet that one task reads
ROWS = 16384
DAY = "day"


def read_files(
    spark: "SparkSession", location: "Location", folder: str, files: "Sequence[SnapshotFile]", schema: "StructType"
) -> "DataFrame":
    """Return the rows of these files. Columns that a file lacks are null; `day` is the day in its path.

    Args:
        spark: The Spark session.
        location: Location of the files.
        folder: Folder of the table below the location.
        files: Files of one snapshot.
        schema: Schema of the rows.
    """
    if not files:
        return spark.createDataFrame([], schema)
    if location.is_local:
        paths = [file.path for file in files]
        return spark.read.schema(schema).option("basePath", location.at(*folder.split("/"))).parquet(*paths)
    from zenlake.spark.land import register_sources

    register_sources(spark, FilesSource)
    listed = json.dumps([[file.path, file.size, file.day] for file in files])
    reader = spark.read.format(FilesSource.name()).schema(schema).option("root", location.given).option("files", listed)
    return reader.option("pushdown", spark.conf.get(PUSHDOWN, "false")).load()


class FilesSource(DataSource):  # PySpark is not checked
    """Source that `read_files` registers. Not for direct use."""

    @classmethod
    def name(cls) -> str:
        return "zenlake_files"

    def reader(self, schema: "StructType") -> DataSourceReader:
        kind = PushdownFilesReader if self.options.get("pushdown") == "true" else FilesReader
        return kind(self.options["root"], json.loads(self.options["files"]), schema)


class FilesReader(DataSourceReader):
    """Reader of files in tasks."""

    filters: tuple[Any, ...] = ()

    def __init__(self, root: str, files: list[list[Any]], schema: "StructType") -> None:
        self.root = root
        self.files = files
        self.schema = schema

    def partitions(self) -> list[InputPartition]:
        """Group files of about one size. Each keeps its day."""
        shares: list[list[list[Any]]] = []
        held = SHARE
        for file in self.files:
            if held + file[1] > SHARE:
                shares.append([])
                held = 0
            shares[-1].append(file)
            held += file[1]
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from datetime import date

        from pyarrow import dataset
        from pyspark.sql.pandas.types import to_arrow_schema

        from zenlake.tables.lake_location import Location

        whole = to_arrow_schema(self.schema, timezone="UTC")
        stored = pa.schema([field for field in whole if field.name != DAY])
        named = [each for each in self.filters if set(getattr(each, "attribute", ())) <= set(stored.names)]
        combined = combine_filters(expression(each) for each in named)
        for path, _, day in partition.value or ():
            found = dataset.dataset([path], stored, format="parquet", filesystem=Location(self.root).filesystem)
            for batch in found.to_batches(filter=combined, batch_size=ROWS, batch_readahead=2):
                columns = {name: batch.column(name) for name in stored.names}
                known = pa.scalar(None if day is None else date.fromisoformat(day), pa.date32())
                columns[DAY] = pa.repeat(known, batch.num_rows)
                if batch.num_rows:
                    yield pa.RecordBatch.from_arrays([columns[name] for name in whole.names], schema=whole)


class PushdownFilesReader(PushdownMixin, FilesReader):
    """Reader that applies Spark's filters, and skips the days outside of a filter on `received`."""

    def add_filter(self, filter_: Any) -> None:
        since, until = time_bounds(filter_)
        self.files = [
            file for file in self.files
            if file[2] is None
            or ((since is None or file[2] >= since.date().isoformat()) and (until is None or file[2] <= until.date().isoformat()))
        ]  # fmt: skip
