# SPDX-License-Identifier: Apache-2.0
"""Public enums: priorities, congestion control, query targets, roles and others, with the names of zenoh-python.

Members are ints (`int(Priority.DATA)`) and print like `Priority.DATA`. The number is the code on the wire, except in
`WhatAmI`, which has `from_wire` and `to_wire`.
"""

from collections.abc import Iterator
from enum import Enum, nonmember

from zenlake.errors import InvalidValue

__all__ = [
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


class _Choice(int, Enum):
    """An int enum that prints as `Priority.DATA`, also in f-strings."""

    def __repr__(self) -> str:
        return str(self)


class WhatAmI(_Choice):
    """The role of a node. Also created from text: `WhatAmI("peer")`."""

    ROUTER = 1
    PEER = 2
    CLIENT = 4

    @classmethod
    def _missing_(cls, value: object) -> "WhatAmI":
        if isinstance(value, str) and value in ("router", "peer", "client"):
            return cls[value.upper()]
        raise InvalidValue(f"invalid role {value!r}; expected router, peer or client")

    @classmethod
    def from_wire(cls, code: int) -> "WhatAmI":
        """Decode the two bits of INIT, JOIN and HELLO. Link states of routers use the numbers of the enum."""
        if code not in (0, 1, 2):
            raise InvalidValue(f"invalid role code {code}; expected 0 (router), 1 (peer) or 2 (client)")
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
    """A set of roles: `WhatAmIMatcher("router|peer")` or `WhatAmI.ROUTER | WhatAmI.PEER`.

    Args:
        matcher: Names of roles, joined by `|`. Default: the empty set.

    Raises:
        TypeError: The matcher is not a str.
        InvalidValue: A name is not router, peer or client.
    """

    __slots__ = ("_bits",)

    def __init__(self, matcher: str | None = None) -> None:
        if not (matcher is None or isinstance(matcher, str)):
            raise TypeError(f"invalid matcher {matcher!r}; expected a str such as router|peer")
        self._bits = 0
        for role in (matcher or "").split("|"):
            if role.strip():
                self._bits |= WhatAmI(role.strip()).value

    @classmethod
    def from_wire(cls, bits: int) -> "WhatAmIMatcher":
        """Decode the three low bits of a SCOUT: 1 router, 2 peer, 4 client."""
        if not 0 <= bits <= 7:
            raise InvalidValue(f"invalid matcher {bits}; expected the bits 1 (router), 2 (peer) and 4 (client)")
        self = cls.__new__(cls)
        self._bits = bits
        return self

    def to_wire(self) -> int:
        return self._bits

    @classmethod
    def empty(cls) -> "WhatAmIMatcher":
        """Return the empty matcher."""
        return cls.from_wire(0)

    def router(self, /) -> "WhatAmIMatcher":
        """Return this matcher with routers."""
        return self | WhatAmI.ROUTER

    def peer(self, /) -> "WhatAmIMatcher":
        """Return this matcher with peers."""
        return self | WhatAmI.PEER

    def client(self, /) -> "WhatAmIMatcher":
        """Return this matcher with clients."""
        return self | WhatAmI.CLIENT

    def is_empty(self, /) -> bool:
        """Return whether the matcher matches no role."""
        return self._bits == 0

    def matches(self, /, whatami: WhatAmI) -> bool:
        """Return whether a role matches.

        Args:
            whatami: The role.
        """
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
    """Priority of a message. Lower numbers are sent first. 0 is reserved for control messages."""

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
    """Behaviour of a full queue: drop the message, wait for room, or wait only for the first message."""

    DROP = 0
    BLOCK = 1
    BLOCK_FIRST = 2

    DEFAULT = DROP


class Reliability(_Choice):
    """Reliability of the channel of a message."""

    BEST_EFFORT = 0
    RELIABLE = 1

    DEFAULT = RELIABLE


class SampleKind(_Choice):
    """Kind of a sample: a value or a deletion."""

    PUT = 0
    DELETE = 1


class QueryTarget(_Choice):
    """The matching queryables that receive a query."""

    BEST_MATCHING = 0
    ALL = 1
    ALL_COMPLETE = 2

    DEFAULT = BEST_MATCHING


class ConsolidationMode(_Choice):
    """Deduplication of the replies to a query. AUTO is resolved before the query is sent."""

    AUTO = 0
    NONE = 1
    MONOTONIC = 2
    LATEST = 3

    DEFAULT = AUTO


class QueryConsolidation:
    """Wrapper of a `ConsolidationMode`, as in zenoh-python.

    Args:
        mode: The mode to wrap.

    Attributes:
        mode: The wrapped mode.

    Raises:
        TypeError: The argument is not a `ConsolidationMode`.
    """

    __slots__ = ("_mode",)

    AUTO: "QueryConsolidation"
    DEFAULT: "QueryConsolidation"

    def __init__(self, mode: ConsolidationMode, /) -> None:
        if not isinstance(mode, ConsolidationMode):
            raise TypeError(
                f"invalid mode {mode!r}; expected a ConsolidationMode: "
                f"{', '.join(each.name for each in ConsolidationMode)}"
            )
        self._mode = mode

    @property
    def mode(self, /) -> ConsolidationMode:
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
    """Whether replies may have keys that do not match the query."""

    ANY = 0
    MATCHING_QUERY = 1

    DEFAULT = MATCHING_QUERY


class Locality(_Choice):
    """Whether samples and queries stay in this session, leave it, or both."""

    SESSION_LOCAL = 0
    REMOTE = 1
    ANY = 2

    DEFAULT = ANY


class SetIntersectionLevel(_Choice):
    """Relation between the keys of two key expressions, from disjoint to equal."""

    DISJOINT = 0
    INTERSECTS = 1
    INCLUDES = 2
    EQUALS = 3


class InterceptionPoint(_Choice):
    """The point at which a message recorded a timestamp, in a timestamp stack."""

    SEND = 0
    ROUTE = 1
    RECEIVE = 2
