# SPDX-License-Identifier: Apache-2.0
"""The choices a message, a query or a node makes, under the names that zenoh-python gives them.

They are numbers too (`int(Priority.DATA)`), and print like `Priority.DATA`. The number is also the wire's code, except in
WhatAmI, where `from_wire` and `to_wire` translate.
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
        if not (matcher is None or isinstance(matcher, str)):
            raise TypeError(f"a matcher is a str like router|peer, not {matcher!r}")
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
        """Nobody."""
        return cls.from_wire(0)

    def router(self, /) -> "WhatAmIMatcher":
        """And routers."""
        return self | WhatAmI.ROUTER

    def peer(self, /) -> "WhatAmIMatcher":
        """And peers."""
        return self | WhatAmI.PEER

    def client(self, /) -> "WhatAmIMatcher":
        """And clients."""
        return self | WhatAmI.CLIENT

    def is_empty(self, /) -> bool:
        """Whether nobody matches."""
        return self._bits == 0

    def matches(self, /, whatami: WhatAmI) -> bool:
        """Whether a role is among them."""
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
        if not isinstance(mode, ConsolidationMode):
            raise TypeError(
                f"mode is a ConsolidationMode ({', '.join(each.name for each in ConsolidationMode)}), not {mode!r}"
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
