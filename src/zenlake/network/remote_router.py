# SPDX-License-Identifier: Apache-2.0
"""One router of the graph: its link state, the declarations behind it, and our position in its tree.

Each router, near or far, holds declarations like a face. Messages are not sent to it directly: `below` contains the neighbour
to use. This node has a `RemoteRouter` too. It receives all declarations that are not behind other routers, as one
neighbour, and passes them down its tree.

A parent in a tree sends a declaration once to its children. While links change, two routers may disagree on the parent. So,
until the graph is settled, the declarations of each neighbour are stored, also if it is not the parent. Declarations of
the parent are valid. Declarations that only an earlier parent sent remain valid until then, so that a change of the trees
alone withdraws nothing. After settling, children that left and returned also receive the withdrawals of the meantime. So
each router has the declarations of its parent, and by induction those of the root.
"""

from collections.abc import Callable
from typing import NamedTuple

from zenlake.core.enums import WhatAmI
from zenlake.core.limits import Resource
from zenlake.network.face import DECLARATION, Face, TxHandle, weigh_key
from zenlake.network.roles import FaceRole

__all__ = ["NOTHING", "LocalRouter", "RemoteRouter"]

What = tuple[int, bytes]
"""Kind of a declaration, and its key."""


class RouterState(NamedTuple):
    """Link state of a router."""

    sn: int
    links: dict[bytes, int]
    locators: tuple[str, ...] | None
    marks: tuple[bool, int]
    """Options of its link state that have no field. Gateways of a region use them to find each other."""


NO_MARKS = (False, 0)
NOTHING = RouterState(0, {}, None, NO_MARKS)


class RemoteRouter(Face):
    """A router of the graph. Guarded by the node's lock.

    Its memory is charged to the neighbours that announce it.
    """

    def charge(self, resource: Resource, size: int) -> bool:
        return True

    def refund(self, resource: Resource, size: int) -> None:
        """Do nothing: nothing was charged."""

    def __init__(self, zid: bytes) -> None:
        super().__init__(TxHandle(), zid, WhatAmI.ROUTER, WhatAmI.ROUTER)
        self.psid = 0
        """Number that this node assigned to it."""
        self.sn = 0
        """Version of its link state; 0 if only other routers mentioned it."""
        self.links: dict[bytes, int] = {}
        self.locators: tuple[str, ...] | None = None
        self.marks = NO_MARKS
        self.before = NOTHING
        """Its link state when it became unreachable."""
        self.has: dict[What, tuple[int, int]] = {}
        """For each kind and key declared behind it: the id in our tables, and the info."""
        self.heard: dict[Face, dict[What, int]] = {}
        """Declarations behind it, as sent by each neighbour."""
        self.left: dict[Face, set[What]] = {}
        """Declarations that former children received before they left."""
        self.parent: Face | None = None
        self.children: tuple[Face, ...] = ()
        self.find_below: Callable[[RemoteRouter], dict[bytes, Face]] = lambda root: {}
        self.distance = 0.0
        self.payer: Face | None = None
        """Neighbour whose account is charged for it."""
        self.paid = 0

    @property
    def below(self) -> dict[bytes, Face]:
        """For each router that receives it through this node: the neighbour to forward to."""
        return self.find_below(self)

    @property
    def said(self) -> dict[What, int]:
        """Declarations sent by the parent in its tree."""
        return {} if self.parent is None else self.heard.get(self.parent, {})

    def stand_between(self, parent: Face | None, children: tuple[Face, ...]) -> None:
        """Set the position of this node in its tree. New children receive all declarations."""
        had, self.children = self.children, children
        self.parent = parent
        for child in had:
            if child not in self.children and child.is_open:
                self.left[child] = self.left.get(child, set()) | self.has.keys()
        for child in self.children:
            if child not in had:
                for (kind, key), (_, info) in self.has.items():
                    self.send_to_child(child, kind, key, info)

    def lose(self) -> None:
        """Remove its state, because it is unreachable. Neighbours that still reach it may send more declarations."""
        self.before = RouterState(self.sn, self.links, self.locators, self.marks)
        self.sn, self.links, self.locators, self.marks = NOTHING._replace(links={})
        self.stand_between(None, ())
        self.has.clear()

    def settle(self) -> None:
        """Forget the declarations of neighbours that are not the parent, after all routers have the same graph.

        A later parent sends all declarations again, and so does this node.
        """
        for face, said in self.heard.items():
            if face is not self.parent:
                face.refund(Resource.DECLARATIONS, sum(DECLARATION + weigh_key(key) for _, key in said))
        self.heard = {face: said for face, said in self.heard.items() if face is self.parent}
        for child in self.children:
            for kind, key in self.left.get(child, set()) - self.has.keys():
                self.send_to_child(child, kind, key, None)
        self.left.clear()

    def pass_on(self, kind: int, key: bytes, info: int | None) -> None:
        """Send a declaration to our children in its tree. With `info` None, withdraw it."""
        for child in self.children:
            self.send_to_child(child, kind, key, info)

    def send_to_child(self, child: Face, kind: int, key: bytes, info: int | None) -> None:
        """Send a declaration to a child. Between routers the key identifies it, without an id."""
        if info is None:
            child.undeclare(kind, 0, key, self.psid)
        else:
            child.declare(kind, 0, key, info, node_id=self.psid)


class LocalRouter(RemoteRouter):
    """The router of this node. It receives all declarations that are not behind other routers."""

    def __init__(self, zid: bytes) -> None:
        super().__init__(zid)
        self.sn = 1
        self.stand = FaceRole.BESIDE

    def declare(
        self, kind: int, id: int, key: bytes, info: int, interest_id: int | None = None, node_id: int = 0
    ) -> None:  # fmt: skip
        self.has[kind, key] = id, info
        self.pass_on(kind, key, info)

    def undeclare(self, kind: int, id: int, key: bytes, node_id: int = 0) -> None:
        del self.has[kind, key]
        self.pass_on(kind, key, None)
