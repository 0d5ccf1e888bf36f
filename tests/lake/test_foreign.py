# SPDX-License-Identifier: Apache-2.0
"""Lakes that other people made, with names that lead out of the lake: nothing outside is read, moved or removed."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.lake.fixtures import MIDNIGHT, recorded
from tests.lake.test_commit import NAMES, assert_landed_once, land
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, compact
from zenlake.log.reader import Log
from zenlake.tables.lake_reader import delta_files

OUTWARD = ["../victim/file.parquet", "/VICTIM/file.parquet", "samples/../../victim/file.parquet", "", "a\0b"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Log:
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path)
    return Log(path)


@pytest.fixture
def lake(tmp_path: Path, log: Log) -> Lake:
    found = Lake(tmp_path / "lake", "parquet")
    land(found, log, LandingBatch("q", 0))
    return found


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    folder = tmp_path / "victim"
    folder.mkdir()
    (folder / "file.parquet").write_bytes(b"mine")
    return folder


def enter(lake: Lake, **changes: Any) -> None:
    """Write one more entry of the ledger, as the maker of the lake could."""
    last = lake.ledger.last()
    plain = last.following("q", last.batch + 1).plain() | changes
    (lake.ledger.folder / f"{last.number + 1:010d}.json").write_text(json.dumps(plain))


def staged(**changes: Any) -> dict[str, Any]:
    return {
        "table": "samples", "day": "2026-01-01", "staged": "_staging/q/x.parquet", "final": "samples/day=2026-01-01/x.parquet",
        "rows": 1, "size": 1, **changes,
    }  # fmt: skip


CHANGES = [{"removed": [name]} for name in OUTWARD]
CHANGES += [{"files": [staged(**{field: name})]} for field in ("staged", "final") for name in OUTWARD]
CHANGES += [{"files": [staged(table="..")]}, {"landed": {"../victim": {}}}, {"transformed": {"..": "q"}}]
CHANGES += [{"touched": {"samples": {"x/../../../victim": 1}}}, {"touched": {"/": {}}}, {"files": [{}]}, {"landed": 3}]


@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_an_entry_that_leaves_the_lake_is_refused(lake: Lake, victim: Path, changes: dict[str, Any]) -> None:
    changes = json.loads(json.dumps(changes).replace("/VICTIM", str(victim)))
    enter(lake, **changes)
    before = sorted(path for path in victim.parent.rglob("*") if path.is_file())
    for use in (lambda: compact(lake), lake.recover, lake.tables, lambda: lake.commit([], LandingBatch("other", 0))):
        with pytest.raises(LakeError):
            use()
    after = sorted(path for path in victim.parent.rglob("*") if path.is_file())
    assert [path for path in after if path.name != "lock"] == [path for path in before if path.name != "lock"]
    assert (victim / "file.parquet").read_bytes() == b"mine"


def test_the_command_says_why(lake: Lake, victim: Path, capsys: pytest.CaptureFixture[str]) -> None:
    enter(lake, removed=["../victim/file.parquet"])
    with pytest.raises(SystemExit) as ended:
        main(["lake", "compact", str(lake.path)])
    assert ended.value.code == 1
    assert "names '../victim/file.parquet', which is outside of the lake" in capsys.readouterr().err
    assert (victim / "file.parquet").exists()


@pytest.mark.parametrize("name", ["_landed", "_staging", "_staging/compact", "samples/day=2026-01-31"])
def test_symbolic_links_out_of_the_lake_are_refused(lake: Lake, victim: Path, name: str) -> None:
    path = lake.path / name
    moved = victim / "moved"
    if path.exists():
        os.rename(path, moved)
    else:
        moved.mkdir()
        (moved / "precious").touch()
    path.symlink_to(moved)
    before = sorted(victim.rglob("*"))
    with pytest.raises(LakeError, match="outside of"):
        compact(Lake(lake.path))
    assert sorted(victim.rglob("*")) == before


def test_a_staged_link_is_refused(lake: Lake, victim: Path) -> None:
    (lake.path / "_staging/q").mkdir(parents=True, exist_ok=True)
    (lake.path / "_staging/q/x.parquet").symlink_to(victim / "file.parquet")
    enter(lake, files=[staged()])
    with pytest.raises(LakeError, match="outside of"):
        lake.recover()


@pytest.mark.parametrize("name", ["../../victim/file.parquet", "file:///etc/passwd", "/etc/passwd"])
def test_a_delta_log_that_leaves_its_table_is_refused(tmp_path: Path, log: Log, victim: Path, name: str) -> None:
    pytest.importorskip("deltalake")
    lake = Lake(tmp_path / "lake", "delta")
    land(lake, log, LandingBatch("q", 0))
    table = lake.path / "samples"
    add = {"path": name, "partitionValues": {"day": "2026-01-01"}, "size": 4, "modificationTime": MIDNIGHT // 1_000_000}
    versions = sorted((table / "_delta_log").glob("*.json"))
    (table / "_delta_log" / f"{len(versions):020d}.json").write_text(json.dumps({"add": {**add, "dataChange": True}}))
    try:
        found = delta_files(table)
    except LakeError:
        return
    assert all(Path(path).resolve().is_relative_to(table.resolve()) for path in found)


@pytest.mark.parametrize("harm", ["absent", "cut", "longer", "not Parquet", "fewer rows"])
def test_staged_files_that_the_driver_does_not_see_leave_the_lake_usable(tmp_path: Path, log: Log, harm: str) -> None:
    """As workers without a shared path do: their staged files exist only for them."""
    lake = Lake(tmp_path / "lake", "parquet")

    def hide() -> None:
        first, second = sorted((lake.path / "_staging/q").glob("*-samples-*.parquet"))[:2]
        size = first.stat().st_size
        if harm == "absent":
            first.unlink()
        elif harm == "cut":
            os.truncate(first, size - 1)
        elif harm == "longer":
            os.truncate(first, size + 1)
        elif harm == "not Parquet":
            first.write_bytes(bytes(size))
        else:
            first.write_bytes(second.read_bytes())

    with pytest.raises(LakeError, match="same path") as refused:
        land(lake, log, LandingBatch("q", 0), meanwhile=hide)
    assert "\n" not in str(refused.value)
    assert lake.ledger.last().number == 0
    assert lake.files("samples") == []
    land(lake, log, LandingBatch("q", 0))
    assert_landed_once(lake, log, NAMES)
