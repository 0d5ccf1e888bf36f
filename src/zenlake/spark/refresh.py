# SPDX-License-Identifier: Apache-2.0
"""Derived tables that are kept in a lake, made again where something was landed since.

A day's rows are one file, and so is the whole of a table without days: putting a new one in place of the old is one rename, so a
reader sees the old rows or the new ones. What has to be made again is told by the ledger, which knows the days that each entry
touched.
"""

import json
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

__all__ = ["refresh"]

# How many days before and after one have a say in its rows; None: all, so the table is one snapshot. A query is followed for a day.
REACH: dict[str, int | None] = {"rates": 0, "queries": 1, "gaps": 1, "sessions": None, "latest": None}
STATE = "_derived"


def refresh(
    spark: "SparkSession", lake: str | os.PathLike[str], tables: Sequence[str] | None = None
) -> dict[str, list[str]]:
    """Bring derived tables of a lake up to date; which days of each were made again ("all" for a snapshot).

    They lie beside the decoded ones, as Parquet: `spark.read.parquet("lake/rates")`. Days of received time.
    """
    from zenlake.errors import InvalidValue
    from zenlake.lake import Lake
    from zenlake.tables.derived import DERIVED

    names = list(DERIVED) if tables is None else list(tables)
    wrong = [name for name in names if name not in DERIVED]
    if wrong:
        raise InvalidValue(f"no derived table {wrong[0]!r}; there are {', '.join(DERIVED)}")
    found = Lake(lake)
    found.recover()
    return {name: _refresh(spark, found, name) for name in names}


def _refresh(spark: "SparkSession", lake: "Lake", name: str) -> list[str]:
    from pyspark.sql import functions

    from zenlake.spark.derived import derived
    from zenlake.spark.stored import LakeTables
    from zenlake.tables.derived import definition

    last = lake.ledger.last()
    needs = definition(name).needs
    done = _made(lake.path, name)
    touched = {day for table in needs for day, entry in last.touched.get(table, {}).items() if entry > done}
    if not touched:
        return []
    stored = LakeTables(spark, str(lake.path))
    reach = REACH[name]
    if reach is None:
        whole = derived(spark, name, {table: stored.read(table, columns) for table, columns in needs.items()})
        _replace(whole, lake.path, lake.path / name / f"{name}.parquet")
        made = ["all"]
    else:
        days = {day for table in needs for day in last.touched.get(table, {})}
        again = sorted(around(touched, reach) & days)
        inputs = sorted(around(again, reach) & days)
        sources = {
            table: stored.files(table).where(functions.col("day").isin(inputs)).select(*columns)
            for table, columns in needs.items()
        }
        rows = derived(spark, name, sources)
        for day in again:
            _replace(
                rows.where(functions.to_date("received") == day),
                lake.path,
                lake.path / name / f"day={day}" / f"{name}.parquet",
            )
        made = again
    _note_made(lake, name, last.number)
    return made


def around(days: "Sequence[str] | set[str]", reach: int) -> set[str]:
    """These days and those near them."""
    return {
        (date.fromisoformat(day) + timedelta(days=offset)).isoformat()
        for day in days
        for offset in range(-reach, reach + 1)
        if day[:1].isdigit()
    }


def _replace(rows: "DataFrame", lake: Path, final: Path) -> None:
    """Write rows as one file and put it where the old one was."""
    from zenlake.lake.layout import STAGING

    staging = lake / STAGING / f"refresh-{uuid.uuid4().hex}"
    try:
        rows.coalesce(1).write.option("compression", "zstd").parquet(str(staging))
        [written] = staging.glob("part-*.parquet")
        final.parent.mkdir(parents=True, exist_ok=True)
        os.replace(written, final)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _made(lake: Path, name: str) -> int:
    from zenlake.lake.layout import described

    try:
        return int(described(lake / STATE / f"{name}.json")["entry"])
    except FileNotFoundError:
        return 0


def _note_made(lake: "Lake", name: str, entry: int) -> None:
    from zenlake.lake.layout import VERSION

    (lake.path / STATE).mkdir(exist_ok=True)
    lake.ledger.disk.replace(
        lake.path / STATE / f"{name}.json", json.dumps({"version": VERSION, "entry": entry}).encode()
    )
