# SPDX-License-Identifier: Apache-2.0
"""The decoded tables as users see them: what the bytes say (`zenlake.columns.schemas`), and what follows from one row of it.

A column that follows is computed here, for every engine alike, whenever it is asked for; whoever stores the tables stores it too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from zenlake import log
from zenlake.columns import schemas
from zenlake.tables import source

__all__ = ["TABLES", "chosen", "decode", "decode_ranges"]

SKEW = pa.field(
    "clock_skew",
    pa.int64(),
    metadata={
        "comment": "HLC time less received time, in microseconds: above 0, the clock that stamped it is ahead of the "
        "recorder's; below, it is behind or the way was long; null if it was not stamped"
    },
)

_samples = schemas.TABLES["samples"]
_at = _samples.get_field_index("timestamp_id") + 1

TABLES: dict[str, pa.Schema] = {**schemas.TABLES, "samples": _samples.insert(_at, SKEW)}


def chosen(table: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The schema of a table, or of some of its columns in the order asked for; a wrong name is answered with the valid ones."""
    if table not in TABLES:
        raise ValueError(f"no decoded table {table!r}; there are {', '.join(TABLES)}")
    schema = TABLES[table]
    if columns is None:
        return schema
    wrong = [name for name in columns if name not in schema.names]
    if wrong:
        raise ValueError(f"{table} has no column {wrong[0]!r}; it has {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in columns], metadata=schema.metadata)


def decode(
    paths: Sequence[str],
    wanted: Mapping[str, Sequence[str] | None],
    since: int | None = None,
    until: int | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables asked for, each with the columns wanted or all, as (table, record batch) while they fill."""
    asked = {table: chosen(table, columns) for table, columns in wanted.items()}
    decoded = {table: needed(schema.names) for table, schema in asked.items()}
    for table, batch in source.decode(paths, decoded, since, until):
        yield table, completed(batch, asked[table])


def decode_ranges(
    of: log.Log, ranges: Iterable[log.Range], wanted: Mapping[str, Sequence[str] | None]
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The same of some blocks of a log."""
    asked = {table: chosen(table, columns) for table, columns in wanted.items()}
    decoded = {table: needed(schema.names) for table, schema in asked.items()}
    for table, batch in log.decode_ranges(of, ranges, decoded):
        yield table, completed(batch, asked[table])


def needed(columns: Iterable[str]) -> list[str]:
    """The columns to decode so that these can be given."""
    found = dict.fromkeys(columns)
    if SKEW.name in found:
        del found[SKEW.name]
        found |= {"timestamp": None, "received": None}
    return list(found)


def completed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A decoded batch with exactly the columns of this schema."""
    arrays = [skew(batch) if name == SKEW.name else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def skew(batch: pa.RecordBatch) -> pa.Array:
    return pc.subtract(batch.column("timestamp"), batch.column("received")).cast(pa.int64())
