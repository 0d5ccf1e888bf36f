# SPDX-License-Identifier: Apache-2.0
"""All tables of a log or lake as DataFrames: decoded tables as stored, derived tables from their SQL."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.tables.lake_reader import SnapshotFile

__all__ = ["LakeTables", "LogTables", "StoredTables", "open_stored", "read_delta", "read_iceberg"]


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

    def files(self, name: str, files: "Sequence[SnapshotFile] | None" = None) -> "DataFrame":
        """Return rows with the column `day`, by which files are stored in folders."""
        from pyspark.sql.types import DateType, StructField, StructType

        from zenlake.spark.schema_conversion import spark_schema
        from zenlake.spark.stored_files import read_files
        from zenlake.tables.lake_location import DAY, Location
        from zenlake.tables.lake_reader import read_snapshot
        from zenlake.tables.schemas import TABLES

        schema = StructType([*spark_schema(TABLES[name]).fields, StructField(DAY, DateType())])
        found = read_snapshot(self.path, name).files if files is None else files
        return read_files(self.spark, Location(self.path), name, found, schema)


def read_delta(spark: "SparkSession", path: str | os.PathLike[str], schema: "object | None" = None) -> "DataFrame":
    """Return a Delta table, from the file list of its newest version, without Delta's jars.

    Args:
        spark: The Spark session.
        path: Folder or address of the Delta table.
        schema: Spark schema of the result. Default: all columns of the table.

    Raises:
        FileNotFoundError: The path is not a Delta table with files.
    """
    from pyspark.sql.types import StructType

    from zenlake.spark.stored_files import read_files
    from zenlake.tables.lake_location import Location
    from zenlake.tables.lake_reader import list_delta, open_delta

    folder, name = split_path(path)
    location = Location(folder)
    opened = open_delta(location, name)
    files = [] if opened is None else list_delta(location, name, opened)
    if not files and schema is None:
        raise FileNotFoundError(f"{location.uri(name)} is not a Delta table with files")
    if schema is None:
        assert opened is not None
        schema = StructType.fromJson(json.loads(opened.schema().to_json()))
    return read_files(spark, location, name, files, schema)


def read_iceberg(spark: "SparkSession", table: Any) -> "DataFrame":
    """Return an Iceberg table, from the file list of its current snapshot, without Iceberg's jars.

    Args:
        spark: The Spark session.
        table: Table of `pyiceberg`, such as `load_catalog("prod").load_table("fleet.samples")`.

    Returns:
        The rows, with all columns of the table.

    Raises:
        LakeError: The table has delete files, whose rows would reappear.
    """
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyspark.sql.pandas.types import from_arrow_schema

    from zenlake.spark.stored_files import read_files
    from zenlake.tables.lake_location import Location
    from zenlake.tables.lake_reader import iceberg_files

    folder, name = split_path(table.location().removeprefix("file://"))
    location = Location(folder)
    schema = from_arrow_schema(schema_to_pyarrow(table.schema(), include_field_ids=False))
    return read_files(spark, location, name, iceberg_files(location, table), schema)


def split_path(path: str | os.PathLike[str]) -> tuple[str, str]:
    """Return the parent folder of a table, as an address with its options, and the table's name."""
    text = os.fspath(path)
    if "://" not in text:
        parent, name = os.path.split(os.path.abspath(text))
        return parent, name
    plain, mark, query = text.rstrip("/").partition("?")
    parent, _, name = plain.rstrip("/").rpartition("/")
    return parent + mark + query, name


def open_stored(spark: "SparkSession", path: object) -> StoredTables | None:
    """Return the tables of the log or lake at a path, or None."""
    from zenlake.log import is_log
    from zenlake.tables.lake_location import Location, read_marker

    if not isinstance(path, str | os.PathLike):
        return None
    text = os.fspath(path)
    if is_log(text):
        return LogTables(spark, text)
    return LakeTables(spark, text) if read_marker(Location(text)) is not None else None
