# SPDX-License-Identifier: Apache-2.0
"""Networks of several routers: the link state (OAM 1), and the trees that all other messages follow.

Every router knows the whole graph, and so the tree of every other router. A message from behind a router (sample, query,
declaration) follows only that router's tree. The NodeId of the message selects the tree, by the number (`psid`) that the
sender assigned to the router. So no message arrives twice, in any topology with rings.

A message from a neighbour that is not the parent in its tree is dropped. Two routers with different graphs may lose a
sample, but do not create a loop. A declaration is stored instead for that neighbour (see `router`): the neighbour
sends it only once, and may become the parent.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.limits import Resource
from zenlake.errors import DecodeError
from zenlake.network import spanning_tree
from zenlake.network.face import CONTROL_QOS, DECLARATION, Face, weigh_key
from zenlake.network.keyexpr_tree import Walk, finish
from zenlake.network.remote_router import NOTHING, LocalRouter, RemoteRouter
from zenlake.network.roles import FaceRole
from zenlake.wire import linkstate
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
MAX_AT_ONCE = 64  # routers whose trees are computed without slices
MAX_GONE = 1024
SETTLED = 10.0  # seconds without a change, after which connected routers know the same graph


class LinkStateRouting:
    """The graph of routers as known to this node. Guarded by the node's lock."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.own = LocalRouter(node.zid)
        self.known: dict[bytes, RemoteRouter] = {node.zid: self.own}
        self.neighbours: dict[bytes, Face] = {}
        self._gone: dict[bytes, RemoteRouter] = {}
        """Routers that became unreachable recently. If only this node lost them, no neighbour announces them again."""
        self._settled_at: float | None = None
        self._edges: spanning_tree.Edges = {}
        self._trees: dict[RemoteRouter, dict[bytes, Face]] = {}
        """Routers below this node, for the most recently used roots."""
        self._psids = {self.own.psid}
        self._last_psid = 0
        self.own.find_below = self._below
        self._grows = False
        """Whether a job is computing the trees."""
        self._is_stale = False
        """Whether the graph has changed since the trees were computed."""
        self.sooner: Callable[[float], None] = lambda deadline: None
        """Callback for a deadline that may be the earliest."""

    # Trees of messages

    def of(self, face: Face, node_id: int) -> RemoteRouter | None:
        """Return the router that a neighbour's number stands for, or None. It may be unreachable."""
        zid = face.psids.get(node_id, face.zid if node_id == 0 else None)
        return None if zid is None else self.known.get(zid) or self._gone.get(zid)

    def root(self, source: Face, node_id: int) -> RemoteRouter | None:
        """Return the root of the tree that a message follows, or None if the sender is not the parent in it."""
        if source.stand is not FaceRole.TREE:
            return self.own
        root = self.of(source, node_id)
        if root is None or root.parent is not source:
            self.node.counters["messages outside their tree"] += 1
            return None
        return root

    def elected(self, source: Face, root: RemoteRouter, target: Face) -> bool:
        """Return whether this node forwards between a peer and a face behind other routers.

        A peer may be connected to several routers. It exchanges messages with these directly. Between the peer and all other
        routers, the router with the greatest id forwards.
        """
        if isinstance(target, RemoteRouter):
            peer, other = source, target
        elif source.stand is FaceRole.TREE:
            peer, other = target, root
        else:
            return True
        if not peer.gateways:
            return True
        own = self.node.zid
        greatest = max((zid for zid in peer.gateways if zid in self.known), default=own)
        return other.zid not in peer.gateways and greatest <= own

    # New and closed neighbours

    def opened(self, face: Face) -> None:
        self.neighbours[face.zid] = face
        known = face.zid in self.known
        neighbour = self._number(face.zid)
        neighbour.before = NOTHING  # it sends its own link state, perhaps after a restart
        self.own.links[face.zid] = 0
        self.own.sn += 1
        changed: list[RemoteRouter] = [self.own] if known else [neighbour, self.own]
        for other in self.neighbours.values():
            self._tell(other, list(self.known.values()) if other is face else changed)
        self._grow()

    def closed(self, face: Face) -> None:
        if self.neighbours.get(face.zid) is not face:
            return
        del self.neighbours[face.zid], self.own.links[face.zid]
        self._trees.clear()
        for router in (*self.known.values(), *self._gone.values()):
            router.heard.pop(face, None)
            router.left.pop(face, None)
            router.children = tuple(child for child in router.children if child is not face)
            if router.parent is face:
                router.parent = None
            if router.payer is face:
                router.payer = None
        self.own.sn += 1
        self._prune()
        self._notify_all([self.own])
        self._grow()

    def listening(self) -> None:
        """Send changed locators to the neighbours."""
        self.own.sn += 1
        self._notify_all([self.own])

    def _number(self, zid: bytes) -> RemoteRouter:
        router = self.known.get(zid)
        if router is None:
            while self._last_psid in self._psids:
                self._last_psid = (self._last_psid + 1) % NUMBERS
            router = self.known[zid] = self._gone.pop(zid) if zid in self._gone else RemoteRouter(zid)
            router.psid = self._last_psid
            router.find_below = self._below
            self._psids.add(router.psid)
        return router

    # The link state

    def _entry(self, router: RemoteRouter) -> LinkState:
        links = tuple(self.known[zid].psid for zid in router.links if zid in self.known)
        weights = tuple(weight for zid, weight in router.links.items() if zid in self.known)
        locators = router.locators if router.zid in self.neighbours else None
        if router is self.own:
            locators = self.node.gossip.locators
        zid = ZenohId.from_wire(router.zid)
        return LinkState(
            router.psid, router.sn, zid, WhatAmI.ROUTER, locators, links, weights if any(weights) else None,
            *router.marks,
        )  # fmt: skip

    def _tell(self, face: Face, routers: list[RemoteRouter]) -> None:
        if routers:
            body = linkstate.encode(self._entry(router) for router in routers)
            face.control(Oam(id=linkstate.OAM_ID, qos=CONTROL_QOS, body=body).encode())

    def _notify_all(self, routers: list[RemoteRouter]) -> None:
        for face in self.neighbours.values():
            self._tell(face, routers)

    def heard(self, face: Face, body: bytes) -> None:
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
        self._remember(new)
        self._prune()
        told_new = [router for router in new if router.zid in self.known]
        told_changed = [router for router in changed if router.zid in self.known and router not in new]
        # All entries are in one message. Otherwise the neighbour may consider some routers unreachable.
        for other in self.neighbours.values():
            if other is face:
                self._tell(other, told_new + [router for router in told_changed if router is self.own])
            else:
                self._tell(other, told_new + [router for router in told_changed if router.zid != other.zid])
        self._grow()

    def _update(
        self, face: Face, zid: bytes, entry: LinkState, new: dict[RemoteRouter, None], changed: dict[RemoteRouter, None]
    ) -> None:
        is_new = zid not in self.known
        if is_new and len(self.known) >= MAX_ROUTERS:
            self.node.counters["link states over their limit"] += 1
            return
        router = self._number(zid)
        if is_new:
            new[router] = None
        elif entry.sn <= router.sn:
            return
        if entry.sn < router.before.sn:  # a newer version was known before it became unreachable
            return
        (changed if router.sn else new)[router] = None
        router.sn, router.before = entry.sn, NOTHING
        router.marks = entry.marks
        if entry.locators is not None:
            router.locators = entry.locators
        router.links = {}
        for psid, weight in zip(entry.links, entry.weights or (0,) * len(entry.links), strict=True):
            other = face.psids.get(psid)
            if other is None:
                self.node.counters["link states of unknown nodes"] += 1
                continue
            if other not in self.known:
                if len(self.known) >= MAX_ROUTERS:
                    self.node.counters["link states over their limit"] += 1
                    continue
                new[self._number(other)] = None
                if not self._pay(face, self.known[other]):
                    return
            router.links[other] = weight
        self._pay(face, router)

    @staticmethod
    def _pay(face: Face, router: RemoteRouter) -> bool:
        """Charge a router to the neighbour that announced it last. At its limit, the neighbour is closed."""
        if router.payer is not None:
            router.payer.refund(Resource.LINK_STATES, router.paid)
        router.payer = None
        router.paid = ROUTER + LINK * len(router.links) + sum(LINK + len(locator) for locator in router.locators or ())
        if not face.charge(Resource.LINK_STATES, router.paid):
            return False
        router.payer = face
        return True

    def _remember(self, new: dict[RemoteRouter, None]) -> None:
        """Restore the previous link state of routers that are only mentioned by others.

        A neighbour that never lost such a router has no newer link state of it to send.
        """
        unheard = [router for router in new if not router.sn]
        while unheard:
            router = unheard.pop()
            router.sn, router.links, router.locators, router.marks = router.before
            router.before = NOTHING
            for zid in router.links:
                if zid not in self.known and len(self.known) < MAX_ROUTERS:
                    other = self._number(zid)
                    new[other] = None
                    unheard.append(other)

    def _prune(self) -> None:
        """Remove unreachable routers and the declarations behind them."""
        reachable = spanning_tree.reachable({zid: router.links for zid, router in self.known.items()}, self.node.zid)
        for zid in self.known.keys() - reachable:
            router = self._gone[zid] = self.known.pop(zid)
            self._psids.discard(router.psid)
            self._trees.pop(router, None)
            if router.payer is not None:
                router.payer.refund(Resource.LINK_STATES, router.paid)
                router.payer = None
            router.lose()
            self.node.jobs.start(router, self.node.declarations.forget(router), suspend=False)
            self._unsettle()
        while len(self._gone) > MAX_GONE:
            self._gone.pop(next(iter(self._gone))).settle()

    # The trees

    def _below(self, root: RemoteRouter) -> dict[bytes, Face]:
        """Return, for each router that receives a root through this node, the neighbour to forward to."""
        below = self._trees.get(root)
        if below is None:
            if len(self._trees) >= MAX_TREES:
                del self._trees[next(iter(self._trees))]
            tree = spanning_tree.tree(spanning_tree.shortest(self._edges, root.zid)[1], self.node.zid)
            below = {zid: self.neighbours[child] for zid, child in tree.below.items() if child in self.neighbours}
            self._trees[root] = below
        return below

    def _grow(self) -> None:
        """Compute our position in every tree, immediately if the graph is small. New children receive all declarations."""
        self._is_stale = True
        if self._grows:
            return
        if len(self.known) <= MAX_AT_ONCE:
            finish(self._regrow())
        else:
            self._grows = True
            self.node.jobs.start(self.own, self._regrow())

    def _regrow(self) -> Walk[None]:
        """Compute our position in every tree, in slices. Repeat until the graph did not change meanwhile.

        Paths are symmetric. So the parent in the tree of a root is our first hop towards that root. A neighbour is our child in
        a tree if we are its first hop towards the root.
        """
        try:
            while self._is_stale:
                self._is_stale = False
                yield from self._find_places()
        finally:
            self._grows = False

    def _find_places(self) -> Walk[None]:
        edges = yield from spanning_tree.walk_edges({zid: dict(router.links) for zid, router in self.known.items()})
        if edges == self._edges:
            return
        own = self.node.zid
        distances, before = yield from spanning_tree.walk_shortest(edges, own)
        parents = spanning_tree.tree(before, own).below
        children: dict[bytes, list[Face]] = {own: []}
        for zid, face in list(self.neighbours.items()):
            _, before = yield from spanning_tree.walk_shortest(edges, zid)
            if before.get(own) == zid:
                children[own].append(face)
                for root in spanning_tree.tree(before, own).below:
                    children.setdefault(root, []).append(face)
        self._edges = edges
        self._trees.clear()
        self.node.declarations.epoch.number += 1
        for router in list(self.known.values()):
            yield
            if router.zid not in self.known:
                continue
            router.distance = distances.get(router.zid, 0.0)
            parent = self.neighbours.get(parents.get(router.zid, b""))
            router.stand_between(parent, tuple(face for face in children.get(router.zid, ()) if face.is_open))
            for (kind, key), info in list(router.said.items()):
                self._have(router, kind, key, info)
        self.node.declarations.epoch.number += 1
        self._unsettle()

    # Time

    def _unsettle(self) -> None:
        self._settled_at = self.node.now() + SETTLED
        self.sooner(self._settled_at)

    def next_timeout(self) -> float | None:
        return self._settled_at

    def on_timeout(self, now: float) -> None:
        """Settle the graph: withdraw declarations that the parent in a tree has not sent by now."""
        if self._settled_at is None or now < self._settled_at:
            return
        self._settled_at = None
        for router in self._gone.values():
            router.settle()
        self._gone.clear()
        for root in self.known.values():
            root.settle()
            if root is not self.own:
                for kind, key in root.has.keys() - root.said.keys():
                    self._lack(root, kind, key)

    # Declarations behind other routers

    def declared(self, face: Face, node_id: int, kind: int, key: bytes, info: int) -> None:
        root = self.of(face, node_id)
        if root is None:
            self.node.counters["declarations of unknown routers"] += 1
            return
        if root is self.own:
            return
        said = root.heard.setdefault(face, {})
        if (kind, key) not in said and not face.charge(Resource.DECLARATIONS, DECLARATION + weigh_key(key)):
            return
        said[kind, key] = info
        if face is root.parent:
            self._have(root, kind, key, info)

    def undeclared(self, face: Face, node_id: int, kind: int, key: bytes) -> None:
        root = self.of(face, node_id)
        if root is None or root is self.own:
            return
        if root.heard.get(face, {}).pop((kind, key), None) is not None:
            face.refund(Resource.DECLARATIONS, DECLARATION + weigh_key(key))
        if face is root.parent or not any((kind, key) in said for said in root.heard.values()):
            self._lack(root, kind, key)

    def _have(self, root: RemoteRouter, kind: int, key: bytes, info: int) -> None:
        """Add a declaration. Our children in that tree receive it if it is new."""
        id, known = root.has.get((kind, key), (0, None))
        if known != info:
            id = id or root.next_id()
            root.has[kind, key] = id, info
            self.node.declarations.declare(root, kind, id, key, info)
            root.pass_on(kind, key, info)

    def _lack(self, root: RemoteRouter, kind: int, key: bytes) -> None:
        """Remove a declaration, if known."""
        known = root.has.pop((kind, key), None)
        if known is not None:
            self.node.declarations.undeclare(root, kind, known[0])
            root.pass_on(kind, key, None)
