# SPDX-License-Identifier: Apache-2.0
"""Roles: what a client, a peer and a router do differently. Where the other end of a face stands decides all of it.

    north    above us: we tell it what we have, and ask it for what we want to know of
    beside   our equal: each tells the other everything, nobody asks
    tree     a router, and so are we: what is behind each router is told along that router's tree (see `routers`)
    south    below us: it tells us everything, and is told what it asks for

A message passes between two faces of different groups. Peers are connected with each other, so those south of a router
are one group: a real router passes nothing between them either. What stands north of or beside us is one group too, and
so are all routers: what passes between these follows the trees.
"""

from enum import Enum

from zenlake.values import WhatAmI

__all__ = ["Stand", "group", "stand"]


class Stand(Enum):
    NORTH = "north"
    BESIDE = "beside"
    TREE = "tree"
    SOUTH = "south"


UP = "up"
PEERS = "peers"


def stand(own: WhatAmI, other: WhatAmI, is_gateway: bool = False) -> Stand:
    """Where the other stands, seen from us. `is_gateway`: in OPEN it placed us south of itself (since 1.9)."""
    if own is WhatAmI.CLIENT or (own is WhatAmI.PEER and is_gateway):
        return Stand.NORTH
    if own is other:
        return Stand.TREE if own is WhatAmI.ROUTER else Stand.BESIDE
    return Stand.NORTH if other is WhatAmI.ROUTER else Stand.SOUTH


def group(own: WhatAmI, other: WhatAmI, is_gateway: bool = False) -> str | None:
    """The group of a face; None if it is one of its own."""
    if stand(own, other, is_gateway) is not Stand.SOUTH:
        return UP
    return PEERS if other is WhatAmI.PEER else None
