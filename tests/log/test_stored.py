# SPDX-License-Identifier: Apache-2.0
"""Logs that commit 4fec4f9 wrote: `written(path, interleaved(21, faces=3, size=12, has_stacks=False), block_size=1500, ...)`."""

import shutil
from pathlib import Path

import pytest

from tests.log.fixtures import directly, interleaved, tables
from zenlake.log import Log, Writer
from zenlake.log.verify_repair import repair, verify

STORED = Path(__file__).parent / "data" / "format-1"


@pytest.mark.parametrize("name", ["plain", "zstd"])
def test_a_log_of_an_earlier_version_is_read_verified_and_continued(tmp_path, name):
    shutil.copytree(STORED / name, tmp_path / "log")
    log = Log(tmp_path / "log")
    batches = interleaved(21, faces=3, size=12, has_stacks=False)
    faces = dict.fromkeys(face for face, _, _ in batches)
    names = [f"tcp/10.0.0.{face}:40000->10.0.0.99:7447#w.1.{count}" for count, face in enumerate(faces, 1)]
    expected = directly(batches, names, log)
    found = tables(log, log.plan())
    if name == "zstd":  # written with metadata_only: some values are missing
        assert found.pop("samples").num_rows == expected.pop("samples").num_rows
    assert found == expected
    for part in log.plan(size=1):
        tables(log, [part])
    assert [each.wrong for each in verify(log)] == [""]
    assert list(repair(tmp_path / "log")) == []
    with Writer(tmp_path / "log", "w") as writer:
        writer.append(writer.face("tcp", "a:1", "b:2"), 0, b"\x04")
    assert log.latest() == {"w": [2, 1]}
    assert [each.wrong for each in verify(log)] == ["", ""]
