# SPDX-License-Identifier: Apache-2.0
"""The figures of a report, counted again by DuckDB from the Parquet files of its lake: in other words than the report's own SQL,
over nothing but the files."""

from collections import Counter
from pathlib import Path
from typing import Any

import duckdb
import pytest

from zenlake.tables import DERIVED
from zenlake.tables.schemas import TABLES


def check(recording: dict[str, Any], lake: Path) -> None:
    """All figures at the head, and the sums and rows of every section."""
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
        _queries(recording, one, pairs)
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
    assert facts["payload_bytes"] == one("select sum(octet_length(payload)) from samples")
    assert facts["keys"] == one("select count(distinct key) from samples")
    assert facts["queries"] == one("select count(*) from messages where type = 'REQUEST'")
    assert facts["errors"] == one("select count(*) from errors")
    assert facts["lost_messages"] == one("select count(*) from events where kind = 'lost'")
    assert facts["dropped"] == one("select coalesce(sum(count), 0) from events where kind = 'dropped'")
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
    counted = pairs("select key, count(*) from samples group by key")
    sizes = pairs("select key, sum(octet_length(payload)) from samples group by key")
    assert {row["key"]: row["samples"] for row in keys["rows"]}.items() <= counted.items()
    assert {row["key"]: row["bytes"] for row in keys["rows"]}.items() <= sizes.items()


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


def _queries(recording: dict[str, Any], one: Any, pairs: Any) -> None:
    figures = recording["queries"]
    by_outcome = pairs("select outcome, count(*) from queries group by outcome")
    assert {row["outcome"]: row["queries"] for row in figures["outcomes"]} == by_outcome
    assert sum(by_outcome.values()) == recording["overview"]["queries"]
    assert sum(row["queries"] for row in figures["histogram"]) == one("select count(final_ms) from queries")
    assert figures["final"]["most"] == one("select max(final_ms) from queries")
    by_key = pairs("select key, count(*) from queries group by key")
    assert {row["key"]: row["queries"] for row in figures["keys"]["rows"]} == by_key
    replies = one("select count(*) from samples where request_id is not null")
    assert sum(row["replies"] for row in figures["keys"]["rows"]) == replies


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
        assert sum(row["missing"] + row["harmless"] for row in lanes["rows"]) == gaps
    assert losses["harmless"] + recording["overview"]["lost_frames"] == gaps
    missing = Counter(
        pairs("""select source_zid, source_eid, session, direction,
        max(source_sn) - min(source_sn) + 1 - count(distinct source_sn) from samples
        where source_sn is not null and request_id is null group by all""")
    )
    for row in losses["sources"]["rows"]:
        assert missing[row["source_zid"], row["source_eid"], row["session"], row["direction"]] == row["missing"]
    worst: Counter[Any] = Counter()
    for (zid, eid, _, _), count in missing.items():
        worst[zid, eid] = max(worst[zid, eid], count)
    assert recording["overview"]["lost_samples"] == sum(worst.values())


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
