# SPDX-License-Identifier: Apache-2.0
"""The timestamp stack as users see it: where a message was stamped on its way, and when."""

from collections.abc import Callable

from zenlake.choices import InterceptionPoint, WhatAmI
from zenlake.errors import InvalidValue
from zenlake.record import dataclass
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


class Stamper:
    """Leaves the records of one node: by its clock, or by a callback of its user's."""

    __slots__ = ("_callback", "_context", "_now")

    def __init__(
        self, context: TimestampContext, now: Callable[[], Timestamp], callback: TimestampCallback | None
    ) -> None:
        self._context = context
        self._now = now
        self._callback = callback

    def _added(self, stack: wire.TimestampStack, point: InterceptionPoint) -> wire.TimestampStack:
        if not stack.points & (1 << point):
            return stack
        data: Timestamp | bytes = self._now() if self._callback is None else bytes(self._callback(self._context))
        return wire.TimestampStack(stack.points, (*stack.records, wire.Record(1 << point, data)))

    def sent(self, instrumentation: "TimestampInstrumentation") -> bytes:
        """The stack of a new message."""
        return self._added(wire.TimestampStack(instrumentation.points), InterceptionPoint.SEND).encode()

    def answered(self, stack: "TimestampStack") -> bytes:
        """The stack of an answer: it goes on with that of its question."""
        return self._added(stack._stack, InterceptionPoint.SEND).encode()

    def received(self, data: bytes | None) -> "TimestampStack | None":
        """The stack of a message that came."""
        if data is None:
            return None
        return TimestampStack(self._added(wire.TimestampStack.decode(data), InterceptionPoint.RECEIVE))


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
        """Whether a record is to be left there."""
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
        """Whether who sends leaves a record."""
        return self._with(InterceptionPoint.SEND, enabled)

    def set_route(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        """Whether routers leave a record."""
        return self._with(InterceptionPoint.ROUTE, enabled)

    def set_receive(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        """Whether who receives leaves a record."""
        return self._with(InterceptionPoint.RECEIVE, enabled)

    def build(self, /) -> TimestampInstrumentation:
        """The instrumentation as it was set."""
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
        """The time of the record, if it is one and not bytes of a callback's."""
        return self._record.data

    def __repr__(self) -> str:
        return f"TimestampStackRecord({self.point}, {self._record.data!r})"


class TimestampStack:
    """All stamps that a message collected."""

    __slots__ = ("_stack",)

    def __init__(self, stack: wire.TimestampStack) -> None:
        self._stack = stack

    @property
    def instrumentation(self) -> TimestampInstrumentation:
        return TimestampInstrumentation(self._stack.points)

    @property
    def records(self) -> list[TimestampStackRecord]:
        return [TimestampStackRecord(record) for record in self._stack.records if record.point in _POINTS]

    def __repr__(self) -> str:
        return f"TimestampStack({self.records!r})"
