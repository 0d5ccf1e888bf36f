# SPDX-License-Identifier: Apache-2.0
"""These tests simulate killed processes, not power failures, so they do not sync to disk."""

import os

import pytest


@pytest.fixture(autouse=True)
def _hasty(monkeypatch):
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, lambda file: None)
