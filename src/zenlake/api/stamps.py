# SPDX-License-Identifier: Apache-2.0
"""The timestamp stack as users see it: where a message was stamped on its way, and when."""

from collections.abc import Callable
from dataclasses import dataclass

from zenlake.choices import InterceptionPoint, WhatAmI
from zenlake.errors import InvalidValue
from zenlake.values import Timestamp, ZenohId
from zenlake.wire import timestamp_stack as wire

__all__ = [
    "TimestampContext",
    "TimestampInstrumentation",
    "TimestampInstrumentationBuilder",
    "TimestampStack",
    "TimestampStackRecord",
]

_POINTS = {1: InterceptionPoint.SEND, 2: InterceptionPoint.ROUTE, 4: InterceptionPoint.RECEIVE}


@dataclass(frozen=True, slots=True)
class TimestampContext:
    """Who stamps: what `open(timestamp_callback=)` is called with."""

    zid: ZenohId
    whatami: WhatAmI


TimestampCallback = Callable[[TimestampContext], bytes]


class TimestampInstrumentation:
    """The points at which a message is to be stamped. Made by a TimestampInstrumentationBuilder."""

    __slots__ = ("_points",)

    def __init__(self, points: int) -> None:
        self._points = points

    @property
    def points(self) -> int:
        """As bits: 1 sent, 2 routed, 4 received."""
        return self._points

    def is_instrumented(self, /, point: InterceptionPoint) -> bool:
        return self._points & (1 << point) != 0

    def __repr__(self) -> str:
        points = " | ".join(str(point) for point in InterceptionPoint if self.is_instrumented(point))
        return f"TimestampInstrumentation({points})"

    def __eq__(self, other: object) -> bool:
        return self._points == other._points if isinstance(other, TimestampInstrumentation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._points)


class TimestampInstrumentationBuilder:
    """`TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()`. Each step gives a new builder."""

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points = 0

    def set_send(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        return self._with(InterceptionPoint.SEND, enabled)

    def set_route(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        return self._with(InterceptionPoint.ROUTE, enabled)

    def set_receive(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        return self._with(InterceptionPoint.RECEIVE, enabled)

    def build(self, /) -> TimestampInstrumentation:
        if not self._points:
            raise InvalidValue("instrumentation at no point: enable send, route or receive first")
        return TimestampInstrumentation(self._points)

    def _with(self, point: InterceptionPoint, enabled: bool) -> "TimestampInstrumentationBuilder":
        twin = TimestampInstrumentationBuilder()
        twin._points = self._points & ~(1 << point) | (int(enabled) << point)
        return twin


class TimestampStackRecord:
    """One stamp: where, and when (or the bytes that a `timestamp_callback` gave)."""

    __slots__ = ("_record",)

    def __init__(self, record: wire.Record) -> None:
        self._record = record

    @property
    def point(self) -> InterceptionPoint:
        return _POINTS[self._record.point]

    @property
    def is_custom(self) -> bool:
        return isinstance(self._record.data, bytes)

    def timestamp(self, /) -> Timestamp | bytes:
        return self._record.data

    def __repr__(self) -> str:
        return f"TimestampStackRecord({self.point}, {self._record.data!r})"


class TimestampStack:
    """All stamps that a message collected."""

    __slots__ = ("_stack",)

    def __init__(self, stack: wire.TimestampStack) -> None:
        self._stack = stack

    @classmethod
    def decode(cls, data: bytes) -> "TimestampStack":
        return cls(wire.TimestampStack.decode(data))

    @property
    def instrumentation(self) -> TimestampInstrumentation:
        return TimestampInstrumentation(self._stack.points)

    @property
    def records(self) -> list[TimestampStackRecord]:
        return [TimestampStackRecord(record) for record in self._stack.records if record.point in _POINTS]

    def __repr__(self) -> str:
        return f"TimestampStack({self.records!r})"
