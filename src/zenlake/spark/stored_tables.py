# SPDX-License-Identifier: Apache-2.0
"""All tables of a log or lake as DataFrames: decoded tables as stored, derived tables from their SQL."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LakeTables", "LogTables", "StoredTables", "read_delta", "open_stored"]


class StoredTables(Mapping[str, "DataFrame"]):
    """DataFrames by name, planned on access and computed on use."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        from zenlake.tables.derived import DERIVED
        from zenlake.tables.schemas import TABLES

        self.spark = spark
        self.path = path
        self.decoded, self.derived = tuple(TABLES), DERIVED

    def __getitem__(self, name: str) -> "DataFrame":
        from zenlake.spark.derived_tables import derive_table
        from zenlake.tables.derived import definition

        if name in self.decoded:
            return self.read(name)
        if name in self.derived:
            needs = definition(name).needs
            return derive_table(
                self.spark, name, {table: self.read(table, columns) for table, columns in needs.items()}
            )
        raise KeyError(f"unknown table {name!r}; expected one of {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.decoded, *self.derived))

    def __len__(self) -> int:
        return len(self.decoded) + len(self.derived)

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        raise NotImplementedError


class LogTables(StoredTables):
    """Tables of a log, decoded on use, with the needed columns only."""

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        reader = self.spark.read.format("zenoh").option("table", name)
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        return reader.load(self.path)


class LakeTables(StoredTables):
    """Tables of a lake. Columns that old files lack are null. A table that was never landed has no rows."""

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        from zenlake.tables.schemas import select_schema

        return self.files(name).select(*select_schema(name, None if columns is None else list(columns)).names)

    def files(self, name: str) -> "DataFrame":
        """Return rows with the column `day`, by which files are stored in folders."""
        from pyspark.sql.types import DateType, StructField, StructType

        from zenlake.lake import Lake
        from zenlake.lake.layout import DAY
        from zenlake.spark.schema_conversion import spark_schema
        from zenlake.tables.schemas import TABLES

        lake = Lake(self.path)
        schema = StructType([*spark_schema(TABLES[name]).fields, StructField(DAY, DateType())])
        folder = lake.path / name
        if lake.format == "delta":
            return read_delta(self.spark, str(folder), schema)
        if not folder.is_dir():
            return self.spark.createDataFrame([], schema)
        return self.spark.read.schema(schema).parquet(str(folder))


def read_delta(spark: "SparkSession", path: str | os.PathLike[str], schema: "object | None" = None) -> "DataFrame":
    """Return a Delta table, from the file list of its newest version, without Delta's jars.

    Args:
        spark: The Spark session.
        path: Folder of the Delta table.
        schema: Spark schema of the result. Default: that of the files.

    Raises:
        FileNotFoundError: The folder is not a Delta table with files.
    """
    from zenlake.lake.delta import files

    folder = os.path.abspath(path)
    found = files(folder)
    reader = spark.read.option("basePath", folder)
    if schema is not None:
        reader = reader.schema(schema)
    if not found:
        if schema is None:
            raise FileNotFoundError(f"{folder} is not a Delta table with files")
        return spark.createDataFrame([], schema)
    return reader.parquet(*found)


def open_stored(spark: "SparkSession", path: object) -> StoredTables | None:
    """Return the tables of the log or lake at a path, or None."""
    from zenlake.lake import is_lake
    from zenlake.log import is_log

    if not isinstance(path, str | os.PathLike):
        return None
    text = os.fspath(path)
    if "://" not in text and is_lake(text):
        return LakeTables(spark, text)
    return LogTables(spark, text) if is_log(text) else None
