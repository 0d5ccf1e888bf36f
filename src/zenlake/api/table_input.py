# SPDX-License-Identifier: Apache-2.0
"""Input of `put_table`: convert any columnar object into the Arrow table that the encoder reads.

The whole table is validated before the first row is sent. An invalid table is rejected with the column and the reason.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.core.enums import Priority
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import InvalidValue

__all__ = ["as_rows"]

TEXTS = ("key", "kind", "encoding", "timestamp_id", "congestion")
RUNS = ("payload", "schema", "attachment")  # bytes, or text as UTF-8
NUMBERS = ("ntp64", "priority")
FLAGS = ("express", "reliable")
TAKEN = (*TEXTS, *RUNS, *NUMBERS, *FLAGS)
SECOND = 1_000_000  # microseconds
LAST = 1 << 32  # seconds since 1970 that an NTP64 can represent

is_bytes = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
READ_TEXT = {pa.string(), pa.large_string()}
READ_BYTES = {pa.binary(), pa.large_binary()}
# Column types: accepted types, their description, and the type to cast to for the encoder.
FORMS = {
    **dict.fromkeys(TEXTS, (is_text, "text", pa.string())),
    **dict.fromkeys(RUNS, (is_text + is_bytes, "bytes or text", pa.binary())),
    **dict.fromkeys(NUMBERS, ((pa.types.is_integer,), "integers", pa.int64())),
    **dict.fromkeys(FLAGS, ((pa.types.is_boolean, pa.types.is_integer), "booleans", pa.bool_())),
    "key": (is_text + is_bytes, "text", pa.string()),
}


def as_rows(given: Any, key_expr: KeyExpr | None, zid: str) -> pa.Table:
    """Return the validated columns to send. With `key_expr`, all rows use that key. Timestamps get the clock id `zid`."""
    table = _table(given)
    names = table.schema.names
    for needed in ("payload",) if key_expr is not None else ("key", "payload"):
        if needed not in names:
            raise InvalidValue(
                f"the table has no column `{needed}`, which is required; it has {', '.join(sorted(names))}"
            )
    for name in (*TAKEN, "timestamp"):
        if names.count(name) > 1:
            raise InvalidValue(f"the table has {names.count(name)} columns `{name}`; expected one")
    taken = pa.table({name: _plain(name, table[name]) for name in TAKEN if name in names})
    if "priority" in names:
        _check_priorities(taken["priority"])
    if "timestamp" in names and "ntp64" not in names:
        taken = _check_timestamps(taken, table["timestamp"], zid)
    if key_expr is None:
        if taken["key"].null_count:
            raise InvalidValue(f"{taken['key'].null_count} rows have no key")
    elif "key" in names:
        _check_keys(taken["key"], str(key_expr))
        taken = taken.drop_columns("key")
    return taken


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a form that the encoder reads: no dictionaries, no views."""
    fits, wanted, _ = FORMS[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_null(kind) or any(test(kind) for test in fits)):
        raise InvalidValue(f"invalid column `{name}` of type {column.type}; expected {wanted}")
    if _is_read(name, column.type):
        return column
    try:
        return pa.chunked_array([_read(name, each) for each in column.chunks or [pa.array([], column.type)]])
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"column `{name}`: {error}") from None


def _read(name: str, column: pa.Array) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(column.indices, _read(name, column.dictionary)).dictionary_decode()
    if name == "key" and pa.types.is_binary_view(kind):  # Arrow does not cast these to text
        return _read(name, column.cast(pa.binary()))
    return column if _is_read(name, kind) else column.cast(FORMS[name][2])


def _is_read(name: str, kind: pa.DataType) -> bool:
    """Return whether the encoder reads this type directly."""
    return pa.types.is_primitive(kind) or kind in READ_TEXT or (name in RUNS and kind in READ_BYTES)


def _table(given: Any) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    is_pandas = type(given).__module__.startswith("pandas.") and hasattr(given, "columns")
    if not (is_pandas or hasattr(given, "__arrow_c_stream__")):
        raise TypeError(
            f"put_table got {type(given).__name__}; expected columns: a pyarrow table, record batch or reader, a pandas or "
            f"Polars frame, a DuckDB relation, or an object with __arrow_c_stream__. Convert lists with pyarrow.table(...)"
        )
    try:
        return pa.Table.from_pandas(given, preserve_index=False) if is_pandas else pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidValue(f"cannot read the {type(given).__name__} as a table: {error}") from None


def _check_priorities(column: pa.ChunkedArray) -> None:
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and not Priority.REAL_TIME <= low <= high <= Priority.BACKGROUND:
        wrong = low if low < Priority.REAL_TIME else high
        raise InvalidValue(f"invalid value {wrong} in column `priority`; expected 1 (real-time) to 7 (background)")


def _check_keys(column: pa.ChunkedArray, key: str) -> None:
    others = [each for each in column.unique().to_pylist() if each not in (None, key)]
    if others:
        raise InvalidValue(
            f"column `key` has {others[0]!r}, but the key of the publisher is {key!r}: remove the column, or "
            "use Session.put_table"
        )


def _check_timestamps(taken: pa.Table, times: pa.ChunkedArray, zid: str) -> pa.Table:
    """Return the table with times as NTP64, and the clock id of rows that have a time."""
    kind = times.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)):
        raise InvalidValue(f"invalid column `timestamp` of type {kind}; expected times (pyarrow.timestamp, or a date)")
    try:  # fractions of a microsecond are truncated
        of_day = times.cast(pa.timestamp("s")) if pa.types.is_date(kind) else times
        microseconds = of_day.cast(pa.timestamp("us", tz="UTC"), safe=str(kind)[:12] != "timestamp[ns").cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"column `timestamp`: {error}") from None
    found = pc.min_max(microseconds)
    first, last = found["min"].as_py(), found["max"].as_py()
    if first is not None and not 0 <= first <= last < LAST * SECOND:
        wrong = first if first < 0 else last
        raise InvalidValue(
            f"invalid time in column `timestamp`, {wrong // SECOND} s after 1970; expected a time from 1970 to February 2106"
        )
    seconds = pc.divide(microseconds, SECOND)
    rest = pc.subtract(microseconds, pc.multiply(seconds, SECOND))
    ntp64 = pc.add(pc.shift_left(seconds, 32), pc.divide(pc.shift_left(rest, 32), SECOND))
    ids = pc.if_else(pc.is_valid(ntp64), pa.scalar(zid), pa.scalar(None, pa.string()))
    if "timestamp_id" in taken.schema.names:
        taken = taken.drop_columns("timestamp_id")
    return taken.append_column("ntp64", ntp64).append_column("timestamp_id", ids)
