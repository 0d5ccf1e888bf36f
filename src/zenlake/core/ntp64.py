# SPDX-License-Identifier: Apache-2.0
"""NTP64 timestamps, and (from `hlc`) the hybrid logical clock.

An NTP64 is a 64-bit number: seconds in the upper half, fractions of 2**-32 s in the lower half. Zenoh counts from 1970-01-01
UTC, not from NTP's 1900 (divergence A6). On the wire and in fast paths it is an `int`.

This module does not read the system clock.
"""

from functools import total_ordering
from operator import index
from typing import TYPE_CHECKING

from zenlake.core.hlc import MAX_DELTA, HybridClock, ntp64_of
from zenlake.errors import InvalidValue

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["NTP64", "HybridClock", "MAX_DELTA", "ntp64_from_ns", "ns_from_ntp64"]

NS = 1_000_000_000
U64 = (1 << 64) - 1


def ntp64_from_ns(ns: int) -> int:
    """Return the NTP64 of `ns` nanoseconds since 1970, rounded down as in Zenoh."""
    if not 0 <= ns < NS << 32:
        raise InvalidValue(f"{ns // NS} s since 1970 is out of range for NTP64, which ends in February 2106")
    return ntp64_of(ns)


def ns_from_ntp64(ntp64: int) -> int:
    """Return nanoseconds since 1970, rounded up, so that `ns_from_ntp64(ntp64_from_ns(ns)) == ns`."""
    return -(-ntp64 * NS >> 32)


@total_ordering
class NTP64:
    """A time in the format of timestamps: 32 bits of seconds and 32 bits of fraction. `int()` returns the 64-bit number.

    Args:
        seconds: Seconds since 1970.
        nanos: Nanoseconds to add.

    Raises:
        InvalidValue: The time is before 1970 or after February 2106.
    """

    __slots__ = ("_ntp64",)

    def __init__(self, seconds: int, nanos: int) -> None:
        if index(seconds) < 0 or index(nanos) < 0:  # refuses values that are not integers
            raise InvalidValue(f"NTP64({seconds}, {nanos}) is before 1970")
        self._ntp64 = ntp64_from_ns(seconds * NS + nanos)

    @classmethod
    def from_wire(cls, ntp64: int) -> "NTP64":
        if not 0 <= ntp64 <= U64:
            raise InvalidValue(f"invalid NTP64 {ntp64}; expected an unsigned 64-bit number")
        self = cls.__new__(cls)
        self._ntp64 = ntp64
        return self

    @classmethod
    def from_datetime(cls, time: "datetime") -> "NTP64":
        """Return the time of a datetime with a time zone.

        Args:
            time: The datetime.
        """
        from zenlake.core.rfc3339 import from_datetime

        return cls.from_wire(ntp64_from_ns(from_datetime(time)))

    @classmethod
    def parse_rfc3339(cls, s: str) -> "NTP64":
        """Parse `2026-01-01T00:00:00.123456789Z`: UTC only; digits after the ninth are ignored.

        Args:
            s: The text.

        Returns:
            The time.

        Raises:
            InvalidValue: The text has another form.
        """
        from zenlake.core.rfc3339 import from_rfc3339

        return cls(*from_rfc3339(s))

    def as_secs_f64(self, /) -> float:
        """Return seconds since 1970, with their fraction."""
        return self._ntp64 / (1 << 32)

    def as_secs(self, /) -> int:
        """Return whole seconds since 1970."""
        return self._ntp64 >> 32

    def as_nanos(self, /) -> int:
        """Return nanoseconds since 1970."""
        return ns_from_ntp64(self._ntp64)

    def subsec_nanos(self, /) -> int:
        """Return the nanoseconds of the fraction of a second."""
        return ns_from_ntp64(self._ntp64) % NS

    def to_datetime(self, /) -> "datetime":
        """Return a datetime, rounded down to the microsecond."""
        from zenlake.core.rfc3339 import to_datetime

        return to_datetime(ns_from_ntp64(self._ntp64))

    def to_string_rfc3339_lossy(self, /) -> str:
        """Return the time as `2026-01-01T00:00:00.123456789Z`. Nanoseconds are less precise than the NTP64."""
        from zenlake.core.rfc3339 import to_rfc3339

        return to_rfc3339(ns_from_ntp64(self._ntp64))

    def __int__(self) -> int:
        return self._ntp64

    def __str__(self) -> str:
        return str(self._ntp64)

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self._ntp64 == other._ntp64 if isinstance(other, NTP64) else NotImplemented

    def __lt__(self, other: "NTP64") -> bool:
        return self._ntp64 < other._ntp64 if isinstance(other, NTP64) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._ntp64)

    def __reduce__(self) -> tuple[object, ...]:
        return NTP64.from_wire, (self._ntp64,)
