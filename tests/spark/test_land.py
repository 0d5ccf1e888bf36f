# SPDX-License-Identifier: Apache-2.0
"""Landing through Spark: the tables of the log, every row once, with killed processes and any number of landings."""

import dataclasses
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow.parquet as pq
import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, decoded, recorded, rows
from tests.lake.test_commit import land as land_batch
from tests.lake.test_commit import place
from tests.lake.test_stored import LATER, STORED
from zenlake.errors import InvalidValue, LakeError
from zenlake.lake import Lake, LandingBatch, convert
from zenlake.log import Log
from zenlake.spark.lake_source import SMALL, LakeSource
from zenlake.tables import DERIVED
from zenlake.tables.lake_reader import open_catalog
from zenlake.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, seed=1, name="tap-1")
    recorded(path, seed=2, name="tap-2", since=MIDNIGHT + 1)
    return str(path)


def land(spark, log, lake, *arguments, size=30000, **named):
    query = zenlake.spark.land(spark, log, lake, *arguments, options={"maxBytesPerTrigger": str(size)}, **named)
    query.awaitTermination()
    return query


def by_duckdb(lake, table):
    """Return the rows as another engine reads them."""
    files = [file.path for file in Lake(lake).files(table)]
    return duckdb.sql(f"select * exclude (day) from read_parquet({files}, hive_partitioning=true)").to_arrow_table()


def assert_landed_once(spark, log, lake, tables=("samples", "events")):
    for name, table in decoded(log, tables).items():
        assert rows(zenlake.spark.tables(spark, lake)[name].toArrow()) == rows(table)
        assert by_duckdb(lake, name).num_rows == table.num_rows > 0


def test_a_lake_has_the_tables_of_its_log_also_after_its_checkpoint_is_lost(spark, log, tmp_path):
    lake = str(tmp_path / "lake")
    query = land(spark, log, lake)
    batches = [each for each in query.recentProgress if each["numInputRows"]]
    assert len(batches) > 2
    landed = [each["observedMetrics"]["landed"] for each in batches]
    decoded_rows = {name: table.num_rows for name, table in decoded(log).items()}
    assert {name: sum(each[name] for each in landed) for name in landed[0].asDict()} == {
        "batches": sum(part.rows for part in Log(log).plan()),
        "bytes": sum(part.size for part in Log(log).plan()),
        "rows": sum(decoded_rows.values()),
        "samples": decoded_rows["samples"],
        "written": sum(file.size for name in TABLES for file in Lake(lake).files(name)),
    }
    tables = zenlake.spark.tables(spark, lake)
    assert list(tables) == [*TABLES, *DERIVED]
    for name in [*TABLES, *DERIVED]:
        found, expected = tables[name].toArrow(), zenlake.read(log, name)
        assert found.schema.names == expected.schema.names
        assert rows(found) == rows(expected)
    shutil.rmtree(tmp_path / "lake" / "_checkpoints")
    land(spark, log, lake, size=50000)
    assert_landed_once(spark, log, lake)
    with pytest.raises(LakeError, match=r"the checkpoint .* was made with tables="):
        land(
            spark,
            log,
            lake,
            ["samples"],
            checkpoint=tmp_path / "lake" / "_checkpoints" / f"{Log(log).id[:12]}-{'-'.join(TABLES)}",
        )
    with pytest.raises(Exception, match="samples has rows of this part of the log already"):
        land(spark, log, lake, ["samples"], already="refuse", checkpoint=tmp_path / "new")
    assert_landed_once(spark, log, lake)


def test_a_lake_of_an_earlier_version_is_read_with_null_where_a_column_came_later(spark, tmp_path):
    stored = tmp_path / "stored"
    shutil.copytree(STORED / "1", stored)
    for convert_first in (False, True):
        if convert_first:
            convert(stored / "lake")
        tables = zenlake.spark.tables(spark, str(stored / "lake"))
        expected = decoded(stored / "log", ["samples"])["samples"]
        names = [name for name in expected.column_names if name not in LATER]
        assert rows(tables["samples"].select(*names).toArrow()) == rows(expected.select(names))
        assert tables["samples"].columns == expected.column_names
        assert tables["samples"].selectExpr(f"count({LATER[0]})", f"count({LATER[1]})").first() == (0, 0)
        assert tables["rates"].count() == zenlake.read(stored / "log", "rates").num_rows > 0


def test_two_concurrent_queries_into_one_lake_from_threads(spark, log, tmp_path):
    def begin(name, size):
        return zenlake.spark.land(
            spark, log, tmp_path / "lake", ["samples", "events"], checkpoint=tmp_path / name,
            options={"maxBytesPerTrigger": size},
        )  # fmt: skip

    with ThreadPoolExecutor() as pool:
        queries = list(pool.map(begin, ("a", "b"), ("20000", "32000")))
    for query in queries:
        query.awaitTermination()
    assert_landed_once(spark, log, str(tmp_path / "lake"))


def test_delta_and_iceberg_lakes_are_read_by_spark_without_jars_and_by_others(spark, log, tmp_path):
    from deltalake import DeltaTable

    for format in ("delta", "iceberg"):
        lake = str(tmp_path / format)
        land(spark, log, lake, ["samples", "events"], format=format)
        shutil.rmtree(tmp_path / format / "_checkpoints")
        land(spark, log, lake, ["samples", "events"], size=50000)
        assert_landed_once(spark, log, lake)
        opened = Lake(lake)
        if format == "delta":
            found, rows_there = (
                zenlake.spark.read_delta(spark, f"{lake}/samples"),
                DeltaTable(f"{lake}/samples").count(),
            )
        else:
            table = open_catalog(opened.location, opened.about).load_table("iceberg.samples")
            found, rows_there = zenlake.spark.read_iceberg(spark, table), table.scan().count()
        assert found.count() == rows_there == zenlake.read(log).num_rows
        assert set(TABLES["samples"].names) <= set(found.columns)
    with pytest.raises(LakeError, match="is a lake of format iceberg"):
        land(spark, log, lake, format="delta")


def test_read_delta_has_the_columns_that_were_added_later(spark, tmp_path):
    """Defect 6: the columns used to be those of the first file."""
    import deltalake
    import pyarrow as pa

    table = str(tmp_path / "table")
    deltalake.write_deltalake(table, pa.table({"x": [1]}))
    deltalake.write_deltalake(table, pa.table({"x": [2], "y": ["later"]}), mode="append", schema_mode="merge")
    found = sorted(zenlake.spark.read_delta(spark, table).select("x", "y").collect())
    assert [tuple(row) for row in found] == [(1, None), (2, "later")]


def test_transformed_rows_land_once_and_only_by_one_query(spark, log, tmp_path):
    lake = str(tmp_path / "lake")

    def sizes(samples):
        return samples.where("kind = 'put'").selectExpr("received", "key", "length(payload) as n")

    land(spark, log, lake, ["samples"], transform=sizes)
    land(spark, log, lake, ["samples"], transform=sizes)
    expected = [row for row in zenlake.read(log).to_pylist() if row["kind"] == "put"]
    assert (
        by_duckdb(lake, "samples").num_rows
        == zenlake.spark.read_delta(spark, f"{lake}/samples").count()
        == len(expected)
    )
    with pytest.raises(
        LakeError, match=r"was made with options=\{\}, not \{'keyExpr': 'a/\*\*'\}; its offsets would skip rows"
    ):
        zenlake.spark.land(spark, log, lake, ["samples"], transform=sizes, options={"keyExpr": "a/**"})
    with pytest.raises(Exception, match="rows that a second query repeats cannot be detected"):
        land(spark, log, lake, ["samples"], transform=sizes, checkpoint=tmp_path / "new")


def test_a_short_trigger_makes_one_small_file_of_a_table(log, tmp_path):
    """Defect 13: there was a file for each core, and comments of columns took 12 kB of each."""
    options = {"path": log, "lake": str(tmp_path / "lake"), "tables": "samples", "minPartitions": "8"}
    landing = LakeSource(options).streamReader(None)
    blocks = Log(log).plan(size=1)
    assert len(blocks) > 8
    assert len(landing.split(blocks)) == 1
    large = [dataclasses.replace(block, size=SMALL) for block in blocks[:8]]
    assert len(landing.split(large)) == 8
    land_batch(Lake(tmp_path / "lake", create="delta"), Log(log), LandingBatch("q", 0), end=place(Log(log), 0.05))
    files = Lake(tmp_path / "lake").files("samples")
    assert len(files) == 1
    metadata = pq.ParquetFile(files[0].path).metadata
    assert metadata.num_rows > 0
    assert metadata.serialized_size < 6000


def test_a_task_of_a_landing_does_not_import_pandas(log, tmp_path):
    """The import would double the start-up time of every worker. pyarrow does it implicitly."""
    code = """
import sys
import zenlake.spark.lake_sink
from zenlake.lake import LandingBatch, pieces, write_parts
from zenlake.log import Log
from zenlake.spark.lake_source import COUNTS, row
from zenlake.tables.lake_location import Location
log = Log(sys.argv[1])
parts = pieces(log.plan(), {}, log.latest())
groups = [(parts, ["samples", "events"])]
assert all(each.rows for each in write_parts(Location(sys.argv[2]), log, groups, LandingBatch("q", 0), "0"))
assert row("[]", range(5)).to_pylist() == [{"files": "[]", **dict(zip(COUNTS, range(5)))}]
sys.exit("pandas" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, log, tmp_path], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_invalid_options_are_reported_before_the_query_starts(spark, log, tmp_path):
    for wrong, line in (
        ({"tables": ["queries"]}, "unknown table 'queries'; expected one or more of messages, "),
        ({"transform": lambda rows: rows}, "transform applies to one table; name it, for example tables="),
        ({"already": "twice"}, "invalid already='twice'; expected 'skip' or 'refuse'"),
        ({"options": {"keyExpr": "a/**"}}, "option 'keyExpr' selects rows of one table; a landing takes whole tables"),
        ({"options": {"failOnGaps": "true"}}, "zenoh: unknown option 'failongaps'; did you mean 'failOnGap'"),
        (
            {"options": {"maxBytesPerTrigger": "1 GB"}},
            "zenoh: option 'maxBytesPerTrigger': invalid value '1 GB'; expected an integer",
        ),
    ):
        with pytest.raises(InvalidValue, match=line):
            zenlake.spark.land(spark, log, tmp_path / "lake", **wrong)
    assert not (tmp_path / "lake").exists()
