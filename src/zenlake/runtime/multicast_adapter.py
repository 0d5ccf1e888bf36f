# SPDX-License-Identifier: Apache-2.0
"""Membership of a node in a multicast group: connects `network.multicast_faces` to a live `Group`."""

from typing import TYPE_CHECKING

from zenlake.core.enums import WhatAmI
from zenlake.network.face import Outlet
from zenlake.network.forwarding import Door
from zenlake.network.multicast_faces import All, Member
from zenlake.runtime.multicast_connection import Group, Members
from zenlake.transport.multicast import Left, Peer
from zenlake.transport.rx import Sink

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Membership"]


class Speaking(Outlet):
    """Outlet to all members."""

    def __init__(self, group: Group) -> None:
        self._group = group

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        self._group.send(message, priority, reliable, congestion, express)
        return True  # datagrams never wait for room


class Heard(Outlet):
    """Outlet of a member, which only receives: nothing is sent to it."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer

    def resume(self) -> None:
        if self._peer.inbox.sink.suspended:
            self._peer.resume()


class Membership(Members):
    """Members of a group of a node. Called on the event loop thread."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._members: dict[Peer, Member] = {}

    def sink(self, peer: Peer) -> Sink:
        door = Door(self._node)
        member = Member(Heard(peer), peer.zid, self._node.whatami, WhatAmI.from_wire(peer.whatami))
        self._node.watch(member)
        self._members[peer] = member
        door.enter(member)
        return door

    def left(self, event: Left) -> None:
        member = self._members.pop(event.peer)
        member.is_open = False
        member.account.close()

    def speak(self, group: Group) -> None:
        """Send publications to the group from now on. Called from any thread, after joining the group."""
        self._node.opened(All(Speaking(group), self._node.whatami))
