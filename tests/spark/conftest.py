# SPDX-License-Identifier: Apache-2.0
"""One Spark session for all tests, started as a user starts it, without registration."""

import socket

import pytest

import zenlake.spark
from tests.interop.nodes import Theirs


@pytest.fixture(scope="session")
def spark():
    session = zenlake.spark.session("local[2]", quick=True)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def router():
    """A router of eclipse-zenoh, and its endpoint `where`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        where = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    node = Theirs("router", listen=(where,))
    node.where = where
    yield node
    node.close()
