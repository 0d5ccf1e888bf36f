# SPDX-License-Identifier: Apache-2.0
"""All tables of a capture as DataFrames: the decoded ones from the source, the derived ones from their SQL."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from zenlake.columns.schemas import TABLES
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.files import PATHS, files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Tables(Mapping[str, "DataFrame"]):
    """DataFrames by name. Each is planned when it is asked for and computed when it is used, from the columns that it needs."""

    def __init__(self, spark: "SparkSession", path: PATHS) -> None:
        self.spark = spark
        self.files = files(path)

    def __getitem__(self, name: str) -> "DataFrame":
        if name in TABLES:
            return self._decoded(name)
        if name not in DERIVED:
            raise KeyError(f"no table {name!r}; there are {', '.join(self)}")
        defined = definition(name)
        sources = {table: self._decoded(table, columns) for table, columns in defined.needs.items()}
        # The query's own names for the decoded tables; Spark replaces {table} by a view that lives as long as this call.
        views = ", ".join(f"{table} as (select * from {{{table}}})" for table in sources)
        text = defined.sql.replace("{", "{{").replace("}", "}}")
        derived = self.spark.sql(f"with {views} select * from ({text})", **sources)
        return derived.select(
            *(derived[column].alias(column, metadata={"comment": defined.comments[column]}) for column in derived.columns)
        )

    def __iter__(self) -> Iterator[str]:
        return iter((*TABLES, *DERIVED))

    def __len__(self) -> int:
        return len(TABLES) + len(DERIVED)

    def _decoded(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        reader = self.spark.read.format("zenoh_capture").option("table", name)
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        return reader.load(self.files)


def tables(spark: "SparkSession", path: PATHS) -> Tables:
    """The tables of one or more capture files (patterns are expanded): `tables(spark, "robots.pcapng")["queries"]`."""
    return Tables(spark, path)
