# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh_capture")`: the decoded tables of capture files as a Spark source.

All files of one `load` are one capture (those of a rotation may be given in any order): what a session declared in one file
counts in the next. A capture is decoded in one pass, so it is one partition; several captures in parallel are several `load`s
and a union.

Every Spark session of an environment in which Zenlake is installed imports this: what is heavy is imported where it is used.
"""

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from zenlake.spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

OPTIONS = {
    "path": "the capture files; given by load()",
    "paths": "several of them; given by load([...])",
    "needs": "several tables at once, for zenlake.spark.tables: JSON, their columns by their names",
    "table": "a decoded table; samples if not given",
    "columns": "the columns wanted, separated by commas; all if not given",
    "keyExpr": "a key expression that a row's key must intersect",
    "startingTimestamp": "rows received at this time or later",
    "endingTimestamp": "rows received before this time",
    "pushdown": "true: Spark's filters are applied here; needs spark.sql.python.filterPushdown.enabled",
}


class CaptureSource(DataSource):  # type: ignore[misc]  # PySpark is not checked
    """The decoded tables of capture files."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        given = Options("zenoh_capture", options, OPTIONS)
        self.chosen, self.pushdown = chosen_by(given)
        self.needs: dict[str, list[str]] = json.loads(given.text("needs") or "{}")

    @classmethod
    def name(cls) -> str:
        return "zenoh_capture"

    def schema(self) -> "StructType":
        if self.needs:
            from zenlake.spark.together import schema

            return schema(self.needs)
        from zenlake.spark.types import spark_schema
        from zenlake.tables.schemas import chosen

        return spark_schema(chosen(self.chosen["table"], self.chosen["columns"]))

    def reader(self, schema: "StructType") -> DataSourceReader:
        """A reader of the columns in `schema`, which is the user's own if there is one."""
        if self.needs:
            return TogetherReader(self.chosen["path"], self.needs)
        from zenlake.spark.types import checked

        checked(self.name(), self.chosen["table"], schema)
        choice = {**self.chosen, "columns": schema.fieldNames()}
        return PushdownReader(choice) if self.pushdown else CaptureReader(choice)


class CaptureReader(DataSourceReader):  # type: ignore[misc]
    """Decodes where Spark runs it; only the choice travels there."""

    def __init__(self, choice: dict[str, Any]) -> None:
        self.choice = choice

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from zenlake.tables import batches

        for batch in batches(**self.choice):
            # Spark compares the schema with its own, which has no metadata.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema.remove_metadata())


class PushdownReader(CaptureReader):
    """Applies Spark's filters itself. A class of its own: Spark refuses one that could unless its setting is on."""

    def __init__(self, choice: dict[str, Any]) -> None:
        super().__init__(choice)
        self.filters: list[Filter] = []

    def pushFilters(self, filters: list["Filter"]) -> Iterable["Filter"]:
        from zenlake.spark.filters import expression

        for each in filters:
            if expression(each) is None:
                yield each  # Spark's own to apply
            else:
                self.filters.append(each)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from zenlake.spark.filters import everything, expression

        wanted = everything(expression(each) for each in self.filters)
        for batch in super().read(partition):
            yield batch if wanted is None else batch.filter(wanted)


class TogetherReader(DataSourceReader):  # type: ignore[misc]
    """Decodes several tables in one pass; see `zenlake.spark.together`."""

    def __init__(self, path: list[str], needs: dict[str, list[str]]) -> None:
        self.path = path
        self.needs = needs

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        from zenlake.spark.together import batches

        return batches(self.path, self.needs)


def chosen_by(options: Options) -> tuple[dict[str, Any], bool]:
    """What the options ask for, as arguments of `zenlake.tables.batches`, and whether filters may be pushed down."""
    from zenlake.tables.derived import DERIVED
    from zenlake.tables.files import files
    from zenlake.tables.schemas import TABLES, chosen

    table = options.text("table") or "samples"
    if table in DERIVED:
        options.refuse(
            f"{table!r} is derived from several tables: zenlake.spark.tables(spark, path)[{table!r}] gives it"
        )
    options.choice("table", tuple(TABLES), "samples")
    columns = options.names("columns")
    try:
        chosen(table, columns)
    except ValueError as error:
        options.refuse_option("columns", error)
    keys = options.key_expr("keyExpr")
    if keys is not None and "key" not in TABLES[table].names:
        options.refuse_option("keyExpr", f"{table} has no keys to choose by")
    since, until = options.span("startingTimestamp", "endingTimestamp")
    pushdown = options.flag("pushdown")
    given = options.paths()
    if not given:
        options.refuse("no capture given; load('captures/*.pcapng') takes files and patterns")
    try:
        path = files(given)
    except OSError as error:
        options.refuse(str(error))
    if "-" in path:
        options.refuse("a Spark task has no standard input; save the capture to a file")
    choice = {"path": path, "table": table, "columns": columns, "keys": keys, "since": since, "until": until}
    return choice, pushdown
