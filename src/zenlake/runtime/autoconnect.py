# SPDX-License-Identifier: Apache-2.0
"""Autoconnect: which of the nodes that a node discovers it connects to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zenlake.core.enums import WhatAmI

__all__ = ["Autoconnect"]

GREATER_ZID = "greater-zid"


@dataclass(frozen=True, slots=True)
class Autoconnect:
    """Rule of one way of discovery: gossip or multicast scouting."""

    roles: frozenset[WhatAmI] = frozenset()
    """Roles of nodes to connect to."""
    greater_zid: frozenset[WhatAmI] = frozenset()
    """Roles of nodes to which only the node with the greater id connects, so that one of two nodes connects to the other."""

    @classmethod
    def parse(
        cls, roles: Sequence[str] | None, strategy: str | Mapping[str, str] | None, default: Sequence[WhatAmI]
    ) -> "Autoconnect":
        """Return the rule of a configuration. A strategy is one for all roles, or an object with `to_router` and so on."""
        wanted = default if roles is None else [WhatAmI(role) for role in roles]
        by_role = strategy if isinstance(strategy, Mapping) else {f"to_{role}": strategy for role in WhatAmI}
        return cls(frozenset(wanted), frozenset(role for role in WhatAmI if by_role.get(f"to_{role}") == GREATER_ZID))

    def wants(self, own: bytes, zid: bytes, whatami: WhatAmI) -> bool:
        """Return whether the node `own` connects to a discovered node. Ids are in wire form (little-endian)."""
        if whatami not in self.roles:
            return False
        return whatami not in self.greater_zid or own[::-1].rjust(16, b"\0") > zid[::-1].rjust(16, b"\0")
