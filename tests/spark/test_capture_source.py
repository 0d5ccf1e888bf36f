# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh_capture")`: the same tables as in Python, cell by cell, and one line for each error."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import zenlake
from tests.tables.fixtures import PCAPS
from zenlake.spark.capture_source import CaptureSource
from zenlake.tables import DERIVED, definition
from zenlake.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

FILES = [str(path) for path in PCAPS]
[QUERIES] = [path for path in FILES if path.endswith("two_clients_queries.pcap")]


def rows(table: pa.Table):
    return sorted(map(repr, table.to_pylist()))


@pytest.fixture(scope="module")
def tables(spark):
    return zenlake.spark.tables(spark, FILES)


@pytest.fixture(scope="module")
def whole(spark):
    """Return the rows to which Spark applies its own filters."""
    found = spark.read.format("zenoh_capture").load(QUERIES).cache()
    yield found
    found.unpersist()


@pytest.mark.parametrize("name", [*TABLES, *DERIVED])
def test_a_table_is_the_same_through_spark_as_without_it(tables, name):
    found, expected = tables[name].toArrow(), zenlake.read(FILES, name)
    assert found.schema.names == expected.schema.names
    assert found.schema.types == expected.schema.types
    assert rows(found) == rows(expected)
    assert len(expected) > 0 or name in {"errors", "hops"}  # no capture has a stack with two records


@pytest.mark.parametrize("name", ["samples", "events"])
def test_a_capture_in_several_partitions_has_the_same_rows(spark, name):
    found = spark.read.format("zenoh_capture").option("table", name).option("minPartitions", 4).load(FILES)
    assert found.rdd.getNumPartitions() >= 4
    assert rows(found.toArrow()) == rows(zenlake.read(FILES, name))


def test_columns_have_their_comments(tables):
    samples = {field.name: field.metadata["comment"] for field in tables["samples"].schema}
    assert samples == {field.name: field.metadata[b"comment"].decode() for field in TABLES["samples"]}
    assert {field.name: field.metadata["comment"] for field in tables["gaps"].schema} == definition("gaps").comments


def test_column_key_and_time_filters_match_read(spark):
    whole = zenlake.read(QUERIES).to_pylist()
    middle = sorted(row["received"] for row in whole)[len(whole) // 2]
    found = (
        spark.read.format("zenoh_capture")
        .option("columns", "payload, key")
        .option("keyExpr", "svc/**")
        .option("startingTimestamp", middle.isoformat())
        .option("endingTimestamp", "2030-01-01")
        .load(QUERIES)
        .toArrow()
    )
    assert found.column_names == ["payload", "key"]
    assert rows(found) == rows(zenlake.read(QUERIES, columns=["payload", "key"], keys="svc/**", since=middle))
    assert 0 < found.num_rows < len(whole)


def test_times_may_be_milliseconds_as_for_kafka(spark):
    moment = zenlake.read(QUERIES, "events")["received"][1].as_py().replace(microsecond=155000)
    read = spark.read.format("zenoh_capture").option("table", "events").option("columns", "received")
    found = read.option("startingTimestamp", str(int(moment.timestamp() * 1000))).load(QUERIES)
    assert rows(found.toArrow()) == rows(zenlake.read(QUERIES, "events", columns=["received"], since=moment))
    assert found.count() == 1


def test_a_schema_of_the_users_own_chooses_columns(spark):
    read = spark.read.format("zenoh_capture").schema("key string, payload_size bigint")
    assert rows(read.load(QUERIES).toArrow()) == rows(zenlake.read(QUERIES, columns=["key", "payload_size"]))
    for schema, why in {
        "keys string": "samples has no column 'keys'; expected one of received, ",
        "payload_size int": "column samples.payload_size has type bigint, not int",
    }.items():
        with pytest.raises(Exception, match="zenoh_capture: ") as caught:
            spark.read.format("zenoh_capture").schema(schema).load(QUERIES).count()
        assert why in str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "key = 'svc/a/x'",
        "key in ('svc/b/0', 'svc/b/1', null)",
        "key like 'svc/%'",
        "received > '{middle}'",
        "received <= '{middle}' and key is not null",
        "received >= '{middle}' and received < '2030-01-01' and payload_size > 3",
        "attachment is null and direction = 1",
        "key = 'svc/b/0' or payload_size > 100",  # not one that Spark pushes
        "length(key) > 7 and kind = 'put'",
    ],
)
def test_filters_that_are_pushed_down_choose_the_same_rows(spark, whole, condition):
    times = sorted(zenlake.read(QUERIES)["received"].to_pylist())
    condition = condition.format(middle=times[len(times) // 2])
    expected = whole.where(condition).toArrow()
    pushed = spark.read.format("zenoh_capture").option("pushdown", "true").load(QUERIES).where(condition)
    assert rows(pushed.toArrow()) == rows(expected)
    assert 0 < len(expected) < len(times)
    plan = pushed._jdf.queryExecution().executedPlan().toString()
    assert ("Filter " in plan) == ("(" in condition.replace("in (", "") or " or " in condition), plan


def test_it_is_found_from_sql_too(spark):
    spark.sql(f"create or replace temporary view met using zenoh_capture options (path '{QUERIES}', table 'events')")
    [row] = spark.sql("select count(*) as n, min(kind) as kind from met").collect()
    assert (row.n, row.kind) == (3, "opened")


VALID = "path, table, columns, keyExpr, startingTimestamp, endingTimestamp, minPartitions, pushdown"


@pytest.mark.parametrize(
    ("options", "path", "line"),
    [
        ({"tabel": "samples"}, QUERIES, f"unknown option 'tabel'; did you mean 'table'? expected one of {VALID}"),
        (
            {"table": "sample"}, QUERIES,
            f"option 'table': invalid value 'sample'; did you mean 'samples'? expected one of {', '.join(TABLES)}",
        ),
        (
            {"table": "queries"}, QUERIES,
            "'queries' is a derived table; use zenlake.spark.tables(spark, path)['queries']",
        ),
        ({"table": "errors", "columns": "why,who"}, QUERIES, "option 'columns': errors has no column 'who'; expected one of "),
        ({"columns": "key,key"}, QUERIES, "option 'columns': 'key,key' has 'key' twice"),
        ({"pushdown": "yes"}, QUERIES, "option 'pushdown': invalid value 'yes'; expected true or false"),
        ({"keyExpr": "a//b"}, QUERIES, "option 'keyExpr': "),
        ({"minPartitions": "many"}, QUERIES, "option 'minPartitions': invalid value 'many'; expected an integer, 1 or more"),
        ({"table": "events", "keyExpr": "a"}, QUERIES, "option 'keyExpr': table 'events' has no key column"),
        (
            {"startingTimestamp": "noon"}, QUERIES,
            "option 'startingTimestamp': invalid value 'noon'; expected milliseconds since 1970, or a time such as ",
        ),
        (
            {"startingTimestamp": "2026-01-02", "endingTimestamp": "2026-01-01T23:00:00+00:00"}, QUERIES,
            "option 'endingTimestamp' is not after 'startingTimestamp'; expected an end after the start",
        ),
        ({}, "nowhere/*.pcap", "nowhere/*.pcap does not exist; expected a capture, a log or a lake"),
        ({}, "-", "a Spark task has no standard input; save the capture to a file"),
        ({}, None, "no path; pass a capture, a pattern or a folder to load(), like 'captures/*.pcapng'"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict) else "",
)  # fmt: skip
def test_a_mistake_is_reported_in_one_line(options, path, line):
    with pytest.raises(ValueError, match=r"^zenoh_capture: ") as caught:
        CaptureSource(options if path is None else {**options, "path": path})
    assert str(caught.value).startswith(f"zenoh_capture: {line}")
    assert "\n" not in str(caught.value)


def test_a_mistake_is_reported_at_load(spark):
    with pytest.raises(Exception, match="PYTHON_DATA_SOURCE_ERROR") as caught:
        spark.read.format("zenoh_capture").option("tabel", "samples").load(QUERIES)
    [message] = [each for each in str(caught.value).splitlines() if each.startswith("ValueError: ")]
    assert message.startswith("ValueError: zenoh_capture: unknown option 'tabel'; did you mean 'table'?")


def test_derived_tables_share_one_pass_over_the_capture(spark, tmp_path):
    """After the first table the capture is not read again, until the tables are released."""
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(Path(QUERIES).read_bytes())
    tables = zenlake.spark.tables(spark, copy)
    queries = tables["queries"]
    assert queries.count() > 0
    assert tables.persist_input().storageLevel.useDisk
    copy.unlink()
    for name in ("queries", "rates"):
        columns = [each for each in tables[name].columns if each != "file"]
        assert rows(tables[name].select(columns).toArrow()) == rows(zenlake.read(QUERIES, name, columns=columns))
    kept = tables.persist_input()
    del tables
    assert not kept.storageLevel.useMemory


def test_clock_skew_is_hlc_time_less_received_time(spark):
    asked = "key, clock_skew, received, timestamp"
    found = spark.read.format("zenoh_capture").option("columns", asked).load(FILES).toArrow().to_pylist()
    stamped = [row for row in found if row["timestamp"] is not None]
    assert 0 < len(stamped) < len(found)
    assert all(row["clock_skew"] is None for row in found if row["timestamp"] is None)
    for row in stamped:
        assert row["clock_skew"] == round((row["timestamp"] - row["received"]).total_seconds() * 1e6)
    alone = spark.read.format("zenoh_capture").option("columns", "clock_skew").load(FILES).toArrow()
    assert sorted(alone["clock_skew"].drop_null().to_pylist()) == sorted(row["clock_skew"] for row in stamped)


def test_wrong_names_of_tables_are_answered_with_the_right_ones(spark, tables):
    assert list(tables) == [*TABLES, *DERIVED]
    assert len(tables) == len(TABLES) + len(DERIVED)
    with pytest.raises(KeyError, match=r"unknown table 'query'; expected one of messages, .*rates"):
        tables["query"]
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pcap does not exist"):
        zenlake.spark.tables(spark, "nowhere.pcap")


@pytest.mark.parametrize("format", ["zenoh_capture", "zenoh"])
def test_the_spark_entry_module_imports_no_heavy_module(format):
    """Every session of the environment imports the source. The import must be fast, also with a broken Arrow."""
    program = f"""
import sys
import pyspark.sql.datasource
before = set(sys.modules)
sys.modules["pyarrow"] = sys.modules["duckdb"] = sys.modules["cython"] = None
import pyspark_{format}
assert pyspark_{format}.DefaultSource.name() == "{format}"
print(sorted(name for name in set(sys.modules) - before if not name.startswith("zenlake") and "." not in name))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout.replace("'", '"'))) <= {
        f"pyspark_{format}",
        "cython_runtime",  # every compiled module creates it
        "pyarrow",
        "duckdb",
        "cython",
        "shutil",
        "glob",
        "difflib",
    }


@pytest.mark.slow  # a JVM of its own; the session of the other tests is not on the path either, when make starts them
def test_a_job_runs_with_a_python_that_is_not_on_the_path(tmp_path):
    """`.venv/bin/python job.py` without activating: Spark's workers must run the same Python, or nothing is found."""
    job = tmp_path / "job.py"
    job.write_text(
        "import sys, zenlake.spark\n"
        "spark = zenlake.spark.session(quick=True)\n"
        "assert spark.conf.get('spark.sql.session.timeZone') == 'UTC'\n"
        "print(spark.read.format('zenoh_capture').option('table', 'events').load(sys.argv[1]).count())\n"
    )
    done = subprocess.run(
        [sys.executable, job, QUERIES], cwd=tmp_path, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )
    assert done.stdout == "3\n", done.stderr
    assert not any(Path(tmp_path).glob("spark-warehouse"))
