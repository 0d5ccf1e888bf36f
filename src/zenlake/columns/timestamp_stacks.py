# SPDX-License-Identifier: Apache-2.0
"""Timestamp stacks of samples as a column of lists, from their bytes. Few recordings have stacks, so this is not compiled."""

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
    return pa.array([None if stack is None else list_records(stack) for stack in stacks.to_pylist()], STACK)


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
