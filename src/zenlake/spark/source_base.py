# SPDX-License-Identifier: Apache-2.0
"""Options that captures and logs share: decoded table, columns, keys, times.

Every Spark session of an environment with Zenlake imports this module. Expensive imports are inside functions.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter, InputPartition
    from pyspark.sql.types import StructType

    from zenlake.spark.options import Options

OPTIONS = {
    "needs": "several tables at once, for zenlake.spark itself: JSON with the columns of each table",
    "table": "decoded table; default samples",
    "columns": "columns to decode, separated by commas; default: all",
    "keyExpr": "keep rows whose key intersects this key expression",
    "startingTimestamp": "keep rows received at or after this time",
    "endingTimestamp": "keep rows received before this time",
    "minPartitions": "minimum number of tasks, if there is enough data; default 1",
    "pushdown": "true: apply Spark's filters in the source; needs spark.sql.python.filterPushdown.enabled; default false",
}


@dataclass(frozen=True)
class SourceOptions:
    """Validated options. Sent to the tasks."""

    table: str
    columns: list[str] | None
    keys: str | None
    since: datetime | None
    until: datetime | None
    min_partitions: int
    needs: dict[str, list[str]]  # by table; empty if only one table is requested


def parse_source_options(options: "Options") -> dict[str, Any]:
    """Validate the options. Return arguments of `SourceOptions`, or raise one line about the first error."""
    from zenlake.tables.derived import DERIVED
    from zenlake.tables.schemas import TABLES, select_schema

    table = options.text("table") or "samples"
    if table in DERIVED:
        options.refuse(f"{table!r} is a derived table; use zenlake.spark.tables(spark, path)[{table!r}]")
    options.choice("table", tuple(TABLES), "samples")
    columns = options.names("columns")
    try:
        select_schema(table, columns)
    except ValueError as error:
        options.refuse_option("columns", error)
    keys = options.key_expr("keyExpr")
    if keys is not None and "key" not in TABLES[table].names:
        options.refuse_option("keyExpr", f"table {table!r} has no key column; remove the option")
    since, until = options.span("startingTimestamp", "endingTimestamp")
    least = options.number("minPartitions", 1) or 1
    needs = json.loads(options.text("needs") or "{}")
    return {
        "table": table, "columns": columns, "keys": keys, "since": since, "until": until, "min_partitions": least,
        "needs": needs,
    }  # fmt: skip


class TableSource(DataSource):  # PySpark is not checked
    """Source of one decoded table, or of several at once."""

    settings: SourceOptions

    def schema(self) -> "StructType | str":
        from zenlake.spark.multi_table_scan import schema
        from zenlake.spark.schema_conversion import spark_schema
        from zenlake.tables.schemas import select_schema

        if self.settings.needs:
            return schema(self.settings.needs)
        return spark_schema(select_schema(self.settings.table, self.settings.columns))

    def with_columns(self, schema: "StructType") -> Any:
        """Return the options with the columns of `schema`, which may be the user's."""
        from zenlake.spark.schema_conversion import check_schema

        if self.settings.needs:
            return self.settings
        check_schema(self.name(), self.settings.table, schema)
        return replace(self.settings, columns=schema.fieldNames())


class PushdownMixin:
    """Mixin that applies Spark's filters to the rows of a reader.

    It is a separate class, because Spark refuses a reader with this method unless its setting is enabled.
    """

    filters: "tuple[Filter, ...]" = ()

    def pushFilters(self, filters: "list[Filter]") -> "Iterable[Filter]":
        from zenlake.spark.filter_pushdown import expression

        for each in filters:
            if expression(each) is None:
                yield each  # Spark applies these
            else:
                self.filters = (*self.filters, each)
                self.add_filter(each)

    def add_filter(self, filter_: "Filter") -> None:
        """Add a filter. Readers may override this to skip data."""

    def read(self, partition: "InputPartition") -> "Iterator[pa.RecordBatch]":
        from zenlake.spark.filter_pushdown import combine_filters, expression

        combined = combine_filters(expression(each) for each in self.filters)
        for batch in super().read(partition):  # type: ignore[misc]
            yield batch if combined is None else batch.filter(combined)
