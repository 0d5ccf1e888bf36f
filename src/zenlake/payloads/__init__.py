# SPDX-License-Identifier: Apache-2.0
"""Payloads as typed Arrow columns.

    poses = zenlake.tables.values(samples, "json")                      # adds value (a struct) and value_error
    zenlake.tables.value_errors(poses)                                  # undecodable payloads, as rows of `errors`

A payload that cannot be decoded has a null `value` and the reason in `value_error`. A row without a payload (a DEL) has
neither. The same on Spark is `zenlake.spark.payload_columns`.
"""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue
from zenlake.payloads.decode_plan import FORMATS, DecodePlan, Rows, make_plan
from zenlake.payloads.ros2 import split

__all__ = ["FORMATS", "DecodePlan", "make_plan", "ros_keys", "value_errors", "values"]

MAX_ERROR_BYTES = 65536  # bytes of a payload that `errors` keeps, as for batches
ROWS = 16384


def values(table: pa.Table, format: str, *, column: str = "payload", into: str = "value", **options: Any) -> pa.Table:
    """Add a column with decoded payloads, and a column with decoding errors.

    Args:
        table: Rows with the column.
        format: `json`, `cbor` (`schema`, default: inferred from the first rows), `text`, `serialized` (`schema`), `protobuf`
            (`type`, `descriptors`), or `cdr` (`type`, default: that of the keys; `definitions`, `distro`).
        column: Name of the input column.
        into: Name of the output column.
        **options: Options of the format. A schema is an Arrow type.

    Raises:
        InvalidValue: An argument is invalid.
        ImportError: The package of the format is not installed.
    """
    check_format(table.schema.names, column, into)
    has_keys = "key" in table.schema.names

    def sample(rows: int) -> Rows:
        some = table.filter(table[column].is_valid()).slice(0, rows)
        keys = some["key"].to_pylist() if has_keys else [None] * some.num_rows
        return zip(some[column].to_pylist(), keys, strict=True)

    plan = make_plan(format, sample, options)
    decoded, errors = [], []
    for batch in table.to_batches(max_chunksize=ROWS):
        found, whys = plan.decode(batch[column], batch["key"] if has_keys else None)
        decoded.append(found)
        errors.append(whys)
    table = table.append_column(into, pa.chunked_array(decoded, plan.type))
    return table.append_column(f"{into}_error", pa.chunked_array(errors, pa.string()))


def value_errors(table: pa.Table, *, column: str = "payload", into: str = "value") -> pa.Table:
    """Return the rows whose payload could not be decoded, with the columns of the table `errors`."""
    from zenlake.columns.schemas import ERRORS

    why = f"{into}_error"
    if why not in table.schema.names:
        raise InvalidValue(f"missing column {why!r}; call values() first")
    bad = table.filter(table[why].is_valid())
    known = {
        "field": pa.array([into] * bad.num_rows, pa.string()),
        "why": bad[why],
        "bytes": pc.binary_slice(bad[column], 0, MAX_ERROR_BYTES),
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
    """Add a column `ros`: domain, topic, type and hash of rmw_zenoh keys. Null for other keys."""
    check_format(table.schema.names, "key", "ros")
    parts = [split(chunk) for chunk in table["key"].chunks]
    return table.append_column("ros", pa.chunked_array(parts, type=split(pa.array([], pa.string())).type))


def check_format(names: list[str], column: str, into: str) -> None:
    """Check that the input column exists and the output columns do not."""
    if column not in names:
        raise InvalidValue(f"missing column {column!r}; expected one of {', '.join(names)}")
    for name in (into, f"{into}_error"):
        if name in names:
            raise InvalidValue(f"column {name!r} exists already; select another name with into=")
