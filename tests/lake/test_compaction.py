# SPDX-License-Identifier: Apache-2.0
"""Compaction: the same rows in fewer files, each once, after a kill at any point, and during landings and other compactions."""

import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.lake.fixtures import decoded, put_samples, recorded, rows
from tests.lake.test_commit import FORMATS, Killed, assert_landed_once, land, landed, stop_at
from zenlake.cli import main
from zenlake.errors import LakeError
from zenlake.lake import Lake, LandingBatch, compact, compaction, parquet_writer, remove_orphans
from zenlake.log import Log


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path, size=30)
    return Log(path)


@pytest.fixture
def lake(tmp_path, log, format):
    """Of many small files, around a midnight."""
    lake = Lake(tmp_path / "lake", create=format)
    land(lake, log, LandingBatch("q", 0), size=3000)
    return lake


@FORMATS
def test_the_same_rows_are_in_one_file_a_day_in_the_order_of_keys_and_times(lake, log):
    before = lake.files("samples")
    done = {each.table: each for each in compact(lake)}
    assert (done["samples"].files, done["samples"].into) == (len(before), 2)
    assert len(before) > 4
    assert [file.day for file in lake.files("samples")] == ["2026-01-31", "2026-02-01"]
    assert_landed_once(lake, log)
    for file in lake.files("samples"):
        opened = pq.ParquetFile(file.path)
        order = opened.read(columns=["key", "received_ns"]).to_pylist()
        assert order == sorted(order, key=lambda row: (row["key"] is None, row["key"], row["received_ns"]))
        assert opened.metadata.row_group(0).column(0).has_offset_index
    assert all(each.files == 0 for each in compact(lake))
    land(lake, log, LandingBatch("again", 0))  # landed parts are still recorded
    assert_landed_once(lake, log)


@FORMATS
def test_a_large_day_becomes_files_of_the_wanted_size_and_stays(tmp_path, format, monkeypatch):
    """The ratio of compression has no effect. Otherwise small files would be merged repeatedly."""
    monkeypatch.setattr(parquet_writer, "MAX_ROWS", 500)
    monkeypatch.setattr(compaction, "BATCH", 500)
    lake = Lake(tmp_path / "lake", create=format)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for number in range(16):
        times = [noon + timedelta(seconds=500 * number + i) for i in range(500)]
        put_samples(lake, [[{"received": time, "key": f"robot/{time}"} for time in times]], number)
    target = 30_000
    [done] = compact(lake, ["samples"], target=target)
    sizes = [file.size for file in lake.files("samples")]
    assert done.into == len(sizes) > 1
    assert sorted(sizes)[1] > target // 2, "only one may be small"
    [again] = compact(lake, ["samples"], target=target)
    assert again.files == 0


@FORMATS
def test_after_compaction_the_rows_of_a_key_are_in_one_place(tmp_path, format, monkeypatch):
    """Defect 12: a reader of one key used to open every row group."""
    monkeypatch.setattr(parquet_writer, "MAX_ROWS", 250)
    monkeypatch.setattr(compaction, "BATCH", 250)
    lake = Lake(tmp_path / "lake", create=format)
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    keys = [f"robot/{i:03d}/pose" for i in range(200)]
    for number in range(4):
        put_samples(lake, [[{"received": noon + timedelta(seconds=number), "key": key} for key in 5 * keys]], number)

    def opened(key):
        """The row groups that may contain the key, according to their statistics, and all."""
        groups = []
        for file in lake.files("samples"):
            metadata = pq.ParquetFile(file.path).metadata
            column = metadata.schema.names.index("key")
            groups += [metadata.row_group(i).column(column).statistics for i in range(metadata.num_row_groups)]
        return sum(each.min <= key <= each.max for each in groups), len(groups)

    before = opened(keys[77])
    compact(lake, ["samples"])
    assert landed(lake, "samples").num_rows == 4000
    found, groups = opened(keys[77])
    assert before[0] >= 4
    assert (found, groups) == (1, 16)


@FORMATS
def test_days_that_are_not_over_are_left_alone(lake):
    stays = [file for file in lake.files("samples") if file.day == "2026-02-01"]
    compact(lake, ["samples"], before=date(2026, 2, 1))
    assert [file for file in lake.files("samples") if file.day == "2026-02-01"] == stays
    assert len([file for file in lake.files("samples") if file.day == "2026-01-31"]) == 1
    with pytest.raises(LakeError, match=r"unknown table 'queries' in .*; expected one of events, samples"):
        compact(lake, ["queries"])


@FORMATS
@pytest.mark.parametrize("point", ["written", "commit", "committed"])
def test_compaction_that_is_killed_anywhere_leaves_every_row_once(lake, log, monkeypatch, point):
    stop_at(monkeypatch, point)
    with pytest.raises(Killed):
        compact(lake)
    monkeypatch.undo()
    assert_landed_once(lake, log)
    compact(lake)
    assert_landed_once(lake, log)
    assert len(lake.files("samples")) == 2


@FORMATS
def test_of_two_compactions_of_the_same_files_one_is_refused(lake, log):
    jobs = compaction.plan_jobs(lake, "samples")
    first, second = ([compaction.rewrite(job) for job in jobs] for _ in range(2))
    for job, made in zip(jobs, first, strict=True):
        compaction.replace_files(lake, job, made)
    with pytest.raises(LakeError, match="another compaction has replaced these files"):
        compaction.replace_files(lake, jobs[0], second[0])
    assert_landed_once(lake, log)


@FORMATS
def test_replaced_files_and_files_of_failed_tasks_are_removed_when_they_are_old(lake, log):
    before = {file.path for file in lake.files("samples")}
    orphan = lake.location.at("samples", "day=2026-01-31", "failed.parquet")
    pq.write_table(pq.ParquetFile(next(iter(before))).read(), orphan)
    compact(lake)
    remove_orphans(lake)
    there = set(map(str, Path(lake.location.at("samples")).rglob("*.parquet")))
    assert there >= before | {orphan}, "a task or a reader may still use them"
    remove_orphans(lake, hours=0)
    there = set(map(str, Path(lake.location.at("samples")).rglob("*.parquet")))
    assert there == {file.path for file in lake.files("samples")}
    land(lake, log, LandingBatch("again", 0))  # defect 7: the progress used to end with its snapshot
    assert_landed_once(lake, log)


@FORMATS
def test_the_commands_print_their_results(lake, tmp_path, capsys):
    count, path = len(lake.files("samples")), lake.location.path
    for arguments in (
        ["info", path], ["compact", path, "-t", "samples"], ["compact", path], ["clean", path],
        ["export", path, str(tmp_path / "plain")],
    ):  # fmt: skip
        with pytest.raises(SystemExit) as ended:
            main(["lake", *arguments])
        assert ended.value.code == 0
    output = capsys.readouterr().out
    assert f"samples: merged {count} files into 2" in output
    assert "samples: nothing to compact" in output
    assert str(landed(lake, "samples").num_rows) in output
    exported = pq.read_table(tmp_path / "plain" / "samples", partitioning=None)
    assert exported.num_rows == landed(lake, "samples").num_rows
    with pytest.raises(SystemExit):
        main(["lake", "export", path, str(tmp_path / "plain")])
    assert "is not empty; export into a new folder" in capsys.readouterr().err


@FORMATS
def test_a_table_is_compacted_and_landed_into_at_the_same_moment(tmp_path, format):
    """Compact days during landing, and twice at the same time. A reader sees whole batches, and finally each row once."""
    paths = [tmp_path / f"log-{i}" for i in range(5)]
    for i, path in enumerate(paths):
        recorded(path, seed=i + 1, sessions=1, size=8)
    batches = [Counter(rows(decoded(path, ["samples"])["samples"])) for path in paths]
    lake = Lake(tmp_path / "lake", create=format)
    over, compacted, seen = threading.Event(), [], []

    def compacting():
        while not over.is_set():
            with suppress(LakeError):  # the other compaction was faster
                compacted.extend(compact(Lake(lake.location.path), before=date(2030, 1, 1)))

    def reading():
        while not over.is_set():
            if lake.table("samples").exists:
                seen.append(Counter(rows(landed(lake, "samples"))))

    with ThreadPoolExecutor() as pool:
        others = [pool.submit(compacting), pool.submit(compacting), pool.submit(reading)]
        try:
            for i, path in enumerate(paths):
                land(lake, Log(path), LandingBatch("q", i), tables=["samples"], size=2000)
        finally:
            over.set()
        for other in others:
            other.result()
    compacted.extend(compact(lake, before=date(2030, 1, 1)))
    assert sum(each.files for each in compacted) > 0
    for each in seen:
        whole = [batch for batch in batches if batch <= each]
        assert each == sum(whole, Counter()), "a part of a batch, or one twice"
    assert Counter(rows(landed(lake, "samples"))) == sum(batches, Counter())
