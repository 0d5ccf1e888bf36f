# SPDX-License-Identifier: Apache-2.0
"""`zenlake.read`, `derive` and `query`: any table, some of it, and one line about each mistake."""

import sys
from datetime import timedelta, timezone

import pytest

import zenlake
from tests.tables.fixtures import PCAPS
from zenlake.errors import InvalidValue
from zenlake.tables import DERIVED, batches, definition, derive, query
from zenlake.tables import derive as derive_function
from zenlake.tables.schemas import TABLES

[QUERIES] = [path for path in PCAPS if path.stem == "two_clients_queries"]


@pytest.mark.parametrize("name", DERIVED)
def test_every_column_of_a_derived_table_is_explained_where_it_is_defined(name):
    defined = definition(name)
    table = derive(QUERIES)[name]
    assert table.column_names == list(defined.comments)
    assert table.schema.field(0).metadata == {b"comment": defined.comments[table.column_names[0]].encode()}
    assert defined.row.endswith(".")
    assert defined.notes


def test_a_derived_table_is_made_of_no_more_than_it_mentions():
    assert definition("latest").needs.keys() == {"samples"}
    assert "payload" in definition("latest").needs["samples"]
    assert "payload" not in definition("rates").needs["samples"]
    assert definition("queries").needs.keys() == {"messages", "events"}


def test_all_tables_are_there_and_a_wrong_name_is_answered_with_the_right_ones():
    tables = derive(QUERIES)
    assert list(tables) == [*TABLES, *DERIVED]
    assert len(tables) == 10
    with pytest.raises(KeyError, match=r"unknown table 'query'; expected one of messages, .*rates"):
        tables["query"]
    with pytest.raises(InvalidValue, match=r"unknown table 'query'; expected one of messages, .*rates"):
        zenlake.read(QUERIES, "query")
    with pytest.raises(InvalidValue, match="queries has no column 'reply'; expected one of received"):
        zenlake.read(QUERIES, "queries", columns=["reply"])
    with pytest.raises(InvalidValue, match="sessions has no key column; remove the filter by key"):
        zenlake.read(QUERIES, "sessions", keys="a/**")
    with pytest.raises(FileNotFoundError, match=r"no capture at nowhere\.pcap"):
        derive("nowhere.pcap")


@pytest.mark.parametrize("name", ["samples", "queries"])
def test_columns_keys_and_times_choose_from_the_whole(name):
    whole = zenlake.read(QUERIES, name).to_pylist()
    middle = sorted(row["received"] for row in whole)[len(whole) // 2]
    until = middle + timedelta(milliseconds=50)
    chosen = zenlake.read(QUERIES, name, columns=["session"], keys="svc/a/*", since=middle, until=until)
    expected = [
        {"session": row["session"]}
        for row in whole
        if row["key"] in ("svc/a/x", "svc/**") and middle <= row["received"] < until
    ]
    assert chosen.column_names == ["session"]
    assert 0 < len(expected) < len(whole)
    assert sorted(map(str, chosen.to_pylist())) == sorted(map(str, expected))
    in_batches = batches(QUERIES, name, columns=["session"], keys="svc/a/*", since=middle, until=until)
    assert sum(batch.num_rows for batch in in_batches) == len(expected)


def test_keys_and_times_may_be_given_in_several_ways():
    whole = zenlake.read(QUERIES)
    middle = sorted(whole["received"].to_pylist())[whole.num_rows // 2]
    half = zenlake.read(QUERIES, since=middle).num_rows
    elsewhere = middle.astimezone(timezone(timedelta(hours=5)))
    for since in (middle.replace(tzinfo=None), middle.isoformat(), middle.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), elsewhere):
        assert zenlake.read(QUERIES, since=since).num_rows == half
    assert zenlake.read(QUERIES, since=middle.date(), until=middle.date() + timedelta(days=1)) == whole
    assert zenlake.read(QUERIES, keys=zenlake.KeyExpr("svc/a/*")) == zenlake.read(QUERIES, keys="svc/a/*")


@pytest.mark.parametrize(
    ("given", "wrong", "why"),
    [
        ({"since": 1.5}, TypeError, r"invalid since of type float; expected a datetime, a date"),
        ({"until": "noon"}, InvalidValue, r"invalid until='noon'; expected a time such as 2026-05-01T12:00:00Z"),
        ({"path": []}, InvalidValue, "no path is given; expected at least one capture, log or lake"),
        ({"path": None}, TypeError, "invalid path of type NoneType; expected str, PathLike or several of them"),
        ({"path": [QUERIES, 7]}, TypeError, "invalid path of type int; expected str, PathLike or several of them"),
    ],
)
def test_an_invalid_path_or_time_is_refused_by_name(given, wrong, why):
    with pytest.raises(wrong, match=why):
        zenlake.read(**{"path": QUERIES, **given})


def test_a_question_sees_all_tables_and_computes_those_it_names(monkeypatch):
    module = sys.modules[derive_function.__module__]
    asked = []
    decoded = module.decode_inputs
    monkeypatch.setattr(
        module, "decode_inputs", lambda of, wanted, *how: asked.append(set(wanted)) or decoded(of, wanted, *how)
    )
    assert query("select count(*) as n from samples", QUERIES).to_pylist() == [{"n": 500}]
    [row] = query("select (select count(*) from queries) as q, (select count(*) from gaps) as g", QUERIES).to_pylist()
    assert row == {"q": 130, "g": 0}
    assert query("select 1 as one", QUERIES).to_pylist() == [{"one": 1}]
    assert asked == [{"samples"}, {"messages", "events", "samples"}, set()]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("selekt 1", 'Parser Error: syntax error at or near "selekt"'),
        ("select nokey from samples", 'Binder Error: Referenced column "nokey" not found'),
        ("from robots", "Catalog Error: Table with name robots does not exist"),
    ],
)
def test_a_wrong_question_is_answered_in_one_line(sql, why):
    with pytest.raises(InvalidValue) as caught:
        query(sql, QUERIES)
    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)


def test_without_duckdb_decoded_tables_work_and_derived_ones_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert zenlake.read(QUERIES, "events").num_rows == 3
    with pytest.raises(ImportError, match=r"need DuckDB, which is not installed: pip install duckdb"):
        zenlake.read(QUERIES, "queries")


@pytest.mark.parametrize("table", ["samples", "rates"])
def test_a_column_that_is_asked_for_twice_is_refused_by_name(table):
    with pytest.raises(InvalidValue, match="column 'key' is selected twice"):
        zenlake.read(QUERIES, table, columns=["key", "session", "key"] if table == "samples" else ["key", "key"])


@pytest.mark.parametrize(("data", "why"), [(b"# notes\n", "neither pcap nor pcapng"), (b"", "the file is empty")])
def test_a_file_that_is_not_a_capture_is_refused_by_name(tmp_path, data, why):
    path = tmp_path / "notes.pcap"
    path.write_bytes(data)
    with pytest.raises(InvalidValue, match=f"notes.pcap is not a capture: {why}"):
        zenlake.read(path)
