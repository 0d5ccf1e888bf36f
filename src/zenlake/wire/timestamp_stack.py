# SPDX-License-Identifier: Apache-2.0
"""Timestamp stack: the records of the nodes that a message passed, with node, point and time.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |X|X|X|X|X|R|F|S|   points that add a record: S sender, F router, R receiver; not 0
    +---------------+
    %     count     %   z8, then for each record:
    +---------------+
    |C|    point    |   1 sent, 2 routed, 4 received; C: the data has a custom format
    +---------------+
    ~     data      ~   <u8;z32>: a timestamp, unless C
    +---------------+

Extension 0x47 of PUSH, REQUEST and RESPONSE (divergence B19). As in 1.10, every node that passes a message on, and also the
nodes of the sender and of the receiver, add a record of the point *routed*.
"""

from collections.abc import Callable
from dataclasses import dataclass

from zenlake.core.identifiers import Timestamp
from zenlake.errors import DecodeError
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.writer import WireWriter

__all__ = ["ROUTED", "StackRecord", "TimestampStack", "add_route_record", "is_record_of", "read"]

CUSTOM = 0x80
POINTS = 0x7F
ROUTED = 0x02
MAX_RECORDS = 255


@dataclass(frozen=True, slots=True)
class StackRecord:
    """A record: its `point` (1 sent, 2 routed, 4 received) and a Timestamp, or bytes in a custom format."""

    point: int
    data: Timestamp | bytes


@dataclass(frozen=True, slots=True)
class TimestampStack:
    """The requested points, as wire bits, and the existing records."""

    points: int
    records: tuple[StackRecord, ...] = ()

    @classmethod
    def decode(cls, payload: bytes) -> "TimestampStack":
        return read(Cursor(payload, 0, None, "TIMESTAMP_STACK"))

    def encode(self) -> bytes:
        w = WireWriter(256, "TIMESTAMP_STACK")
        w.u8("points", self.points)
        w.z8("count", len(self.records))
        for record in self.records:
            if isinstance(record.data, bytes):
                w.u8("point", record.point | CUSTOM)
                w.blob("data", Blob(record.data))
            else:
                w.u8("point", record.point)
                w.blob("data", Blob(_stamp_bytes(record.data)))
        return w.to_bytes()


def add_route_record(payload: bytes, zid: bytes, now: Callable[[], Timestamp]) -> bytes | None:
    """Return a stack with a record of the point *routed* of a node, or None if the stack accepts none."""
    try:
        stack = TimestampStack.decode(payload)
    except DecodeError:
        return None
    if not stack.points & ROUTED or len(stack.records) >= MAX_RECORDS:
        return None
    last = stack.records[-1] if stack.records else None
    if last is not None and last.point == ROUTED and is_record_of(last, zid):
        return None
    return TimestampStack(stack.points, (*stack.records, StackRecord(ROUTED, now()))).encode()


def is_record_of(record: StackRecord, zid: bytes) -> bool:
    """Return whether a node added a record. A record in a custom format has no known node."""
    return isinstance(record.data, Timestamp) and record.data.id.to_wire() == zid


def read(c: Cursor) -> TimestampStack:
    """Decode the stack from a cursor that ends with it."""
    points = c.u8("points")
    if points == 0:
        raise DecodeError("TIMESTAMP_STACK.points", c.at - 1, "no point adds a record")
    one = c.span()
    records = []
    for _ in range(c.z8("count")):
        flags = c.u8("point")
        if flags & CUSTOM:
            c.blob("data", one)
            records.append(StackRecord(flags & POINTS, one.value))
            continue
        outer = c.open("data")
        time = c.z64("data.time")
        c.zid("data.id", one, c.z8("data.id_len"))
        c.close("data", outer)
        records.append(StackRecord(flags, Timestamp.from_wire(time, one.value)))
    if c.at != c.end:
        raise DecodeError("TIMESTAMP_STACK.end", c.at, f"{c.end - c.at} bytes left over")
    return TimestampStack(points, tuple(records))


def _stamp_bytes(stamp: Timestamp) -> bytes:
    w = WireWriter(32, "TIMESTAMP_STACK")
    w.z64("time", stamp.ntp64)
    w.blob("id", Blob(stamp.id.to_wire()))
    return w.to_bytes()
