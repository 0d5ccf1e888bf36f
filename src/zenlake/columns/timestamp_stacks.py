# SPDX-License-Identifier: Apache-2.0
"""Timestamp stacks of samples as a column of lists, from their bytes. Few recordings have stacks, so this is not compiled."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa

from zenlake.columns.schemas import STACK
from zenlake.core.enums import InterceptionPoint
from zenlake.core.identifiers import Timestamp
from zenlake.errors import DecodeError
from zenlake.wire.timestamp_stack import TimestampStack

__all__ = ["decode_stacks"]

POINTS = {1 << point: point.name.lower() for point in InterceptionPoint}


def decode_stacks(stacks: pa.Array) -> pa.Array:
    """Return the records of each stack. A stack that cannot be decoded is null: it is optional information of the sample."""
    if stacks.null_count == len(stacks):
        return pa.nulls(len(stacks), STACK)
    rows = [None if stack is None else list_records(stack) for stack in stacks.to_pylist()]
    records = [record for row in rows for record in row or ()]
    columns = [build_array(field.type, [record.get(field.name) for record in records]) for field in STACK.value_type]
    return pa.Array.from_buffers(
        STACK,
        len(rows),
        [build_validity(rows), build_offsets(len(row or ()) for row in rows)],
        children=[pa.Array.from_buffers(STACK.value_type, len(records), [None], children=columns)],
    )


def build_array(type: pa.DataType, values: Sequence[Any]) -> pa.Array:
    """Build an array of integers, texts or bytes. Performance: `pa.array` imports pandas where that is installed."""
    if pa.types.is_string(type) or pa.types.is_binary(type):
        data = [b"" if each is None else each.encode() if isinstance(each, str) else each for each in values]
        buffers = [build_offsets(map(len, data)), pa.py_buffer(b"".join(data))]
    else:
        buffers = [pa.py_buffer(array("q", [each or 0 for each in values]))]
    return pa.Array.from_buffers(type, len(values), [build_validity(values), *buffers])


def build_offsets(sizes: Iterable[int]) -> pa.Buffer:
    return pa.py_buffer(array("i", accumulate(sizes, initial=0)))


def build_validity(values: Sequence[object]) -> pa.Buffer:
    bits = sum((each is not None) << i for i, each in enumerate(values))
    return pa.py_buffer(bits.to_bytes(-(-len(values) // 8), "little"))


def list_records(stack: bytes) -> list[dict[str, object]] | None:
    try:
        records = TimestampStack.decode(stack).records
    except DecodeError:
        return None
    return [{"point": POINTS.get(record.point), **describe(record.data)} for record in records]


def describe(data: Timestamp | bytes) -> dict[str, object]:
    if isinstance(data, bytes):
        return {"data": data}
    ntp64 = data.ntp64
    microseconds = (ntp64 >> 32) * 1_000_000 + ((ntp64 & 0xFFFFFFFF) * 1_000_000 >> 32)
    signed = ntp64 - (1 << 64) if ntp64 >> 63 else ntp64  # as in the column `ntp64`
    return {"timestamp": microseconds, "ntp64": signed, "timestamp_id": str(data.id)}
