# SPDX-License-Identifier: Apache-2.0
"""Read a capture or a log as a table, whole or as a stream of record batches."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue, KeyExprError
from zenlake.keyexpr import KeyExpr
from zenlake.tables.derive import derive
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.files import PATHS, files
from zenlake.tables.schemas import TABLES, chosen, decode


def read(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> pa.Table:
    """A table of one or more captures or logs (patterns are expanded) as an Arrow table: decoded, or derived by DuckDB.

    `columns` leaves out what you do not need: decoding is then faster. `keys` is a key expression that a row's key must
    intersect, `since` and `until` bound the received time (from, inclusive; to, exclusive). A derived table is derived from the
    whole recording first: a query that began in time keeps the replies that came later.
    """
    asked, choice = _checked(table, columns, keys, since, until)
    if table in TABLES:
        return pa.Table.from_batches(_decoded(path, table, asked, choice), schema=chosen(table, asked))
    whole = derive(path)[table]
    return pa.Table.from_batches(choice.rows(whole.to_batches()), schema=whole.schema).select(asked)


def batches(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> Iterator[pa.RecordBatch]:
    """As `read`, one record batch at a time: memory does not grow with the recording, if the table is a decoded one."""
    asked, choice = _checked(table, columns, keys, since, until)
    if table in TABLES:
        return _decoded(path, table, asked, choice)
    return (batch.select(asked) for batch in choice.rows(derive(path)[table].to_batches()))


class Choice:
    """Which rows: by key and by time."""

    def __init__(self, keys: str | None, since: datetime | None, until: datetime | None) -> None:
        self.keys = None if keys is None else KeyExpr(keys)
        self.since = None if since is None else _instant(since)
        self.until = None if until is None else _instant(until)
        self.needs = ["key"] if self.keys is not None else []
        self.needs += ["received"] if since is not None or until is not None else []

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.keys is not None:
                batch = batch.filter(_intersecting(batch.column("key"), self.keys))
            if self.since is not None:
                batch = batch.filter(pc.greater_equal(batch.column("received"), self.since))
            if self.until is not None:
                batch = batch.filter(pc.less(batch.column("received"), self.until))
            if batch.num_rows:
                yield batch


def column_names(table: str) -> list[str]:
    """The columns of any table; a wrong name is answered with the valid ones."""
    if table in DERIVED:
        return list(definition(table).comments)
    if table not in TABLES:
        raise InvalidValue(f"no table {table!r}; there are {', '.join((*TABLES, *DERIVED))}")
    return list(TABLES[table].names)


def _checked(
    table: str, columns: Sequence[str] | None, keys: str | None, since: datetime | None, until: datetime | None
) -> tuple[list[str], Choice]:
    """The columns asked for and the rows, or what is wrong with them."""
    names = column_names(table)
    asked = names if columns is None else list(columns)
    wrong = [name for name in asked if name not in names]
    if wrong:
        raise InvalidValue(f"{table} has no column {wrong[0]!r}; it has {', '.join(names)}")
    if keys is not None and "key" not in names:
        raise InvalidValue(f"{table} has no keys to choose by")
    return asked, Choice(keys, since, until)


def _decoded(path: PATHS, table: str, asked: list[str], choice: Choice) -> Iterator[pa.RecordBatch]:
    """Rows of a decoded table. What decides about them is decoded too, and left out again."""
    needed = asked + [name for name in choice.needs if name not in asked]
    found = decode(files(path), {table: needed}, _ns(choice.since), _ns(choice.until))
    return (batch.select(asked) for batch in choice.rows(batch for _, batch in found))


def _intersecting(column: pa.Array, keys: KeyExpr) -> pa.Array:
    """Which rows have a key that intersects: each distinct key is asked once."""
    encoded = pc.dictionary_encode(column)
    hits = pa.array([_intersects(keys, key) for key in encoded.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(hits.take(encoded.indices), False)


def _intersects(keys: KeyExpr, key: str) -> bool:
    try:
        return bool(keys.intersects(KeyExpr(key)))
    except KeyExprError:  # whoever sent it broke the rules; no expression matches what is none
        return False


def _ns(time: pa.Scalar | None) -> int | None:
    return None if time is None else int(time.value) * 1000


def _instant(time: datetime) -> pa.Scalar:
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return pa.scalar(aware.astimezone(UTC), pa.timestamp("us", tz="UTC"))
