# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh_capture")`: the decoded tables of capture files as a Spark source.

All files of one `load` form one capture, in any order. Declarations in one file apply to the next. A capture is one partition
unless `minPartitions` is set. The driver then reads it once, without decoding, to compute the state at each split.

Every Spark session of an environment with Zenlake imports this module. Expensive imports are inside functions.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from zenlake.spark import source_base
from zenlake.spark.options import Options
from zenlake.spark.source_base import PushdownMixin, SourceOptions, TableSource, parse_source_options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

OPTIONS = {
    "path": "capture file, pattern or folder; set by load()",
    "paths": "list of captures; set by load([...])",
    **source_base.OPTIONS,
}


@dataclass(frozen=True)
class CaptureOptions(SourceOptions):
    """Validated options. Sent to the tasks."""

    path: list[str]


class CaptureSource(TableSource):
    """Source of the decoded tables of capture files."""

    settings: CaptureOptions

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        validated = Options(self.name(), options, OPTIONS)
        self.settings = CaptureOptions(**parse_source_options(validated), path=path_option(validated))
        self.pushdown = validated.flag("pushdown")

    @classmethod
    def name(cls) -> str:
        return "zenoh_capture"

    def reader(self, schema: "StructType") -> DataSourceReader:
        if self.settings.needs:
            return MultiTableReader(self.settings.path, self.settings.needs)
        return (CapturePushdownReader if self.pushdown else CaptureReader)(self.with_columns(schema))


class CaptureReader(DataSourceReader):  # PySpark is not checked
    """Reader that decodes in a task. Only the options are sent there."""

    def __init__(self, settings: CaptureOptions) -> None:
        self.settings = settings

    def partitions(self) -> list[InputPartition]:
        from zenlake.tables import parts

        settings = self.settings
        if settings.min_partitions == 1:
            return [InputPartition(None)]
        return [InputPartition(part) for part in parts(settings.path, settings.table, settings.min_partitions)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from zenlake.tables import batches, part_batches

        settings = self.settings
        choice: dict[str, Any] = {"keys": settings.keys, "since": settings.since, "until": settings.until}
        if partition.value is None:
            found = batches(settings.path, settings.table, columns=settings.columns, threads=1, **choice)
        else:
            found = part_batches(partition.value, settings.table, columns=settings.columns, **choice)
        for batch in found:
            # Spark compares the schema with its own, which has no metadata.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema.remove_metadata())


class CapturePushdownReader(PushdownMixin, CaptureReader):
    """Reader that applies Spark's filters."""


class MultiTableReader(DataSourceReader):
    """Reader that decodes several tables in one pass; see `zenlake.spark.multi_table_scan`."""

    def __init__(self, path: list[str], needs: dict[str, list[str]]) -> None:
        self.path = path
        self.needs = needs

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from zenlake.spark.multi_table_scan import batches

        return batches(self.path, self.needs)


def path_option(options: Options) -> list[str]:
    """Return the files. Raise if one is missing."""
    from zenlake.tables.paths import files

    given = options.paths()
    if not given:
        options.refuse("no path; pass a capture, a pattern or a folder to load(), like 'captures/*.pcapng'")
    try:
        path = files(given)
    except OSError as error:
        options.refuse(str(error))
    if "-" in path:
        options.refuse("a Spark task has no standard input; save the capture to a file")
    return path
