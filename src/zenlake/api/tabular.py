# SPDX-License-Identifier: Apache-2.0
"""What `put_table` takes: anything that holds columns, as the Arrow table that the encoder reads.

All of it is looked at before the first row is sent: a table is put as a whole, or refused with the column that is wrong and why.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.choices import Priority
from zenlake.errors import InvalidValue
from zenlake.keyexpr import KeyExpr

__all__ = ["as_rows"]

TEXTS = ("key", "kind", "encoding", "timestamp_id", "congestion")
RUNS = ("payload", "schema", "attachment")  # bytes, or text as its UTF-8
NUMBERS = ("ntp64", "priority")
FLAGS = ("express", "reliable")
TAKEN = (*TEXTS, *RUNS, *NUMBERS, *FLAGS)
SECOND = 1_000_000  # microseconds
LAST = 1 << 32  # seconds from 1970 on that an NTP64 can tell

is_bytes = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
READ_TEXT = {pa.string(), pa.large_string()}
READ_BYTES = {pa.binary(), pa.large_binary()}
# What a column may hold, in words, and what the encoder is given where it does not read that itself.
FORMS = {
    **dict.fromkeys(TEXTS, (is_text, "text", pa.string())),
    **dict.fromkeys(RUNS, (is_text + is_bytes, "bytes or text", pa.binary())),
    **dict.fromkeys(NUMBERS, ((pa.types.is_integer,), "whole numbers", pa.int64())),
    **dict.fromkeys(FLAGS, ((pa.types.is_boolean, pa.types.is_integer), "true or false", pa.bool_())),
    "key": (is_text + is_bytes, "text", pa.string()),
}


def as_rows(given: Any, key_expr: KeyExpr | None, zid: str) -> pa.Table:
    """The columns that are sent, checked. With `key_expr`, all rows are to be on it; a `timestamp` becomes one of `zid`'s."""
    table = _table(given)
    names = table.schema.names
    for needed in ("payload",) if key_expr is not None else ("key", "payload"):
        if needed not in names:
            raise InvalidValue(f"a table to put needs a column `{needed}`; it has {', '.join(sorted(names))}")
    for name in (*TAKEN, "timestamp"):
        if names.count(name) > 1:
            raise InvalidValue(f"a table to put has {names.count(name)} columns `{name}`: leave all but one out")
    taken = pa.table({name: _plain(name, table[name]) for name in TAKEN if name in names})
    if "priority" in names:
        _check_priorities(taken["priority"])
    if "timestamp" in names and "ntp64" not in names:
        taken = _stamped(taken, table["timestamp"], zid)
    if key_expr is None:
        if taken["key"].null_count:
            raise InvalidValue(f"{taken['key'].null_count} rows have no key")
    elif "key" in names:
        _check_keys(taken["key"], str(key_expr))
        taken = taken.drop_columns("key")
    return taken


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """In a form that the encoder reads: no dictionaries, no views."""
    fits, wanted, _ = FORMS[name]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if not (pa.types.is_null(kind) or any(test(kind) for test in fits)):
        raise InvalidValue(f"column `{name}` holds {wanted}, not {column.type}")
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
    if name == "key" and pa.types.is_binary_view(kind):  # which Arrow does not turn into text
        return _read(name, column.cast(pa.binary()))
    return column if _is_read(name, kind) else column.cast(FORMS[name][2])


def _is_read(name: str, kind: pa.DataType) -> bool:
    """Whether the encoder reads it as it is."""
    return pa.types.is_primitive(kind) or kind in READ_TEXT or (name in RUNS and kind in READ_BYTES)


def _table(given: Any) -> pa.Table:
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    is_pandas = type(given).__module__.startswith("pandas.") and hasattr(given, "columns")
    if not (is_pandas or hasattr(given, "__arrow_c_stream__")):
        raise TypeError(
            f"put_table takes columns (a table, batch or reader of pyarrow, a frame of pandas or Polars, a relation of DuckDB, "
            f"or what else has __arrow_c_stream__), not {type(given).__name__}: pyarrow.table(...) makes some of lists"
        )
    try:
        return pa.Table.from_pandas(given, preserve_index=False) if is_pandas else pa.table(given)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise InvalidValue(f"the {type(given).__name__} cannot be read as a table: {error}") from None


def _check_priorities(column: pa.ChunkedArray) -> None:
    found = pc.min_max(column)
    low, high = found["min"].as_py(), found["max"].as_py()
    if low is not None and not Priority.REAL_TIME <= low <= high <= Priority.BACKGROUND:
        wrong = low if low < Priority.REAL_TIME else high
        raise InvalidValue(f"column `priority` has {wrong}: it goes from 1 (real-time) to 7 (background)")


def _check_keys(column: pa.ChunkedArray, key: str) -> None:
    others = [each for each in column.unique().to_pylist() if each not in (None, key)]
    if others:
        raise InvalidValue(
            f"column `key` has {others[0]!r}, but a publisher puts on its own key, {key!r}: leave the column out, or "
            "put the table by the session"
        )


def _stamped(taken: pa.Table, times: pa.ChunkedArray, zid: str) -> pa.Table:
    """With the times as NTP64, and the id where there is one."""
    kind = times.type
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)):
        raise InvalidValue(f"column `timestamp` holds times (pyarrow.timestamp, or a date), not {kind}")
    try:  # what is finer than a microsecond is cut off
        of_day = times.cast(pa.timestamp("s")) if pa.types.is_date(kind) else times
        microseconds = of_day.cast(pa.timestamp("us", tz="UTC"), safe=str(kind)[:12] != "timestamp[ns").cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"column `timestamp`: {error}") from None
    found = pc.min_max(microseconds)
    first, last = found["min"].as_py(), found["max"].as_py()
    if first is not None and not 0 <= first <= last < LAST * SECOND:
        wrong = first if first < 0 else last
        raise InvalidValue(
            f"column `timestamp` has a time {wrong // SECOND} s from 1970 on: Zenoh's begin there and end in February 2106"
        )
    seconds = pc.divide(microseconds, SECOND)
    rest = pc.subtract(microseconds, pc.multiply(seconds, SECOND))
    ntp64 = pc.add(pc.shift_left(seconds, 32), pc.divide(pc.shift_left(rest, 32), SECOND))
    ids = pc.if_else(pc.is_valid(ntp64), pa.scalar(zid), pa.scalar(None, pa.string()))
    if "timestamp_id" in taken.schema.names:
        taken = taken.drop_columns("timestamp_id")
    return taken.append_column("ntp64", ntp64).append_column("timestamp_id", ids)
