# SPDX-License-Identifier: Apache-2.0
"""The small values that travel in messages: identifiers, timestamps, and the choices a message or a query makes.

The same objects serve from the wire up to the API, under the names that zenoh-python gives them. They never change once
made, hash, compare, pickle and copy, and know nothing of messages, sockets or clocks. `from_wire` takes what a decoder
found, everything else takes what a user typed.

The choices are numbers too (`int(Priority.DATA)`), and print like `Priority.DATA`. The number is also the wire's code,
except in WhatAmI, where `from_wire` and `to_wire` translate.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import Enum, nonmember
from functools import total_ordering
from typing import TypeVar

from zenlake.clock import NTP64
from zenlake.encoding import Encoding
from zenlake.errors import InvalidValue

__all__ = [
    "ZenohId",
    "EntityGlobalId",
    "SourceInfo",
    "Encoding",
    "NTP64",
    "TimestampId",
    "Timestamp",
    "WhatAmI",
    "WhatAmIMatcher",
    "Priority",
    "CongestionControl",
    "Reliability",
    "SampleKind",
    "QueryTarget",
    "ConsolidationMode",
    "QueryConsolidation",
    "ReplyKeyExpr",
    "Locality",
    "SetIntersectionLevel",
    "InterceptionPoint",
]

U32 = 0xFFFFFFFF
LONGEST_ID = 16

_Id = TypeVar("_Id", bound="_Identifier")


@total_ordering
class _Identifier:
    """A number of 1 to 16 bytes, never zero.

    On the wire: its bytes, lowest first, without the zeros at the high end. As text: the number in lowercase hex.
    The order is that of the wire bytes, not of the number: so 1.10.2 breaks ties between timestamps, and so must we.
    """

    __slots__ = ("_wire",)
    _wire: bytes

    @classmethod
    def from_wire(cls: type[_Id], data: bytes | bytearray | memoryview) -> _Id:
        """From wire bytes (or random ones). Zeros at the high end are trimmed."""
        wire = bytes(data).rstrip(b"\0")
        if not wire or len(data) > LONGEST_ID:
            why = "it is zero" if data and not wire else f"it has {len(data)}"
            raise InvalidValue(f"a {cls.__name__} is 1 to {LONGEST_ID} bytes that are not all zero, and {why}")
        self = cls.__new__(cls)
        self._wire = wire
        return self

    @classmethod
    def parse(cls: type[_Id], text: str) -> _Id:
        """From hex without leading zeros, the form that `str` gives."""
        if not 1 <= len(text) <= 2 * LONGEST_ID or text.startswith("0") or not text.isascii() or not text.isalnum():
            raise InvalidValue(f"{text!r} is not a {cls.__name__}: 1 to 32 hex digits without leading zeros")
        try:
            number = int(text, 16)
        except ValueError:
            raise InvalidValue(f"{text!r} is not a {cls.__name__}: it has digits that are not hexadecimal") from None
        return cls.from_wire(number.to_bytes(LONGEST_ID, "little"))

    def to_wire(self) -> bytes:
        return self._wire

    def __int__(self) -> int:
        return int.from_bytes(self._wire, "little")

    def __str__(self) -> str:
        return format(int.from_bytes(self._wire, "little"), "x")

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self._wire == other._wire if type(other) is type(self) else NotImplemented  # type: ignore[attr-defined]

    def __lt__(self, other: object) -> bool:
        return self._wire < other._wire if type(other) is type(self) else NotImplemented  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash(self._wire)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).from_wire, (self._wire,)


class ZenohId(_Identifier):
    """The identity of a node: `ZenohId.parse("d64d...")`, `ZenohId.from_wire(random_bytes)`."""

    __slots__ = ()

    def __bytes__(self) -> bytes:
        """Sixteen bytes, lowest first. The wire has them without the zeros at the end: see `to_wire`."""
        return self._wire.ljust(LONGEST_ID, b"\0")


class TimestampId(_Identifier):
    """The identity of the clock that made a timestamp; usually the bytes of its node's ZenohId."""

    __slots__ = ()

    def __init__(self, bytes: bytes | bytearray) -> None:
        self._wire = TimestampId.from_wire(bytes)._wire

    def __bytes__(self) -> bytes:
        return self._wire


class EntityGlobalId:
    """One publisher, subscriber, queryable... of one node: the node's id and a number that the node gave."""

    __slots__ = ("_eid", "_zid")

    def __init__(self, zid: ZenohId, eid: int) -> None:
        if not 0 <= eid <= U32:
            raise InvalidValue(f"entity id {eid} is not an unsigned 32-bit number")
        self._zid = zid
        self._eid = eid

    @property
    def zid(self) -> ZenohId:
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
    """Which entity made a sample, and its place among those the entity made."""

    __slots__ = ("_source_id", "_source_sn")

    def __init__(self, source_id: EntityGlobalId, source_sn: int) -> None:
        if not 0 <= source_sn <= U32:
            raise InvalidValue(f"source sequence number {source_sn} is not an unsigned 32-bit number")
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
    """When something happened, by a hybrid logical clock, and which clock said so. Ordered by time, then by clock.

    Two text forms: `str` gives `7590176156653977600/1` (exact; `parse` reads it), `to_string_rfc3339_lossy` gives
    `2026-01-01T00:00:00.000000000Z/1` (readable; `parse_rfc3339` reads it).
    """

    __slots__ = ("_id", "_ntp64")

    def __init__(self, time: datetime | NTP64, id: TimestampId | bytes | bytearray) -> None:
        self._ntp64 = int(time if isinstance(time, NTP64) else NTP64.from_datetime(time))
        self._id = id if isinstance(id, TimestampId) else TimestampId.from_wire(id)

    @classmethod
    def from_wire(cls, ntp64: int, id: bytes | bytearray | memoryview) -> "Timestamp":
        self = cls.__new__(cls)
        self._ntp64 = ntp64
        self._id = TimestampId.from_wire(id)
        return self

    @classmethod
    def parse(cls, s: str) -> "Timestamp":
        time, id = _split(s)
        if not (time.isascii() and time.isdigit() and len(time) <= 20):
            raise InvalidValue(f"{s!r} is not a timestamp like 7590176156653977600/1; is it for parse_rfc3339?")
        return cls(NTP64.from_wire(int(time)), TimestampId.parse(id))

    @classmethod
    def parse_rfc3339(cls, s: str) -> "Timestamp":
        time, id = _split(s)
        return cls(NTP64.parse_rfc3339(time), TimestampId.parse(id))

    @property
    def ntp64(self) -> int:
        """The time as it is on the wire."""
        return self._ntp64

    @property
    def id(self) -> TimestampId:
        return self._id

    def get_time(self) -> datetime:
        return self.get_time_as_ntp64().to_datetime()

    def get_time_as_ntp64(self) -> NTP64:
        return NTP64.from_wire(self._ntp64)

    def get_id(self) -> TimestampId:
        return self._id

    def get_diff_duration(self, other: "Timestamp") -> timedelta:
        """How long after `other`; negative if before."""
        return timedelta(microseconds=(self._ntp64 - other._ntp64) * 1_000_000 / (1 << 32))

    def to_string_rfc3339_lossy(self) -> str:
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
        raise InvalidValue(f"{s!r} is not a timestamp: there is no `/` between its time and its id")
    return time, id


class _Choice(int, Enum):
    """An int that prints as `Priority.DATA`, also in an f-string, which an IntEnum would not."""

    def __repr__(self) -> str:
        return str(self)


class WhatAmI(_Choice):
    """The role of a node. Made from its text too: `WhatAmI("peer")`."""

    ROUTER = 1
    PEER = 2
    CLIENT = 4

    @classmethod
    def _missing_(cls, value: object) -> "WhatAmI":
        if isinstance(value, str) and value in ("router", "peer", "client"):
            return cls[value.upper()]
        raise InvalidValue(f"{value!r} is not a role: router, peer or client")

    @classmethod
    def from_wire(cls, code: int) -> "WhatAmI":
        """From the two bits of INIT, JOIN and HELLO. (The link-state of routers uses the enum's own numbers.)"""
        if code not in (0, 1, 2):
            raise InvalidValue(f"role code {code} is not 0 (router), 1 (peer) or 2 (client)")
        return cls(1 << code)

    def to_wire(self) -> int:
        return self.value >> 1

    def __str__(self) -> str:
        return self.name.lower()

    def __repr__(self) -> str:
        return f"WhatAmI.{self.name}"

    def __or__(self, other: "WhatAmI | WhatAmIMatcher") -> "WhatAmIMatcher":  # type: ignore[override]
        return WhatAmIMatcher.from_wire(self.value | int(other))


class WhatAmIMatcher:
    """A set of roles: `WhatAmIMatcher("router|peer")`, `WhatAmI.ROUTER | WhatAmI.PEER`."""

    __slots__ = ("_bits",)

    def __init__(self, matcher: str | None = None) -> None:
        self._bits = 0
        for role in (matcher or "").split("|"):
            if role.strip():
                self._bits |= WhatAmI(role.strip()).value

    @classmethod
    def from_wire(cls, bits: int) -> "WhatAmIMatcher":
        """From the three low bits of a SCOUT: 1 router, 2 peer, 4 client."""
        if not 0 <= bits <= 7:
            raise InvalidValue(f"matcher {bits} has more than the three bits router, peer, client")
        self = cls.__new__(cls)
        self._bits = bits
        return self

    def to_wire(self) -> int:
        return self._bits

    @classmethod
    def empty(cls) -> "WhatAmIMatcher":
        return cls.from_wire(0)

    def router(self) -> "WhatAmIMatcher":
        return self | WhatAmI.ROUTER

    def peer(self) -> "WhatAmIMatcher":
        return self | WhatAmI.PEER

    def client(self) -> "WhatAmIMatcher":
        return self | WhatAmI.CLIENT

    def is_empty(self) -> bool:
        return self._bits == 0

    def matches(self, whatami: WhatAmI) -> bool:
        return self._bits & whatami != 0

    def __contains__(self, whatami: WhatAmI) -> bool:
        return self._bits & whatami != 0

    def __iter__(self) -> Iterator[WhatAmI]:
        return (role for role in WhatAmI if self._bits & role)

    def __or__(self, other: "WhatAmI | WhatAmIMatcher") -> "WhatAmIMatcher":
        return WhatAmIMatcher.from_wire(self._bits | int(other))

    def __int__(self) -> int:
        return self._bits

    def __str__(self) -> str:
        return "|".join(map(str, self))

    def __repr__(self) -> str:
        return f"WhatAmIMatcher({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self._bits == other._bits if isinstance(other, WhatAmIMatcher) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._bits)

    def __reduce__(self) -> tuple[object, ...]:
        return WhatAmIMatcher.from_wire, (self._bits,)


class Priority(_Choice):
    """How urgent a message is; the lower, the sooner. (Zero is Zenoh's own: declarations and other control traffic.)"""

    REAL_TIME = 1
    INTERACTIVE_HIGH = 2
    INTERACTIVE_LOW = 3
    DATA_HIGH = 4
    DATA = 5
    DATA_LOW = 6
    BACKGROUND = 7

    DEFAULT = DATA
    MIN = BACKGROUND
    MAX = REAL_TIME
    NUM = nonmember(7)


class CongestionControl(_Choice):
    """What a full queue does to a message: lose it, wait for room, or wait only if nothing else of its kind waits."""

    DROP = 0
    BLOCK = 1
    BLOCK_FIRST = 2

    DEFAULT = DROP


class Reliability(_Choice):
    """The channel a message takes."""

    BEST_EFFORT = 0
    RELIABLE = 1

    DEFAULT = RELIABLE


class SampleKind(_Choice):
    """What a sample does to its key."""

    PUT = 0
    DELETE = 1


class QueryTarget(_Choice):
    """Which of the matching queryables a query is for."""

    BEST_MATCHING = 0
    ALL = 1
    ALL_COMPLETE = 2

    DEFAULT = BEST_MATCHING


class ConsolidationMode(_Choice):
    """Which of several replies on one key the querier gets. AUTO is resolved before a query is sent."""

    AUTO = 0
    NONE = 1
    MONOTONIC = 2
    LATEST = 3

    DEFAULT = AUTO


class QueryConsolidation:
    """A ConsolidationMode in the wrapper that zenoh-python puts around it."""

    __slots__ = ("_mode",)

    AUTO: "QueryConsolidation"
    DEFAULT: "QueryConsolidation"

    def __init__(self, mode: ConsolidationMode, /) -> None:
        self._mode = mode

    @property
    def mode(self) -> ConsolidationMode:
        return self._mode

    def __repr__(self) -> str:
        return f"QueryConsolidation({self._mode})"

    def __eq__(self, other: object) -> bool:
        return self._mode == other._mode if isinstance(other, QueryConsolidation) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._mode)

    def __reduce__(self) -> tuple[object, ...]:
        return QueryConsolidation, (self._mode,)


QueryConsolidation.AUTO = QueryConsolidation.DEFAULT = QueryConsolidation(ConsolidationMode.AUTO)


class ReplyKeyExpr(_Choice):
    """Whether replies may be on keys that the query's key expression does not match."""

    ANY = 0
    MATCHING_QUERY = 1

    DEFAULT = MATCHING_QUERY


class Locality(_Choice):
    """Whether what is sent or received stays in this session, leaves it, or both."""

    SESSION_LOCAL = 0
    REMOTE = 1
    ANY = 2

    DEFAULT = ANY


class SetIntersectionLevel(_Choice):
    """How the keys of one expression relate to those of another, from nothing in common to the very same."""

    DISJOINT = 0
    INTERSECTS = 1
    INCLUDES = 2
    EQUALS = 3


class InterceptionPoint(_Choice):
    """Where on its way a message was stamped, in a timestamp stack."""

    SEND = 0
    ROUTE = 1
    RECEIVE = 2
