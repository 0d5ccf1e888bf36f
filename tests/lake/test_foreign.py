# SPDX-License-Identifier: Apache-2.0
"""Lakes that other people made, with names that lead out of the lake: nothing outside is read."""

import json
from pathlib import Path

import pytest

from tests.lake.fixtures import MIDNIGHT, recorded
from tests.lake.test_commit import land
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch
from zenlake.log.reader import Log
from zenlake.tables.lake_reader import delta_files


@pytest.mark.parametrize("name", ["../../victim/file.parquet", "file:///etc/passwd", "/etc/passwd"])
def test_a_delta_log_that_leaves_its_table_is_refused(tmp_path: Path, name: str) -> None:
    recorded(tmp_path / "log", size=5)
    (tmp_path / "victim").mkdir()
    (tmp_path / "victim" / "file.parquet").write_bytes(b"mine")
    lake = Lake(tmp_path / "lake", "delta")
    land(lake, Log(tmp_path / "log"), LandingBatch("q", 0))
    table = tmp_path / "lake" / "samples"
    add = {"path": name, "partitionValues": {"day": "2026-01-01"}, "size": 4, "modificationTime": MIDNIGHT // 1_000_000}
    versions = sorted((table / "_delta_log").glob("*.json"))
    (table / "_delta_log" / f"{len(versions):020d}.json").write_text(json.dumps({"add": {**add, "dataChange": True}}))
    try:
        found = delta_files(table)
    except LakeError:
        return
    assert all(Path(path).resolve().is_relative_to(table.resolve()) for path in found)
