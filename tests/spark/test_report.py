# SPDX-License-Identifier: Apache-2.0
"""The report of a lake that Spark wrote is the report of the capture."""

import pytest

import zenlake.spark
from tests.tables.fixtures import PCAPS
from zenlake import report
from zenlake.cli.demo.command import BY_DAY
from zenlake.spark.parquet import write

[CAPTURE] = [path for path in PCAPS if path.stem == "clean_full_sessions"]


@pytest.mark.spark
def test_a_lake_written_by_spark_gives_the_figures_of_its_capture(spark, tmp_path):
    tables = zenlake.spark.tables(spark, str(CAPTURE))
    for name in ("messages", "samples", "declarations", "events", "errors", "sessions", "queries", "gaps"):
        write(tables[name], tmp_path / name, by_day=name in BY_DAY)
    [found], [expected] = (report.data(path)["recordings"] for path in (tmp_path, CAPTURE))
    for recording in (found, expected):
        del recording["name"], recording["kind"]
    assert found == expected
