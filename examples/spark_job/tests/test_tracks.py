# SPDX-License-Identifier: Apache-2.0
"""Tests of the logic of the job, with literal rows: no log and no network."""

from datetime import UTC, datetime

import pytest
from fleet_job.job import tracks

import zenlake.spark


@pytest.fixture(scope="session")
def spark():
    return zenlake.spark.session("local[1]", quick=True)


def test_a_track_is_as_wide_as_its_poses_and_other_values_are_left_out(spark):
    at = [datetime(2026, 1, 1, 12, 0, second, tzinfo=UTC) for second in (1, 2, 3, 12)]
    rows = [
        (at[0], "fleet/r1/pose", b'{"x": 1, "y": 5}'),
        (at[1], "fleet/r1/pose", b'{"x": 4, "y": 5}'),
        (at[2], "fleet/r1/pose", b"no JSON at all"),
        (at[3], "fleet/r1/pose", b'{"x": 9, "y": 9}'),
    ]
    samples = spark.createDataFrame(rows, "received timestamp, key string, payload binary")
    found = tracks(samples).orderBy("begin").collect()
    assert [(row.robot, row.poses, row.width, row.height) for row in found] == [
        ("r1", 2, 3.0, 0.0),
        ("r1", 1, 0.0, 0.0),
    ]
