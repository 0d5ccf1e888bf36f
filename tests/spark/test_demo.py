# SPDX-License-Identifier: Apache-2.0
"""`zenlake demo`: from captures to a lake that another engine reads, also repeatedly."""

import json
import re

import duckdb
import pytest

import zenlake
from tests.report.reference_figures import check
from tests.tables.fixtures import PCAPS
from zenlake.cli import main
from zenlake.sample_captures import captures
from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


def demo(*arguments):
    with pytest.raises(SystemExit) as left:
        main(["demo", *arguments])
    return left.value.code


def in_lake(lake, name):
    with duckdb.connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        return engine.sql(f"from '{lake}/{name}/**/*.parquet'").to_arrow_table()


def test_it_runs_from_capture_to_lake_and_runs_again(spark, tmp_path, capsys):
    lake = tmp_path / "lake"
    assert demo(*captures(), "--lake", str(lake)) == 0
    out = capsys.readouterr().out
    for name in (*TABLES, *DERIVED):
        expected = zenlake.read(captures(), name)
        assert f"✓ {name:<13}{expected.num_rows:>7} rows → " in " ".join(out.split("\n"))
        if expected.num_rows:
            found = in_lake(lake, name).select(expected.column_names)
            assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))
    assert "empty: every byte was decoded" in out
    assert "Next, with your own" in out
    assert [path.name for path in sorted((lake / "samples").glob("day=*"))] == ["day=2026-11-15"]

    [mine] = [str(path) for path in PCAPS if path.stem == "multicast_cooked"]
    assert demo(mine, "--lake", str(lake)) == 0
    assert in_lake(lake, "samples").num_rows == 3
    assert not (lake / "queries").exists() or in_lake(lake, "queries").num_rows == 0


def test_a_live_fleet_is_landed_and_every_sample_accounted_for(spark, tmp_path, capsys):
    """The demo itself compares the counts of the senders with the lake, and fails if they differ."""
    lake = tmp_path / "lake"
    assert demo("--lake", str(lake), "--seconds", "4") == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "20 robots, half of them on Eclipse Zenoh" in out
    assert "publishers are in the lake, each once" in out
    assert "fleet/r09 was killed after" in out
    assert "the slow subscriber processed" in out
    samples = in_lake(lake / "tables", "samples")
    robots = {key.split("/")[1] for key in samples["key"].to_pylist() if key.startswith("fleet/")}
    assert len(robots) == 20
    match = re.search(
        r'<script[^>]* id="data"[^>]*>(.*?)</script>', (lake / "report.html").read_text("utf-8"), re.DOTALL
    )
    [recording] = json.loads(match[1])["recordings"]
    check(recording, lake / "tables")
    assert recording["overview"]["broken"] == 1
    assert {row["key"]: row["how"] for row in recording["liveliness"]["spans"]}["fleet/r09/alive"] == "connection broke"
    queries = in_lake(lake / "tables", "queries")
    assert {"answered", "error"} <= set(queries["outcome"].to_pylist())
    assert zenlake.read(lake / "log", "samples").num_rows == samples.num_rows


def test_it_does_not_write_into_a_folder_that_is_not_its_own(tmp_path, capsys):
    (tmp_path / "precious").mkdir()
    assert demo("--lake", str(tmp_path)) == 1
    assert "is not empty and was not created by the demo; choose another folder with --lake" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


def test_without_java_the_error_is_one_line(tmp_path, capsys, monkeypatch):
    from pyspark.sql import SparkSession

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "_instantiatedSession", None)
    assert demo("--lake", str(tmp_path / "lake")) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith(f"zenlake: JAVA_HOME is {tmp_path}, but bin/java does not work")
