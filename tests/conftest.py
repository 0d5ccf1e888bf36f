# SPDX-License-Identifier: Apache-2.0
"""What tests of several layers share."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests import certificates as maker

settings.register_profile("zenlake", deadline=None)  # a busy machine is not a bug
settings.load_profile("zenlake")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca, server, client, host and impostor, each as .pem and .key."""
    folder = tmp_path_factory.mktemp("certificates")
    maker.make(folder)
    return folder


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For two workers: a file's tests stay together; all of Spark's do, to share one session, and begin first as the longest."""
    for item in items:
        spark = item.get_closest_marker("spark") is not None
        item.add_marker(pytest.mark.xdist_group("spark" if spark else item.path.name))
    items.sort(key=lambda item: item.get_closest_marker("spark") is None)
