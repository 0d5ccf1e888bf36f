# SPDX-License-Identifier: Apache-2.0
"""The decoded tables as users see them: what the bytes say (`zenlake.columns.schemas`), and what follows from one row of it.

A column that follows is computed here, for every engine alike, whenever it is asked for; whoever stores the tables stores it too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from zenlake import log
from zenlake.capture.decoded import decode_range
from zenlake.capture.parallel import Keep
from zenlake.capture.ranges import Range
from zenlake.columns import schemas
from zenlake.tables import source

__all__ = ["TABLES", "chosen", "decode", "decode_part", "decode_ranges"]

Wanted = Mapping[str, Sequence[str] | None]
Decoded = Iterator[tuple[str, pa.RecordBatch]]

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
    wanted: Wanted,
    since: int | None = None,
    until: int | None = None,
    *,
    threads: int | None = None,
    keep: Keep | None = None,
    damaged: log.Damaged | None = None,
) -> Decoded:
    """The tables asked for, each with the columns wanted or all, as (table, record batch) while they fill.

    `keep` chooses among a record batch's rows; it is given the columns that it can be given before any that follows. `damaged` is
    told what cannot be read of a log; without it that is an error.
    """

    def plain(tables: dict[str, list[str]]) -> Decoded:
        return source.decode(paths, tables, since, until, threads=threads, keep=keep, damaged=damaged)

    return _completed(plain, wanted)


def decode_ranges(of: log.Log, ranges: Iterable[log.Range], wanted: Wanted) -> Decoded:
    """The same of some blocks of a log."""
    return _completed(lambda plain: log.decode_ranges(of, ranges, plain), wanted)


def decode_part(part: Range, notes: Iterable[tuple[str, pa.RecordBatch]], wanted: Wanted) -> Decoded:
    """The same of a part of a capture, and of what the capture itself tells."""
    return _completed(lambda plain: chain(decode_range(part, plain), notes), wanted)


def _completed(decode: Callable[[dict[str, list[str]]], Decoded], wanted: Wanted) -> Decoded:
    asked = {table: chosen(table, columns) for table, columns in wanted.items()}
    for table, batch in decode({table: needed(schema.names) for table, schema in asked.items()}):
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
