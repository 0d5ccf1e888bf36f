# SPDX-License-Identifier: Apache-2.0
"""Networks of several routers: the link state (OAM 1), and the trees that all other messages follow.

Every router knows the whole graph, and so the tree of every other router. A message from behind a router (sample, query,
declaration) follows only that router's tree. The NodeId of the message selects the tree, by the number (`psid`) that the
sender assigned to the router. So no message arrives twice, even in a topology with rings.

A message from a neighbour that is not the parent in its tree is dropped. Two routers with different graphs may lose a
sample, but do not create a loop. A declaration is stored instead for that neighbour (see `remote_router`): the neighbour
sends it only once, and may become the parent.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.peer_limits import Resource
from zenlake.errors import DecodeError
from zenlake.network import spanning_tree
from zenlake.network.face import DECLARATION, Face, weigh_key
from zenlake.network.keyexpr_tree import Walk, finish
from zenlake.network.remote_router import EMPTY_STATE, LocalRouter, RemoteRouter
from zenlake.network.roles import FaceRole
from zenlake.wire import linkstate, message_ids
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["LinkStateRouting"]

MAX_SN = 1 << 63  # of our own link state: later increments must fit into 64 bits too
NUMBERS = 1 << 16  # a NodeId has 16 bits
MAX_ROUTERS = 16_384
MAX_LINK_STATES = 1 << 18  # bytes of one message
ROUTER, LINK, PSID = 11_000, 120, 200  # bytes that are charged for a router, a link or locator, and a number
MAX_TREES = 64  # roots with a cached set of routers below this node
MAX_UNSLICED = 64  # routers whose trees are computed without slices
MAX_UNREACHABLE = 1024
CONVERGENCE_SECONDS = 10.0  # without a change, after which connected routers know the same graph


class LinkStateRouting:
    """The graph of routers as known to this node. Guarded by the node's lock."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.own = LocalRouter(node.zid)
        self.by_zid: dict[bytes, RemoteRouter] = {node.zid: self.own}
        self.neighbours: dict[bytes, Face] = {}
        self._unreachable: dict[bytes, RemoteRouter] = {}
        """Routers that became unreachable recently. If only this node lost them, no neighbour announces them again."""
        self._convergence_deadline: float | None = None
        self._edges: spanning_tree.Edges = {}
        self._trees: dict[RemoteRouter, dict[bytes, Face]] = {}
        """Routers below this node, for the most recently used roots."""
        self._psids = {self.own.psid}
        self._last_psid = 0
        self.own.find_next_hops = self._find_next_hops
        self._is_computing = False
        """Whether a job is computing the trees."""
        self._needs_computation = False
        """Whether the graph has changed since the trees were computed."""
        self.on_earlier_deadline: Callable[[float], None] = lambda deadline: None
        """Callback for a deadline that may be the earliest."""

    # Trees of messages

    def find_router(self, face: Face, node_id: int) -> RemoteRouter | None:
        """Return the router that a neighbour's number stands for, or None. It may be unreachable."""
        zid = face.psids.get(node_id, face.zid if node_id == 0 else None)
        return None if zid is None else self.by_zid.get(zid) or self._unreachable.get(zid)

    def find_root(self, source: Face, node_id: int) -> RemoteRouter | None:
        """Return the root of the tree that a message follows, or None if the sender is not the parent in it."""
        if source.role is not FaceRole.TREE:
            return self.own
        root = self.find_router(source, node_id)
        if root is None or root.parent is not source:
            self.node.counters["messages outside their tree"] += 1
            return None
        return root

    def is_elected(self, source: Face, root: RemoteRouter, target: Face) -> bool:
        """Return whether this node forwards between a peer and a face behind other routers.

        A peer may be connected to several routers. It exchanges messages with these directly. Between the peer and all other
        routers, the router with the greatest id forwards.
        """
        if isinstance(target, RemoteRouter):
            peer, other = source, target
        elif source.role is FaceRole.TREE:
            peer, other = target, root
        else:
            return True
        if not peer.gateways:
            return True
        own = self.node.zid
        greatest = max((zid for zid in peer.gateways if zid in self.by_zid), default=own)
        return other.zid not in peer.gateways and greatest <= own

    # New and closed neighbours

    def add_face(self, face: Face) -> None:
        self.neighbours[face.zid] = face
        is_known = face.zid in self.by_zid
        neighbour = self._get_router(face.zid)
        neighbour.previous_state = EMPTY_STATE  # it sends its own link state, perhaps after a restart
        self.own.links[face.zid] = 0
        self.own.sn += 1
        changed: list[RemoteRouter] = [self.own] if is_known else [neighbour, self.own]
        for other in self.neighbours.values():
            self._send(other, list(self.by_zid.values()) if other is face else changed)
        self._compute_trees()

    def remove_face(self, face: Face) -> None:
        if self.neighbours.get(face.zid) is not face:
            return
        del self.neighbours[face.zid], self.own.links[face.zid]
        self._trees.clear()
        for router in (*self.by_zid.values(), *self._unreachable.values()):
            router.declarations_by_face.pop(face, None)
            router.former_children.pop(face, None)
            router.children = tuple(child for child in router.children if child is not face)
            if router.parent is face:
                router.parent = None
            if router.charged_face is face:
                router.charged_face = None
        self.own.sn += 1
        self._remove_unreachable()
        self._send_to_all([self.own])
        self._compute_trees()

    def update_locators(self) -> None:
        """Send changed locators to the neighbours."""
        self.own.sn += 1
        self._send_to_all([self.own])

    def _get_router(self, zid: bytes) -> RemoteRouter:
        router = self.by_zid.get(zid)
        if router is None:
            while self._last_psid in self._psids:
                self._last_psid = (self._last_psid + 1) % NUMBERS
            router = self.by_zid[zid] = self._unreachable.pop(zid) if zid in self._unreachable else RemoteRouter(zid)
            router.psid = self._last_psid
            router.find_next_hops = self._find_next_hops
            self._psids.add(router.psid)
        return router

    # The link state

    def _build_entry(self, router: RemoteRouter) -> LinkState:
        links = tuple(self.by_zid[zid].psid for zid in router.links if zid in self.by_zid)
        weights = tuple(weight for zid, weight in router.links.items() if zid in self.by_zid)
        locators = router.locators if router.zid in self.neighbours else None
        if router is self.own:
            locators = self.node.gossip.locators
        zid = ZenohId.from_wire(router.zid)
        return LinkState(
            router.psid, router.sn, zid, WhatAmI.ROUTER, locators, links, weights if any(weights) else None,
            *router.marks,
        )  # fmt: skip

    def _send(self, face: Face, routers: list[RemoteRouter]) -> None:
        if routers:
            body = linkstate.encode(self._build_entry(router) for router in routers)
            face.control(Oam(id=linkstate.OAM_ID, qos=message_ids.QOS_CONTROL, body=body).encode())

    def _send_to_all(self, routers: list[RemoteRouter]) -> None:
        for face in self.neighbours.values():
            self._send(face, routers)

    def receive(self, face: Face, body: bytes) -> None:
        """Handle the link states of a neighbour."""
        if len(body) > MAX_LINK_STATES:
            self.node.counters["link states over their limit"] += 1
            return
        try:
            entries = linkstate.decode(body)
        except DecodeError:
            self.node.counters["invalid link states"] += 1
            return
        for entry in entries:
            if entry.zid is None:
                continue
            if entry.psid not in face.psids and not face.charge(Resource.LINK_STATES, PSID):
                return
            face.psids[entry.psid] = entry.zid.to_wire()
        new: dict[RemoteRouter, None] = {}  # routers for which a neighbour has no number of ours
        changed: dict[RemoteRouter, None] = {}
        for entry in entries:
            zid = face.psids.get(entry.psid)
            if zid is None:
                self.node.counters["link states of unknown nodes"] += 1
            elif zid == self.node.zid:
                if entry.sn > MAX_SN:
                    self.node.counters["invalid link states"] += 1
                elif entry.sn > self.own.sn:  # sent before a restart of this node
                    self.own.sn = entry.sn + 1
                    changed[self.own] = None
            else:
                self._update(face, zid, entry, new, changed)
        self._restore(new)
        self._remove_unreachable()
        new_routers = [router for router in new if router.zid in self.by_zid]
        changed_routers = [router for router in changed if router.zid in self.by_zid and router not in new]
        # All entries are in one message. Otherwise the neighbour may consider some routers unreachable.
        for other in self.neighbours.values():
            if other is face:
                self._send(other, new_routers + [router for router in changed_routers if router is self.own])
            else:
                self._send(other, new_routers + [router for router in changed_routers if router.zid != other.zid])
        self._compute_trees()

    def _update(
        self, face: Face, zid: bytes, entry: LinkState, new: dict[RemoteRouter, None], changed: dict[RemoteRouter, None]
    ) -> None:
        is_new = zid not in self.by_zid
        if is_new and len(self.by_zid) >= MAX_ROUTERS:
            self.node.counters["link states over their limit"] += 1
            return
        router = self._get_router(zid)
        if is_new:
            new[router] = None
        elif entry.sn <= router.sn:
            return
        if entry.sn < router.previous_state.sn:  # a newer version was known before it became unreachable
            return
        (changed if router.sn else new)[router] = None
        router.sn, router.previous_state = entry.sn, EMPTY_STATE
        router.marks = entry.marks
        if entry.locators is not None:
            router.locators = entry.locators
        router.links = {}
        for psid, weight in zip(entry.links, entry.weights or (0,) * len(entry.links), strict=True):
            other = face.psids.get(psid)
            if other is None:
                self.node.counters["link states of unknown nodes"] += 1
                continue
            if other not in self.by_zid:
                if len(self.by_zid) >= MAX_ROUTERS:
                    self.node.counters["link states over their limit"] += 1
                    continue
                new[self._get_router(other)] = None
                if not self._charge(face, self.by_zid[other]):
                    return
            router.links[other] = weight
        self._charge(face, router)

    @staticmethod
    def _charge(face: Face, router: RemoteRouter) -> bool:
        """Charge a router to the neighbour that announced it last. At its limit, the neighbour is closed."""
        size = ROUTER + LINK * len(router.links) + sum(LINK + len(locator) for locator in router.locators or ())
        if router.charged_face is face and router.charged_size == size:
            return True  # a newer state of the same size, as most are
        if router.charged_face is not None:
            router.charged_face.refund(Resource.LINK_STATES, router.charged_size)
        router.charged_face = None
        router.charged_size = size
        if not face.charge(Resource.LINK_STATES, router.charged_size):
            return False
        router.charged_face = face
        return True

    def _restore(self, new: dict[RemoteRouter, None]) -> None:
        """Restore the previous link state of routers that are only mentioned by others.

        A neighbour that never lost such a router has no newer link state of it to send.
        """
        unknown = [router for router in new if not router.sn]
        while unknown:
            router = unknown.pop()
            router.sn, router.links, router.locators, router.marks = router.previous_state
            router.previous_state = EMPTY_STATE
            for zid in router.links:
                if zid not in self.by_zid and len(self.by_zid) < MAX_ROUTERS:
                    other = self._get_router(zid)
                    new[other] = None
                    unknown.append(other)

    def _remove_unreachable(self) -> None:
        """Remove unreachable routers and the declarations behind them."""
        reachable = spanning_tree.find_reachable(
            {zid: router.links for zid, router in self.by_zid.items()}, self.node.zid
        )
        for zid in self.by_zid.keys() - reachable:
            router = self._unreachable[zid] = self.by_zid.pop(zid)
            self._psids.discard(router.psid)
            self._trees.pop(router, None)
            if router.charged_face is not None:
                router.charged_face.refund(Resource.LINK_STATES, router.charged_size)
                router.charged_face = None
            router.mark_unreachable()
            self.node.jobs.start(router, self.node.declarations.forget(router), suspend=False)
            self._restart_convergence()
        while len(self._unreachable) > MAX_UNREACHABLE:
            self._unreachable.pop(next(iter(self._unreachable))).forget_stale_declarations()

    # The trees

    def _find_next_hops(self, root: RemoteRouter) -> dict[bytes, Face]:
        """Return, for each router that receives a root through this node, the neighbour to forward to."""
        next_hops = self._trees.get(root)
        if next_hops is None:
            if len(self._trees) >= MAX_TREES:
                del self._trees[next(iter(self._trees))]
            tree = spanning_tree.find_position(
                spanning_tree.find_shortest_paths(self._edges, root.zid)[1], self.node.zid
            )
            next_hops = {
                zid: self.neighbours[child] for zid, child in tree.next_hops.items() if child in self.neighbours
            }
            self._trees[root] = next_hops
        return next_hops

    def _compute_trees(self) -> None:
        """Compute our position in every tree, immediately if the graph is small. New children receive all declarations."""
        self._needs_computation = True
        if self._is_computing:
            return
        if len(self.by_zid) <= MAX_UNSLICED:
            finish(self._walk_trees())
        else:
            self._is_computing = True
            self.node.jobs.start(self.own, self._walk_trees())

    def _walk_trees(self) -> Walk[None]:
        """Compute our position in every tree, in slices. Repeat until the graph did not change meanwhile.

        Paths are symmetric. So the parent in the tree of a root is our first hop towards that root. A neighbour is our child in
        a tree if we are its first hop towards the root.
        """
        try:
            while self._needs_computation:
                self._needs_computation = False
                yield from self._walk_positions()
        finally:
            self._is_computing = False

    def _walk_positions(self) -> Walk[None]:
        edges = yield from spanning_tree.walk_edges({zid: dict(router.links) for zid, router in self.by_zid.items()})
        if edges == self._edges:
            return
        own = self.node.zid
        distances, predecessors = yield from spanning_tree.walk_shortest(edges, own)
        parents = spanning_tree.find_position(predecessors, own).next_hops
        children: dict[bytes, list[Face]] = {own: []}
        for zid, face in list(self.neighbours.items()):
            _, predecessors = yield from spanning_tree.walk_shortest(edges, zid)
            if predecessors.get(own) == zid:
                children[own].append(face)
                for root in spanning_tree.find_position(predecessors, own).next_hops:
                    children.setdefault(root, []).append(face)
        self._edges = edges
        self._trees.clear()
        self.node.declarations.epoch.number += 1
        for router in list(self.by_zid.values()):
            yield
            if router.zid not in self.by_zid:
                continue
            router.distance = distances.get(router.zid, 0.0)
            parent = self.neighbours.get(parents.get(router.zid, b""))
            router.set_position(parent, tuple(face for face in children.get(router.zid, ()) if face.is_open))
            for (kind, key), info in list(router.parent_declarations.items()):
                self._add_declaration(router, kind, key, info)
        self.node.declarations.epoch.number += 1
        self._restart_convergence()

    # Time

    def _restart_convergence(self) -> None:
        self._convergence_deadline = self.node.now() + CONVERGENCE_SECONDS
        self.on_earlier_deadline(self._convergence_deadline)

    def next_timeout(self) -> float | None:
        return self._convergence_deadline

    def on_timeout(self, now: float) -> None:
        """Complete the convergence: withdraw declarations that the parent in a tree has not sent by now."""
        if self._convergence_deadline is None or now < self._convergence_deadline:
            return
        self._convergence_deadline = None
        for router in self._unreachable.values():
            router.forget_stale_declarations()
        self._unreachable.clear()
        for root in self.by_zid.values():
            root.forget_stale_declarations()
            if root is not self.own:
                for kind, key in root.valid_declarations.keys() - root.parent_declarations.keys():
                    self._remove_declaration(root, kind, key)

    # Declarations behind other routers

    def declare(self, face: Face, node_id: int, kind: int, key: bytes, info: int) -> None:
        root = self.find_router(face, node_id)
        if root is None:
            self.node.counters["declarations of unknown routers"] += 1
            return
        if root is self.own:
            return
        declarations = root.declarations_by_face.setdefault(face, {})
        if (kind, key) not in declarations and not face.charge(Resource.DECLARATIONS, DECLARATION + weigh_key(key)):
            return
        declarations[kind, key] = info
        if face is root.parent:
            self._add_declaration(root, kind, key, info)

    def undeclare(self, face: Face, node_id: int, kind: int, key: bytes) -> None:
        root = self.find_router(face, node_id)
        if root is None or root is self.own:
            return
        if root.declarations_by_face.get(face, {}).pop((kind, key), None) is not None:
            face.refund(Resource.DECLARATIONS, DECLARATION + weigh_key(key))
        if face is root.parent or not any(
            (kind, key) in declarations for declarations in root.declarations_by_face.values()
        ):
            self._remove_declaration(root, kind, key)

    def _add_declaration(self, root: RemoteRouter, kind: int, key: bytes, info: int) -> None:
        """Add a declaration. Our children in that tree receive it if it is new."""
        id, previous = root.valid_declarations.get((kind, key), (0, None))
        if previous != info:
            id = id or root.next_id()
            root.valid_declarations[kind, key] = id, info
            self.node.declarations.declare(root, kind, id, key, info)
            root.forward_declaration(kind, key, info)

    def _remove_declaration(self, root: RemoteRouter, kind: int, key: bytes) -> None:
        """Remove a declaration, if known."""
        removed = root.valid_declarations.pop((kind, key), None)
        if removed is not None:
            self.node.declarations.undeclare(root, kind, removed[0])
            root.forward_declaration(kind, key, None)
