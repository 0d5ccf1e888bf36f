# SPDX-License-Identifier: Apache-2.0
"""Verification of the demo: compares the counters of the fleet with the rows that DuckDB counts in the lake.

The router receives a sample on the session of a robot (direction 0) and sends it on the sessions of subscribers (direction 1).
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zenlake.cli.demo.processes import SentCounts
from zenlake.cli.demo.robots import DROPPABLE
from zenlake.errors import InvalidValue
from zenlake.tables.duckdb_engine import import_duckdb
from zenlake.tables.lake_reader import table_files

__all__ = ["reconcile"]


def reconcile(tables: Path, counters: SentCounts) -> Iterator[str]:
    """Yield one sentence for each comparison.

    Raises:
        InvalidValue: The lake and the counters of the robots disagree.
    """
    with import_duckdb().connect() as engine:
        for name in ("samples", "events", "queries"):
            files = ", ".join("'" + file.replace("'", "''") + "'" for file in table_files(tables, name))
            engine.execute(f"create view {name} as from read_parquet([{files}], hive_partitioning = true)")
        came = Counter(dict(engine.execute("""select key, count(distinct (source_zid, source_eid, source_sn)) from samples
            where request_id is null and direction = 0 group by key""").fetchall()))  # fmt: skip
        [(rows,)] = engine.execute(
            "select count(*) from samples where request_id is null and direction = 0 and source_sn is not null"
        ).fetchall()
        yield _robots(counters, came, rows)
        yield _compare_killed(counters, came)
        yield _compare_slow(engine, counters)
        yield _operator(engine, counters)


def _robots(counters: SentCounts, came: Counter[str], rows: int) -> str:
    """Compare the samples of all robots that finished. Only camera pictures may be missing, dropped by their sender."""
    missing = {key: count - came[key] for key, count in counters.sent.items() if came[key] != count}
    dropped = sum(missing.pop(key) for key in list(missing) if key.endswith(f"/{DROPPABLE}") and missing[key] > 0)
    if missing:
        raise InvalidValue(f"sent samples minus samples in the lake, by key: {missing}; please report this as a bug")
    if rows != sum(came.values()):
        raise InvalidValue(f"{rows - sum(came.values())} samples are in the lake twice; please report this as a bug")
    lost = f", except {_pluralize(dropped, 'picture')} that the sender dropped" if dropped else ""
    return f"{sum(counters.sent.values()):,} samples sent by {len(counters.sent)} publishers are in the lake, each once{lost}"


def _pluralize(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _compare_killed(counters: SentCounts, came: Counter[str]) -> str:
    """Compare the samples of the killed robot.

    Samples in its queues were lost with it. Samples after its last printed counters may have arrived.
    """
    [robot] = {key.rpartition("/")[0] for key in counters.killed} or {"the robot"}
    lost = sum(max(0, count - came[key]) for key, count in counters.killed.items())
    more = sum(max(0, came[key] - count) for key, count in counters.killed.items())
    arrived = f"{sum(counters.killed.values()) - lost + more:,}"
    with_it = f"{lost} lost in its queues" if lost else "no sample is missing"
    return f"{robot} was killed after {sum(counters.killed.values()):,} samples: {arrived} are in the lake, {with_it}"


def _compare_slow(engine: Any, counters: SentCounts) -> str:
    [(sent,)] = engine.execute(
        f"select count(*) from samples where direction = 1 and request_id is null and key like '%/{DROPPABLE}'"
    ).fetchall()
    [(dropped,)] = engine.execute(
        "select coalesce(sum(count), 0)::bigint from events where kind = 'dropped'"
    ).fetchall()
    looked = _pluralize(counters.looked, "picture")
    return f"the slow subscriber processed {looked}; the router sent it {sent} and recorded {dropped} as dropped"


def _operator(engine: Any, counters: SentCounts) -> str:
    """Compare the queries of the operator. Robots open sessions too, but only the operator sends queries (direction 0)."""
    [(asked, replies, errors)] = engine.execute(
        "select count(*), sum(replies)::bigint, sum(errors)::bigint from queries where direction = 0"
    ).fetchall()
    heard = counters.asked
    return (
        f"the operator sent {heard['queries']} queries and received {heard['replies']} replies and "
        f"{_pluralize(heard['errors'], 'error')}; the lake has {asked}, {replies} and {errors}"
    )
