# SPDX-License-Identifier: Apache-2.0
"""A lake has the same rows as the log that was landed in it."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier

import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, put_samples, recorded, rows
from tests.lake.test_commit import land
from zenlake.lake import Lake, LandingBatch
from zenlake.log.reader import Log
from zenlake.tables import DERIVED, duckdb_engine, query
from zenlake.tables.lake_reader import read as read_lake
from zenlake.tables.schemas import TABLES

SOON = datetime.fromtimestamp(MIDNIGHT // 1_000_000_000, UTC)


@pytest.fixture(scope="module", params=["delta", "iceberg"])
def places(request, tmp_path_factory):
    """A log, and a lake in which it was landed."""
    folder = tmp_path_factory.mktemp(request.param)
    recorded(folder / "log")
    lake = Lake(folder / "lake", create=request.param)
    land(lake, Log(folder / "log"), LandingBatch("q", 0), tables=list(TABLES))
    return folder / "log", folder / "lake"


@pytest.mark.parametrize("table", [*TABLES, *DERIVED])
def test_every_table_is_the_same(places, table):
    log, lake = (zenlake.read(place, table) for place in places)
    assert lake.schema == log.schema
    assert rows(lake) == rows(log)


def test_so_is_a_choice_of_columns_keys_and_times(places):
    choice = {
        "columns": ["clock_skew", "key"], "keys": "**", "since": SOON - timedelta(seconds=0.01), "until": SOON,
    }  # fmt: skip
    log, lake = (zenlake.read(place, **choice) for place in places)
    assert lake.schema == log.schema
    assert rows(lake) == rows(log)
    assert 0 < lake.num_rows < zenlake.read(places[1]).num_rows


def test_a_lake_is_asked_in_sql_and_read_beside_a_log(places):
    log, lake = places
    once = zenlake.read(log).num_rows
    assert query("select count(*) as n from samples", lake).to_pylist() == [{"n": once}]
    assert zenlake.read([log, lake]).num_rows == 2 * once


def test_a_query_opens_the_tables_that_it_names_or_all(places):
    """All views together take longer than most queries."""
    views = "select view_name from duckdb_views() where not internal"
    for more, expected in (
        ("", {*TABLES, *DERIVED}),
        (" and exists (from Samples)", {"samples"}),
        (" and exists (from rates)", {"samples", "rates"}),
    ):
        assert set(query(views + more, places[1])["view_name"].to_pylist()) == expected


def test_a_table_without_rows_is_empty(tmp_path):
    recorded(tmp_path / "log")
    land(Lake(tmp_path / "lake", create="delta"), Log(tmp_path / "log"), LandingBatch("q", 0), tables=["samples"])
    assert zenlake.read(tmp_path / "lake", "errors").num_rows == 0


LARGEST = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from zenlake.cli import main
try:
    main(sys.argv[1:])
finally:
    kilobytes = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])
    print("pandas" in sys.modules, kilobytes >> 10, file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["sql", "report"])
def test_payloads_that_a_query_does_not_use_are_not_loaded(tmp_path, command):
    """Defect 11: `sql` and `report` used to decode whole tables, with payloads, into memory."""
    lake = Lake(tmp_path / "lake", create="delta")
    received = datetime.fromtimestamp(MIDNIGHT // 1_000_000_000, UTC)
    sample = {"received": received, "key": "a/b", "kind": "put", "payload_size": 1 << 20, "session": "s"}
    put_samples(lake, ([{**sample, "payload": b"%8d" % i + bytes(1 << 20)} for _ in range(8)] for i in range(100)))
    arguments = {
        "sql": ["select key, count(*), sum(payload_size)::bigint from samples group by key", lake.location.path],
        "report": [lake.location.path, "--out", str(tmp_path / "page.html")],
    }[command]
    done = subprocess.run(
        [sys.executable, "-c", LARGEST, command, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    *_, has_pandas, megabytes = done.stderr.split()
    if command == "sql":
        assert has_pandas == "False", "its import takes longer than most queries"
        assert all(value in done.stdout for value in ("a/b", "800", str(800 << 20)))
    assert int(megabytes) < 500  # there are 800 of payload


def test_programs_that_open_a_new_iceberg_lake_at_the_same_time_share_its_catalog(tmp_path):
    for number in range(10):
        lake = Lake(tmp_path / str(number), create="iceberg")
        start = Barrier(4)

        def open_table(lake=lake, start=start):
            start.wait()
            return lake.table("samples").exists

        with ThreadPoolExecutor(4) as pool:
            opened = [pool.submit(open_table) for _ in range(4)]
        assert [each.result() for each in opened] == [False] * 4


def test_a_filter_of_sql_reaches_the_files_of_a_store(tmp_path, monkeypatch):
    recorded(tmp_path / "log")
    lake = Lake(tmp_path / "lake", create="delta")
    land(lake, Log(tmp_path / "log"), LandingBatch("q", 0), tables=["samples"])
    expected = zenlake.read(lake.location.path, columns=["key"])["key"].to_pylist()
    key = next(key for key in expected if key is not None)
    found = []

    def read(*arguments, **options):
        for each in read_lake(*arguments, **options):
            found.append(each[1].num_rows)
            yield each

    monkeypatch.setattr(duckdb_engine, "read_lake", read)
    address = f"file://{lake.location.path}"  # an address, so DuckDB reads no file itself
    [counted] = query(f"select count(*) as n from samples where key = '{key}'", address).to_pylist()
    assert counted == {"n": expected.count(key)}
    assert sum(found) == expected.count(key) < len(expected)
