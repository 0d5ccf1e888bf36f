# SPDX-License-Identifier: Apache-2.0
"""Transmit handles of neighbours: pass messages of the network layer to connections of the runtime."""

from typing import TYPE_CHECKING

from zenlake.errors import CloseReason, LocalError
from zenlake.network.face import Face as Neighbour
from zenlake.network.face import TxHandle
from zenlake.runtime.connection import Connection
from zenlake.transport.references import ReferenceMessage

if TYPE_CHECKING:
    from zenlake.runtime.interceptors import OutgoingInterceptor, Sending
    from zenlake.runtime.live_node import LiveNode

__all__ = ["ConnectionAdapter", "InterceptedAdapter"]


class ConnectionAdapter(TxHandle):
    """A connection of the runtime as a `TxHandle` of the network layer."""

    def __init__(self, face: Connection, live: "LiveNode") -> None:
        self.face = face
        self.live = live

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        try:
            return self.face.send(message, priority, reliable, congestion, express)
        except LocalError:
            return True  # just closed: the node is notified separately

    def write(self) -> None:
        self.face.write()

    def can_block(self) -> bool:
        return not self.live.runtime.engine.inside

    def close(self, reason: CloseReason) -> None:
        self.face.abandon(reason)

    def pause(self) -> None:
        self.live.in_loop(self.face.pause)

    def resume(self) -> None:
        self.live.in_loop(self.face.resume)

    def describe(self) -> dict[str, object]:
        link = self.face.link
        about = {
            "src": link.local, "dst": link.remote, "mtu": link.mtu, "is_streamed": link.stream, "group": None,
            "interfaces": list(link.interfaces), "auth_identifier": None, "priorities": None, "reliability": None,
        }  # fmt: skip
        return {"is_qos": bool(self.face.session.qos), "is_shm": self.face.shared is not None, "links": [about]}


class InterceptedAdapter(ConnectionAdapter):
    """A `TxHandle` with an egress filter."""

    def __init__(self, face: Connection, live: "LiveNode", screen: "OutgoingInterceptor") -> None:
        super().__init__(face, live)
        self.screen = screen
        self.joined: Neighbour | None = None
        self._passed: "dict[int, tuple[bytes, Sending]]" = {}
        """Filtered messages that wait for room, by identity. They are not filtered again."""

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        assert self.joined is not None
        if isinstance(message, ReferenceMessage):
            copy = message.inline()  # a filter judges the size of the payload, and may change the message
            if copy is None:
                return True
            message = copy
        _, passed = self._passed.pop(id(message), (message, None))
        if passed is None:
            passed = self.screen.apply_rules(self.joined, (message, priority, reliable, congestion, express))
        if passed is None or super().send(*passed):
            return True
        was_kept, is_kept = (reliable and each != 0 for each in (congestion, passed[3]))
        if is_kept:
            self._passed[id(message)] = message, passed
        if is_kept == was_kept:
            return False  # the caller stores or drops the message
        if is_kept:
            self.joined.enqueue((message, *passed[1:]))
            self.live._wake()
        else:
            self.joined.dropped += 1
        return True
