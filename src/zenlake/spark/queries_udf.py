# SPDX-License-Identifier: Apache-2.0
"""Rows of `queries` from the messages that a stream gathered: the definition of the table, run by DuckDB in the tasks."""

from functools import cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from zenlake.tables.derived import definition
from zenlake.tables.duckdb_engine import connect
from zenlake.tables.schemas import select_schema

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["rows_of", "queries_column"]


def queries_column(*columns: str) -> "Column":
    """Return a column with the rows of `queries` of each conversation, as an array."""
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_type

    return functions.arrow_udf(rows_of, from_arrow_type(_result()))(*columns)


def rows_of(
    session: pa.Array, asker: pa.Array, id: pa.Array, messages: pa.Array, events: pa.Array, closed: pa.Array
) -> pa.Array:
    """Compute for each conversation its messages, the forwarding events of a router, and the ended handshakes of its session."""
    keys = list(zip(session.to_pylist(), asker.to_pylist(), id.to_pylist(), strict=True))
    ends = closed.to_pylist()
    found: list[list[dict[str, Any]]] = [[] for _ in keys]
    left = list(range(len(keys)))
    while left:
        # One at a time per name, and those with a known end of session apart from the others.
        turn: dict[tuple[Any, ...], int] = {}
        for i in left:
            turn.setdefault((*keys[i], ends[i] is None), i)
        left = [i for i in left if turn[(*keys[i], ends[i] is None)] != i]
        for is_open in (False, True):
            some = [i for key, i in turn.items() if key[-1] == is_open]
            if some:
                names = {keys[i]: i for i in some}
                ended = {} if is_open else {keys[i][0]: ends[i] for i in some}
                for row in _derive_queries(messages.take(pa.array(some)), events.take(pa.array(some)), ended):
                    found[names[row["session"], row["direction"], row["request_id"]]].append(row)
    return pa.array(found, _result())


def _derive_queries(messages: pa.Array, events: pa.Array, ended: dict[str, int]) -> list[dict[str, Any]]:
    needs = definition("queries").needs
    said = _table("messages", messages.flatten())
    origins = {row["session"]: row for row in said.select(["session", "log", "writer"]).to_pylist()}
    closed = [{**origins[session], "generation": generation, "kind": "closed"} for session, generation in ended.items()]
    noted = pa.concat_tables(
        [_table("events", events.flatten()), pa.Table.from_pylist(closed, select_schema("events", needs["events"]))]
    )
    with connect({"messages": said, "events": noted}, ["queries"]) as engine:
        rows: list[dict[str, Any]] = engine.sql("from queries").to_arrow_table().to_pylist()
    return rows


def _table(name: str, structs: pa.StructArray) -> pa.Table:
    schema = select_schema(name, definition("queries").needs[name])
    return pa.Table.from_arrays([structs.field(field.name).cast(field.type) for field in schema], schema=schema)


@cache
def _result() -> pa.DataType:
    """Return the result of the definition for no rows."""
    needs = definition("queries").needs
    empty = {name: select_schema(name, columns).empty_table() for name, columns in needs.items()}
    with connect(empty, ["queries"]) as engine:
        return pa.list_(pa.struct(list(engine.sql("from queries").to_arrow_table().schema)))
