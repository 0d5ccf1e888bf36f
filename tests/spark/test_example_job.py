# SPDX-License-Identifier: Apache-2.0
"""The example job in the project of a user: its own test, and two runs of the job on a log."""

import importlib.util
import json
import sys
from pathlib import Path

import duckdb
import pytest

import zenlake
from tests.report.fixtures import log_of
from zenlake.sample_captures import sample

PROJECT = Path(__file__).parents[2] / "examples" / "spark_job"
pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


@pytest.fixture
def job(monkeypatch):
    monkeypatch.syspath_prepend(str(PROJECT / "src"))
    from fleet_job import job

    yield job
    del sys.modules["fleet_job.job"], sys.modules["fleet_job"]


def test_its_own_test_passes(spark, job):
    spec = importlib.util.spec_from_file_location("test_tracks", PROJECT / "tests" / "test_tracks.py")
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    theirs.test_a_track_is_as_wide_as_its_poses_and_other_values_are_left_out(spark)


def test_every_pose_of_a_window_that_is_over_counts_once(spark, job, tmp_path):
    log = log_of(sample(), tmp_path / "log")
    for _ in range(2):  # the second run has no new rows
        job.main([str(log), str(tmp_path / "out")])
    found = duckdb.sql(
        f"select robot, sum(poses)::int from '{tmp_path}/out/tracks/*.parquet' group by 1 order by 1"
    ).fetchall()
    last = max(row["received"] for row in zenlake.read(log, columns=["received"]).to_pylist())
    expected = {}
    for row in zenlake.read(log, columns=["received", "key", "payload"], keys="fleet/*/pose").to_pylist():
        json.loads(row["payload"])  # every one is a pose
        robot = row["key"].split("/")[1]
        expected.setdefault(robot, []).append(row["received"])
    assert {robot for robot, _ in found} == set(expected)
    for robot, poses in found:
        assert 0 < poses <= len(expected[robot]), (robot, last)
    assert sum(poses for _, poses in found) > 0.5 * sum(
        map(len, expected.values())
    )  # windows still open are not written
