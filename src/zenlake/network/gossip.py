# SPDX-License-Identifier: Apache-2.0
"""Gossip (OAM 1): peers send their locators to neighbours, and pass on the locators of neighbours over one hop.

A peer sends itself first (number 0), then the neighbours that it knows. A router sends a peer only the other peers, as
1.10.2 does. Entries are numbered for each sender (`psid`) and may omit their zid later. The runtime decides whether to
connect to a node that is not connected yet.

A peer also sends its connected routers to a router (links to nodes that are marked as gateways). Then only one
of these routers forwards between the peer and other routers.

Between routers OAM 1 is the link state: `linkstate`.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import DecodeError
from zenlake.network.face import Face
from zenlake.network.roles import FaceRole
from zenlake.wire import linkstate, message_ids
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Gossip"]

DiscoveredNode = tuple[bytes, WhatAmI, tuple[str, ...]]


@dataclass(slots=True)
class KnownNode:
    """A node known from gossip."""

    psid: int
    whatami: WhatAmI
    sn: int = 0
    locators: tuple[str, ...] | None = None
    marks: tuple[bool, int] = (False, 0)


class Gossip:
    """Gossip state of a node. Guarded by the node's lock."""

    def __init__(self, node: "Node") -> None:
        self.node = node
        self.locators: tuple[str, ...] = ()
        """Locators of this node."""
        self.nodes: dict[bytes, KnownNode] = {}
        self._sn = 1
        self._last_psid = 0

    def _uses_gossip(self, face: Face) -> bool:
        """Return whether to exchange gossip with a face: peers do, with peers and with routers."""
        pair = {self.node.whatami, face.whatami}
        return (
            not face.is_application
            and not face.receives_all_samples
            and WhatAmI.PEER in pair
            and WhatAmI.CLIENT not in pair
        )

    def _get_node(self, zid: bytes, whatami: WhatAmI) -> KnownNode:
        if zid not in self.nodes:
            self._last_psid += 1
            self.nodes[zid] = KnownNode(self._last_psid, whatami)
        return self.nodes[zid]

    def _own_entry(self, links: tuple[int, ...] = ()) -> LinkState:
        return LinkState(0, self._sn, ZenohId.from_wire(self.node.zid), self.node.whatami, self.locators, links)

    def _send_to_routers(self) -> None:
        """Send this peer and its connected routers to each of these routers."""
        routers = [face for face in self.node.faces if face.role is FaceRole.NORTH and self._uses_gossip(face)]
        router_nodes = [(face.zid, self._get_node(face.zid, face.whatami)) for face in routers]
        entries = [self._own_entry(tuple(node.psid for _, node in router_nodes))]
        for zid, node in router_nodes:
            entries.append(LinkState(node.psid, 0, ZenohId.from_wire(zid), node.whatami, gateway=True))
        for face in routers:
            self._send(face, entries)

    @staticmethod
    def _build_entry(zid: bytes, node: KnownNode) -> LinkState:
        zenoh_id = ZenohId.from_wire(zid)
        return LinkState(node.psid, node.sn, zenoh_id, node.whatami, node.locators, (), None, *node.marks)

    def add_face(self, face: Face) -> bool:
        """Send the known nodes to a new neighbour. Return whether it received other nodes, to which it may now connect."""
        if not self._uses_gossip(face):
            return False
        self._sn += 1
        neighbour = self._get_node(face.zid, face.whatami)
        entries = []
        if face.role is FaceRole.NORTH:
            self._send_to_routers()
        elif self.node.whatami is WhatAmI.PEER:
            entries = [self._own_entry(), self._build_entry(face.zid, neighbour)]
        neighbour_zids = {other.zid for other in self.node.faces if other is not face and self._uses_gossip(other)}
        other_entries = [
            self._build_entry(zid, node)
            for zid, node in self.nodes.items()
            if zid in neighbour_zids and node.locators is not None and node.whatami is WhatAmI.PEER
        ]
        entries += other_entries
        if entries or face.role is not FaceRole.NORTH:
            self._send(face, entries)
        return bool(other_entries)

    def remove_face(self, face: Face) -> None:
        if face.zid in self.nodes:
            self.nodes[face.zid].locators = None
        if face.role is FaceRole.NORTH and self._uses_gossip(face):
            self._sn += 1
            self._send_to_routers()

    def update_locators(self, locators: tuple[str, ...]) -> None:
        """Send changed locators to the neighbours."""
        self.locators = locators
        self._sn += 1
        if self.node.whatami is WhatAmI.PEER:
            self._send_to_routers()
            for face in self.node.faces:
                if face.role is FaceRole.BESIDE:
                    self._send(face, [self._own_entry()])
        self.node.routers.update_locators()

    def _send(self, face: Face, entries: list[LinkState]) -> None:
        face.control(Oam(id=linkstate.OAM_ID, qos=message_ids.QOS_CONTROL, body=linkstate.encode(entries)).encode())

    def receive(self, face: Face, body: bytes) -> list[DiscoveredNode]:
        """Handle gossip of a neighbour. Return the new nodes and their locators."""
        if not self._uses_gossip(face):
            return []
        try:
            entries = linkstate.decode(body)
        except DecodeError:
            self.node.counters["invalid link states"] += 1
            return []
        discovered: list[DiscoveredNode] = []
        gateways = set(face.gateways)
        for entry in entries:
            if entry.zid is not None:
                face.psids[entry.psid] = entry.zid.to_wire()
            if entry.gateway and entry.psid in face.psids:
                gateways.add(face.psids[entry.psid])
        for entry in entries:
            zid = face.psids.get(entry.psid)
            if zid == face.zid and entry.links:  # its other entries contain no links
                face.gateways = frozenset(gateways.intersection(face.psids.get(psid, b"") for psid in entry.links))
                self.node.declarations.epoch.number += 1
            if zid is None or zid == self.node.zid or entry.whatami is None or entry.locators is None:
                continue
            node = self._get_node(zid, entry.whatami)
            if node.locators is not None and entry.sn <= node.sn:
                continue
            is_changed = node.locators != entry.locators
            node.sn, node.locators, node.whatami = entry.sn, entry.locators, entry.whatami
            node.marks = entry.marks
            if not is_changed:
                continue
            discovered.append((zid, entry.whatami, entry.locators))
            if zid == face.zid and entry.whatami is WhatAmI.PEER and entry.locators:
                for other in self.node.faces:
                    if other is not face and self._uses_gossip(other):
                        self._send(other, [self._build_entry(zid, node)])
        return discovered
