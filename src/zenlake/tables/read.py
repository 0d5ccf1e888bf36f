# SPDX-License-Identifier: Apache-2.0
"""Read a capture, a log or a lake as a table, or as a stream of record batches."""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zenlake import capture
from zenlake.capture.decode import select_diagnostics
from zenlake.capture.splits import Split, splittable_size
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import InvalidValue, KeyExprError
from zenlake.log import Damaged
from zenlake.tables.deduplicate import NEEDS, deduplicate
from zenlake.tables.derived import DERIVED, definition
from zenlake.tables.duckdb_engine import derive
from zenlake.tables.paths import PATHS, files
from zenlake.tables.schemas import TABLES, decode, decode_part, select_schema

MIN_PART = 1 << 16  # bytes of a part
Time = datetime | date | str
"""A point in time: UTC if it has no time zone. Strings are ISO 8601."""


def read(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | KeyExpr | None = None,
    since: Time | None = None,
    until: Time | None = None,
    threads: int | None = None,
    once: bool = False,
    damaged: Damaged | None = None,
) -> pa.Table:
    """Read a table of captures, logs or lakes as an Arrow table. Derived tables are computed by DuckDB.

    Args:
        path: Files, patterns or folders. Several captures are read as one rotated capture.
        table: Name of a decoded or derived table.
        columns: Columns to return. Fewer columns make decoding faster. Default: all.
        keys: Key expression that a row's key must intersect.
        since: Start of the received time, inclusive: datetime, date or ISO 8601, in UTC without a time zone.
        until: End of the received time, exclusive. A derived table is computed from the whole recording before this filter: a
            query that began in time keeps its later replies.
        threads: Number of threads that decode a large capture. Default: depends on its size.
        once: Deduplicate samples that several taps or router sessions have recorded (`zenlake.tables.deduplicate`).
        damaged: Callback for unreadable blocks of a log. It is called with the error, the remaining rows are returned, and
            `events` has a row `log unreadable`. A damaged capture is always read up to the damage.

    Returns:
        The table, with a comment for each column in the schema's metadata.

    Raises:
        InvalidValue: A table, column or time is invalid.
        KeyExprError: `keys` is not a valid key expression.
        FileNotFoundError: A path does not exist.
        LogError: A block of a log cannot be read, and `damaged` is not given.
    """
    asked, choice = check_columns(table, columns, keys, since, until, once)
    if once:
        needed = list(dict.fromkeys([*asked, *NEEDS["samples"]]))
        found = _decode(path, table, needed, choice, threads, damaged)
        samples = pa.Table.from_batches(found, schema=select_schema(table, needed))
        whole = decode(files(path), {"events": NEEDS["events"]}, threads=threads, damaged=damaged)
        events = pa.Table.from_batches((batch for _, batch in whole), schema=select_schema("events", NEEDS["events"]))
        return deduplicate(samples, events, asked)
    if table in TABLES:
        rows = _decode(path, table, asked, choice, threads, damaged)
        return pa.Table.from_batches(rows, schema=select_schema(table, asked))
    whole = derive(path, threads, damaged)[table]
    return pa.Table.from_batches(choice.rows(whole.to_batches()), schema=whole.schema).select(asked)


def batches(
    path: PATHS,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | KeyExpr | None = None,
    since: Time | None = None,
    until: Time | None = None,
    threads: int | None = None,
    damaged: Damaged | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read like `read`, one record batch at a time.

    Memory use does not grow with the recording if the table is a decoded one.
    """
    asked, choice = check_columns(table, columns, keys, since, until)
    if table in TABLES:
        return _decode(path, table, asked, choice, threads, damaged)
    return (batch.select(asked) for batch in choice.rows(derive(path, threads, damaged)[table].to_batches()))


class Part(NamedTuple):
    """A part of a capture that can be decoded anywhere: a range. The last part also has the capture's notes."""

    range: Split
    notes: list[tuple[str, pa.RecordBatch]]


def parts(path: PATHS, table: str, count: int) -> list[Part]:
    """Split a capture into about `count` parts of equal size. A small or compressed capture has fewer parts."""
    found = files(path)
    plan = capture.open(found).plan(max(splittable_size(found) // count, MIN_PART))
    ranges = list(plan.ranges())
    notes = list(select_diagnostics(plan, {table: None}))
    return [*(Part(each, []) for each in ranges[:-1]), Part(ranges[-1], notes)]


def part_batches(
    part: Part,
    table: str = "samples",
    *,
    columns: Sequence[str] | None = None,
    keys: str | KeyExpr | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> Iterator[pa.RecordBatch]:
    """Read one part, like `batches`."""
    asked, choice = check_columns(table, columns, keys, since, until)
    needed = asked + [name for name in choice.needs if name not in asked]
    found = decode_part(part.range, part.notes, {table: needed})
    return (batch.select(asked) for batch in choice.rows(batch for _, batch in found))


class Choice:
    """Row filter by key and time."""

    def __init__(self, keys: str | KeyExpr | None, since: Time | None, until: Time | None) -> None:
        self.given = (keys, since, until)
        self.keys = keys if keys is None or isinstance(keys, KeyExpr) else KeyExpr(keys)
        self.since = None if since is None else _instant("since", since)
        self.until = None if until is None else _instant("until", until)
        if self.since is not None and self.until is not None and self.since.as_py() >= self.until.as_py():
            raise InvalidValue(f"since={since} is not before until={until}; expected an earlier start than end")
        self.needs = ["key"] if self.keys is not None else []
        self.needs += ["received"] if since is not None or until is not None else []

    def __reduce__(self) -> tuple[type["Choice"], tuple[object, ...]]:
        return Choice, self.given

    def rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.keys is not None:
                batch = batch.filter(_mask_intersecting(batch.column("key"), self.keys))
            if self.since is not None:
                batch = batch.filter(pc.greater_equal(batch.column("received"), self.since))
            if self.until is not None:
                batch = batch.filter(pc.less(batch.column("received"), self.until))
            if batch.num_rows:
                yield batch


def column_names(table: str) -> list[str]:
    """Return the schema of a table. The error for an unknown name lists the valid ones."""
    if table in DERIVED:
        return list(definition(table).comments)
    if table not in TABLES:
        raise InvalidValue(f"unknown table {table!r}; expected one of {', '.join((*TABLES, *DERIVED))}")
    return list(TABLES[table].names)


def check_columns(
    table: str, columns: Sequence[str] | None, keys: str | KeyExpr | None, since: Time | None, until: Time | None,
    once: bool = False,
) -> tuple[list[str], Choice]:  # fmt: skip
    """Validate the selected columns and the row filter."""
    names = column_names(table)
    if once and table != "samples":
        raise InvalidValue(f"once=True applies only to table 'samples', not {table!r}")
    asked = names if columns is None else list(columns)
    wrong = [name for name in asked if name not in names]
    if wrong:
        raise InvalidValue(f"{table} has no column {wrong[0]!r}; expected one of {', '.join(names)}")
    twice = [name for i, name in enumerate(asked) if name in asked[:i]]
    if twice:
        raise InvalidValue(f"column {twice[0]!r} is selected twice")
    if keys is not None and "key" not in names:
        raise InvalidValue(f"{table} has no key column; remove the filter by key")
    return asked, Choice(keys, since, until)


def _decode(
    path: PATHS, table: str, asked: list[str], choice: Choice, threads: int | None, damaged: Damaged | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a decoded table. Columns that only the filter needs are decoded and then removed."""
    needed = asked + [name for name in choice.needs if name not in asked]
    found = decode(
        files(path), {table: needed}, _ns(choice.since), _ns(choice.until), threads=threads,
        keep=choice.rows if choice.needs else None, damaged=damaged,
    )  # fmt: skip
    return (batch.select(asked) for _, batch in found)


def _mask_intersecting(column: pa.Array, keys: KeyExpr) -> pa.Array:
    """Return a mask of the rows whose key intersects. Each distinct key is compared once."""
    encoded = pc.dictionary_encode(column)
    hits = pa.array([intersects(keys, key) for key in encoded.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(hits.take(encoded.indices), False)


def intersects(keys: KeyExpr, key: str) -> bool:
    """Return whether a key of a recording, which may be invalid, intersects."""
    try:
        return bool(keys.intersects(KeyExpr(key)))
    except KeyExprError:  # an invalid key from the network matches no expression
        return False


def _ns(time: pa.Scalar | None) -> int | None:
    return None if time is None else int(time.value) * 1000


def _instant(name: str, time: Time) -> pa.Scalar:
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time)
        except ValueError:
            raise InvalidValue(f"invalid {name}={time!r}; expected a time such as 2026-05-01T12:00:00Z") from None
    if not isinstance(time, datetime):
        if not isinstance(time, date):
            wanted = "a datetime, a date or a string such as 2026-05-01T12:00:00Z"
            raise TypeError(f"invalid {name} of type {type(time).__name__}; expected {wanted}")
        time = datetime.combine(time, datetime.min.time())
    aware = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return pa.scalar(aware.astimezone(UTC), pa.timestamp("us", tz="UTC"))
