# SPDX-License-Identifier: Apache-2.0
"""Instants as the calendar has them, and Python's `datetime`: nanoseconds since 1970 in, and out.

Apart from `clock`, which every program loads: most never ask what day it is.
"""

import re
from datetime import UTC, datetime, timedelta

from zenlake.errors import InvalidValue

__all__ = ["from_datetime", "from_rfc3339", "to_datetime", "to_rfc3339"]

NS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_RFC3339 = r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z"


def from_datetime(time: datetime) -> int:
    """From a datetime that has a time zone."""
    if not isinstance(time, datetime):
        raise TypeError(f"a time is a datetime or an NTP64, not {time!r}")
    if time.tzinfo is None:
        raise InvalidValue(f"{time.isoformat()} has no time zone: add tzinfo=datetime.UTC, or the zone it was read in")
    return (time - EPOCH) // timedelta(microseconds=1) * 1000


def to_datetime(ns: int) -> datetime:
    """To the microsecond, rounded down: that is all a datetime can hold."""
    return EPOCH + timedelta(microseconds=ns // 1000)


def from_rfc3339(text: str) -> tuple[int, int]:
    """Seconds and nanoseconds of `2026-01-01T00:00:00.123456789Z`: UTC only, digits after the ninth are ignored."""
    found = re.fullmatch(_RFC3339, text, re.ASCII)
    if found is None:
        raise InvalidValue(f"{text!r} is not a UTC instant like 2026-01-01T00:00:00.5Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:  # a leap second has no number of its own in Unix time; Zenoh repeats the one before
        time = datetime(year, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    except ValueError as error:
        raise InvalidValue(f"{text!r} is not a UTC instant: {error}") from None
    return (time - EPOCH) // timedelta(seconds=1), int((found[7] or "")[:9].ljust(9, "0"))


def to_rfc3339(ns: int) -> str:
    seconds, nanos = divmod(ns, NS)
    return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"
