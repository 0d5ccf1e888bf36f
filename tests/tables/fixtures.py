# SPDX-License-Identifier: Apache-2.0
"""Hand-made decoded tables, and the recorded captures: the input of the tests of derived tables."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa

from zenlake.tables.derived import definition
from zenlake.tables.duckdb_engine import connect
from zenlake.tables.schemas import TABLES

PCAPS = sorted((Path(__file__).parent.parent / "vectors" / "pcap").glob("*.pcap"))
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def at(us):
    """Return the columns `received` and `received_ns` for a time in microseconds after noon."""
    time = NOON + timedelta(microseconds=us)
    return {"received": time, "received_ns": (int(NOON.timestamp()) * 1_000_000 + us) * 1000}


def row(us, packet, direction=0, session="tcp/a->b", generation=1, **values):
    return {
        **at(us), "session": session, "generation": generation, "direction": direction, "packet": packet, "index": 0, **values,
    }  # fmt: skip


def derived(name, **tables):
    """Return a derived table of hand-made decoded tables. Tables that are not given are empty."""
    arrow = {
        table: pa.Table.from_pylist(tables.get(table, []), schema=TABLES[table]) for table in definition(name).needs
    }
    with connect(arrow, [name]) as engine:
        return engine.sql(f"from {name}").to_arrow_table().to_pylist()
