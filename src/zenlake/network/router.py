# SPDX-License-Identifier: Apache-2.0
"""One router of the graph: what it said of itself, what is behind it, and our place in its tree.

Each router, near or far, is a holder of declarations like a face; it is never sent to: `below` tells through which
neighbour. Ours is one too: it is told, as one neighbour, all that is not behind other routers, and passes it down.

A declaration is said once, by the parent in a tree to its children; who the parent is, two routers may think differently
while links come and go. So, until the graph is settled, what each neighbour said is kept, whether it is the parent or not.
What the parent said holds; what only an earlier parent said does too until then, so that a change of trees alone takes
nothing back. Then also children that left and came back are told what was taken back meanwhile. So each has what its
parent has, and by that all have what the root has.
"""

from collections.abc import Callable
from typing import NamedTuple

from zenlake.limits import Resource
from zenlake.network.face import DECLARATION, Face, Outlet, weigh_key
from zenlake.network.roles import Stand
from zenlake.values import WhatAmI

__all__ = ["NOTHING", "Own", "Router"]

What = tuple[int, bytes]
"""A kind of declaration, and its key."""


class State(NamedTuple):
    """What a router said of itself."""

    sn: int
    links: dict[bytes, int]
    locators: tuple[str, ...] | None
    marks: tuple[bool, int]
    """The options of its link state that have no field. Gateways of a region find each other by them."""


NO_MARKS = (False, 0)
NOTHING = State(0, {}, None, NO_MARKS)


class Router(Face):
    """A router of the graph. Guarded by the node's lock.

    Its memory is charged to the neighbours that speak of it.
    """

    def charge(self, resource: Resource, size: int) -> bool:
        return True

    def refund(self, resource: Resource, size: int) -> None:
        """Nothing was charged."""

    def __init__(self, zid: bytes) -> None:
        super().__init__(Outlet(), zid, WhatAmI.ROUTER, WhatAmI.ROUTER)
        self.psid = 0
        """Our number for it."""
        self.sn = 0
        """The version of what it said; 0: only others spoke of it."""
        self.links: dict[bytes, int] = {}
        self.locators: tuple[str, ...] | None = None
        self.marks = NO_MARKS
        self.before = NOTHING
        """The same, as it was when we lost sight of it."""
        self.has: dict[What, tuple[int, int]] = {}
        """Of each kind and key declared behind it: the id in our tables, and what was said about it."""
        self.heard: dict[Face, dict[What, int]] = {}
        """The same, as each neighbour said."""
        self.left: dict[Face, set[What]] = {}
        """What was told to those who were no longer our children then."""
        self.parent: Face | None = None
        self.children: tuple[Face, ...] = ()
        self.find_below: Callable[[Router], dict[bytes, Face]] = lambda root: {}
        self.distance = 0.0
        self.payer: Face | None = None
        """The neighbour whose account is charged for it."""
        self.paid = 0

    @property
    def below(self) -> dict[bytes, Face]:
        """For each router that hears it through us: the neighbour that we pass it on to."""
        return self.find_below(self)

    @property
    def said(self) -> dict[What, int]:
        """What the parent in its tree says."""
        return {} if self.parent is None else self.heard.get(self.parent, {})

    def stand_between(self, parent: Face | None, children: tuple[Face, ...]) -> None:
        """Take a new place in its tree: tell new children what they are to know."""
        had, self.children = self.children, children
        self.parent = parent
        for child in had:
            if child not in self.children and child.is_open:
                self.left[child] = self.left.get(child, set()) | self.has.keys()
        for child in self.children:
            if child not in had:
                for (kind, key), (_, info) in self.has.items():
                    self.tell(child, kind, key, info)

    def lose(self) -> None:
        """It is out of sight: for us nothing is behind it. Neighbours that still see it may go on telling."""
        self.before = State(self.sn, self.links, self.locators, self.marks)
        self.sn, self.links, self.locators, self.marks = NOTHING._replace(links={})
        self.stand_between(None, ())
        self.has.clear()

    def settle(self) -> None:
        """All know the same graph: who is not the parent will tell everything again before it is, and so will we."""
        for face, said in self.heard.items():
            if face is not self.parent:
                face.refund(Resource.DECLARATIONS, sum(DECLARATION + weigh_key(key) for _, key in said))
        self.heard = {face: said for face, said in self.heard.items() if face is self.parent}
        for child in self.children:
            for kind, key in self.left.get(child, set()) - self.has.keys():
                self.tell(child, kind, key, None)
        self.left.clear()

    def pass_on(self, kind: int, key: bytes, info: int | None) -> None:
        """Tell our children in its tree; None: that it is no more."""
        for child in self.children:
            self.tell(child, kind, key, info)

    def tell(self, child: Face, kind: int, key: bytes, info: int | None) -> None:
        """Between routers there are no ids: the key says which it is."""
        if info is None:
            child.undeclare(kind, 0, key, self.psid)
        else:
            child.declare(kind, 0, key, info, node_id=self.psid)


class Own(Router):
    """Ours: told of all that is not behind other routers."""

    def __init__(self, zid: bytes) -> None:
        super().__init__(zid)
        self.sn = 1
        self.stand = Stand.BESIDE

    def declare(
        self, kind: int, id: int, key: bytes, info: int, interest_id: int | None = None, node_id: int = 0
    ) -> None:  # fmt: skip
        self.has[kind, key] = id, info
        self.pass_on(kind, key, info)

    def undeclare(self, kind: int, id: int, key: bytes, node_id: int = 0) -> None:
        del self.has[kind, key]
        self.pass_on(kind, key, None)
