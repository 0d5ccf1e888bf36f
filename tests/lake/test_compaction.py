# SPDX-License-Identifier: Apache-2.0
"""Compaction: the same rows in fewer files, each once, wherever it is killed."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pyarrow.parquet as pq
import pytest

from tests.lake.fixtures import MIDNIGHT, decoded, recorded, rows
from tests.lake.test_commit import Killed, assert_landed_once, land, landed
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, commit, compact, compaction, layout, staging
from zenlake.log import Log

DAY = 86_400 * 10**9
POINTS = ["write", "staged", "commit", "entered", "rename", "removed", "applied"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, size=30)
    return Log(path)


def lake_of(path, log, format="parquet"):
    """Of many small files, around a midnight."""
    lake = Lake(path / "lake", create=format)
    land(lake, log, LandingBatch("q", 0), size=3000)
    return lake


def files(lake, table="samples"):
    return sorted(path.relative_to(lake.path / table).as_posix() for path in (lake.path / table).rglob("*.parquet"))


def test_the_same_rows_are_in_one_file_a_day_in_the_order_of_their_keys(tmp_path, log):
    lake = lake_of(tmp_path, log)
    before, touched = len(files(lake)), lake.days("samples")
    done = {each.table: each for each in compact(lake)}
    assert (done["samples"].files, done["samples"].into) == (before, 2)
    assert before > 4
    assert [name.partition("/")[0] for name in files(lake)] == ["day=2026-01-31", "day=2026-02-01"]
    assert_landed_once(lake, log)
    for name in files(lake):
        file = pq.ParquetFile(lake.path / "samples" / name)
        keys = file.read()["key"].to_pylist()
        assert keys == sorted(keys, key=lambda key: (key is None, key))
        assert file.schema_arrow.equals(staging.TABLES["samples"])
    assert lake.days("samples") == touched, "nothing has to be derived again"
    assert all(each.files == 0 for each in compact(lake))
    land(lake, log, LandingBatch("again", 0))  # what is landed is known to be
    assert_landed_once(lake, log)


def test_days_that_are_not_over_and_files_of_others_are_left_alone(tmp_path, log):
    lake = lake_of(tmp_path, log)
    mine = lake.path / "samples" / "day=2026-01-31" / "mine.parquet"
    pq.write_table(pq.ParquetFile(lake.path / "samples" / files(lake)[0]).read().replace_schema_metadata(), mine)
    stays = [name for name in files(lake) if name.startswith("day=2026-02-01")]
    compact(lake, ["samples"], before=date(2026, 2, 1))
    assert mine.exists()
    assert [name for name in files(lake) if name.startswith("day=2026-02-01")] == stays
    assert len([name for name in files(lake) if name.startswith("day=2026-01-31")]) == 2
    with pytest.raises(LakeError, match=r"unknown table 'queries' in .*; expected one of events, samples"):
        compact(lake, ["queries"])


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [0, 2])
def test_compaction_that_is_killed_anywhere_leaves_every_row_once(tmp_path, log, monkeypatch, point, times):
    lake = lake_of(tmp_path, log)
    left = [times]

    def killer(reached):
        if reached == point:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    for module in (commit, staging, compaction):
        monkeypatch.setattr(module, "fault_point", killer)
    with pytest.raises(Killed):
        compact(lake)
    for module in (commit, staging, compaction):
        monkeypatch.setattr(module, "fault_point", layout.fault_point)
    Lake(lake.path).recover()
    assert_landed_once(lake, log)
    compact(Lake(lake.path))
    assert_landed_once(lake, log)
    assert len(files(lake)) == 2
    assert not list((lake.path / layout.STAGING).rglob("*.parquet"))


def test_a_delta_table_is_compacted_while_it_is_read_and_landed_into(tmp_path, log):
    deltalake = pytest.importorskip("deltalake")
    lake = lake_of(tmp_path, log, "delta")
    recorded(tmp_path / "more", seed=9, size=10, since=MIDNIGHT + 3 * DAY)
    before = deltalake.DeltaTable(str(lake.path / "samples"))
    old = before.to_pyarrow_table().drop_columns("day")
    land(lake, Log(tmp_path / "more"), LandingBatch("other", 0))  # concurrently, after the list of files was read
    done = {each.table: each for each in compact(lake)}
    assert done["samples"].files > 4 > done["samples"].into
    assert rows(before.to_pyarrow_table().drop_columns("day")) == rows(old), "readers of the old list still work"
    now = deltalake.DeltaTable(str(lake.path / "samples")).to_pyarrow_table().drop_columns("day")
    expected = [decoded(path, ["samples"])["samples"] for path in (log.files.path, tmp_path / "more")]
    assert rows(now) == sorted(rows(expected[0]) + rows(expected[1]))
    files = lake.files("samples")
    land(lake, log, LandingBatch("again", 0))
    assert lake.files("samples") == files, "what is landed is known to be"


def test_the_command_prints_its_result(tmp_path, log, capsys):
    lake = lake_of(tmp_path, log)
    count = len(files(lake))
    for arguments in (["info"], ["compact", "-t", "samples"], ["compact"]):
        with pytest.raises(SystemExit) as ended:
            main(["lake", arguments[0], str(lake.path), *arguments[1:]])
        assert ended.value.code == 0
    output = capsys.readouterr().out
    assert f"samples: merged {count} files into 2" in output
    assert "samples: nothing to compact" in output
    assert str(landed(lake, "samples").num_rows) in output


def test_a_delta_table_is_compacted_and_landed_into_at_the_same_moment(tmp_path):
    """Also the days that are landed, and twice at once: a reader sees whole batches, and in the end each row is there once."""
    deltalake = pytest.importorskip("deltalake")
    paths = [tmp_path / f"log-{i}" for i in range(8)]
    for i, path in enumerate(paths):
        recorded(path, seed=i + 1, sessions=1, size=8)
    batches = [Counter(rows(decoded(path, ["samples"])["samples"])) for path in paths]
    lake = Lake(tmp_path / "lake", create="delta")
    over, compacted, seen = threading.Event(), [], []

    def compacting():
        while not over.is_set():
            if lake.tables():
                compacted.extend(compact(Lake(lake.path), before=date(2030, 1, 1)))

    def reading():
        while not over.is_set():
            if deltalake.DeltaTable.is_deltatable(str(lake.path / "samples")):
                table = deltalake.DeltaTable(str(lake.path / "samples")).to_pyarrow_table().drop_columns("day")
                seen.append(Counter(rows(table)))

    with ThreadPoolExecutor() as pool:
        others = [pool.submit(compacting), pool.submit(compacting), pool.submit(reading)]
        try:
            for i, path in enumerate(paths):
                land(lake, Log(path), LandingBatch("q", i), tables=["samples"], size=2000)
        finally:
            over.set()
        for other in others:
            other.result()
    assert sum(each.files for each in compacted) > 0, "they met"
    assert seen
    for each in seen:
        whole = [batch for batch in batches if batch <= each]
        assert each == sum(whole, Counter()), "a part of a batch, or one twice"
    now = deltalake.DeltaTable(str(lake.path / "samples")).to_pyarrow_table().drop_columns("day")
    assert Counter(rows(now)) == sum(batches, Counter())
