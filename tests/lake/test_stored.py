# SPDX-License-Identifier: Apache-2.0
"""Logs and lakes as earlier versions left them (`stored/VERSION`) still read; lakes are converted and then grow.

Those of `1` were made when samples had neither `clock_skew` nor `payload_sha256`, and rows no position in a log. `1-delta` and
`1-unusable` were made by commit 4fec4f9. A worker of the last one did not share the folder, so that its ledger names files that
do not exist (defect 1). A new version gets its own folder beside them. An old folder is never created again.
"""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.lake.fixtures import decoded, recorded, rows
from tests.lake.test_commit import NAMES, land, landed
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, compact, convert
from zenlake.log import Log
from zenlake.tables.lake_reader import table_files

STORED = Path(__file__).parent / "stored"
LATER = ["clock_skew", "payload_sha256", "log", "writer", "segment", "block", "row"]
CASES = [("1", "delta"), ("1", "iceberg"), ("1-delta", "delta"), ("1-unusable", "delta"), ("1-unusable", "iceberg")]


@pytest.fixture(params=CASES, ids=str)
def stored(request, tmp_path):
    """Copy the log and the lake of a version. Return them with the format of the conversion."""
    return Path(shutil.copytree(STORED / request.param[0], tmp_path / request.param[0])), request.param[1]


def in_files(lake, table):
    parts = [pq.ParquetFile(file).read().replace_schema_metadata() for file in table_files(lake, table)]
    return pa.concat_tables(parts, promote_options="default")


@pytest.mark.parametrize("table", NAMES)
def test_a_log_gives_the_rows_that_it_gave_then(table):
    before = in_files(STORED / "1" / "lake", table)
    now = decoded(STORED / "1" / "log", [table])[table]
    assert rows(now.select(before.column_names)) == rows(before)
    assert now.num_rows > 0


def test_an_unconverted_lake_is_refused_with_the_remedy(stored):
    folder, _ = stored
    for format in (None, "delta"):
        with pytest.raises(LakeError, match="convert it: zenlake lake convert ") as refused:
            Lake(folder / "lake", create=format)
        assert "\n" not in str(refused.value)


def test_a_converted_lake_keeps_its_landed_intervals_and_grows(stored, tmp_path):
    folder, format = stored
    log = Log(folder / "log")
    kept = {
        path: path.read_bytes() for path in (folder / "lake").rglob("day=*/*.parquet") if "_staging" not in str(path)
    }
    counts = convert(folder / "lake", format)
    assert convert(folder / "lake", format) == counts
    assert all(path.read_bytes() == data for path, data in kept.items()), "no file was rewritten"
    lake = Lake(folder / "lake")
    assert lake.format == format
    assert not (folder / "lake" / "_landed").exists()
    before = {table: {file.path for file in lake.files(table)} for table in NAMES}
    land(lake, log, LandingBatch("again", 0))
    expected = decoded(log.files.path, NAMES)
    for table in NAMES:
        # The text of an event is for readers and may change.
        known = [name for name in expected[table].column_names if name not in (*LATER, "detail")]
        assert rows(landed(lake, table).select(known)) == rows(expected[table].select(known)), table
        assert before[table] <= {file.path for file in lake.files(table)}
    if folder.name == "1":
        assert {file.path for file in lake.files("samples")} == before["samples"], "all of it was landed"
    elif folder.name == "1-unusable":
        assert {file.path for file in lake.files("samples")} != before["samples"]
    recorded(tmp_path / "more", seed=3, size=5)
    land(lake, Log(tmp_path / "more"), LandingBatch("more", 0))
    compact(lake)
    new = decoded(tmp_path / "more", ["samples"])["samples"].select(known_columns(lake))
    old = expected["samples"].select(known_columns(lake))
    assert rows(landed(lake, "samples").select(known_columns(lake))) == sorted(rows(new) + rows(old))


def known_columns(lake):
    return [name for name in landed(lake, "samples").column_names if name not in LATER]


def test_the_command_converts_and_prints_the_rows(stored, capsys):
    folder, format = stored
    with pytest.raises(SystemExit) as ended:
        main(["lake", "convert", str(folder / "lake"), "--format", format])
    assert ended.value.code == 0
    assert f"samples: {Lake(folder / 'lake').totals()['samples']['rows']} rows" in capsys.readouterr().out


def test_a_conversion_that_was_interrupted_is_repeated(tmp_path, monkeypatch):
    from zenlake.lake import migration

    folder = Path(shutil.copytree(STORED / "1", tmp_path / "1"))
    plain, left = migration.commit_numbered, [1]

    def once(*arguments, **named):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        plain(*arguments, **named)

    monkeypatch.setattr(migration, "commit_numbered", once)
    with pytest.raises(KeyboardInterrupt):
        convert(folder / "lake")
    monkeypatch.undo()
    assert convert(folder / "lake")["samples"] == decoded(folder / "log", ["samples"])["samples"].num_rows


OUTWARD = ["../victim/file.parquet", "/VICTIM/file.parquet", "samples/../../victim/file.parquet"]


@pytest.mark.parametrize("field", ["staged", "final", "removed", "landed"])
@pytest.mark.parametrize("name", OUTWARD)
def test_a_ledger_that_leaves_the_lake_is_refused(tmp_path, field, name):
    victim = tmp_path / "victim" / "file.parquet"
    victim.parent.mkdir()
    victim.write_bytes(b"mine")
    lake = Path(shutil.copytree(STORED / "1-unusable" / "lake", tmp_path / "lake"))
    path = lake / "_landed" / "0000000002.json"
    entry = json.loads(path.read_bytes())
    name = name.replace("/VICTIM", str(victim.parent))
    if field == "removed":
        entry["removed"] = [name]
    elif field == "landed":
        entry["landed"][name] = {}
    else:
        entry["files"][0][field] = name
    path.write_text(json.dumps(entry))
    with pytest.raises(LakeError, match="outside of the lake"):
        convert(lake)
    assert victim.read_bytes() == b"mine"
