# SPDX-License-Identifier: Apache-2.0
"""Roles: differences between client, peer and router. The position of the neighbour decides all of them.

    north    above this node: it receives our declarations and our interests
    beside   equal to this node: both send all declarations, without interests
    tree     both are routers: declarations of each router follow that router's tree (see `linkstate`)
    south    below this node: it sends all declarations, and receives those that match its interests

A message passes between two faces of different groups. Peers are connected with each other, so the peers south of a router
are one group: a 1.10.2 router does not forward between them either. All faces north of or beside this node are one group.
All routers are one group too: messages between routers follow the trees.
"""

from enum import Enum

from zenlake.core.enums import WhatAmI

__all__ = ["MULTICAST", "FaceRole", "group", "role_of"]


class FaceRole(Enum):
    NORTH = "north"
    BESIDE = "beside"
    TREE = "tree"
    SOUTH = "south"


UP = "up"
PEERS = "peers"
MULTICAST = "multicast"
"""Group of the faces of multicast groups on a router. On a peer, these are in the group of its other peers."""


def role_of(own: WhatAmI, other: WhatAmI, is_gateway: bool = False) -> FaceRole:
    """Return the position of the neighbour. `is_gateway`: its OPEN placed this node south of it (since 1.9)."""
    if own is WhatAmI.CLIENT or (own is WhatAmI.PEER and is_gateway):
        return FaceRole.NORTH
    if own is other:
        return FaceRole.TREE if own is WhatAmI.ROUTER else FaceRole.BESIDE
    return FaceRole.NORTH if other is WhatAmI.ROUTER else FaceRole.SOUTH


def group(own: WhatAmI, other: WhatAmI, is_gateway: bool = False) -> str | None:
    """Return the group of a face, or None if it is a group of its own."""
    if role_of(own, other, is_gateway) is not FaceRole.SOUTH:
        return UP
    return PEERS if other is WhatAmI.PEER else None
