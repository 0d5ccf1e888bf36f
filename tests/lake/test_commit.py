# SPDX-License-Identifier: Apache-2.0
"""Landing without Spark: every row once, after a crash at any point, by any query, any number of times."""

import json
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.lake.fixtures import MIDNIGHT, add, decoded, recorded, rows
from zenlake.errors import LakeError
from zenlake.lake import (
    Lake,
    LandedIntervals,
    LandingBatch,
    commit,
    layout,
    pieces,
    replan,
    stage,
    stage_rows,
    staging,
)
from zenlake.log.reader import Log
from zenlake.log.writer import Writer
from zenlake.tables.schemas import TABLES
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

NAMES = ["samples", "events"]
POINTS = ["write", "staged", "commit", "entered", "rename", "applied"]


class Killed(BaseException):
    pass


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("logs") / "log"
    recorded(path)
    return path


def land(lake, log, batch, start=None, end=None, tables=NAMES, size=6000, refuse=False, meanwhile=None):
    """What Spark would do with one batch: plan, a task for each range, commit."""
    start, end = start or {}, end or log.latest()
    staged = []
    for i, piece in enumerate(pieces(log.plan(start, end, size=size), start, end)):
        staged += stage(lake.path, log, [piece], tables, batch, str(i), refuse=refuse)
    if meanwhile is not None:
        meanwhile()

    def restage(table, parts):
        return stage(lake.path, log, replan(log, parts), [table], batch, f"again-{random.randrange(1 << 30)}")

    return lake.commit(staged, batch, restage, refuse=refuse)


def place(log, part):
    """The offset behind that part of a log's blocks."""
    blocks = log.plan(size=1)
    block = blocks[int(len(blocks) * part)]
    return {block.writer: [block.segment, block.first]}


def landed(lake, table):
    """As a reader who knows nothing of ledgers sees it."""
    files = sorted((lake.path / table).rglob("*.parquet"))
    parts = [pq.ParquetFile(file).read().replace_schema_metadata() for file in files]
    return pa.concat_tables(parts) if parts else TABLES[table].empty_table()


def assert_landed_once(lake, log, tables=NAMES):
    for name, table in decoded(log.files.path, tables).items():
        assert rows(landed(lake, name)) == rows(table), name
        assert table.num_rows > 0


def test_a_batch_lands_and_landing_it_again_changes_nothing(tmp_path, path):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    assert land(lake, log, LandingBatch("q", 0), tables=list(TABLES)) > 0
    files = sorted(lake.path.rglob("*.parquet"))
    assert land(lake, log, LandingBatch("q", 0), tables=list(TABLES)) == 0
    assert sorted(lake.path.rglob("*.parquet")) == files
    for name, table in decoded(path).items():
        assert rows(landed(lake, name)) == rows(table)
    assert lake.tables() == sorted(TABLES)


def test_rows_lie_in_the_day_on_which_they_were_received_in_the_order_of_their_keys(tmp_path, path):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    land(lake, log, LandingBatch("q", 0), size=1 << 30)
    assert sorted(each.name for each in (lake.path / "samples").iterdir()) == ["day=2026-01-31", "day=2026-02-01"]
    assert sorted(lake.days("samples")) == ["2026-01-31", "2026-02-01"]
    for file in (lake.path / "samples").rglob("*.parquet"):
        table = pq.ParquetFile(file).read()
        assert {f"day={each.date()}" for each in table["received"].to_pylist()} == {file.parent.name}
        keys = table["key"].to_pylist()
        assert keys == sorted(keys, key=lambda key: (key is None, key))
        assert pq.read_metadata(file).row_group(0).column(0).compression == "ZSTD"
        source = json.loads(pq.read_schema(file).metadata[b"zenlake.source"])
        assert source["log"] == log.id


def test_what_a_task_holds_does_not_grow_with_what_it_lands(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "ROW_GROUP", 2_000_000)
    puts = Push(key="a/b", body=Put(payload=bytes(50))).encode() * 100
    held = {}
    for rows_there in (50_000, 200_000):
        path = tmp_path / f"log-{rows_there}"
        with Writer(path, "tap-1", sync="sealed", block_size=100_000) as writer:
            face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
            for sn in range(rows_there // 100):
                writer.append(face, 0, Frame(reliable=True, sn=sn).encode() + puts, received=MIDNIGHT + sn)
        log, most = Log(path), [0]
        before = pa.total_allocated_bytes()

        def look(point, most=most, before=before):
            most[0] = max(most[0], pa.total_allocated_bytes() - before)

        monkeypatch.setattr(staging, "fault_point", look)
        lake = Lake(tmp_path / f"lake-{rows_there}", create="parquet")
        assert land(lake, log, LandingBatch("q", 0), tables=["samples"], size=1 << 30) == rows_there
        held[rows_there] = most[0]
    assert held[200_000] < 1.2 * held[50_000] < 50_000_000


def test_equal_keys_stay_in_the_order_of_receipt():
    table = pa.table({"key": ["b", None, "a", "b", "a", None], "n": range(6)})
    assert staging.cluster_rows(table)["n"].to_pylist() == [2, 4, 0, 3, 1, 5]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("times", [0, 1, 5])
def test_a_batch_that_is_killed_anywhere_lands_once_when_it_comes_again(tmp_path, path, monkeypatch, point, times):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    middle = place(log, 1 / 2)
    left = [times]

    def killer(reached):
        if reached == point:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    land(lake, log, LandingBatch("q", 0), end=middle)
    for module in (commit, staging):
        monkeypatch.setattr(module, "fault_point", killer)
    killed = False
    try:
        land(lake, log, LandingBatch("q", 1), start=middle)
    except Killed:
        killed = True
    assert killed or times
    for module in (commit, staging):
        monkeypatch.setattr(module, "fault_point", layout.fault_point)
    land(Lake(lake.path), log, LandingBatch("q", 1), start=middle)
    assert_landed_once(lake, log)
    assert not list((lake.path / layout.STAGING).rglob("*.parquet"))


def test_the_next_writer_finishes_the_commit_of_a_killed_one(tmp_path, path, monkeypatch):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    lake.ledger.folder.mkdir()
    half = lake.ledger.folder / "applied.json.0123456789ab.new"
    half.write_text("{")

    def killer(reached):
        if reached == "rename":
            raise Killed

    monkeypatch.setattr(commit, "fault_point", killer)
    with pytest.raises(Killed):
        land(lake, log, LandingBatch("q", 0))
    monkeypatch.undo()
    Lake(lake.path).recover()
    assert_landed_once(lake, log)
    assert not half.exists()


@pytest.mark.parametrize("sizes", [(1, 6000), (1 << 30, 4000), (9000, 7000)])
def test_a_new_checkpoint_and_a_second_query_double_nothing(tmp_path, path, sizes):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    land(lake, log, LandingBatch("first", 0), end=place(log, 1 / 2), size=sizes[0])
    land(lake, log, LandingBatch("second", 0), size=sizes[1])
    land(lake, log, LandingBatch("third", 0), tables=["samples", "messages"])
    assert_landed_once(lake, log, [*NAMES, "messages"])


def test_two_queries_at_once_double_nothing(tmp_path, path):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    other = {"start": place(log, 1 / 3), "end": place(log, 2 / 3)}
    land(
        lake,
        log,
        LandingBatch("mine", 0),
        size=1 << 30,
        meanwhile=lambda: land(lake, log, LandingBatch("theirs", 0), **other),
    )
    assert_landed_once(lake, log)
    assert [interval[:2] for interval in lake.ledger.last().coverage("samples").plain()[log.id]["tap-1"]] == [[0, 0]]


def test_landing_twice_can_be_refused(tmp_path, path):
    lake, log = Lake(tmp_path / "lake", create="parquet"), Log(path)
    land(lake, log, LandingBatch("first", 0))
    land(lake, log, LandingBatch("first", 0), refuse=True)  # a retry is not a second landing
    with pytest.raises(LakeError, match=r"samples has rows of this part of the log already"):
        land(lake, log, LandingBatch("second", 0), refuse=True)
    lake = Lake(tmp_path / "other", create="parquet")
    with pytest.raises(LakeError, match=r"has rows of .* already: another query has landed them"):
        land(lake, log, LandingBatch("a", 0), refuse=True, meanwhile=lambda: land(lake, log, LandingBatch("b", 0)))
    assert_landed_once(lake, log)


def test_logs_of_several_writers_and_several_logs_land_side_by_side(tmp_path):
    recorded(tmp_path / "a", seed=1, name="tap-1")
    recorded(tmp_path / "a", seed=2, name="tap-2")
    recorded(tmp_path / "b", seed=3, name="tap-1")
    lake = Lake(tmp_path / "lake", create="parquet")
    a, b = Log(tmp_path / "a"), Log(tmp_path / "b")
    land(lake, a, LandingBatch("q", 0))
    land(lake, b, LandingBatch("p", 0))
    expected = [rows(decoded(log.files.path, ["samples"])["samples"]) for log in (a, b)]
    assert rows(landed(lake, "samples")) == sorted(expected[0] + expected[1])


def test_a_long_query_leaves_one_interval_and_a_short_ledger(tmp_path):
    lake = Lake(tmp_path / "lake", create="parquet")
    start = {}
    with Writer(tmp_path / "log", "tap-1", sync="sealed", segment_size=30_000) as writer:
        for number in range(30):
            add(writer, seed=number, sessions=1, size=4)
            writer.seal()
            log = Log(tmp_path / "log")
            land(lake, log, LandingBatch("q", number), start=start)
            start = log.latest()
    [interval] = lake.ledger.last().coverage("samples").plain()[log.id]["tap-1"]
    assert interval == [0, 0, *start["tap-1"]]
    assert len(list((lake.path / layout.LEDGER).glob("0*.json"))) == 20
    assert_landed_once(lake, log, ["samples"])


def test_transformed_rows_land_once_for_each_batch_of_one_query(tmp_path):
    lake = Lake(tmp_path / "lake", create="parquet")
    batch = pa.record_batch({"x": [1, 2, 3]})
    for _ in range(2):
        lake.commit(
            stage_rows(lake.path, "points", [batch], batch.schema, LandingBatch("q", 0), "0"), LandingBatch("q", 0)
        )
    lake.commit(stage_rows(lake.path, "points", [batch], batch.schema, LandingBatch("q", 1), "0"), LandingBatch("q", 1))
    assert sum(pq.ParquetFile(file).metadata.num_rows for file in (lake.path / "points").rglob("*.parquet")) == 6
    with pytest.raises(LakeError, match=r"points has rows of query q; .*choose another folder"):
        lake.commit(
            stage_rows(lake.path, "points", [batch], batch.schema, LandingBatch("p", 0), "0"), LandingBatch("p", 0)
        )


def test_a_lake_says_what_it_is(tmp_path):
    with pytest.raises(LakeError, match=r"is not a lake: it has no zenlake-lake\.json"):
        Lake(tmp_path)
    Lake(tmp_path, create="parquet")
    with pytest.raises(LakeError, match=r"is a lake of format parquet; land into it with that format"):
        Lake(tmp_path, create="delta")
    (tmp_path / layout.MARKER).write_text('{"version": 99, "format": "parquet"}')
    with pytest.raises(LakeError, match=r"has version 99; this version of Zenlake reads up to 1"):
        Lake(tmp_path)


OFFSETS = st.tuples(st.integers(0, 4), st.integers(0, 4))


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(OFFSETS, OFFSETS), max_size=8), st.tuples(OFFSETS, OFFSETS))
def test_coverage_is_a_set_of_offsets(added, asked):
    everywhere = [(segment, block) for segment in range(5) for block in range(5)]
    held = LandedIntervals()
    model = set()
    for start, stop in added:
        if start < stop:
            held.add("log", "w", start, stop)
            model |= {each for each in everywhere if start <= each < stop}
    held = LandedIntervals(json.loads(json.dumps(held.plain())))
    start, stop = asked
    inside = {each for each in everywhere if start <= each < stop}
    assert held.overlaps("log", ["w", *start, *stop]) == bool(inside & model)
    assert not held.overlaps("other", ["w", *start, *stop])
