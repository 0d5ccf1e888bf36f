# SPDX-License-Identifier: Apache-2.0
"""Samples that a replay passes to a session, their order and times. tests/interop has the tests with a network."""

import threading
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import zenlake
from tests.lake.fixtures import recorded
from tests.lake.test_commit import land
from tests.log.fixtures import interleaved, written
from zenlake.errors import InvalidValue
from zenlake.lake import Lake, LandingBatch
from zenlake.log import Log
from zenlake.replay import Outcome, Replay
from zenlake.replay.player import default_mapping, rename_key

FAST = float("inf")


class Sink:
    """A replacement of a session that records its calls."""

    def __init__(self, after=lambda: None):
        self.tables = []
        self.after = after

    def put_table(self, rows):
        self.tables.append(rows)
        self.after()
        return rows.num_rows

    @property
    def rows(self):
        return pa.Table.from_batches(self.tables).to_pylist()


@pytest.fixture
def two_writers(tmp_path):
    """Two writers record into one log at the same time. Their rows are stored one after the other."""
    written(tmp_path, interleaved(3), name="a")
    written(tmp_path, interleaved(4), name="b")
    return tmp_path


def published(path, direction):
    rows = zenlake.read(path)
    return rows.filter((pc.field("direction") == direction) & pc.field("request_id").is_null())


def sendable(rows):
    return rows.filter(pc.field("key").is_valid() & pc.field("shm").is_null())


def test_rows_of_two_writers_come_in_the_order_of_time(two_writers):
    chosen = Replay(two_writers, speed=FAST)
    assert not chosen.extent.in_order
    sink = Sink()
    outcome = chosen.run(sink)
    whole = published(two_writers, 0)
    wanted = sendable(whole)
    wanted = wanted.sort_by([(name, "ascending") for name in ("received_ns", "packet", "index")])
    assert [(row["key"], row["payload"]) for row in sink.rows] == [
        (row["key"], row["payload"]) for row in wanted.select(["key", "payload"]).to_pylist()
    ]
    assert (outcome.sent, outcome.skipped) == (wanted.num_rows, whole.num_rows - wanted.num_rows)
    assert wanted.num_rows > 0


@pytest.mark.parametrize("format", ["delta", "iceberg"])
def test_a_lake_replays_the_samples_of_its_log(tmp_path, format):
    recorded(tmp_path / "log")
    land(Lake(tmp_path / "lake", format), Log(tmp_path / "log"), LandingBatch("q", 0), tables=("samples",))
    assert not Replay(tmp_path / "lake").extent.in_order  # its rows are sorted by key
    from_lake, from_log = Sink(), Sink()
    Replay(tmp_path / "lake", speed=FAST, keys="a/**").run(from_lake)
    Replay(tmp_path / "log", speed=FAST, keys="a/**").run(from_log)
    assert from_lake.rows == from_log.rows
    assert from_log.rows


@pytest.mark.parametrize(("sent_by", "direction"), [("opener", 0), ("acceptor", 1)])
def test_one_side_or_the_other(two_writers, sent_by, direction):
    chosen = Replay(two_writers, sent_by=sent_by, speed=FAST)
    assert chosen.extent.samples == published(two_writers, direction).num_rows
    assert Replay(two_writers, sent_by="all").extent.samples == sum(
        published(two_writers, each).num_rows for each in (0, 1)
    )


def test_by_the_senders_clocks(two_writers):
    sink = Sink()
    Replay(two_writers, by="timestamp", speed=FAST, keep_timestamps=True).run(sink)
    stamps = [row["ntp64"] % (1 << 64) for row in sink.rows if row["ntp64"] is not None]
    seconds = [stamp >> 32 for stamp in stamps]
    assert seconds == sorted(seconds)
    assert stamps


@pytest.mark.parametrize(
    ("rename", "before", "after"),
    [
        (("a", "b"), "a/x", "b/x"),
        (("a", "b"), "a", "b"),
        (("a", "b"), "ab/x", "ab/x"),
        (("", "sim"), "a/x", "sim/a/x"),
        (("a", ""), "a/x", "x"),
    ],
)
def test_renaming_is_by_whole_chunks(rename, before, after):
    rows = pa.record_batch({"n": [1, 2], "key": [before, before]})
    assert rename_key(rows, [rename]).to_pydict() == {"n": [1, 2], "key": [after, after]}


def test_a_priority_that_only_zenoh_itself_may_use_is_left_out():
    rows = pa.record_batch({"key": ["a", "b"], "priority": pa.array([0, 7], pa.int8())})
    assert default_mapping(rows).to_pylist() == [{"key": "a", "priority": None}, {"key": "b", "priority": 7}]


def test_the_schedule_follows_the_speed(tmp_path):
    written(tmp_path, interleaved(5))
    sink = Sink()
    chosen = Replay(tmp_path, speed=0.001)  # a microsecond apart: a millisecond
    outcome = chosen.run(sink)
    assert outcome.seconds >= chosen.extent.seconds * 1000
    assert len(sink.tables) > 1
    assert 0 < outcome.late(0.5) <= outcome.late(0.99) <= outcome.latest


def test_a_stopped_replay_ends_immediately(tmp_path):
    written(tmp_path, interleaved(5))
    stop = threading.Event()
    sink = Sink(stop.set)
    outcome = Replay(tmp_path, speed=1e-6).run(sink, stop)
    assert len(sink.tables) == 1
    assert outcome.sent == sink.tables[0].num_rows


def test_lateness_is_reported_to_a_tenth():
    outcome = Outcome()
    for thousandth in range(1, 1001):
        outcome.note(thousandth / 1000, 1)
    assert outcome.late(0.5) == pytest.approx(0.5, rel=0.1)
    assert outcome.late(0.99) == pytest.approx(0.99, rel=0.1)
    assert outcome.late(1) == outcome.latest == 1


def test_mistakes_are_reported(tmp_path):
    written(tmp_path, interleaved(5))
    with pytest.raises(InvalidValue, match="invalid speed=-1"):
        Replay(tmp_path, speed=-1)
    with pytest.raises(InvalidValue, match="nothing to replay"):
        Replay(tmp_path, since=timedelta(hours=1))
