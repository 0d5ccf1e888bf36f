# SPDX-License-Identifier: Apache-2.0
"""Materialised derived tables of a lake, computed again for changed days.

A day is one file, and a table without days is one file. The ledger stores the days that each entry changed.
`zenlake.lake.snapshots` replaces the snapshots.
"""

import os
import shutil
import uuid
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from zenlake.lake import Lake

__all__ = ["kept", "refresh"]

# Days before and after a day that influence its rows; None: all, so the table is one snapshot. A query is followed for a day.
REACH: dict[str, int | None] = {
    "publications": 1, "deliveries": 1, "gets": 1, "rates": 0, "queries": 1, "gaps": 1, "sessions": None, "latest": None,
}  # fmt: skip


def refresh(
    spark: "SparkSession", lake: str | os.PathLike[str], tables: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Update derived tables of a lake.

    The tables are stored beside the decoded ones, in the format of the lake. `kept` returns them as DataFrames.

    Args:
        spark: The Spark session.
        lake: Folder of the lake.
        tables: Derived tables to update. Default: all.

    Returns:
        The updated days of each table, or "all" for a snapshot. Days are those of received time.

    Raises:
        InvalidValue: A name is not a derived table.
    """
    from zenlake.lake import Lake

    names = _names(tables)
    found = Lake(lake)
    found.recover()
    with found.ledger.lock("refresh"):
        return {name: _refresh(spark, found, name) for name in names}


def kept(spark: "SparkSession", lake: str | os.PathLike[str], table: str) -> "DataFrame":
    """Return a derived table as of the last `refresh`: `kept(spark, "lake/tables", "latest")`.

    The DataFrame is one snapshot. It stays valid during later refreshes, for at least ten minutes.

    Args:
        spark: The Spark session.
        lake: Folder of the lake.
        table: Name of the derived table.

    Raises:
        LakeError: The table was never refreshed.
    """
    from zenlake.errors import LakeError
    from zenlake.lake import Lake
    from zenlake.lake.snapshots import list_snapshots as kept_in

    [name] = _names([table])
    folder, files = kept_in(Lake(lake), name).snapshot()
    if not files:
        raise LakeError(f"{os.fspath(lake)} has no table {name} yet; call zenlake.spark.refresh(spark, lake)")
    return spark.read.option("basePath", os.path.abspath(folder)).parquet(*map(os.path.abspath, files))


def _names(tables: Sequence[str] | None) -> list[str]:
    from zenlake.errors import InvalidValue
    from zenlake.tables.derived import DERIVED

    names = list(DERIVED) if tables is None else list(tables)
    wrong = [name for name in names if name not in DERIVED]
    if wrong:
        raise InvalidValue(f"unknown derived table {wrong[0]!r}; expected one of {', '.join(DERIVED)}")
    return names


def _refresh(spark: "SparkSession", lake: "Lake", name: str) -> list[str]:
    from pyspark.sql import functions

    from zenlake.lake.layout import STAGING
    from zenlake.lake.snapshots import ALL
    from zenlake.lake.snapshots import list_snapshots as kept_in
    from zenlake.spark.derived_tables import derive_table
    from zenlake.spark.stored_tables import LakeTables
    from zenlake.tables.derived import definition

    table = kept_in(lake, name)
    last, done = lake.ledger.last(), table.made()
    needs = definition(name).needs
    touched = {day for each in needs for day, entry in last.touched.get(each, {}).items() if entry > done}
    if not touched:
        return []
    stored = LakeTables(spark, str(lake.path))
    reach = REACH[name]
    staging = lake.path / STAGING / f"refresh-{uuid.uuid4().hex}"
    try:
        if reach is None:
            whole = derive_table(spark, name, {each: stored.read(each, columns) for each, columns in needs.items()})
            again = ["all"]
            table.replace({ALL: _write(whole, staging)}, last.number)
        else:
            days = {day for each in needs for day in last.touched.get(each, {})}
            again = sorted(add_neighbours(touched, reach) & days)
            inputs = sorted(add_neighbours(again, reach) & days)
            sources = {
                each: stored.files(each).where(functions.col("day").isin(inputs)).select(*columns)
                for each, columns in needs.items()
            }
            rows = derive_table(spark, name, sources)
            fresh = {day: _write(rows.where(functions.to_date("received") == day), staging / day) for day in again}
            table.replace(fresh, last.number)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return again


def add_neighbours(days: "Sequence[str] | set[str]", reach: int) -> set[str]:
    """Return days and their neighbours."""
    return {
        (date.fromisoformat(day) + timedelta(days=offset)).isoformat()
        for day in days
        for offset in range(-reach, reach + 1)
        if day[:1].isdigit()
    }


def _write(rows: "DataFrame", folder: Path) -> Path:
    """Return rows as one file."""
    rows.coalesce(1).write.option("compression", "zstd").parquet(str(folder))
    [written] = folder.glob("part-*.parquet")
    return written
