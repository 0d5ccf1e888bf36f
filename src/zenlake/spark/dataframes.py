# SPDX-License-Identifier: Apache-2.0
"""All tables of a capture, log or lake as DataFrames: decoded tables from the source, derived tables from their SQL.

Every Spark session of an environment with Zenlake imports this module. Expensive imports are inside functions.
"""

import json
import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.tables.lake_reader import SnapshotFile
    from zenlake.tables.paths import PATHS

__all__ = ["LakeTables", "SourceTables", "derive_table", "read_delta", "read_iceberg", "tables"]


def tables(spark: "SparkSession", path: "PATHS") -> Mapping[str, "DataFrame"]:
    """Return the tables of a log, a lake, or capture files.

    Args:
        spark: The Spark session.
        path: A log, a lake, capture files, or patterns of them.

    Returns:
        A mapping from table name to DataFrame.

    Example:
        ```python
        tables(spark, "robots.pcapng")["queries"].show()
        ```
    """
    from zenlake.log import is_log
    from zenlake.tables.lake_location import Location, read_marker
    from zenlake.tables.paths import files

    if isinstance(path, str | os.PathLike):
        text = os.fspath(path)
        if is_log(text):
            return SourceTables(spark, "zenoh", text)
        if read_marker(Location(text)) is not None:
            return LakeTables(spark, text)
    return CaptureTables(spark, "zenoh_capture", files(path))


class Tables(Mapping[str, "DataFrame"]):
    """DataFrames by name, planned on access and computed on use, with the needed columns only."""

    def __init__(self, spark: "SparkSession") -> None:
        from zenlake.tables.derived import DERIVED
        from zenlake.tables.schemas import TABLES

        self.spark = spark
        self.decoded, self.derived = tuple(TABLES), DERIVED

    def __getitem__(self, name: str) -> "DataFrame":
        from zenlake.tables.derived import definition

        if name in self.decoded:
            return self.read(name)
        if name in self.derived:
            needs = definition(name).needs
            return derive_table(self.spark, name, {table: self.read(table, needs[table]) for table in needs})
        raise KeyError(f"unknown table {name!r}; expected one of {', '.join(self)}")

    def __iter__(self) -> Iterator[str]:
        return iter((*self.decoded, *self.derived))

    def __len__(self) -> int:
        return len(self.decoded) + len(self.derived)

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        """Return a decoded table, or the columns of it that a derived table needs."""
        raise NotImplementedError


class SourceTables(Tables):
    """Tables of a recording, which a Spark source decodes on use."""

    def __init__(self, spark: "SparkSession", format: str, path: str | list[str]) -> None:
        super().__init__(spark)
        self.format, self.path = format, path

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        reader = self.spark.read.format(self.format).option("table", name)
        if columns is not None:
            reader = reader.option("columns", ",".join(columns))
        return reader.load(self.path)


class CaptureTables(SourceTables):
    """Tables of capture files. Derived tables share one pass over them.

    Spark persists the result of that pass, in memory and then on disk, as long as this object exists.
    """

    _shared: "DataFrame | None" = None

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        from zenlake.spark.multi_table_scan import select_table

        return super().read(name) if columns is None else select_table(self.persist_input(), name).select(*columns)

    def persist_input(self) -> "DataFrame":
        """Return the persisted input of the derived tables."""
        from pyspark import StorageLevel

        from zenlake.tables.derived import definition

        if self._shared is None:
            needs: dict[str, dict[str, None]] = {}
            for name in self.derived:
                for table, columns in definition(name).needs.items():
                    needs.setdefault(table, {}).update(dict.fromkeys(columns))
            asked = json.dumps({table: list(columns) for table, columns in needs.items()})
            found = self.spark.read.format(self.format).option("needs", asked).load(self.path)
            self._shared = found.persist(StorageLevel.MEMORY_AND_DISK)
            weakref.finalize(self, _forget, self._shared)
        return self._shared


def _forget(shared: "DataFrame") -> None:
    with suppress(Exception):  # Spark may have stopped already
        shared.unpersist()


class LakeTables(Tables):
    """Tables of a lake. Columns that old files lack are null. A table that was never landed has no rows."""

    def __init__(self, spark: "SparkSession", path: str) -> None:
        super().__init__(spark)
        self.path = path

    def read(self, name: str, columns: Sequence[str] | None = None) -> "DataFrame":
        from zenlake.tables.schemas import select_schema

        return self.files(name).select(*select_schema(name, columns).names)

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


def derive_table(
    spark: "SparkSession", name: str, sources: Mapping[str, "DataFrame"], instead: Mapping[str, str] | None = None
) -> "DataFrame":
    """Return a derived table: its definition over DataFrames of the decoded tables.

    `instead` maps parts of the query to columns that contain their values.
    """
    from zenlake.tables.derived import definition

    defined = definition(name)
    sql = defined.sql
    for part, column in (instead or {}).items():
        sql = sql.replace(part, column)
    # The query's names of the decoded tables. Spark replaces {table} by a view that lives as long as this call.
    views = ", ".join(f"{table} as (select * from {{{table}}})" for table in sources)
    query = sql.replace("{", "{{").replace("}", "}}")
    found = spark.sql(f"with {views} select * from ({query})", **sources)
    comments = defined.comments
    return found.select(*(found[each].alias(each, metadata={"comment": comments[each]}) for each in found.columns))
