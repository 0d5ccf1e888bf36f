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
from zenlake.network.face import CONTROL_QOS, Face
from zenlake.network.roles import FaceRole
from zenlake.wire import linkstate
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Gossip"]

Found = tuple[bytes, WhatAmI, tuple[str, ...]]


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
        self.known: dict[bytes, KnownNode] = {}
        self._sn = 1
        self._last_psid = 0

    def _gossips(self, face: Face) -> bool:
        """Return whether to exchange gossip with a face: peers do, with peers and with routers."""
        pair = {self.node.whatami, face.whatami}
        return not face.is_application and not face.hears_all and WhatAmI.PEER in pair and WhatAmI.CLIENT not in pair

    def _numbered(self, zid: bytes, whatami: WhatAmI) -> KnownNode:
        if zid not in self.known:
            self._last_psid += 1
            self.known[zid] = KnownNode(self._last_psid, whatami)
        return self.known[zid]

    def _self(self, links: tuple[int, ...] = ()) -> LinkState:
        return LinkState(0, self._sn, ZenohId.from_wire(self.node.zid), self.node.whatami, self.locators, links)

    def _notify_routers(self) -> None:
        """Send this peer and its connected routers to each of these routers."""
        routers = [face for face in self.node.faces if face.stand is FaceRole.NORTH and self._gossips(face)]
        numbered = [(face.zid, self._numbered(face.zid, face.whatami)) for face in routers]
        entries = [self._self(tuple(known.psid for _, known in numbered))]
        for zid, known in numbered:
            entries.append(LinkState(known.psid, 0, ZenohId.from_wire(zid), known.whatami, gateway=True))
        for face in routers:
            self._tell(face, entries)

    @staticmethod
    def _entry(zid: bytes, known: KnownNode) -> LinkState:
        zenoh_id = ZenohId.from_wire(zid)
        return LinkState(known.psid, known.sn, zenoh_id, known.whatami, known.locators, (), None, *known.marks)

    def opened(self, face: Face) -> bool:
        """Send the known nodes to a new neighbour. Return whether it received other nodes, to which it may now connect."""
        if not self._gossips(face):
            return False
        self._sn += 1
        neighbour = self._numbered(face.zid, face.whatami)
        entries = []
        if face.stand is FaceRole.NORTH:
            self._notify_routers()
        elif self.node.whatami is WhatAmI.PEER:
            entries = [self._self(), self._entry(face.zid, neighbour)]
        neighbours = {other.zid for other in self.node.faces if other is not face and self._gossips(other)}
        others = [
            self._entry(zid, known)
            for zid, known in self.known.items()
            if zid in neighbours and known.locators is not None and known.whatami is WhatAmI.PEER
        ]
        entries += others
        if entries or face.stand is not FaceRole.NORTH:
            self._tell(face, entries)
        return bool(others)

    def closed(self, face: Face) -> None:
        if face.zid in self.known:
            self.known[face.zid].locators = None
        if face.stand is FaceRole.NORTH and self._gossips(face):
            self._sn += 1
            self._notify_routers()

    def listening(self, locators: tuple[str, ...]) -> None:
        """Send changed locators to the neighbours."""
        self.locators = locators
        self._sn += 1
        if self.node.whatami is WhatAmI.PEER:
            self._notify_routers()
            for face in self.node.faces:
                if face.stand is FaceRole.BESIDE:
                    self._tell(face, [self._self()])
        self.node.routers.listening()

    def _tell(self, face: Face, entries: list[LinkState]) -> None:
        face.control(Oam(id=linkstate.OAM_ID, qos=CONTROL_QOS, body=linkstate.encode(entries)).encode())

    def heard(self, face: Face, body: bytes) -> list[Found]:
        """Handle gossip of a neighbour. Return the new nodes and their locators."""
        if not self._gossips(face):
            return []
        try:
            entries = linkstate.decode(body)
        except DecodeError:
            self.node.counters["invalid link states"] += 1
            return []
        found: list[Found] = []
        marked = set(face.gateways)
        for entry in entries:
            if entry.zid is not None:
                face.psids[entry.psid] = entry.zid.to_wire()
            if entry.gateway and entry.psid in face.psids:
                marked.add(face.psids[entry.psid])
        for entry in entries:
            zid = face.psids.get(entry.psid)
            if zid == face.zid and entry.links:  # its other entries contain no links
                face.gateways = frozenset(marked.intersection(face.psids.get(psid, b"") for psid in entry.links))
                self.node.declarations.epoch.number += 1
            if zid is None or zid == self.node.zid or entry.whatami is None or entry.locators is None:
                continue
            known = self._numbered(zid, entry.whatami)
            if known.locators is not None and entry.sn <= known.sn:
                continue
            fresh = known.locators != entry.locators
            known.sn, known.locators, known.whatami = entry.sn, entry.locators, entry.whatami
            known.marks = entry.marks
            if not fresh:
                continue
            found.append((zid, entry.whatami, entry.locators))
            if zid == face.zid and entry.whatami is WhatAmI.PEER and entry.locators:
                for other in self.node.faces:
                    if other is not face and self._gossips(other):
                        self._tell(other, [self._entry(zid, known)])
        return found
