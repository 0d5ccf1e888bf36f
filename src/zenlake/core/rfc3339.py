# SPDX-License-Identifier: Apache-2.0
"""Conversion between `datetime`, RFC 3339 text and nanoseconds since 1970.

The module is separate from `ntp64`, which every program imports, to avoid the import of `datetime`.
"""

import re
from datetime import UTC, datetime, timedelta

from zenlake.errors import InvalidValue

__all__ = ["from_datetime", "from_rfc3339", "to_datetime", "to_rfc3339"]

NS = 1_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_RFC3339 = r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z"


def from_datetime(time: datetime) -> int:
    """Convert a datetime with a time zone."""
    if not isinstance(time, datetime):
        raise TypeError(f"invalid time {time!r}; expected a datetime or an NTP64")
    if time.tzinfo is None:
        raise InvalidValue(f"{time.isoformat()} has no time zone; add tzinfo=datetime.UTC or the zone of its clock")
    return (time - EPOCH) // timedelta(microseconds=1) * 1000


def to_datetime(ns: int) -> datetime:
    """Return a datetime, rounded down to the microsecond."""
    return EPOCH + timedelta(microseconds=ns // 1000)


def from_rfc3339(text: str) -> tuple[int, int]:
    """Parse `2026-01-01T00:00:00.123456789Z` into seconds and nanoseconds: UTC only; digits after the ninth are ignored."""
    found = re.fullmatch(_RFC3339, text, re.ASCII)
    if found is None:
        raise InvalidValue(f"invalid UTC time {text!r}; expected the form 2026-01-01T00:00:00.5Z")
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    try:  # Unix time has no leap seconds; Zenoh repeats the previous second
        time = datetime(year, month, day, hour, minute, 59 if second == 60 else second, tzinfo=UTC)
    except ValueError as error:
        raise InvalidValue(f"invalid UTC time {text!r}: {error}") from None
    return (time - EPOCH) // timedelta(seconds=1), int((found[7] or "")[:9].ljust(9, "0"))


def to_rfc3339(ns: int) -> str:
    seconds, nanos = divmod(ns, NS)
    return f"{EPOCH + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{nanos:09}Z"
