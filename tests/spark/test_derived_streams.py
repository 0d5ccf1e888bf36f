# SPDX-License-Identifier: Apache-2.0
"""Derived tables as streams: the rows of the whole recording, each once, when it is complete."""

import json
from datetime import UTC, datetime

import pyarrow as pa
import pytest

import zenlake
from tests.lake.fixtures import MIDNIGHT, add, rows
from tests.tables.fixtures import PCAPS
from zenlake.errors import InvalidValue
from zenlake.log import Writer
from zenlake.spark.queries_udf import rows_of
from zenlake.tables import definition
from zenlake.tables.duckdb_engine import connect
from zenlake.tables.schemas import TABLES

HOUR = 3600 * 10**9
NEEDS = definition("queries").needs


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Write traffic, and an hour later more traffic, which completes the earlier windows."""
    path = tmp_path_factory.mktemp("logs") / "log"
    with Writer(path, "tap-1", sync="sealed", block_size=8000) as writer:
        add(writer, seed=1)
        add(writer, seed=5, size=2, since=MIDNIGHT + HOUR)
    return path


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["rates", "queries"])
def test_a_stream_has_the_rows_of_the_whole_log_that_are_over(spark, log, tmp_path, name):
    over = datetime.fromtimestamp((MIDNIGHT + HOUR // 2) / 1e9, UTC)
    expected = zenlake.read(log, name, until=over)
    skew = zenlake.read(log)["clock_skew"].drop_null().to_pylist()
    assert max(skew) > 86_400_000_000  # clocks that are days ahead hold no row back
    options = {"startingOffsets": "earliest", "maxBytesPerTrigger": "20000"}
    found = zenlake.spark.stream(spark, log, name, options=options)
    assert {field.name: field.metadata["comment"] for field in found.schema} == definition(name).comments
    writer = found.writeStream.format("memory").queryName(f"streamed_{name}").trigger(availableNow=True)
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    query.awaitTermination()
    assert len([each for each in query.recentProgress if each["numInputRows"]]) > 1
    table = spark.table(f"streamed_{name}").toArrow()
    assert table.schema.names == expected.schema.names
    assert rows(table) == rows(expected)
    assert name == "rates" or {"lost", "open"} <= set(table["outcome"].to_pylist())


def gathered(messages, events, closed):
    """Return the arguments of `rows_of` that the stream gathers, computed in plain Python."""
    found = {}
    for row in messages:
        if row["type"] in ("REQUEST", "RESPONSE", "RESPONSE_FINAL"):
            asker = row["direction"] if row["type"] == "REQUEST" else 1 - row["direction"]
            found.setdefault((row["session"], asker, row["id"]), ([], []))[0].append(row)
    for row in events:
        if row["kind"] == "forwarded":
            to = json.loads(row["detail"])
            found.setdefault((to["to_session"], to["to_direction"], to["to_id"]), ([], []))[1].append(row)
    structs = {name: pa.struct([(f.name, f.type) for f in TABLES[name] if f.name in NEEDS[name]]) for name in NEEDS}
    keys = list(found)
    return (
        *(pa.array([key[i] for key in keys]) for i in range(3)),
        pa.array([found[key][0] for key in keys], pa.list_(structs["messages"])),
        pa.array([found[key][1] for key in keys], pa.list_(structs["events"])),
        pa.array([closed.get(key[0]) for key in keys], pa.int32()),
    )


def test_conversations_that_were_gathered_give_the_rows_of_the_table():
    """Of real queries, some of which a router noted to have passed on, and one session that ended."""
    files = [str(path) for path in PCAPS]
    messages, events = (zenlake.read(files, name, columns=NEEDS[name]) for name in ("messages", "events"))
    asked = [row for row in messages.to_pylist() if row["type"] == "REQUEST" and row["file"] is not None][:3]
    hops = [
        {"kind": "forwarded", "session": "tcp/a", "sn": 7, "packet": n, "received_ns": n, "index": 0,
         "detail": json.dumps({"to_session": row["session"], "to_direction": row["direction"], "to_id": row["id"]})}
        for n, row in enumerate(asked)
    ]  # fmt: skip
    closed = {row["session"]: row["generation"] for row in events.to_pylist() if row["kind"] == "closed"}
    events = pa.concat_tables([events, pa.Table.from_pylist(hops, events.schema)])
    with connect({"messages": messages, "events": events}, ["queries"]) as engine:
        expected = engine.sql("from queries").to_arrow_table()
    assert {"answered", "timeout"} & set(expected["outcome"].to_pylist())
    assert expected["from_session"].null_count == len(expected) - 3
    found = rows_of(*gathered(messages.to_pylist(), events.to_pylist(), closed))
    assert sorted(repr(row) for each in found.to_pylist() for row in each) == rows(expected)


def test_a_conversation_twice_in_one_go_is_two():
    messages = zenlake.read([str(path) for path in PCAPS], "messages", columns=NEEDS["messages"]).to_pylist()
    once = gathered(messages, [], {})
    twice = [pa.concat_arrays([each, each]) for each in once]
    assert rows_of(*twice).to_pylist() == rows_of(*once).to_pylist() * 2


def test_other_tables_are_no_streams():
    with pytest.raises(
        InvalidValue, match="table 'latest' is not available as a stream; expected one of queries, rates"
    ):
        zenlake.spark.stream(None, "log", "latest")
