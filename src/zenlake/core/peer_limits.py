# SPDX-License-Identifier: Apache-2.0
"""Limits on the memory that a peer can make this node use.

Every byte that a node stores for a peer is charged to the peer's `Account`, under one `Resource`. An account also charges
the node's budget, which bounds all peers together. `docs/design/limits.md` has one row for each resource; a test compares
that table with `Resource` and `DEFAULT_LIMITS`.
"""

import re
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from zenlake.errors import ConfigError

__all__ = ["Account", "Budget", "DEFAULT_LIMITS", "Resource", "merge_limits", "parse_limits"]

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Resource(Enum):
    """Kinds of memory that a peer can make this node use. The value is the name in settings, metrics and messages."""

    HANDSHAKES = "handshakes"
    LINK_BUFFERS = "link_buffers"
    PARTIAL_MESSAGES = "partial_messages"
    TRANSMIT_QUEUE = "transmit_queue"
    CONTROL_BACKLOG = "control_backlog"
    KEY_IDS = "key_ids"
    DECLARATIONS = "declarations"
    INTERESTS = "interests"
    QUERIES = "queries"
    ROUTES = "routes"
    LINK_STATES = "link_states"
    MULTICAST_MEMBERS = "multicast_members"


DEFAULT_LIMITS: Mapping[Resource, int] = {
    Resource.HANDSHAKES: 256 * KIB,
    Resource.LINK_BUFFERS: 1 * MIB,
    Resource.PARTIAL_MESSAGES: 1 * GIB,
    Resource.TRANSMIT_QUEUE: 2 * GIB,
    Resource.CONTROL_BACKLOG: 16 * MIB,
    Resource.KEY_IDS: 64 * MIB,
    Resource.DECLARATIONS: 512 * MIB,
    Resource.INTERESTS: 32 * MIB,
    Resource.QUERIES: 64 * MIB,
    Resource.ROUTES: 64 * MIB,
    Resource.LINK_STATES: 64 * MIB,
    Resource.MULTICAST_MEMBERS: 16 * MIB,
}
"""Bytes of each resource that one peer may use."""


def merge_limits(changes: Mapping[str, int]) -> dict[Resource, int]:
    """Return the default limits with some of them replaced.

    Args:
        changes: Bytes by resource name.

    Raises:
        ConfigError: A name is not a resource, or a limit is below one byte.
    """
    limits = dict(DEFAULT_LIMITS)
    for name, size in changes.items():
        try:
            resource = Resource(name)
        except ValueError:
            known = ", ".join(each.value for each in Resource)
            raise ConfigError(f"unknown limit {name!r}; expected one of {known}") from None
        if size < 1:
            raise ConfigError(f"invalid limit {name}={size}; expected at least 1 byte")
        limits[resource] = size
    return limits


def parse_limits(texts: Iterable[str]) -> dict[str, int]:
    """Parse limits such as `routes=16MiB`.

    Args:
        texts: Each is a name, `=` and a number of bytes, with an optional unit KiB, MiB or GiB.

    Returns:
        Bytes by resource name.

    Raises:
        ConfigError: A text has another form, or its name is not a resource.
    """
    found = {}
    for text in texts:
        match = re.fullmatch(r"(\w+)=(\d+) ?(|[KMG]iB)", text.strip())
        if match is None:
            raise ConfigError(f"invalid limit {text!r}; expected NAME=SIZE, such as routes=16MiB")
        name, number, unit = match.groups()
        found[name] = int(number) * {"": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}[unit]
    merge_limits(found)
    return found


class Budget(Protocol):
    """Memory of all peers together. Implemented by `transport.memory_budget.MemoryBudget`."""

    @property
    def is_full(self) -> bool:
        """Whether all peers together have reached the limit of the node."""

    def charge(self, size: int) -> None:
        """Add `size` bytes, or subtract them if it is negative."""


class Account:
    """Memory that one peer makes this node use, in bytes by resource.

    Threading: guarded by the lock of its owner. The budget has its own lock.
    """

    __slots__ = ("budget", "limits", "refusals", "used")

    def __init__(self, limits: Mapping[Resource, int] = DEFAULT_LIMITS, budget: Budget | None = None) -> None:
        self.limits = limits
        self.budget = budget
        self.used: dict[Resource, int] = {}
        self.refusals: dict[Resource, int] = {}

    @property
    def total(self) -> int:
        """Total bytes of all resources."""
        return sum(self.used.values())

    def charge(self, resource: Resource, size: int) -> bool:
        """Charge `size` bytes. Return False, and charge nothing, if the peer would exceed its limit.

        A full budget of the node does not refuse a charge. The node then closes the peer with the largest usage, not this one.
        """
        used = self.used.get(resource, 0) + size
        if used > self.limits[resource]:
            self.refusals[resource] = self.refusals.get(resource, 0) + 1
            return False
        self.used[resource] = used
        if self.budget is not None:
            self.budget.charge(size)
        return True

    def release(self, resource: Resource, size: int) -> None:
        """Release charged bytes."""
        self.used[resource] = self.used.get(resource, 0) - size
        if self.budget is not None:
            self.budget.charge(-size)

    def is_above(self, resource: Resource, share: float) -> bool:
        """Return whether more than a share of a limit is used."""
        return self.used.get(resource, 0) > share * self.limits[resource]

    def set(self, resource: Resource, size: int) -> bool:
        """Set the usage to `size` bytes. Return False, and count a refusal, if that exceeds the limit.

        Use it for memory that is used before its size is known, such as the buffers of a link.
        """
        before = self.used.get(resource, 0)
        if size != before:
            self.used[resource] = size
            if self.budget is not None:
                self.budget.charge(size - before)
        if size <= self.limits[resource]:
            return True
        self.refusals[resource] = self.refusals.get(resource, 0) + 1
        return False

    def close(self) -> None:
        """Release everything that is charged. Called when the peer is gone."""
        if self.budget is not None:
            self.budget.charge(-self.total)
        self.used.clear()
