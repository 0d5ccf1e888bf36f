# SPDX-License-Identifier: Apache-2.0
"""The demo's accounts: what the fleet says of itself, against what DuckDB counts in the lake.

A sample passes the router: it comes in on a robot's session (direction 0) and goes out on those of its subscribers (direction 1).
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from zenlake.cli.fleet import Told
from zenlake.cli.robots import DROPPABLE
from zenlake.errors import InvalidValue
from zenlake.tables.derive import import_duckdb

__all__ = ["account"]


def account(tables: Path, told: Told) -> Iterator[str]:
    """A sentence for each account that balances; one that does not is an error."""
    with import_duckdb().connect() as engine:
        for name in ("samples", "events", "queries"):
            files = str(tables / name / "**" / "*.parquet").replace("'", "''")
            engine.execute(f"create view {name} as from read_parquet('{files}', hive_partitioning = true)")
        came = Counter(dict(engine.execute("""select key, count(distinct (source_zid, source_eid, source_sn)) from samples
            where request_id is null and direction = 0 group by key""").fetchall()))  # fmt: skip
        [(rows,)] = engine.execute(
            "select count(*) from samples where request_id is null and direction = 0 and source_sn is not null"
        ).fetchall()
        yield _robots(told, came, rows)
        yield _killed(told, came)
        yield _slow(engine, told)
        yield _operator(engine, told)


def _robots(told: Told, came: Counter[str], rows: int) -> str:
    """Whoever drove to the end: everything that must arrive did, once; a picture may have been dropped by its sender."""
    missing = {key: count - came[key] for key, count in told.sent.items() if came[key] != count}
    dropped = sum(missing.pop(key) for key in list(missing) if key.endswith(f"/{DROPPABLE}") and missing[key] > 0)
    if missing:
        raise InvalidValue(f"sent by the robots, and not in the lake as often: {missing}: please tell us")
    if rows != sum(came.values()):
        raise InvalidValue(f"{rows - sum(came.values())} samples are in the lake twice: please tell us")
    lost = f", but for {_many(dropped, 'picture')} that the sender dropped" if dropped else ""
    return f"{sum(told.sent.values()):,} samples sent by {len(told.sent)} publishers are in the lake, each once{lost}"


def _many(count: int, word: str) -> str:
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _killed(told: Told, came: Counter[str]) -> str:
    """What was on its way in the robot itself went with it; what it could not tell any more may have arrived."""
    [robot] = {key.rpartition("/")[0] for key in told.killed} or {"the robot"}
    lost = sum(max(0, count - came[key]) for key, count in told.killed.items())
    more = sum(max(0, came[key] - count) for key, count in told.killed.items())
    arrived = f"{sum(told.killed.values()) - lost + more:,}"
    with_it = f"{lost} went with it" if lost else "none is missing"
    return f"{robot} was killed after {sum(told.killed.values()):,} samples: {arrived} are in the lake, {with_it}"


def _slow(engine: Any, told: Told) -> str:
    [(sent,)] = engine.execute(
        f"select count(*) from samples where direction = 1 and request_id is null and key like '%/{DROPPABLE}'"
    ).fetchall()
    [(dropped,)] = engine.execute(
        "select coalesce(sum(count), 0)::bigint from events where kind = 'dropped'"
    ).fetchall()
    looked = _many(told.looked, "picture")
    return f"the slow subscriber looked at {looked}; the router sent it {sent} and dropped {dropped}, and says so"


def _operator(engine: Any, told: Told) -> str:
    """Robots open their sessions as the operator does, but only the operator asks: direction 0."""
    [(asked, replies, errors)] = engine.execute(
        "select count(*), sum(replies)::bigint, sum(errors)::bigint from queries where direction = 0"
    ).fetchall()
    heard = told.asked
    return (
        f"the operator asked {_many(heard['queries'], 'time')} and heard {heard['replies']} replies and "
        f"{_many(heard['errors'], 'error')}; the lake has {asked}, {replies} and {errors}"
    )
