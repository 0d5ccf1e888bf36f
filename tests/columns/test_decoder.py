# SPDX-License-Identifier: Apache-2.0
"""Batches to tables: the rows equal those of a slow reference decoder, for any division of the input."""

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.columns.traffic import COMPARED, Traffic, as_rows, expected_samples
from zenlake.columns import TABLES, Decoder, select_schema
from zenlake.session import SessionState
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Push, Request, Response
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Err, Query

EVERYTHING = dict.fromkeys(TABLES)
seeds = st.integers(0, 1 << 32)


def decoded(batches, tables=EVERYTHING, cut=1 << 30, **limits) -> dict[str, pa.Table]:
    decoder = Decoder(tables, **limits)
    decoder.files = ["traffic"]
    rows = as_rows(batches)
    for first in range(0, rows.num_rows, cut):
        decoder.decode(rows.slice(first, cut))
    done = decoder.take()
    rest = decoder.finish()
    whole = {}
    for table, columns in tables.items():
        whole[table] = pa.Table.from_batches(done[table] + rest[table], schema=select_schema(table, columns))
        whole[table].validate(full=True)
    return whole


@given(seeds)
@settings(max_examples=60, deadline=None)
def test_samples_are_those_that_objects_and_dictionaries_find(seed):
    batches = Traffic(seed).batches
    tables = decoded(batches)
    assert tables["samples"].select(COMPARED).to_pylist() == expected_samples(batches)
    assert tables["errors"].num_rows == 0


@given(seeds, st.integers(1, 9), st.integers(1, 40), st.sampled_from([1, 64, 1 << 20]))
@settings(max_examples=30, deadline=None)
def test_the_rows_do_not_depend_on_how_input_and_output_are_cut(seed, cut, rows, size):
    batches = Traffic(seed).batches
    assert decoded(batches, cut=cut, rows=rows, size=size) == decoded(batches)


@given(seeds, st.integers(0, 60))
@settings(max_examples=30, deadline=None)
def test_a_saved_session_continues(seed, at):
    batches = Traffic(seed).batches
    rows = as_rows(batches)
    first, second = Decoder(EVERYTHING), Decoder(EVERYTHING)
    first.files = second.files = ["traffic"]
    first.decode(rows.slice(0, at))
    if first.sessions:
        second.sessions.append(SessionState.restore(first.sessions[0].save()))
    second.decode(rows.slice(at))
    parts, rest = first.finish(), second.finish()
    whole = decoded(batches)
    for table in TABLES:
        assert pa.Table.from_batches(parts[table] + rest[table], schema=select_schema(table)) == whole[table]


@given(seeds, st.data())
@settings(max_examples=30, deadline=None)
def test_leaving_columns_out_changes_no_other(seed, data):
    batches = Traffic(seed).batches
    table = data.draw(st.sampled_from(sorted(TABLES)))
    names = TABLES[table].names
    columns = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True))
    assert decoded(batches, {table: columns})[table] == decoded(batches)[table].select(columns)


def test_a_batch_that_cannot_be_read_is_a_row_and_the_next_is_read():
    good = Frame(sn=1).encode() + Push(key="a/b").encode()
    bad = Frame(sn=2).encode() + b"\x7d\x00\x03a/b\x01\x40short"
    tables = decoded([(0, good), (0, bad), (0, Frame(sn=3).encode() + Push(key="c").encode())])
    assert tables["samples"].column("key").to_pylist() == ["a/b", "c"]
    [error] = tables["errors"].to_pylist()
    assert (error["packet"], error["field"], error["at"]) == (2, "PUT.payload", 9)
    assert error["why"] == "64 bytes declared, 5 left"
    assert error["bytes"] == bad


def test_messages_before_an_error_in_a_batch_are_kept():
    batch = Frame(sn=1).encode() + Push(key="a").encode() + b"\x18"
    tables = decoded([(0, batch)])
    assert tables["samples"].column("key").to_pylist() == ["a"]
    assert tables["errors"].column("field").to_pylist() == ["batch.header"] or tables["errors"].num_rows == 1


def test_missing_frames_are_an_event_with_their_number():
    frames = [(0, Frame(sn=sn).encode() + Push(key="a").encode()) for sn in (5, 9, 9)]
    events = decoded(frames)["events"].select(["packet", "kind", "sn", "count"]).to_pylist()
    assert events == [
        {"packet": 2, "kind": "gap", "sn": 6, "count": 3},
        {"packet": 3, "kind": "duplicate", "sn": 9, "count": 1},
    ]


def test_requests_and_errors_are_described():
    bare = Request(id=1, key="a", body=Query())
    full = Request(id=2, key="a", target=2, timeout=(1 << 64) - 1, body=Query(consolidation=3, parameters=b"x=1"))
    errors = [Response(id=1, key="a", body=Err(payload=payload)) for payload in (b"no", b"\xff", b"x" * 5000)]
    messages = b"".join(message.encode() for message in (bare, full, *errors))
    table = decoded([(0, Frame(sn=1).encode() + messages)])["messages"]
    rows = table.select(["target", "consolidation", "timeout_ms", "detail", "payload_size"]).to_pylist()[1:]
    assert [tuple(row.values()) for row in rows] == [
        ("best_matching", "auto", None, None, None),
        ("all_complete", "latest", (1 << 63) - 1, "x=1", None),  # the largest value of a signed column
        (None, None, None, "no", 2),
        (None, None, None, None, 1),
        (None, None, None, None, 5000),
    ]


def test_rows_know_which_handshake_they_follow():
    hello = [(0, Init(zid=b"1").encode()), (1, Init(ack=True, zid=b"2", cookie=b"c").encode())]
    hello += [(0, Open(cookie=b"c").encode()), (1, Open(ack=True).encode())]
    put = (0, Frame(sn=0).encode() + Push(key="a").encode())
    tables = decoded([put, *hello, put, *hello, put], cut=3)
    assert tables["samples"].column("generation").to_pylist() == [0, 1, 2]
    assert tables["messages"].column("generation").to_pylist() == [0, 0, *[1] * 6, *[2] * 6]
    opened = tables["events"].select(["generation", "kind"]).to_pylist()
    assert opened == [{"generation": 1, "kind": "opened"}, {"generation": 2, "kind": "opened"}]


def test_the_first_missing_number_is_reported_where_numbers_start_again():
    last = (1 << 28) - 1
    frames = [(0, Frame(sn=sn).encode() + Push(key="a").encode()) for sn in (last - 1, 1)]
    [gap] = decoded(frames)["events"].select(["sn", "count"]).to_pylist()
    assert gap == {"sn": last, "count": 2}


def test_a_wrong_table_or_column_is_answered_with_the_valid_ones():
    with pytest.raises(ValueError, match="unknown decoded table 'queries'; expected one of"):
        Decoder({"queries": None})
    with pytest.raises(ValueError, match=r"samples has no column 'keys'; expected one of .*key"):
        Decoder({"samples": ["keys"]})


@pytest.mark.parametrize("cut", [1, 2, 9])
def test_batches_that_end_in_one_packet_count_on_and_each_file_starts_at_zero(cut):
    put = Push(key="a").encode()
    rows = as_rows([(0, Frame(sn=sn).encode() + put) for sn in range(5)])
    rows = rows.set_column(6, rows.schema.field(6), pa.array([1, 1, 2, 2, 2], pa.int64()))
    rows = rows.set_column(7, rows.schema.field(7), pa.array([0, 0, 0, 1, 1], pa.int32()))
    decoder = Decoder({"samples": ["file", "packet", "index"]})
    decoder.files = ["one", "two"]
    for first in range(0, 5, cut):
        decoder.decode(rows.slice(first, cut))
    [found] = decoder.finish()["samples"]
    places = [tuple(row.values()) for row in found.to_pylist()]
    assert places == [("one", 1, 1), ("one", 1, 3), ("one", 2, 1), ("two", 2, 1), ("two", 2, 3)]
