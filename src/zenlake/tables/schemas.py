# SPDX-License-Identifier: Apache-2.0
"""Schemas of the decoded tables for users: the decoded columns (`zenlake.columns.schemas`) and columns computed from them.

Computed columns are evaluated here on request, in the same way for every engine. Stored tables contain them too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc

from zenlake import log
from zenlake.capture.decode import decode_range
from zenlake.capture.parallel import Keep
from zenlake.capture.splits import Split
from zenlake.columns import schemas
from zenlake.tables import dispatch

__all__ = ["TABLES", "select_schema", "decode", "decode_part", "decode_ranges"]

Wanted = Mapping[str, Sequence[str] | None]
Decoded = Iterator[tuple[str, pa.RecordBatch]]

SKEW = pa.field(
    "clock_skew",
    pa.int64(),
    metadata={
        "comment": "HLC time minus receive time, in microseconds. Above 0: the clock of the timestamp is ahead of the "
        "recorder's. Below 0: it is behind, or the sample was delayed. Null without a timestamp"
    },
)

_samples = schemas.TABLES["samples"]
_at = _samples.get_field_index("timestamp_id") + 1

TABLES: dict[str, pa.Schema] = {**schemas.TABLES, "samples": _samples.insert(_at, SKEW)}


select_schema = partial(schemas.select_schema, tables=TABLES)
"""Return the schema of a table, or of some of its columns in this order."""


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
    """Decode the selected tables. Yield (table, record batch) as they fill.

    `tables` maps each table to its columns, or None for all. `keep` filters the rows of a record batch before computed columns
    are added. `damaged` is called with the errors of a log; without it they are raised.
    """

    def plain(tables: dict[str, list[str]]) -> Decoded:
        return dispatch.decode(paths, tables, since, until, threads=threads, keep=keep, damaged=damaged)

    return _complete(plain, wanted)


def decode_ranges(of: log.Log, ranges: Iterable[log.BlockRange], wanted: Wanted) -> Decoded:
    """Decode some blocks of a log, in the same way."""
    return _complete(lambda plain: log.decode_ranges(of, ranges, plain), wanted)


def decode_part(part: Split, notes: Iterable[tuple[str, pa.RecordBatch]], wanted: Wanted) -> Decoded:
    """Decode a part of a capture, in the same way, and the notes of the capture if the part has them."""
    return _complete(lambda plain: chain(decode_range(part, plain), notes), wanted)


def _complete(decode: Callable[[dict[str, list[str]]], Decoded], wanted: Wanted) -> Decoded:
    asked = {table: select_schema(table, columns) for table, columns in wanted.items()}
    for table, batch in decode({table: needed_columns(schema.names) for table, schema in asked.items()}):
        yield table, complete_columns(batch, asked[table])


def needed_columns(columns: Iterable[str]) -> list[str]:
    """Return the columns to decode, including the inputs of computed columns."""
    found = dict.fromkeys(columns)
    if SKEW.name in found:
        del found[SKEW.name]
        found |= {"timestamp": None, "received": None}
    return list(found) or ["received"]  # for the number of rows


def complete_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a decoded batch with exactly the columns of this schema."""
    if not schema.names:
        return batch.select([])
    arrays = [skew(batch) if name == SKEW.name else batch.column(name) for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def skew(batch: pa.RecordBatch) -> pa.Array:
    return pc.subtract(batch.column("timestamp"), batch.column("received")).cast(pa.int64())
