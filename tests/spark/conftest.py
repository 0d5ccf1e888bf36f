# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all tests, started as a user starts it, without registration."""

import pytest

import zenlake.spark


@pytest.fixture(scope="session")
def spark():
    session = zenlake.spark.session("local[2]", quick=True)
    yield session
    session.stop()
