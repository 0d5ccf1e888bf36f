# SPDX-License-Identifier: Apache-2.0
"""Columns in and out of a live session."""

import gc
import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import zenlake
from tests.api.nodes import config, pair
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, ZenohId
from zenlake.errors import QueryError
from zenlake.handlers import ArrowChannel

PATIENCE = 5.0


@pytest.fixture
def session():
    with zenlake.open(config()) as opened:
        yield opened


def test_samples_come_as_record_batches_bounded_by_rows_and_age(session):
    subscriber = session.declare_subscriber("t/**", ArrowChannel(3, age=0.05))
    began = datetime.now(UTC)
    stamp = session.new_timestamp()
    for number in range(4):
        session.put(f"t/{number}", str(number), encoding="text/plain;utf-8", attachment=b"a", timestamp=stamp)
    session.delete("t/9")
    whole = pa.Table.from_batches([subscriber.recv(PATIENCE), subscriber.recv(PATIENCE)])
    assert whole.num_rows == 5
    assert whole["key"].to_pylist() == ["t/0", "t/1", "t/2", "t/3", "t/9"]
    assert whole["payload"].to_pylist() == [b"0", b"1", b"2", b"3", None]
    assert whole["kind"].to_pylist() == ["put"] * 4 + ["del"]
    assert whole["encoding"].to_pylist() == ["text/plain;utf-8"] * 4 + [None]
    assert whole["schema"].to_pylist()[0] == b"utf-8"
    assert whole["ntp64"].to_pylist()[0] == stamp.ntp64
    assert whole["timestamp_id"].to_pylist()[0] == str(session.zid())
    received = whole["received"].to_pylist()
    assert began <= received[0] < received[-1] <= datetime.now(UTC)


def test_chosen_columns_and_the_rest_at_the_end(session):
    subscriber = session.declare_subscriber("t/**", ArrowChannel(100, age=60, columns=["key", "payload"]))
    session.put("t/a", "1")
    handler = subscriber.handler
    subscriber.undeclare()
    assert [batch.to_pydict() for batch in handler] == [{"key": ["t/a"], "payload": [b"1"]}]


def test_a_batch_ends_at_its_size(session):
    subscriber = session.declare_subscriber("t/**", ArrowChannel(1000, size=2000, age=60))
    for _ in range(3):
        session.put("t/a", bytes(1000))
    assert subscriber.recv(PATIENCE).num_rows == 2


def test_a_published_table_is_received_unchanged(session):
    table = pa.table(
        {
            "key": ["t/a", "t/b", "t/c"],
            "payload": [b"1", b"", None],
            "kind": ["put", "put", "del"],
            "encoding": ["text/plain", None, None],
            "attachment": [None, b"x", None],
            "priority": pa.array([1, 5, 7], pa.int8()),
            "congestion": ["block", "drop", "drop"],
        }
    )
    subscriber = session.declare_subscriber("t/**", ArrowChannel(3))
    assert session.put_table(table) == 3
    got = pa.Table.from_batches([subscriber.recv(PATIENCE)]).select(table.schema.names)
    assert got["key"].to_pylist() == ["t/a", "t/b", "t/c"]
    assert got["payload"].to_pylist() == [b"1", b"", None]
    assert got["encoding"].to_pylist() == ["text/plain", "zenoh/bytes", None]
    for name in ("kind", "attachment", "priority", "congestion"):
        assert got[name].to_pylist() == table[name].to_pylist()


@pytest.mark.parametrize("more", [{}, {"attachment": [None, b"b", None, None, b""]}], ids=["plain", "with more"])
def test_rows_cross_a_connection_each_with_its_own_quality(more):
    table = pa.table(
        {
            "key": ["t/a", "t/b", "t/a", "t/b", "t/a"],
            "payload": [b"1", b"", b"x" * 300, None, b"y" * 100_000],
            "priority": [5, 1, 5, 7, 5],
            "congestion": ["block", "block", "block_first", "block", "block"],
            "express": [False, True, False, False, True],
            **more,
        }
    )
    first, second = pair()
    with first, second:
        subscriber = first.declare_subscriber("t/**", ArrowChannel(5))
        publisher = second.declare_publisher("t/a")
        while not publisher.matching_status.matching:
            time.sleep(0.005)
        assert second.put_table(table) == 5
        got = pa.Table.from_batches([subscriber.recv(PATIENCE)]).select([*table.schema.names, "encoding"]).to_pylist()
    sent = [{**row, "payload": row["payload"] or b"", "encoding": "zenoh/bytes"} for row in table.to_pylist()]
    assert sorted(got, key=str) == sorted(sent, key=str)  # samples of a higher priority overtake others


def test_rows_count_on_from_a_source_and_may_have_a_time(session):
    when = datetime(2026, 5, 1, 12, 0, 0, 250000, UTC)
    table = pa.table({"key": ["c/a", "c/b"], "payload": ["1", "2"], "timestamp": [when, None]})
    source = EntityGlobalId(ZenohId.parse("abc"), 7)
    subscriber = session.declare_subscriber("c/*")
    block = zenlake.CongestionControl.BLOCK
    assert session.put_table(table, congestion_control=block, source_info=SourceInfo(source, 40)) == 2
    first, second = (subscriber.recv(PATIENCE) for _ in range(2))
    assert [first.source_info, second.source_info] == [SourceInfo(source, 40), SourceInfo(source, 41)]
    assert (first.congestion_control, first.timestamp.get_time()) == (block, when)
    assert first.timestamp.id.to_wire() == session.zid().to_wire()


def test_a_publisher_puts_a_table_on_its_key(session):
    subscriber = session.declare_subscriber("p/1")
    publisher = session.declare_publisher("p/1", encoding="text/csv")
    assert publisher.put_table(pa.record_batch({"payload": ["a", "b"]})) == 2
    assert [str(subscriber.recv(PATIENCE).payload) for _ in range(2)] == ["a", "b"]


def test_a_table_without_required_columns_is_refused(session):
    with pytest.raises(ValueError, match="column `key`"):
        session.put_table(pa.table({"payload": [b"x"]}))
    with pytest.raises(ValueError, match="column `payload`"):
        session.put_table(pa.table({"key": ["x"]}))


def row(**columns):
    return pa.table({"key": ["t/a"], "payload": [b"x"], **{name: [value] for name, value in columns.items()}})


def at(*times, unit="us"):
    return pa.table({"key": ["t/a"] * len(times), "payload": [b"x"] * len(times), "timestamp": pa.array(times, unit)})


@pytest.mark.parametrize(
    ("table", "says"),
    [
        *(
            (row(priority=wrong), f"invalid value {wrong} in column `priority`; expected 1 .* to 7")
            for wrong in (0, 8, 9, 300, -1)
        ),
        (row(priority="data"), "`priority` of type string; expected integers"),
        (row(encoding=5), "`encoding` of type int64; expected text"),
        (row(express="no"), "`express` of type string; expected booleans"),
        (pa.table({"key": ["a"], "payload": [1]}), "`payload` of type int64; expected bytes or text"),
        (pa.table({"key": [b"\xff"], "payload": ["x"]}), "`key`: .*UTF8"),
        (pa.table({"key": [None], "payload": ["x"]}), "1 rows have no key"),
        (pa.table([["a"], ["x"], ["y"]], ["key", "payload", "payload"]), "2 columns `payload`"),
        (at(-1, unit=pa.timestamp("us")), "`timestamp`, -1 s after 1970"),
        (at(0, 5_000_000_000, unit=pa.timestamp("s")), "`timestamp`, 5000000000 s after 1970"),
        (at(1 << 32, unit=pa.timestamp("s")), "to February 2106"),
        (at(10**17, unit=pa.timestamp("s")), "`timestamp`: .*out of bounds"),
        (at(1, unit=pa.int64()), "`timestamp` of type int64; expected times"),
    ],
)
def test_a_table_with_a_wrong_column_is_refused_as_a_whole(session, table, says):
    subscriber = session.declare_subscriber("**")
    with pytest.raises(ValueError, match=says):
        session.put_table(table)
    assert subscriber.try_recv() is None


def test_times_up_to_the_last_are_sent_as_they_are(session):
    subscriber = session.declare_subscriber("t/a")
    session.put_table(at(0, (1 << 32) - 1, unit=pa.timestamp("s")))
    session.put_table(at(1_700_000_000_123_456_789, unit=pa.timestamp("ns", "UTC")))  # cut to microseconds
    session.put_table(at(20_000, unit=pa.date32()))
    seen = [subscriber.recv(PATIENCE).timestamp.get_time().isoformat() for _ in range(4)]
    assert seen == [
        "1970-01-01T00:00:00+00:00",
        "2106-02-07T06:28:15+00:00",
        "2023-11-14T22:13:20.123456+00:00",
        "2024-10-04T00:00:00+00:00",
    ]


@pytest.mark.parametrize(
    "form", ["batch", "reader", "pandas", "polars", "categories", "duckdb", "views", "fixed", "bytes"]
)
def test_whatever_holds_columns_can_be_put(session, form):
    table = pa.table({"key": ["t/a", "t/b"], "payload": [b"12", b"34"]})
    if form == "batch":
        given = table.to_batches()[0]
    elif form == "reader":
        given = table.to_reader()
    elif form == "pandas":
        given = table.to_pandas().set_axis([5, 7])
    elif form in ("polars", "categories"):
        polars = pytest.importorskip("polars")
        given = polars.from_arrow(table)
        if form == "categories":
            given = given.with_columns(polars.col("key").cast(polars.Categorical))
    elif form == "duckdb":
        given = pytest.importorskip("duckdb").from_arrow(table)
    else:
        forms = {"views": [pa.string_view(), pa.binary_view()], "fixed": [pa.string(), pa.binary(2)]}
        kinds = forms.get(form, [pa.binary(), pa.large_binary()])
        given = table.cast(pa.schema(list(zip(table.schema.names, kinds, strict=True))))
    subscriber = session.declare_subscriber("t/*")
    assert session.put_table(given) == 2
    samples = [subscriber.recv(PATIENCE) for _ in range(2)]
    assert [(str(sample.key_expr), bytes(sample.payload)) for sample in samples] == [("t/a", b"12"), ("t/b", b"34")]


@pytest.mark.parametrize("wrong", [{"key": ["a"]}, ["a"], None, "a"])
def test_values_without_columns_are_refused(session, wrong):
    with pytest.raises(TypeError, match=r"put_table got .*; expected columns"):
        session.put_table(wrong)


def test_a_publisher_refuses_rows_on_another_key(session):
    with session.declare_publisher("t/a") as publisher:
        assert publisher.put_table(row()) == 1
        with pytest.raises(ValueError, match="`key` has 't/b', but the key of the publisher is 't/a'"):
            publisher.put_table(pa.table({"key": ["t/a", "t/b"], "payload": ["1", "2"]}))


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        ({"rows": -1}, ValueError),
        ({"rows": "x"}, TypeError),
        ({"rows": 1.5}, TypeError),
        ({"size": 0}, ValueError),
        ({"age": -1}, ValueError),
        ({"age": "x"}, TypeError),
        ({"capacity": -1}, ValueError),
        ({"columns": ["foo"]}, ValueError),
        ({"columns": "key"}, TypeError),
    ],
)
def test_a_channel_refuses_wrong_bounds_when_it_is_made(bounds, error):
    with pytest.raises(error, match=next(iter(bounds)).rstrip("s")):
        ArrowChannel(**bounds)


def test_replies_as_a_table(session):
    def answer(query):
        with query:
            query.reply("q/1", "one")
            query.reply("q/2", "two", encoding="text/plain")

    session.declare_queryable("q/*", answer)
    table = session.get_table("q/*")
    assert table.select(["key", "payload", "encoding"]).to_pylist() == [
        {"key": "q/1", "payload": b"one", "encoding": "zenoh/bytes"},
        {"key": "q/2", "payload": b"two", "encoding": "text/plain"},
    ]


def test_a_get_without_replies_returns_an_empty_table(session):
    table = session.get_table("no/queryable")
    assert table.num_rows == 0
    assert "payload" in table.column_names


def test_a_query_that_failed_raises(session):
    session.declare_queryable("q/*", lambda query: query.reply_err("no such thing"))
    with pytest.raises(zenlake.ZError, match="no such thing"):
        session.get_table("q/1")


@pytest.mark.parametrize("mode", [zenlake.ConsolidationMode.LATEST, zenlake.ConsolidationMode.NONE])
def test_errors_among_the_answers_are_raised_with_the_table_of_the_others(session, mode):
    session.declare_queryable("q/1", lambda query: query.reply_err("disk 2 is gone"))
    session.declare_queryable("q/2", lambda query: query.reply_err("nor is disk 3"))
    session.declare_queryable("q/3", lambda query: query.reply("q/3", "here"))
    with pytest.raises(QueryError, match=r"disk \d.* \(and 1 more\)") as raised:
        session.get_table("q/*", target=zenlake.QueryTarget.ALL, consolidation=mode)
    assert sorted(raised.value.errors) == [b"disk 2 is gone", b"nor is disk 3"]
    assert raised.value.table.select(["key", "payload"]).to_pylist() == [{"key": "q/3", "payload": b"here"}]


def test_pandas_polars_and_duckdb_take_batches_as_they_are(session):
    duckdb, polars = pytest.importorskip("duckdb"), pytest.importorskip("polars")
    pytest.importorskip("pandas")
    subscriber = session.declare_subscriber("d/*", ArrowChannel(3))
    for number in range(3):
        session.put(f"d/{number}", b"%d" % number, encoding="text/plain")
    batch = subscriber.recv(PATIENCE)
    assert [*batch.to_pandas()["key"]] == [*polars.from_arrow(batch)["key"]] == ["d/0", "d/1", "d/2"]
    rows = duckdb.sql("SELECT key, payload FROM batch WHERE encoding = 'text/plain' AND key > 'd/1'").fetchall()
    assert rows == [("d/2", b"2")]


def test_a_put_from_a_finalizer_during_a_batch_is_a_separate_row(session):
    class Dying:
        def __init__(self, number):
            self.itself, self.number = self, number

        def __del__(self):
            session.put("row/dying", str(self.number))

    subscriber = session.declare_subscriber("row/*", ArrowChannel(3, age=60, capacity=10_000))
    before = gc.get_threshold()
    try:
        for number in range(300):
            gc.set_threshold(1 + number % 37)  # collect garbage at different places, also while a record batch is built
            Dying(number)
            session.put("row/living", str(number))
    finally:
        gc.set_threshold(*before)
    gc.collect()
    handler = subscriber.handler
    subscriber.undeclare()
    table = pa.Table.from_batches(list(handler))
    table.validate(full=True)
    for key in ("row/living", "row/dying"):
        rows = table.filter(pc.equal(table["key"], key))
        assert sorted(map(int, rows["payload"].to_pylist())) == list(range(300)), key


def asked(answer):
    """Two sessions: one has a queryable, and the other knows of it."""
    answering, asking = pair()
    answering.declare_queryable("q/*", answer)
    assert asking.declare_querier("q/*").declare_matching_listener().recv(PATIENCE)
    return answering, asking


def stamped(number):
    return zenlake.Timestamp.from_wire(number, bytes([7 - number % 3, 1]))


ANSWERS = [  # key, payload, time
    ("q/1", b"a", None), ("q/2", b"b", 2 << 32), ("q/1", b"c", None), ("q/2", b"d", 1 << 32), ("q/3", b"e", 5 << 32),
    ("q/2", b"f", None), ("q/3", b"g", 5 << 32), ("q/1", b"h", 1), ("q/1", b"i", 3), ("q/1", b"j", 2),
]  # fmt: skip


@pytest.mark.parametrize("mode", [None, *zenlake.ConsolidationMode], ids=str)
def test_the_same_answers_as_a_table_and_one_by_one(mode):
    """Replies from a connection are written to columns where they are decoded, and are consolidated there."""

    def answer(query):
        with query:
            for key, payload, time in ANSWERS:
                query.reply(key, payload, timestamp=None if time is None else stamped(time))

    answering, asking = asked(answer)
    with answering, asking:
        expected = [
            (str(reply.ok.key_expr), bytes(reply.ok.payload)) for reply in asking.get("q/*", consolidation=mode)
        ]
        found = asking.get_table("q/*", consolidation=mode)
        assert list(zip(found["key"].to_pylist(), found["payload"].to_pylist(), strict=True)) == expected
        assert expected


def test_only_answers_on_keys_that_were_asked_for_unless_any_are_taken(monkeypatch):
    monkeypatch.setattr("zenlake.api.query.Query._key", lambda self, key: key.encode())  # replies on other keys, too
    monkeypatch.setattr("zenlake.network.local_queries.IncomingQuery._check_key", lambda self, key: None)

    def answer(query):
        with query:
            for key in ("q/1", "r/1", "q/2"):
                query.reply(key, "x")

    answering, asking = asked(answer)
    with answering, asking:
        assert asking.get_table("q/*")["key"].to_pylist() == ["q/1", "q/2"]
        assert asking.counters()["replies on a key that does not match"] == 1
        anywhere = asking.get_table("q/*", accept_replies=zenlake.ReplyKeyExpr.ANY)
        assert anywhere["key"].to_pylist() == ["q/1", "r/1", "q/2"]


def test_answers_to_a_table_may_be_few():
    def answer(query):
        with query:
            for number in range(10):
                query.reply(f"q/{number}", "x")

    answering, asking = asked(answer)
    with answering, asking:
        assert asking.get_table("q/*", budget=3).num_rows == 3
        assert asking.get_table("q/*").num_rows == 10
