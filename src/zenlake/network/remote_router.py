# SPDX-License-Identifier: Apache-2.0
"""One router of the graph: its link state, the declarations behind it, and our position in its tree.

Each router, near or far, holds declarations like a face. Messages are not sent to it directly: `next_hops` contains the neighbour
to use. This node has a `RemoteRouter` too. It receives all declarations that are not behind other routers, as one
neighbour, and passes them down its tree.

A parent in a tree sends a declaration once to its children. While links change, two routers may disagree on the parent. So,
until the graph has converged, the declarations of each neighbour are stored, also if it is not the parent. Declarations of
the parent are valid. Declarations that only an earlier parent sent remain valid until then, so that a change of the trees
alone withdraws nothing. After convergence, children that left and returned also receive the withdrawals that they missed. So
each router has the declarations of its parent, and by induction those of the root.
"""

from collections.abc import Callable
from typing import NamedTuple

from zenlake.core.enums import WhatAmI
from zenlake.core.peer_limits import Resource
from zenlake.network.face import DECLARATION, Face, TxHandle, weigh_key
from zenlake.network.roles import FaceRole

__all__ = ["EMPTY_STATE", "LocalRouter", "RemoteRouter"]

DeclarationKey = tuple[int, bytes]
"""Kind of a declaration, and its key."""


class RouterState(NamedTuple):
    """Link state of a router."""

    sn: int
    links: dict[bytes, int]
    locators: tuple[str, ...] | None
    marks: tuple[bool, int]
    """Options of its link state that have no field. Gateways of a region use them to find each other."""


NO_MARKS = (False, 0)
EMPTY_STATE = RouterState(0, {}, None, NO_MARKS)


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
        self.previous_state = EMPTY_STATE
        """Its link state when it became unreachable."""
        self.valid_declarations: dict[DeclarationKey, tuple[int, int]] = {}
        """For each kind and key declared behind it: the id in our tables, and the info."""
        self.declarations_by_face: dict[Face, dict[DeclarationKey, int]] = {}
        """Declarations behind it, as sent by each neighbour."""
        self.former_children: dict[Face, set[DeclarationKey]] = {}
        """Declarations that former children received before they left."""
        self.parent: Face | None = None
        self.children: tuple[Face, ...] = ()
        self.find_next_hops: Callable[[RemoteRouter], dict[bytes, Face]] = lambda root: {}
        self.distance = 0.0
        self.charged_face: Face | None = None
        """Neighbour whose account is charged for it."""
        self.charged_size = 0

    @property
    def next_hops(self) -> dict[bytes, Face]:
        """For each router that receives it through this node: the neighbour to forward to."""
        return self.find_next_hops(self)

    @property
    def parent_declarations(self) -> dict[DeclarationKey, int]:
        """Declarations sent by the parent in its tree."""
        return {} if self.parent is None else self.declarations_by_face.get(self.parent, {})

    def set_position(self, parent: Face | None, children: tuple[Face, ...]) -> None:
        """Set the position of this node in its tree. New children receive all declarations."""
        former, self.children = self.children, children
        self.parent = parent
        for child in former:
            if child not in self.children and child.is_open:
                self.former_children[child] = self.former_children.get(child, set()) | self.valid_declarations.keys()
        for child in self.children:
            if child not in former:
                for (kind, key), (_, info) in self.valid_declarations.items():
                    self.send_to_child(child, kind, key, info)

    def mark_unreachable(self) -> None:
        """Remove its state, because it is unreachable. Neighbours that still reach it may send more declarations."""
        self.previous_state = RouterState(self.sn, self.links, self.locators, self.marks)
        self.sn, self.links, self.locators, self.marks = EMPTY_STATE._replace(links={})
        self.set_position(None, ())
        self.valid_declarations.clear()

    def forget_stale_declarations(self) -> None:
        """Forget the declarations of neighbours that are not the parent, after all routers have the same graph.

        A later parent sends all declarations again, and so does this node.
        """
        for face, declarations in self.declarations_by_face.items():
            if face is not self.parent:
                face.refund(Resource.DECLARATIONS, sum(DECLARATION + weigh_key(key) for _, key in declarations))
        self.declarations_by_face = {
            face: declarations for face, declarations in self.declarations_by_face.items() if face is self.parent
        }
        for child in self.children:
            for kind, key in self.former_children.get(child, set()) - self.valid_declarations.keys():
                self.send_to_child(child, kind, key, None)
        self.former_children.clear()

    def forward_declaration(self, kind: int, key: bytes, info: int | None) -> None:
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
        self.role = FaceRole.BESIDE

    def declare(
        self, kind: int, id: int, key: bytes, info: int, interest_id: int | None = None, node_id: int = 0
    ) -> None:  # fmt: skip
        self.valid_declarations[kind, key] = id, info
        self.forward_declaration(kind, key, info)

    def undeclare(self, kind: int, id: int, key: bytes, node_id: int = 0) -> None:
        del self.valid_declarations[kind, key]
        self.forward_declaration(kind, key, None)
