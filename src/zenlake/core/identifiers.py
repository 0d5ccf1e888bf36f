# SPDX-License-Identifier: Apache-2.0
"""Identifiers and timestamps, with the names of zenoh-python.

The same objects are used from the wire up to the API. They are immutable, hashable, comparable, picklable and copyable.
`from_wire` takes decoded values. The other constructors validate user input.
"""

from functools import total_ordering
from operator import index
from typing import TYPE_CHECKING, Self

from zenlake.core.ntp64 import NTP64
from zenlake.errors import InvalidValue

if TYPE_CHECKING:
    from datetime import datetime, timedelta

__all__ = [
    "ZenohId",
    "EntityGlobalId",
    "SourceInfo",
    "TimestampId",
    "Timestamp",
]

U32 = 0xFFFFFFFF
MAX_ID_BYTES = 16


@total_ordering
class _Identifier:
    """A number of 1 to 16 bytes, not zero.

    On the wire it is little-endian without high zero bytes. As text it is lowercase hexadecimal. The order is that of the wire
    bytes, not of the number, because 1.10.2 uses that order to compare timestamps.
    """

    __slots__ = ("_wire",)
    _wire: bytes

    @classmethod
    def from_wire(cls, data: bytes | bytearray | memoryview) -> Self:
        """Create from wire bytes or random bytes. High zero bytes are removed."""
        wire = bytes(data).rstrip(b"\0")
        if not wire or len(data) > MAX_ID_BYTES:
            why = "it is zero" if data and not wire else f"it has {len(data)}"
            raise InvalidValue(f"a {cls.__name__} has 1 to {MAX_ID_BYTES} bytes that are not all zero, and {why}")
        self = cls.__new__(cls)
        self._wire = wire
        return self

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse hexadecimal digits without leading zeros, the format of `str`.

        Args:
            text: The digits.

        Returns:
            The identifier.

        Raises:
            InvalidValue: The text is not such a number.
        """
        if not 1 <= len(text) <= 2 * MAX_ID_BYTES or text.startswith("0") or not text.isascii() or not text.isalnum():
            raise InvalidValue(f"invalid {cls.__name__} {text!r}; expected 1 to 32 hex digits without leading zeros")
        try:
            number = int(text, 16)
        except ValueError:
            raise InvalidValue(f"invalid {cls.__name__} {text!r}; it has digits that are not hexadecimal") from None
        return cls.from_wire(number.to_bytes(MAX_ID_BYTES, "little"))

    def to_wire(self) -> bytes:
        return self._wire

    def __int__(self) -> int:
        return int.from_bytes(self._wire, "little")

    def __str__(self) -> str:
        return format(int.from_bytes(self._wire, "little"), "x")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self._wire == other._wire if type(other) is type(self) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._wire < other._wire if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._wire)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_wire, (self._wire,)


class ZenohId(_Identifier):
    """The identifier of a node: `ZenohId.parse("d64d...")` or `ZenohId.from_wire(random_bytes)`."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        """Return sixteen bytes, little-endian. `to_wire` omits high zero bytes."""
        return self._wire.ljust(MAX_ID_BYTES, b"\0")


class TimestampId(_Identifier):
    """The identifier of the clock of a timestamp, usually the ZenohID of its node.

    Args:
        bytes: 1 to 16 bytes, little-endian, which are not all zero.

    Raises:
        TypeError: The argument is not bytes.
        InvalidValue: The bytes are not a valid identifier.
    """

    __slots__ = ()

    def __init__(self, bytes: bytes | bytearray) -> None:
        if isinstance(bytes, (int, str)):
            raise TypeError(f"invalid TimestampId {bytes!r}; expected bytes")
        self._wire = TimestampId.from_wire(bytes)._wire

    def __bytes__(self) -> bytes:
        return self._wire


class EntityGlobalId:
    """The global identifier of an entity (publisher, subscriber, queryable ...): ZenohID and entity number.

    Args:
        zid: ZenohID of the node.
        eid: Number of the entity in its session, an unsigned 32-bit number.

    Attributes:
        zid: ZenohID of the node.
        eid: Number of the entity in its session.

    Raises:
        TypeError: `zid` is not a `ZenohId`.
        InvalidValue: `eid` is out of range.
    """

    __slots__ = ("_eid", "_zid")

    def __init__(self, zid: ZenohId, eid: int) -> None:
        if not isinstance(zid, ZenohId):
            raise TypeError(f"invalid zid {zid!r}; expected a ZenohId")
        if not 0 <= index(eid) <= U32:
            raise InvalidValue(f"invalid entity id {eid}; expected an unsigned 32-bit number")
        self._zid = zid
        self._eid = eid

    @property
    def zid(self, /) -> ZenohId:
        return self._zid

    @property
    def eid(self) -> int:
        return self._eid

    def __repr__(self) -> str:
        return f"EntityGlobalId {{ zid: {self._zid}, eid: {self._eid} }}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EntityGlobalId):
            return NotImplemented
        return self._eid == other._eid and self._zid == other._zid

    def __hash__(self) -> int:
        return hash((self._zid, self._eid))

    def __reduce__(self) -> tuple[object, ...]:
        return EntityGlobalId, (self._zid, self._eid)


class SourceInfo:
    """The entity that published a sample, and the sample's sequence number.

    Args:
        source_id: The entity.
        source_sn: The sequence number, an unsigned 32-bit number.

    Attributes:
        source_id: The entity.
        source_sn: The sequence number.

    Raises:
        TypeError: `source_id` is not an `EntityGlobalId`.
        InvalidValue: `source_sn` is out of range.
    """

    __slots__ = ("_source_id", "_source_sn")

    def __init__(self, source_id: EntityGlobalId, source_sn: int) -> None:
        if not isinstance(source_id, EntityGlobalId):
            raise TypeError(f"invalid source_id {source_id!r}; expected an EntityGlobalId")
        if not 0 <= index(source_sn) <= U32:
            raise InvalidValue(f"invalid source sequence number {source_sn}; expected an unsigned 32-bit number")
        self._source_id = source_id
        self._source_sn = source_sn

    @property
    def source_id(self) -> EntityGlobalId:
        return self._source_id

    @property
    def source_sn(self) -> int:
        return self._source_sn

    def __repr__(self) -> str:
        return f"SourceInfo {{ source_id: {self._source_id}, source_sn: {self._source_sn} }}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SourceInfo):
            return NotImplemented
        return self._source_sn == other._source_sn and self._source_id == other._source_id

    def __hash__(self) -> int:
        return hash((self._source_id, self._source_sn))

    def __reduce__(self) -> tuple[object, ...]:
        return SourceInfo, (self._source_id, self._source_sn)


@total_ordering
class Timestamp:
    """A timestamp of a hybrid logical clock: time and clock id. Ordered by time, then by clock id.

    There are two text formats. `str` returns `7590176156653977600/1`, which is exact; `parse` reads it.
    `to_string_rfc3339_lossy` returns `2026-01-01T00:00:00.000000000Z/1`; `parse_rfc3339` reads it.

    Args:
        time: A datetime with a time zone, or an `NTP64`.
        id: Identifier of the clock.

    Raises:
        InvalidValue: The time has no time zone or is out of range, or the id is invalid.
    """

    __slots__ = ("_id", "_ntp64")

    def __init__(self, time: "datetime | NTP64", id: TimestampId | bytes | bytearray) -> None:
        self._ntp64 = int(time if isinstance(time, NTP64) else NTP64.from_datetime(time))
        self._id = id if isinstance(id, TimestampId) else TimestampId(id)

    @classmethod
    def from_wire(cls, ntp64: int, id: bytes | bytearray | memoryview) -> "Timestamp":
        self = cls.__new__(cls)
        self._ntp64 = ntp64
        self._id = TimestampId.from_wire(id)
        return self

    @classmethod
    def parse(cls, s: str) -> "Timestamp":
        """Parse the format of `str`.

        Args:
            s: Text such as `7590176156653977600/1`.

        Returns:
            The timestamp.

        Raises:
            InvalidValue: The text is not a timestamp.
        """
        time, id = _split(s)
        if not (time.isascii() and time.isdigit() and len(time) <= 20):
            raise InvalidValue(
                f"invalid timestamp {s!r}; expected the form 7590176156653977600/1, or use parse_rfc3339"
            )
        return cls(NTP64.from_wire(int(time)), TimestampId.parse(id))

    @classmethod
    def parse_rfc3339(cls, s: str) -> "Timestamp":
        """Parse `2026-01-01T00:00:00.123456789Z/id`.

        Args:
            s: The text.

        Returns:
            The timestamp.

        Raises:
            InvalidValue: The text is not a timestamp.
        """
        time, id = _split(s)
        return cls(NTP64.parse_rfc3339(time), TimestampId.parse(id))

    @property
    def ntp64(self) -> int:
        """The time as NTP64 number."""
        return self._ntp64

    @property
    def id(self) -> TimestampId:
        return self._id

    def get_time(self, /) -> "datetime":
        """Return the time as datetime, to the microsecond."""
        return self.get_time_as_ntp64().to_datetime()

    def get_time_as_ntp64(self, /) -> NTP64:
        """Return the exact time."""
        return NTP64.from_wire(self._ntp64)

    def get_id(self, /) -> TimestampId:
        """Return the identifier of the clock."""
        return self._id

    def get_diff_duration(self, /, other: "Timestamp") -> "timedelta":
        """Return the time since `other`, negative if it is later.

        Args:
            other: The other timestamp.
        """
        from datetime import timedelta

        return timedelta(microseconds=(self._ntp64 - other._ntp64) * 1_000_000 / (1 << 32))

    def to_string_rfc3339_lossy(self, /) -> str:
        """Return the timestamp as `2026-01-01T00:00:00.123456789Z/1`. Nanoseconds are less precise than the timestamp."""
        return f"{self.get_time_as_ntp64().to_string_rfc3339_lossy()}/{self._id}"

    def __str__(self) -> str:
        return f"{self._ntp64}/{self._id}"

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Timestamp):
            return NotImplemented
        return self._ntp64 == other._ntp64 and self._id == other._id

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Timestamp):
            return NotImplemented
        return (self._ntp64, self._id) < (other._ntp64, other._id)

    def __hash__(self) -> int:
        return hash((self._ntp64, self._id))

    def __reduce__(self) -> tuple[object, ...]:
        return Timestamp.from_wire, (self._ntp64, self._id._wire)


def _split(s: str) -> tuple[str, str]:
    time, slash, id = s.partition("/")
    if not slash:
        raise InvalidValue(f"invalid timestamp {s!r}; expected `/` between time and id")
    return time, id
