# SPDX-License-Identifier: Apache-2.0
"""The tables of a report that are computed from hops: `publications`, `deliveries`, and hops in `disorder`.

Performance: hops are joined and sorted by key. Therefore samples are read in parts of whole keys that fit into memory. Repeated
texts are stored there as numbers (ENUM), because a sort copies its rows several times.
"""

import re
from typing import Any

from zenlake.tables.derived import definition
from zenlake.tables.duckdb_engine import default_memory

__all__ = ["HOP_TABLES", "create_hop_tables"]

HOP_TABLES = ("publications", "deliveries")
PART_ROWS = 500_000
ROW_MEMORY = 1024  # bytes that a sample of a part takes while its hops are joined and sorted
TEXTS = (
    "log",
    "writer",
    "session",
    "file",
    "key",
    "unresolved_key",
    "kind",
    "payload_sha256",
    "timestamp_id",
    "source_zid",
)

KEY = "coalesce(key, unresolved_key, '')"

# Overtaken and reordered hops. The window functions carry only numbers.
DISORDER = """with overtaken as (
    select row, newest from (
        select rowid as row, epoch_us(timestamp) as stamp, max(epoch_us(timestamp)) over (
            partition by leg, topic, clock
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as newest
        from recorded_hops where timestamp is not null
    ) where stamp < newest
),
reordered as (
    select row, highest from (
        select hops.rowid as row, source_sn, max(source_sn) over (
            partition by hops.leg, hops.topic, source_zid, source_eid
            order by received_ns, packet, index rows between unbounded preceding and 1 preceding) as highest
        from recorded_hops as hops join lines using (line) where source_sn is not null
    ) where source_sn < highest
)
select received, key, unresolved_key, session, direction, packet, source_sn, highest,
    coalesce(copy::varchar, concat_ws(' ', session, direction, file, packet, index)) as publication,
    (newest - epoch_us(timestamp)) / 1000.0 as behind_ms, newest is not null as overtaken, highest is not null as reordered
from overtaken full join reordered using (row) join recorded_hops as hops on hops.rowid = row join lines using (line)"""


def create_hop_tables(engine: Any, schema: str) -> None:
    """Create the tables from hops in `schema`, which has the decoded tables."""
    queries = {name: definition(name).query for name in HOP_TABLES} | {"disorder": DISORDER}
    used_words = set(re.findall(r"\w+", " ".join(queries.values())))
    for name in ("clocks", "session_nodes"):
        engine.execute(f"create table {name} as {definition(name).query}")
    for each in TEXTS:
        engine.execute(
            f"create type {each}_text as enum (select distinct {each} from samples where {each} is not null order by 1)"
        )
    columns = [row[0] for row in engine.execute("describe samples").fetchall()]
    selected = ", ".join(f'"{each}"::{each}_text as "{each}"' if each in TEXTS else f'"{each}"' for each in columns)
    parts = split_keys(engine)
    engine.execute(f"set search_path = 'temp.main,{schema}.main,memory.main'")
    for part, (first, last, rows) in enumerate(parts):
        # Sorts of one key cannot be divided into parts.
        engine.execute(f"set memory_limit = '{max(default_memory(engine), rows * ROW_MEMORY) >> 20}MiB'")
        engine.execute(
            f"""create or replace temp table samples as select {selected} from {schema}.samples
            where request_id is null and {KEY} between $first and $last""",
            {"first": first, "last": last},
        )
        engine.execute(f"create or replace temp table lines as {definition('lines').query}")
        hops = definition("recorded_hops").query
        names = [row[0] for row in engine.execute(f"describe {hops}").fetchall()]
        used = ", ".join(f'"{each}"' for each in names if each in used_words)
        engine.execute(f"create or replace temp table recorded_hops as select {used} from ({hops})")
        for name, query in queries.items():
            engine.execute(
                f"{'insert into' if part else 'create table'} {schema}.{name} {'' if part else 'as'} {query}"
            )
    for name in ("samples", "lines", "recorded_hops"):
        engine.execute(f"drop table temp.{name}")
    engine.execute(f"set search_path = '{schema}.main,memory.main'")


def split_keys(engine: Any) -> list[tuple[str, str, int]]:
    """Return the first key, last key and size of each part. A part has about PART_ROWS samples, or more of one key."""
    return engine.execute(
        f"""with counted as (
            select {KEY} as key, count(*) as n from samples where request_id is null group by 1
        ),
        summed as (
            select key, n, sum(n) over (order by key) // {PART_ROWS} as part from counted
        )
        select min(key), max(key), sum(n) from summed group by part order by part"""
    ).fetchall() or [("", "", 0)]
