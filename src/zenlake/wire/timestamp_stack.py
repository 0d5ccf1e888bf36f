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

Extension 0x47 of PUSH, REQUEST and RESPONSE (divergence B19). A node need not read it or add to it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from zenlake.core.enums import InterceptionPoint
from zenlake.core.identifiers import Timestamp
from zenlake.errors import DecodeError
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.writer import WireWriter

__all__ = ["StackRecord", "TimestampStack", "read"]

CUSTOM = 0x80
POINTS = 0x7F


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
    def for_points(cls, points: Iterable[InterceptionPoint]) -> "TimestampStack":
        return cls(sum({1 << point for point in points}))

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
