# SPDX-License-Identifier: Apache-2.0
"""Read a capture as a table, whole or as a stream of record batches."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.capture.decoded import decode
from zenlake.columns.schemas import chosen
from zenlake.errors import InvalidValue
from zenlake.keyexpr import KeyExpr

PATHS = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> pa.Table:
    """A decoded table of one or more capture files (patterns are expanded) as an Arrow table.

    `columns` leaves out what you do not need: decoding is then faster. `keys` is a key expression that a row's key must
    intersect, `since` and `until` bound the received time (from, inclusive; to, exclusive).
    """
    schema = chosen(table, _list(columns))
    return pa.Table.from_batches(
        batches(path, table, columns=columns, keys=keys, since=since, until=until), schema=schema
    )


def batches(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read`, one record batch at a time: memory does not grow with the capture."""
    schema = chosen(table, _list(columns))
    if keys is not None and "key" not in chosen(table).names:
        raise InvalidValue(f"{table} has no keys to choose by")
    asked = list(schema.names)
    needed = asked + [
        name
        for name, wanted in (("key", keys), ("received", since or until))
        if wanted is not None and name not in asked
    ]
    expression = None if keys is None else KeyExpr(keys)
    return _chosen_rows(files(path), table, needed, asked, expression, since, until)


def _chosen_rows(
    paths: list[str],
    table: str,
    needed: list[str],
    asked: list[str],
    keys: KeyExpr | None,
    since: datetime | None,
    until: datetime | None,
) -> Iterator[pa.RecordBatch]:
    for _, batch in decode(paths, {table: needed}):
        if keys is not None:
            batch = batch.filter(_intersecting(batch.column("key"), keys))
        if since is not None:
            batch = batch.filter(pc.greater_equal(batch.column("received"), _instant(since)))
        if until is not None:
            batch = batch.filter(pc.less(batch.column("received"), _instant(until)))
        if batch.num_rows:
            yield batch.select(asked)


def _intersecting(column: pa.Array, keys: KeyExpr) -> pa.Array:
    """Which rows have a key that intersects: each distinct key is asked once."""
    encoded = pc.dictionary_encode(column)
    hits = pa.array([keys.intersects(KeyExpr(key)) for key in encoded.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(hits.take(encoded.indices), False)


def _instant(time: datetime) -> pa.Scalar:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return pa.scalar(aware.astimezone(UTC), pa.timestamp("us", tz="UTC"))


def _list(columns: Sequence[str] | None) -> list[str] | None:
    return None if columns is None else list(columns)


def files(path: PATHS) -> list[str]:
    """Paths and patterns as a list of files that exist."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = []
    for each in map(os.fspath, given):
        matches = sorted(glob.glob(each)) if glob.has_magic(each) else [each]
        missing = [match for match in matches if match != "-" and not os.path.exists(match)]
        if not matches or missing:
            raise FileNotFoundError(f"no capture at {missing[0] if missing else each}")
        found += matches
    return found
