# SPDX-License-Identifier: Apache-2.0
"""Ranges of a capture that are decoded separately give the rows of one pass over the whole capture."""

import pickle
import random
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.capture import forge
from tests.capture.forge import Connection, add_prefix, datagram
from tests.columns.traffic import Traffic
from zenlake import capture
from zenlake.capture import splits as module
from zenlake.capture.decode import decode, decode_range, select_diagnostics
from zenlake.capture.splits import SplitPlan
from zenlake.capture.state_filter import dependent_bytes
from zenlake.columns import TABLES, Decoder, select_schema
from zenlake.errors import DecodeError
from zenlake.session import SessionState
from zenlake.wire.batch_reader import messages

EVERYTHING = dict.fromkeys(TABLES)
seeds = st.integers(0, 1 << 32)


def gathered(found):
    batches = {name: [] for name in TABLES}
    for table, batch in found:
        batches[table].append(batch)
    return {name: pa.Table.from_batches(batches[name], schema=select_schema(name)) for name in TABLES}


def in_ranges(paths, size):
    plan = capture.open(paths).plan(size)
    ranges = [pickle.loads(pickle.dumps(each)) for each in plan.ranges()]
    parts = [list(decode_range(each, EVERYTHING, rows=100)) for each in reversed(ranges)]
    return [batch for part in reversed(parts) for batch in part] + list(select_diagnostics(plan, EVERYTHING)), len(
        ranges
    )


def packets_of(seed, sessions=3):
    """Several concurrent sessions, whose batches are split into segments at any byte. One of them uses UDP."""
    r = random.Random(seed)
    talks = []
    for i in range(sessions):
        connection = Connection(client=(f"10.0.0.{i + 2}", 40000 + i))
        talk = Traffic(seed + i).batches
        if i == 2:
            ends = (("10.0.0.9", 4000), ("10.0.0.1", 7447))
            packets = [datagram(data, ends[side], ends[1 - side], id=n) for n, (side, data) in enumerate(talk, 1)]
        else:
            packets = connection.open()
            for side, data in talk:
                left = add_prefix(data)
                while left:
                    n = r.choice([1, 2, 3, 40, 1446])
                    packets.append(connection.send(side, left[:n]))
                    left = left[n:]
        talks.append(packets)
    merged = []
    while any(talks):
        merged.append(r.choice([talk for talk in talks if talk]).pop(0))
    return merged


def written(folder, packets, files, seed, **options):
    """Return the packets in a rotation of this number of files."""
    cuts = sorted(random.Random(seed).choices(range(len(packets) + 1), k=files - 1))
    times = [forge.START + i * forge.STEP for i in range(len(packets))]
    paths = []
    for i, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(packets)], strict=True)):
        paths.append(folder / f"rotated_{i:05}.pcap")
        paths[-1].write_bytes(forge.pcap(packets[first:last], times=times[first:last], **options))
    return paths


@given(seeds, st.integers(1, 4), st.sampled_from([2500, 7000, 20000]))
@settings(max_examples=10, deadline=None)
def test_ranges_give_the_rows_of_one_pass(tmp_path_factory, seed, files, size):
    paths = written(tmp_path_factory.mktemp("ranges"), packets_of(seed), files, seed)
    whole = gathered(decode(capture.open(paths), EVERYTHING))
    parts, count = in_ranges(paths, size)
    assert count > 1
    assert gathered(parts) == whole
    assert whole["samples"].num_rows > 0


def test_every_packet_can_be_a_range(tmp_path):
    paths = written(tmp_path, packets_of(5, sessions=1)[:120], 1, 5)
    parts, count = in_ranges(paths, 1)
    assert count > 100
    assert gathered(parts) == gathered(decode(capture.open(paths), EVERYTHING))


def sorted_rows(table):
    return sorted(map(repr, table.to_pylist()))


@given(seeds, st.sampled_from([1500, 6000]), st.booleans())
@settings(max_examples=10, deadline=None)
def test_so_do_ranges_of_a_capture_with_loss_reordering_and_twins(tmp_path_factory, seed, size, midway):
    r = random.Random(seed)
    packets = packets_of(seed, sessions=2)
    if midway:
        del packets[: len(packets) // 3]
    packets = [packet for packet in packets if r.random() > 0.02]
    packets = [again for packet in packets for again in [packet] * (2 if r.random() < 0.05 else 1)]
    for _ in range(len(packets) // 20):
        i = r.randrange(len(packets))
        packets.insert(min(i + r.randrange(5), len(packets) - 1), packets.pop(i))
    paths = written(tmp_path_factory.mktemp("ranges"), packets, 2, seed)
    whole = gathered(decode(capture.open(paths), {"messages": None, "events": None}))
    parts, _ = in_ranges(paths, size)
    parts = gathered(parts)
    # Late rows are sorted within their record batch, so a split may change the order of two sessions.
    assert sorted_rows(parts["messages"].select(["packet", "type", "size"])) == sorted_rows(
        whole["messages"].select(["packet", "type", "size"])
    )
    events = [row for row in parts["events"].to_pylist() if row["kind"].startswith("capture")]
    assert events == [row for row in whole["events"].to_pylist() if row["kind"].startswith("capture")]


def test_a_compressed_file_stays_whole_and_is_cut_from_its_neighbours(tmp_path):
    import gzip

    plain = written(tmp_path, packets_of(7), 3, 7)
    zipped = plain[1].with_suffix(".pcap.gz")
    zipped.write_bytes(gzip.compress(plain[1].read_bytes()))
    parts, count = in_ranges([plain[2], zipped, plain[0]], 500)
    whole = gathered(decode(capture.open(plain), EVERYTHING))
    assert count > 4
    for table, rows in gathered(parts).items():
        files = [name.removesuffix(".gz") for name in rows["file"].to_pylist()]
        assert files == whole[table]["file"].to_pylist()
        assert rows.drop_columns("file") == whole[table].drop_columns("file")


@pytest.mark.parametrize("tail", [b"", b"\x00" * 7, b"\xff" * 100])
def test_a_file_that_ends_badly_ends_its_range_and_is_reported_once(tmp_path, tail):
    paths = written(tmp_path, packets_of(3), 2, 3)
    paths[0].write_bytes(paths[0].read_bytes() + tail)
    parts, _ = in_ranges(paths, 1000)
    parts, whole = gathered(parts), gathered(decode(capture.open(paths), EVERYTHING))
    assert parts == whole
    assert ("capture unreadable" in parts["events"]["kind"].to_pylist()) == (tail != b"")


# Messages that the planning pass may omit.


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_only_batches_without_state_changes_are_omitted(seed):
    for _, batch in Traffic(seed).batches:
        kept = dependent_bytes(batch)
        if kept < len(batch):
            assert {type(message).__name__ for message in messages(batch)} <= {"Frame", "Push", "KeepAlive"}
            assert kept == 0 or [type(message).__name__ for message in messages(batch[:kept])] == ["Frame"]


@given(st.binary(max_size=40).map(lambda noise: b"\x25\x07\x3d\x00\x01a" + noise))
@example(b"\x25\x07\x3d\x00\x01a\x01\x00")  # a PUT without a payload
@example(b"\x25\x07\x3d\x00\x01a\x01\x00\x3e\x00")  # and a DECLARE after it
def test_nothing_that_the_wire_layer_reads_as_something_else_is_left_out(batch):
    if dependent_bytes(batch) < len(batch):
        try:
            found = messages(batch)
        except DecodeError:
            return  # the bytes after the error have no effect, and before it there were PUSH messages
        assert {type(message).__name__ for message in found} <= {"Frame", "Push"}


def test_a_plan_leaves_sessions_where_decoding_leaves_them(tmp_path):
    paths = written(tmp_path, packets_of(11), 1, 11)
    source = capture.open(paths)
    plan = SplitPlan(source.files, source.limits, 1 << 30)
    list(plan.ranges())
    source, decoder = capture.open(paths), Decoder({})
    decoder.files = source.files
    for batches in source.batches():
        decoder.decode(batches)
    for planned, decoded in zip(plan.decoder.sessions, decoder.sessions, strict=True):
        assert isinstance(planned, SessionState)
        assert planned.save()["sides"] == decoded.save()["sides"]


@given(seeds, st.integers(1, 3), st.sampled_from([2500, 20000]))
@settings(max_examples=10, deadline=None)
def test_the_state_of_a_range_gives_the_rows_of_a_whole_read(tmp_path_factory, seed, files, size):
    paths = written(tmp_path_factory.mktemp("carried"), packets_of(seed), files, seed)
    for each in capture.open(paths).plan(size, carry=True).ranges():
        assert each.carried is not None
        again = gathered(decode_range(replace(each, carried=None), EVERYTHING))
        assert gathered(decode_range(each, EVERYTHING)) == again


def test_a_split_with_too_many_rows_has_no_collected_rows(tmp_path, monkeypatch):
    paths = written(tmp_path, packets_of(13), 1, 13)
    monkeypatch.setattr(module, "MAX_INFLATION", 200)
    plan = SplitPlan([str(paths[0])], (1, 1 << 16, 1 << 28, 1 << 16), 9000, carry=True)  # a row is a record batch
    found = list(plan.ranges())
    assert {each.carried is None for each in found} == {True, False}
    again = [batch for each in found for batch in decode_range(each, {"samples": None})]
    assert gathered(again)["samples"] == gathered(decode(capture.open(paths), {"samples": None}))["samples"]


@pytest.mark.parametrize("size", [1, 500, 1 << 20])
def test_kernel_drops_before_a_truncation_are_counted(tmp_path, size):
    path = tmp_path / "a.pcapng"
    packets = [forge.on_link("ethernet", packet) for packet in packets_of(13)[:40]]
    first = [
        forge.packet_block(packet, i, options=forge.option(4, (2).to_bytes(8, "little")))
        for i, packet in enumerate(packets)
    ]
    path.write_bytes(forge.section() + forge.interface() + b"".join(first))
    found, _ = in_ranges([path], size)
    assert gathered(found)["events"] == gathered(decode(capture.open(path), EVERYTHING))["events"]
    dropped = [event for event in gathered(found)["events"].to_pylist() if event["kind"] == "capture dropped"]
    assert [event["count"] for event in dropped] == [2 * len(packets)]
