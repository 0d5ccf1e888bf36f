# SPDX-License-Identifier: Apache-2.0
"""Timestamp stack: the points at which a message recorded a timestamp, and the recorded timestamps."""

from collections.abc import Callable
from dataclasses import dataclass

from zenlake.core.enums import InterceptionPoint, WhatAmI
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.errors import InvalidValue
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
    """The node that creates a timestamp. Argument of `open(timestamp_callback=)`.

    Attributes:
        zid: ZenohID of the node.
        whatami: Role of the node.
    """

    zid: ZenohId
    whatami: WhatAmI


TimestampCallback = Callable[[TimestampContext], bytes]


class TimestampStamper:
    """Add the records of one node, from its clock or from a user's callback."""

    __slots__ = ("_callback", "_context", "_now")

    def __init__(
        self, context: TimestampContext, now: Callable[[], Timestamp], callback: TimestampCallback | None
    ) -> None:
        self._context = context
        self._now = now
        self._callback = callback

    def _add_record(self, stack: wire.TimestampStack, point: InterceptionPoint) -> wire.TimestampStack:
        if not stack.points & (1 << point):
            return stack
        data: Timestamp | bytes = self._now() if self._callback is None else bytes(self._callback(self._context))
        return wire.TimestampStack(stack.points, (*stack.records, wire.StackRecord(1 << point, data)))

    def new_stack(self, instrumentation: "TimestampInstrumentation", is_routed: bool = False) -> bytes:
        """Return the stack of a new message. `is_routed` adds the record of its routing by this node."""
        stack = self._add_record(wire.TimestampStack(instrumentation.points), InterceptionPoint.SEND)
        return (self._add_record(stack, InterceptionPoint.ROUTE) if is_routed else stack).encode()

    def reply_stack(self, stack: "TimestampStack") -> bytes:
        """Return the stack of a reply, which continues the stack of its query."""
        return self._add_record(stack._stack, InterceptionPoint.SEND).encode()

    def received_stack(self, data: bytes | None) -> "TimestampStack | None":
        """Return the stack of a received message."""
        if data is None:
            return None
        stack = wire.TimestampStack.decode(data)
        zid = self._context.zid.to_wire()
        if all(wire.is_record_of(record, zid) for record in stack.records):  # of this node: not routed
            sent = tuple(record for record in stack.records if record.point != wire.ROUTED)
            stack = wire.TimestampStack(stack.points, sent)
        elif not wire.is_record_of(stack.records[-1], zid):
            stack = self._add_record(stack, InterceptionPoint.ROUTE)
        return TimestampStack(self._add_record(stack, InterceptionPoint.RECEIVE))


class TimestampInstrumentation:
    """The points at which a message records a timestamp. Built by `TimestampInstrumentationBuilder`."""

    __slots__ = ("_points",)

    def __init__(self, points: int) -> None:
        self._points = points

    @property
    def points(self) -> int:
        """Bit mask of the points: 1 send, 2 route, 4 receive."""
        return self._points

    def is_instrumented(self, /, point: InterceptionPoint) -> bool:
        """Return whether a point records a timestamp.

        Args:
            point: The point.
        """
        return self._points & (1 << point) != 0

    def __repr__(self) -> str:
        points = " | ".join(str(point) for point in InterceptionPoint if self.is_instrumented(point))
        return f"TimestampInstrumentation({points})"

    def __eq__(self, other: object) -> bool:
        return self._points == other._points if isinstance(other, TimestampInstrumentation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._points)


class TimestampInstrumentationBuilder:
    """Builder of a `TimestampInstrumentation`. Each method returns a new builder.

    Example:
        ```python
        TimestampInstrumentationBuilder().set_send(True).set_receive(True).build()
        ```
    """

    __slots__ = ("_points",)

    def __init__(self) -> None:
        self._points = 0

    def set_send(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        """Set whether the sender records a timestamp.

        Args:
            enabled: Whether the timestamp is recorded.

        Returns:
            A new builder.
        """
        return self._with(InterceptionPoint.SEND, enabled)

    def set_route(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        """Set whether routers record a timestamp.

        Args:
            enabled: Whether the timestamp is recorded.

        Returns:
            A new builder.
        """
        return self._with(InterceptionPoint.ROUTE, enabled)

    def set_receive(self, /, enabled: bool) -> "TimestampInstrumentationBuilder":
        """Set whether the receiver records a timestamp.

        Args:
            enabled: Whether the timestamp is recorded.

        Returns:
            A new builder.
        """
        return self._with(InterceptionPoint.RECEIVE, enabled)

    def build(self, /) -> TimestampInstrumentation:
        """Return the instrumentation.

        Raises:
            InvalidValue: No point is enabled.
        """
        if not self._points:
            raise InvalidValue("no point is enabled; enable send, route or receive")
        return TimestampInstrumentation(self._points)

    def _with(self, point: InterceptionPoint, enabled: bool) -> "TimestampInstrumentationBuilder":
        twin = TimestampInstrumentationBuilder()
        twin._points = self._points & ~(1 << point) | (int(enabled) << point)
        return twin


class TimestampStackRecord:
    """One record of a timestamp stack."""

    __slots__ = ("_record",)

    def __init__(self, record: wire.StackRecord) -> None:
        self._record = record

    @property
    def point(self) -> InterceptionPoint:
        """The point that added this record."""
        return _POINTS[self._record.point]

    @property
    def is_custom(self) -> bool:
        """Whether the record holds bytes of a `timestamp_callback` instead of a timestamp."""
        return isinstance(self._record.data, bytes)

    def timestamp(self, /) -> Timestamp | bytes:
        """Return the timestamp, or the bytes of a `timestamp_callback`."""
        return self._record.data

    def __repr__(self) -> str:
        return f"TimestampStackRecord({self.point}, {self._record.data!r})"


class TimestampStack:
    """The timestamps that a message recorded along the way."""

    __slots__ = ("_stack",)

    def __init__(self, stack: wire.TimestampStack) -> None:
        self._stack = stack

    @property
    def instrumentation(self) -> TimestampInstrumentation:
        """The points that record a timestamp."""
        return TimestampInstrumentation(self._stack.points)

    @property
    def records(self) -> list[TimestampStackRecord]:
        """The records, in order."""
        return [TimestampStackRecord(record) for record in self._stack.records if record.point in _POINTS]

    def __repr__(self) -> str:
        return f"TimestampStack({self.records!r})"
