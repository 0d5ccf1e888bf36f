# SPDX-License-Identifier: Apache-2.0
"""Stored derived tables: computed again after a landing, and whole for concurrent readers."""

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, add, rows
from tests.lake.test_commit import land
from zenlake.errors import InvalidValue, LakeError
from zenlake.lake import Lake, LandingBatch
from zenlake.log import Log, Writer

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

DAY = 86_400 * 1_000_000_000
DERIVED_TABLES = ["samples", "messages", "events"]


def landed(path, lake, seed, since=MIDNIGHT, size=20):
    """Record more samples, and land them."""
    with Writer(path, "tap-1", sync="sealed") as writer:
        add(writer, seed=seed, size=size, since=since)
    land(lake, Log(path), LandingBatch("q", seed), tables=DERIVED_TABLES)


def by_duckdb(lake, table, expected):
    """As another engine reads the snapshot's files."""
    found = duckdb.sql(f"from read_parquet({[file.path for file in lake.files(table)]}, hive_partitioning=false)")
    return found.to_arrow_table().cast(expected.schema)


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_days_that_were_touched_are_made_again(spark, tmp_path, format):
    path, lake = tmp_path / "log", Lake(tmp_path / "lake", create=format)
    days = ["2026-02-01", "2026-02-09"]
    for seed, day in enumerate((0, 8)):
        landed(path, lake, seed, MIDNIGHT + day * DAY + DAY // 2)
    names = ["rates", "latest"]
    assert zenlake.spark.refresh(spark, lake.location.path, names) == {"rates": days, "latest": ["all"]}
    assert zenlake.spark.refresh(spark, lake.location.path, ["rates"]) == {"rates": []}
    before = zenlake.spark.kept(spark, lake.location.path, "latest")
    was = rows(zenlake.read(path, "latest"))
    landed(path, lake, 20, MIDNIGHT + 8 * DAY + DAY // 2 + 3_600_000_000_000, size=200)
    assert zenlake.spark.refresh(spark, lake.location.path, names) == {"rates": days[1:], "latest": ["all"]}
    for name in names:
        expected = zenlake.read(path, name)
        columns = expected.schema.names
        found = zenlake.spark.kept(spark, lake.location.path, name)
        assert found.columns == ([*columns, "day"] if name == "rates" else columns)
        assert rows(found.select(*columns).toArrow()) == rows(expected)
        assert rows(by_duckdb(lake, name, expected)) == rows(expected)
        assert zenlake.read(lake.location.path, name).num_rows == expected.num_rows
    assert rows(before.toArrow()) == was  # the DataFrame does not change


def test_days_are_made_again_in_one_pass(spark, tmp_path):
    """Defect 14: the query ran once for each day, in one task."""
    path, lake = tmp_path / "log", Lake(tmp_path / "lake", create="delta")
    jobs = []
    for first, count in ((0, 1), (2, 5)):
        for day in range(first, first + count):
            landed(path, lake, day, MIDNIGHT + day * DAY + DAY // 2, size=5)
        spark.sparkContext.setJobGroup(f"refresh-{count}", "")
        assert len(zenlake.spark.refresh(spark, lake.location.path, ["rates"])["rates"]) == count
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(f"refresh-{count}")))
    assert jobs[0] == jobs[1] > 0


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_latest_is_one_whole_snapshot_while_it_is_replaced(spark, tmp_path, format):
    """Spark and DuckDB list files and plan before they open them."""
    path, lake = tmp_path / "log", Lake(tmp_path / "lake", create=format)
    landed(path, lake, 0)
    zenlake.spark.refresh(spark, lake.location.path, ["latest"])
    first = zenlake.read(path, "latest")
    snapshots = [rows(first)]

    def replace():
        for seed in range(1, 5):
            landed(path, lake, seed, MIDNIGHT + seed * 3_600_000_000_000, size=20 + 60 * (seed % 2))
            snapshots.append(rows(zenlake.read(path, "latest")))
            assert zenlake.spark.refresh(spark, lake.location.path, ["latest"]) == {"latest": ["all"]}

    seen = {"Spark": [], "DuckDB": []}
    with ThreadPoolExecutor() as pool:
        replacing = pool.submit(replace)
        while not replacing.done():
            planned = zenlake.spark.kept(spark, lake.location.path, "latest")
            seen["DuckDB"].append(rows(by_duckdb(lake, "latest", first)))
            seen["Spark"].append(rows(planned.toArrow()))
        replacing.result()
    for found in seen.values():
        order = [snapshots.index(each) for each in found]
        assert order == sorted(order)
        assert len(set(order)) > 2
    assert rows(zenlake.spark.kept(spark, lake.location.path, "latest").toArrow()) == snapshots[-1]


def test_a_table_that_is_not_stored_is_reported(spark, tmp_path):
    lake = Lake(tmp_path / "lake", create="delta")
    with pytest.raises(LakeError, match=r"has no table latest yet; call zenlake\.spark\.refresh"):
        zenlake.spark.kept(spark, lake.location.path, "latest")
    with pytest.raises(InvalidValue, match="unknown derived table 'samples'; expected one of publications, "):
        zenlake.spark.kept(spark, lake.location.path, "samples")
