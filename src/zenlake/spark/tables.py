# SPDX-License-Identifier: Apache-2.0
"""All tables of a capture as DataFrames: the decoded ones from the source, the derived ones from their SQL.

Like the source, imported by every Spark session, so what is heavy is imported where it is used.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.tables.files import PATHS


class Tables(Mapping[str, "DataFrame"]):
    """DataFrames by name. Each is planned when it is asked for and computed when it is used, from the columns that it needs."""

    def __init__(self, spark: "SparkSession", path: "PATHS") -> None:
        from zenlake.columns.schemas import TABLES
        from zenlake.tables.derived import DERIVED
        from zenlake.tables.files import files

        self.spark = spark
        self.files = files(path)
        self.decoded, self.derived = tuple(TABLES), DERIVED

    def __getitem__(self, name: str) -> "DataFrame":
        if name in self.decoded:
            return self._decoded(name)
        if name in self.derived:
            return self._derived(name)
        raise KeyError(f"no table {name!r}; there are {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.decoded, *self.derived))

    def __len__(self) -> int:
        return len(self.decoded) + len(self.derived)

    def _decoded(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        reader = self.spark.read.format("zenoh_capture").option("table", name)
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        return reader.load(self.files)

    def _derived(self, name: str) -> "DataFrame":
        from zenlake.spark.derived import derived
        from zenlake.tables.derived import definition

        defined = definition(name)
        sources = {table: self._decoded(table, columns) for table, columns in defined.needs.items()}
        return derived(self.spark, name, sources)


def tables(spark: "SparkSession", path: "PATHS") -> Mapping[str, "DataFrame"]:
    """The tables of a log, of a lake, or of one or more capture files (patterns are expanded).

    `tables(spark, "robots.pcapng")["queries"]`
    """
    from zenlake.spark.stored import stored

    return stored(spark, path) or Tables(spark, path)
