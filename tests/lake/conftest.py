# SPDX-License-Identifier: Apache-2.0
"""These tests simulate killed processes, not power failures, so they do not sync to disk."""

import os

import pytest

from tests.lake.store import Store


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda file: None)


@pytest.fixture(scope="module")
def store():
    """An S3 server."""
    pytest.importorskip("moto.server")
    found = Store()
    yield found
    found.close()


@pytest.fixture
def credentials(store, monkeypatch, tmp_path):
    """The variables of a user of the store."""
    for name, value in {**store.environment(), "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
