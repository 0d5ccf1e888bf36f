# SPDX-License-Identifier: Apache-2.0
"""The figures of a report, computed a second time by DuckDB from the Parquet files of its lake, with other SQL than that of the
report."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES


def check(recording: dict[str, Any], lake: Path) -> None:
    """Return all headline figures, and the sums and rows of every section."""
    with duckdb.connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        for name in (*TABLES, *DERIVED):
            if any((lake / name).rglob("*.parquet")):
                engine.execute(f"create view {name} as from '{lake}/{name}/**/*.parquet'")
            elif name in TABLES:
                engine.register(name, TABLES[name].empty_table())

        def one(sql: str) -> Any:
            [[value]] = engine.execute(sql).fetchall()
            return value

        def pairs(sql: str) -> dict[Any, Any]:
            return {row[0] if len(row) == 2 else row[:-1]: row[-1] for row in engine.execute(sql).fetchall()}

        _head(recording, one)
        _traffic(recording, one, pairs)
        _sessions(recording, one, pairs)
        _gets(recording, one, pairs)
        _deliveries(recording, one, pairs)
        _losses(recording, one, pairs)
        _timing(recording, one)
        _liveliness(recording, one, pairs)


def _head(recording: dict[str, Any], one: Any) -> None:
    facts = recording["overview"]
    carriers = "type in ('FRAME', 'FRAGMENT')"
    assert facts["messages"] == one("select count(*) from messages") - one(
        f"select count(*) from messages where {carriers}"
    )
    assert facts["bytes"] == one("select sum(opener_bytes) + sum(coalesce(acceptor_bytes, 0)) from sessions")
    assert facts["samples"] == one("select count(*) from samples")
    assert facts["replies"] == one("select count(request_id) from samples")
    assert facts["publications"] == one("select count(*) from publications")
    assert facts["published_bytes"] == one("select sum(payload_size) from publications")
    assert facts["deliveries"] == one("select count(*) from deliveries")
    assert facts["delivered_bytes"] == one("select sum(payload_size) from deliveries")
    assert facts["gets"] == one("select count(*) from gets")
    assert facts["answered"] == one("select count(*) from gets where outcome = 'answered'")
    assert facts["failed"] == one("select count(*) from gets where outcome in ('error', 'timeout', 'lost')")
    assert facts["keys"] == one("select count(distinct key) from samples")
    assert facts["queries"] == one("select count(*) from messages where type = 'REQUEST'")
    assert facts["errors"] == one("select count(*) from errors")
    assert facts["unfinished"] == one("select count(*) from events where kind = 'lost'")
    for edge, which in (("first", "min"), ("last", "max")):
        assert recording["window"][edge] == pytest.approx(
            one(f"select epoch_us({which}(received)) from messages") / 1000
        )


def _traffic(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    over_time = recording["traffic"]["over_time"]
    assert sum(row["messages"] for row in over_time) == recording["overview"]["messages"]
    assert sum(row["bytes"] for row in over_time) == recording["overview"]["bytes"]
    keys = recording["traffic"]["keys"]
    assert keys["total"] == recording["overview"]["keys"]
    for field, sql in {
        "hops": "select key, count(*) from samples group by key",
        "publications": "select key, count(*) from publications group by key",
        "deliveries": "select key, count(*) from deliveries group by key",
        "bytes": "select key, sum(payload_size) from publications group by key",
    }.items():
        counted = pairs(sql)
        assert {row["key"]: row[field] for row in keys["rows"]} == {
            row["key"]: counted.get(row["key"], 0) for row in keys["rows"]
        }
    for name in ("publications", "deliveries", "gets"):
        found = sum(row["n"] for row in recording["traffic"]["applications"] if row["of"] == name)
        assert found == recording["overview"][name]


def _sessions(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    rows = recording["sessions"]["list"]["rows"]
    assert (
        recording["sessions"]["list"]["total"]
        == recording["overview"]["sessions"]
        == one("select count(*) from sessions")
    )
    for column in ("opener_messages", "acceptor_messages", "opener_bytes", "acceptor_bytes"):
        assert sum(row[column] or 0 for row in rows) == one(f"select sum({column}) from sessions")
    closed = pairs("select session, any_value(detail) from events where kind = 'closed' group by session")
    assert {row["session"]: row["reason"] for row in rows if row["reason"]} == closed
    broken = pairs("select session, any_value(detail) from events where kind = 'disconnected' group by session")
    assert {row["session"]: row["why"] for row in rows if row["broke"]} == broken


def _gets(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    figures = recording["gets"]
    by_outcome = pairs("select outcome, count(*) from gets group by outcome")
    assert {row["outcome"]: row["gets"] for row in figures["outcomes"]} == by_outcome
    assert sum(by_outcome.values()) == recording["overview"]["gets"]
    assert sum(row["gets"] for row in figures["histogram"]) == one("select count(latency_ms) from gets")
    assert figures["latency"]["most"] == one("select max(latency_ms) from gets")
    assert {row["key"]: row["gets"] for row in figures["keys"]["rows"]} == pairs(
        "select key, count(*) from gets group by key"
    )
    assert sum(row["replies"] for row in figures["keys"]["rows"]) == one("select sum(replies) from gets")


def _deliveries(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    figures = recording["deliveries"]
    delivered = pairs("select publisher, subscriber, count(*) from deliveries group by all")
    assert figures["pairs"]["total"] == len(figures["pairs"]["rows"]) == one("select count(*) from matrix")
    assert {
        (row["publisher"], row["subscriber"]): row["delivered"] for row in figures["pairs"]["rows"] if row["delivered"]
    } == delivered
    assert {row["subscriber"]: row["delivered"] for row in figures["subscribers"]["rows"] if row["delivered"]} == pairs(
        "select subscriber, count(*) from deliveries group by subscriber"
    )


def _losses(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    losses = recording["losses"]
    frames = pairs("""select session, direction, priority, reliable, count(*) from messages
        where type in ('FRAME', 'FRAGMENT') group by all""")
    lanes = losses["lanes"]
    assert lanes["total"] == len(frames)
    for row in lanes["rows"]:
        assert frames[row["session"], row["direction"], row["priority"], row["reliable"]] == row["frames"]
    gaps = one("select coalesce(sum(count), 0) from events where kind = 'gap'")
    if lanes["total"] == len(lanes["rows"]):
        assert sum(row["missing"] + row["skipped"] for row in lanes["rows"]) == gaps
    assert sum(row["missing"] for row in losses["causes"] if row["unit"] == "frames") == gaps
    missing = Counter(
        pairs("""select source_zid, source_eid, session, direction,
        max(source_sn) - min(source_sn) + 1 - count(distinct source_sn) from samples
        where source_sn is not null and request_id is null group by all""")
    )
    for row in losses["sources"]["rows"]:
        assert missing[row["source_zid"], row["source_eid"], row["session"], row["direction"]] == row["missing"]
    assert {
        (row["cause"], row["unit"]): row["missing"] for row in losses["causes"] if row["unit"] != "messages"
    } == pairs(
        """select cause, case scope when 'lane' then 'frames' else 'samples' end, sum(missing) from gaps where not repeated
        group by all"""
    )
    dropped = one("select coalesce(sum(count), 0) from events where kind = 'dropped'")
    assert sum(row["missing"] for row in losses["causes"] if row["cause"] == "router") >= dropped
    assert losses["lost"] == sum(
        row["missing"] for row in losses["causes"] if row["cause"] in ("network", "sender", "router")
    )


def _timing(recording: dict[str, Any], one: Any) -> None:
    timing = recording["timing"]
    published = "request_id is null"
    assert timing["stamped"] == one(f"select count(timestamp) from samples where {published}")
    assert timing["counted"] == one(f"select count(source_sn) from samples where {published}")


def _liveliness(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    tokens = pairs("""select key, epoch_us(min(received)) / 1000 from declarations
        where kind = 'token' and action = 'declare' and id is not null group by key""")
    assert recording["liveliness"]["total"] == len(tokens)
    begun: dict[str, float] = {}
    for span in recording["liveliness"]["spans"]:
        begun[span["key"]] = min(begun.get(span["key"], span["begun"]), span["begun"])
    assert begun == pytest.approx({key: tokens[key] for key in begun})
