# SPDX-License-Identifier: Apache-2.0
"""Payloads as typed values: Arrow in, Arrow out. It knows formats and types, not where the rows came from.

    poses = zenlake.tables.values(samples, "json")                      # + value (a struct), value_error
    zenlake.tables.value_errors(poses)                                  # those that did not fit, as rows of `errors`

A payload that does not fit its format or type has a null `value` and the reason in `value_error`; a row without a payload (a del)
has neither. On Spark the same is `zenlake.spark.values`.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue
from zenlake.typed.plan import FORMATS, Plan, Rows, planned
from zenlake.typed.ros import split

__all__ = ["FORMATS", "Plan", "planned", "ros_keys", "value_errors", "values"]

LONGEST_BYTES = 65536  # of a payload that is kept in `errors`, as for batches there
ROWS = 16384


def values(table: pa.Table, format: str, *, column: str = "payload", into: str = "value", **options: Any) -> pa.Table:
    """The table with a column of typed values and one of reasons why there is none.

    Formats and their options: `json` and `cbor` (`schema`, inferred from the first rows if not given), `text`, `serialized`
    (`schema`), `protobuf` (`type`, `descriptors`), `cdr` (`type`, by default the one that the keys name; `definitions`, `distro`).
    A schema is an Arrow type.
    """
    checked(table.schema.names, column, into)
    has_keys = "key" in table.schema.names

    def sample(rows: int) -> Rows:
        some = table.filter(table[column].is_valid()).slice(0, rows)
        keys = some["key"].to_pylist() if has_keys else [None] * some.num_rows
        return zip(some[column].to_pylist(), keys, strict=True)

    plan = planned(format, sample, options)
    decoded, errors = [], []
    for batch in table.to_batches(max_chunksize=ROWS):
        found, whys = plan.decode(batch[column], batch["key"] if has_keys else None)
        decoded.append(found)
        errors.append(whys)
    table = table.append_column(into, pa.chunked_array(decoded, plan.type))
    return table.append_column(f"{into}_error", pa.chunked_array(errors, pa.string()))


def value_errors(table: pa.Table, *, column: str = "payload", into: str = "value") -> pa.Table:
    """The rows whose payload did not fit, in the columns of the table `errors` (what the rows did not tell is null)."""
    from zenlake.columns.schemas import ERRORS

    why = f"{into}_error"
    if why not in table.schema.names:
        raise InvalidValue(f"no column {why!r}: values() makes it")
    bad = table.filter(table[why].is_valid())
    known = {
        "field": pa.array([into] * bad.num_rows, pa.string()),
        "why": bad[why],
        "bytes": pc.binary_slice(bad[column], 0, LONGEST_BYTES),
    }
    where = {
        name: bad[name]
        for name in ERRORS.names
        if name in bad.schema.names and name not in ("field", "at", "why", "bytes")
    }
    columns = {**where, **known}
    arrays = [columns.get(field.name, pa.nulls(bad.num_rows, field.type)) for field in ERRORS]
    return pa.Table.from_arrays(arrays, schema=ERRORS)


def ros_keys(table: pa.Table) -> pa.Table:
    """The table with a column `ros`: domain, topic, type and hash of keys that rmw_zenoh made, null for others."""
    checked(table.schema.names, "key", "ros")
    parts = [split(chunk) for chunk in table["key"].chunks]
    return table.append_column("ros", pa.chunked_array(parts, type=split(pa.array([], pa.string())).type))


def checked(names: list[str], column: str, into: str) -> None:
    """The column is there and the new ones are not."""
    if column not in names:
        raise InvalidValue(f"no column {column!r}; there are {', '.join(names)}")
    for name in (into, f"{into}_error"):
        if name in names:
            raise InvalidValue(f"there is a column {name!r} already; choose another name with into=")
