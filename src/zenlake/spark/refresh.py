# SPDX-License-Identifier: Apache-2.0
"""Materialised derived tables of a lake, computed again for changed days.

They are tables of the lake's format. One transaction replaces the changed days and stores the numbers of rows from which they
were computed.
"""

import json
import os
from collections.abc import Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.lake import Lake

__all__ = ["kept", "refresh"]

OLD_HOURS = 2.0  # hours for which readers of a replaced snapshot still find its files
# Days before and after a day that influence its rows; None: all, so the table is one snapshot. A query is followed for a day.
REACH: dict[str, int | None] = {
    "publications": 1, "deliveries": 1, "gets": 1, "rates": 0, "queries": 1, "gaps": 1, "subscriptions": None, "matrix": None,
    "sessions": None, "latest": None, "hops": None,
}  # fmt: skip


def refresh(
    spark: "SparkSession", lake: str | os.PathLike[str], tables: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Update derived tables of a lake.

    The tables are stored beside the decoded ones, in the format of the lake. `kept` returns them as DataFrames.

    Args:
        spark: The Spark session.
        lake: Folder or address of the lake.
        tables: Derived tables to update. Default: all.

    Returns:
        The updated days of each table, or "all" for a snapshot. Days are those of received time.

    Raises:
        InvalidValue: A name is not a derived table.
    """
    from zenlake.lake import Lake

    found = Lake(lake)
    return {name: _refresh(spark, found, name) for name in _names(tables)}


def kept(spark: "SparkSession", lake: str | os.PathLike[str], table: str) -> "DataFrame":
    """Return a derived table as of the last `refresh`: `kept(spark, "lake/tables", "latest")`.

    The DataFrame is one snapshot. It stays valid during later refreshes, for at least two hours.

    Args:
        spark: The Spark session.
        lake: Folder or address of the lake.
        table: Name of the derived table.

    Raises:
        LakeError: The table was never refreshed.
    """
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import DateType, StructField, StructType

    from zenlake.errors import LakeError
    from zenlake.lake import Lake
    from zenlake.lake.layout import DAY
    from zenlake.spark.stored_files import read_files

    [name] = _names([table])
    found = Lake(lake)
    opened = found.table(name)
    if not opened.exists:
        raise LakeError(f"{os.fspath(lake)} has no table {name} yet; call zenlake.spark.refresh(spark, lake)")
    schema: StructType = from_arrow_schema(opened.schema())
    if REACH[name] is not None:
        schema = StructType([*schema.fields, StructField(DAY, DateType())])
    return read_files(spark, found.location, name, opened.files(), schema)


def _names(tables: Sequence[str] | None) -> list[str]:
    from zenlake.errors import InvalidValue
    from zenlake.tables.derived import DERIVED

    names = list(DERIVED) if tables is None else list(tables)
    wrong = [name for name in names if name not in DERIVED]
    if wrong:
        raise InvalidValue(f"unknown derived table {wrong[0]!r}; expected one of {', '.join(DERIVED)}")
    return names


def _refresh(spark: "SparkSession", lake: "Lake", name: str) -> list[str]:
    """Compute the changed days in one pass. A day has changed if its number of rows has: landing only adds rows."""
    from pyspark.sql import functions

    from zenlake.lake.lake import count_days
    from zenlake.spark.dataframes import LakeTables, derive_table
    from zenlake.spark.lake_sink import TableSink
    from zenlake.spark.land import register_sources
    from zenlake.tables.derived import definition

    opened, needs, reach = lake.table(name), definition(name).needs, REACH[name]
    files = {each: lake.files(each) for each in needs}
    counts = {each: count_days(held) for each, held in files.items()}
    numbers = {f"rows/{each}/{day}": count for each, days in counts.items() for day, count in days.items()}
    changed = {key.rpartition("/")[2] for key, count in numbers.items() if opened.number(key) != count}
    if not changed:
        return []
    stored = LakeTables(spark, lake.location.given)
    inputs = {each: stored.files(each, held) for each, held in files.items()}
    again = None
    if reach is None:
        rows = derive_table(spark, name, {each: inputs[each].select(*columns) for each, columns in needs.items()})
    else:
        days = {day for held in counts.values() for day in held}
        again = sorted(add_neighbours(changed, reach) & days)
        near = add_neighbours(again, reach) & days
        for each, held in files.items():
            inputs[each] = stored.files(each, [file for file in held if file.day in near])
        rows = derive_table(spark, name, {each: inputs[each].select(*columns) for each, columns in needs.items()})
        rows = rows.withColumn("day", functions.to_date("received")).where(functions.col("day").isin(again))
        rows = rows.repartition("day")
        numbers = {key: count for key, count in numbers.items() if key.rpartition("/")[2] in again}
    register_sources(spark, TableSink)
    place = lake.location.path if lake.location.is_local else lake.location.given
    writer = rows.write.format(TableSink.name()).mode("append").option("lake", place).option("table", name)
    writer.option("days", json.dumps(again)).option("numbers", json.dumps(numbers)).save()
    lake.table(name).remove_orphans(OLD_HOURS)
    return again if again is not None else ["all"]


def add_neighbours(days: "Sequence[str] | set[str]", reach: int) -> set[str]:
    """Return days and their neighbours."""
    return {
        (date.fromisoformat(day) + timedelta(days=offset)).isoformat()
        for day in days
        for offset in range(-reach, reach + 1)
        if day[:1].isdigit()
    }
