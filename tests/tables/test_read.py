# SPDX-License-Identifier: Apache-2.0
"""`zenlake.read`, `derive` and `query`: whole tables, selected rows and columns, and one line for each error."""

import sys
import threading
from datetime import timedelta, timezone

import pyarrow.compute as pc
import pytest

import zenlake
from tests.capture import forge
from tests.log.fixtures import written
from tests.tables.fixtures import PCAPS
from zenlake.errors import InvalidValue
from zenlake.tables import DERIVED, batches, definition, derive, query, query_batches
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
    assert len(tables) == 16
    with pytest.raises(KeyError, match=r"unknown table 'query'; expected one of messages, .*rates"):
        tables["query"]
    with pytest.raises(InvalidValue, match=r"unknown table 'query'; expected one of messages, .*rates"):
        zenlake.read(QUERIES, "query")
    with pytest.raises(InvalidValue, match="queries has no column 'reply'; expected one of received"):
        zenlake.read(QUERIES, "queries", columns=["reply"])
    with pytest.raises(InvalidValue, match="sessions has no key column; remove the filter by key"):
        zenlake.read(QUERIES, "sessions", keys="a/**")
    with pytest.raises(FileNotFoundError, match=r"nowhere\.pcap does not exist; expected a capture"):
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


def decoded_columns(monkeypatch, sql):
    """Return the rows of a query, and the columns of each table that were decoded for it."""
    module = sys.modules[derive_function.__module__]
    found, decode = {}, module.decode

    def record(paths, wanted, **options):
        for table, columns in wanted.items():
            found.setdefault(table, set()).update(columns)
        return decode(paths, wanted, **options)

    with monkeypatch.context() as patched:
        patched.setattr(module, "decode", record)
        return query(sql, QUERIES).to_pylist(), found


def test_a_query_decodes_the_columns_that_it_names_and_no_others(monkeypatch):
    rows, decoded = decoded_columns(
        monkeypatch, "select key, count(*) as n from samples group by key order by n desc limit 1"
    )
    assert (rows[0]["n"], decoded) == (140, {"samples": {"key"}})
    rows, decoded = decoded_columns(
        monkeypatch, "select count(*) as n from samples where direction = 0 and kind = 'put'"
    )
    assert rows == [{"n": query("from samples", QUERIES).filter(pc.field("direction") == 0).num_rows}]
    assert decoded["samples"] <= {"direction", "kind", "received"}  # one column for the number of rows
    rows, decoded = decoded_columns(
        monkeypatch, "select (select count(*) from queries) as q, (select count(*) from gaps) as g"
    )
    assert rows == [{"q": 130, "g": 0}]
    assert set(decoded) == {"messages", "events", "samples"}
    assert not any("payload" in columns for columns in decoded.values())
    assert decoded_columns(monkeypatch, "select 1 as one") == ([{"one": 1}], {})


def test_an_early_end_of_a_result_ends_the_decoder():
    before = threading.active_count()
    with query_batches("select key from samples", QUERIES) as found:
        assert found.read_next_batch().num_rows
    assert threading.active_count() <= before + 1
    assert query("select key from samples limit 3", QUERIES).num_rows == 3


def test_json_payloads_are_queried_without_a_cast(tmp_path):
    values = ['{"x": 1, "n": {"y": [7, 8]}, "naïve": "é\\n"}', '{"x": 2}', "{no json", "\udcff\udcfe", ""]
    frames = [
        (0, 0, b"\x25" + forge.vle(i) + forge.push(value.encode("utf-8", "surrogateescape"), b"a"))
        for i, value in enumerate(values)
    ]
    written(tmp_path / "log", frames)
    log = tmp_path / "log"
    rows = query(
        """select payload->>'x' as x, payload->>'$.n.y[1]' as y, payload->>'naïve' as name, json(payload)->'n'->'y' as list,
            try_cast(payload->>'x' as int) + 1 as next from samples""",
        log,
    ).to_pylist()
    assert rows[0] == {"x": "1", "y": "8", "name": "é\n", "list": "[7,8]", "next": 2}
    assert [row["x"] for row in rows] == ["1", "2", None, None, None]
    assert query("select 'payload->x' as a", log).to_pylist() == [{"a": "payload->x"}]
    assert query("select '[1,{\"a\": \"é\"}]'->>'$[1].a' as a", log).to_pylist() == [{"a": "é"}]


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("selekt 1", 'Parser Error: syntax error at or near "selekt"'),
        ("select nokey from samples", 'Binder Error: Referenced column "nokey" not found'),
        ("from robots", "Catalog Error: Table with name robots does not exist"),
        (
            "select s.payload -> 'x' from samples s",
            "payload-> is null for bytes; expected payload->>'field' (text) or json(",
        ),
    ],
)
def test_a_wrong_question_is_answered_in_one_line(sql, why):
    with pytest.raises(InvalidValue) as caught:
        query(sql, QUERIES)
    assert str(caught.value).startswith(why)
    assert "\n" not in str(caught.value)


def test_without_duckdb_decoded_tables_work_and_derived_ones_name_the_extra(monkeypatch):
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


@pytest.mark.parametrize("table", ["samples", "messages", "queries"])
def test_no_columns_still_have_a_number_of_rows(table):
    found = zenlake.read(QUERIES, table, columns=[])
    assert (found.column_names, found.num_rows) == ([], zenlake.read(QUERIES, table).num_rows)


def test_the_sample_capture_is_found_by_name_unless_a_file_has_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert zenlake.read("sample.pcap", "events").num_rows > 1
    (tmp_path / "sample.pcap").write_bytes(QUERIES.read_bytes())
    assert zenlake.read("sample.pcap").num_rows == 500
