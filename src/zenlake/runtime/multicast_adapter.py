# SPDX-License-Identifier: Apache-2.0
"""Membership of a node in a multicast group: connects `network.multicast_faces` to a live `MulticastConnection`."""

from typing import TYPE_CHECKING

from zenlake.core.enums import WhatAmI
from zenlake.network.face import TxHandle
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.multicast_faces import MulticastGroupFace, MulticastMemberFace
from zenlake.runtime.multicast_connection import MulticastConnection, MulticastListener
from zenlake.transport.multicast import Peer, PeerLeft
from zenlake.transport.rx import Sink

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["MulticastAdapter"]


class MulticastSender(TxHandle):
    """Transmit handle to all members."""

    def __init__(self, group: MulticastConnection) -> None:
        self._group = group

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        self._group.send(message, priority, reliable, congestion, express)
        return True  # datagrams never wait for room


class MemberTxHandle(TxHandle):
    """Transmit handle of a member, which only receives: nothing is sent to it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def resume(self) -> None:
        if self._peer.rx.sink.suspended:
            self._peer.resume()


class MulticastAdapter(MulticastListener):
    """Members of a group of a node. Called on the event loop thread."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._members: dict[Peer, MulticastMemberFace] = {}
        self._group: MulticastGroupFace | None = None

    def sink(self, peer: Peer) -> Sink:
        dispatcher = RxDispatcher(self._node)
        member = MulticastMemberFace(
            MemberTxHandle(peer), peer.zid, self._node.whatami, WhatAmI.from_wire(peer.whatami)
        )
        self._node.set_limits(member)
        self._members[peer] = member
        self._update_gateways()
        dispatcher.attach(member)
        return dispatcher

    def on_leave(self, event: PeerLeft) -> None:
        member = self._members.pop(event.peer)
        member.is_open = False
        member.account.close()
        self._update_gateways()

    def speak(self, group: MulticastConnection) -> None:
        """Send publications to the group from now on. Called from any thread, after joining the group."""
        self._group = MulticastGroupFace(MulticastSender(group), self._node.whatami)
        self._update_gateways()
        self._node.add_face(self._group)

    def _update_gateways(self) -> None:
        """Let the faces of the group know the routers in it, of which one forwards to all other routers."""
        if self._node.whatami is not WhatAmI.ROUTER:
            return
        with self._node.lock:
            members = list(self._members.values())
            zids = {member.zid for member in members if member.whatami is WhatAmI.ROUTER} | {self._node.zid}
            for face in (*members, *(() if self._group is None else (self._group,))):
                face.gateways = frozenset(zids)
            self._node.declarations.epoch.number += 1
