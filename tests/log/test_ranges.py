# SPDX-License-Identifier: Apache-2.0
"""Any range of blocks gives the rows that the whole log gives for these blocks."""

import tempfile

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.log.fixtures import Hasty, directly, interleaved, tables, written
from zenlake.columns import TABLES, Decoder
from zenlake.log import Log
from zenlake.log import writer as write
from zenlake.log.layout import INDEX_HEAD, ROWS, segment_name
from zenlake.log.session_tracker import SessionTracker

seeds = st.integers(0, 1 << 32)


@pytest.fixture(autouse=True, scope="module")
def small_segments():
    """Heads of a few hundred bytes would otherwise keep such small segments together."""
    before, write.LARGE_HEAD = write.LARGE_HEAD, 0
    yield
    write.LARGE_HEAD = before


@given(seeds, st.sampled_from([1, 300, 3000]), st.sampled_from([3000, 9000, 1 << 20]), st.data())
@settings(max_examples=12, deadline=None)
def test_every_block_alone_gives_the_rows_of_the_whole(seed, block_size, segment_size, data):
    batches = interleaved(seed, size=12)
    with tempfile.TemporaryDirectory() as folder:
        log = written(folder, batches, block_size=block_size, segment_size=segment_size)
        names = [face.name for part in log.plan() for face in log.segment(part).state(part.last).faces]
        expected = directly(batches, list(dict.fromkeys(names)), log)
        whole = tables(log, log.plan())
        alone = [tables(log, [part]) for part in log.plan(size=data.draw(st.sampled_from([1, 2000])))]
        for name in TABLES:
            assert whole[name] == expected[name]
            assert pa.concat_tables(part[name] for part in alone) == expected[name]


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_writer_and_decoder_reach_the_same_state(seed):
    batches = interleaved(seed, faces=1, size=40)
    columns = [[0] * len(batches), [0] * len(batches), [d for _, d, _ in batches], [b for _, _, b in batches]]
    columns += [[1] * len(batches), [False] * len(batches)]
    types = [pa.int64(), *ROWS.types[1:]]
    arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
    rows = pa.record_batch([arrays[0].cast(ROWS.types[0]), *arrays[1:]], schema=ROWS)
    tracker, decoder = SessionTracker(), Decoder({})
    tracker.follow(rows)
    decoder.decode(rows.append_column("packet", pa.array(range(len(batches)), pa.int64())))
    decoder.sessions[0].name = ""
    assert tracker.sessions[0].save() == decoder.sessions[0].save()


def test_a_block_is_found_by_time_without_reading_it(tmp_path):
    log = written(tmp_path, interleaved(7), block_size=400, segment_size=3000)
    blocks = log.plan(size=1)
    assert len({part.segment for part in blocks}) > 2
    for part in blocks:
        assert log.at(part.since) == {"w": [part.segment, part.first]}
        assert log.at(part.until + 1) != {"w": [part.segment, part.first]}
    assert log.at(0) == log.earliest()
    assert log.at(1 << 60) == log.latest() == {"w": [blocks[-1].segment, blocks[-1].last]}
    middle = blocks[len(blocks) // 2]
    assert log.plan(size=1, since=middle.since, until=middle.since + 1) == [middle]
    assert log.plan({"w": [middle.segment, middle.first]}, size=1) == blocks[len(blocks) // 2 :]
    assert log.plan(None, {"w": [middle.segment, middle.first]}, size=1) == blocks[: len(blocks) // 2]


@pytest.mark.parametrize("block_size", [1, 1 << 20], ids=["a row a block", "one block"])
def test_events_of_the_wire_and_notes_come_in_the_order_of_time(tmp_path, block_size):
    with write.Writer(tmp_path, "w", sync="sealed", disk=Hasty(), block_size=block_size) as writer:
        faces = [writer.face("tcp", f"10.0.0.{i}:40000", "10.0.0.99:7447") for i in range(3)]
        for i, direction, data in interleaved(3):
            writer.note("before", faces[i])
            writer.append(faces[i], direction, data)
    log = Log(tmp_path)
    events = tables(log, log.plan(), {"events": None})["events"]
    assert {"before", "opened", "gap"} <= set(events["kind"].to_pylist())
    assert events["packet"].to_pylist() == sorted(events["packet"].to_pylist())
    assert events["received_ns"].to_pylist() == sorted(events["received_ns"].to_pylist())
    assert tables(log, log.plan(), {"events": ["kind"]})["events"] == events.select(["kind"])


def test_a_time_is_found_by_looking_at_few_segments(tmp_path, monkeypatch):
    batches = interleaved(7, size=60)
    log = written(tmp_path, batches, block_size=400, segment_size=800)
    segments = log.segments("w")
    assert len(segments) > 32
    for empty in segments[5:8]:  # as a crash may leave them
        (tmp_path / "w" / segment_name(empty, "index")).write_bytes(INDEX_HEAD)
    looked = []
    real = Log.index
    monkeypatch.setattr(
        Log, "index", lambda self, writer, segment: looked.append(segment) or real(self, writer, segment)
    )
    for part in log.plan(size=1):
        looked.clear()
        assert log.at(part.since) == {"w": [part.segment, part.first]}
        assert len(looked) < 16
