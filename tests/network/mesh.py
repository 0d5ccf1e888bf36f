# SPDX-License-Identifier: Apache-2.0
"""A network in memory: nodes of Zenlake and hand-made ends, connected by queues, with a clock that the test sets."""

from collections import deque
from typing import Any

from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason
from zenlake.network.access_control import FaceAccess
from zenlake.network.face import Face, TxHandle
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.node import Node
from zenlake.wire.batch_reader import BatchReader, read_network
from zenlake.wire.message_base import Message

ROUTER, PEER, CLIENT = WhatAmI.ROUTER, WhatAmI.PEER, WhatAmI.CLIENT


class Wire(TxHandle):
    """One direction of a connection. It holds `room` messages. None: any number."""

    def __init__(self) -> None:
        self.waiting: deque[tuple[bytes, int, bool]] = deque()
        self.room: int | None = None
        self.paused = False
        self.closed: CloseReason | None = None

    def send(self, message: bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        if self.room is not None and len(self.waiting) >= self.room:
            return False
        self.waiting.append((message, priority, reliable))
        return True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def close(self, reason: CloseReason) -> None:
        self.closed = reason


class Hand:
    """The other end of the face of a node, controlled by the test."""

    def __init__(
        self, mesh: "Mesh", node: Node, whatami: WhatAmI, zid: bytes, request_ids: int,
        guard: FaceAccess | None = None, is_gateway: bool = False,
    ) -> None:  # fmt: skip
        self.mesh = mesh
        self.node = node
        self.wire = Wire()
        self.face = Face(self.wire, zid, node.whatami, whatami, request_ids=request_ids, is_gateway=is_gateway)
        self.face.guard = guard
        node.is_guarded |= guard is not None
        node.add_face(self.face)

    def say(self, *messages: Message | bytes) -> None:
        """Send to the node, which receives the messages at once."""
        for message in messages:
            self.mesh.hear(self.node, self.face, message if isinstance(message, bytes) else message.encode())
        self.mesh.settle()

    def take_sent(self) -> list[Any]:
        """Return the messages that the node has sent since the last call, decoded."""
        self.mesh.settle()
        messages = [read_network(message) for message, _, _ in self.wire.waiting]
        self.wire.waiting.clear()
        return messages

    def leave(self) -> None:
        self.node.remove_face(self.face)
        self.mesh.settle()


class Mesh:
    """The nodes, hand-made ends and queues of a network."""

    def __init__(self) -> None:
        self.now = 0.0
        self.nodes: list[Node] = []
        self._pairs: list[tuple[Node, Face, Wire]] = []  # queued messages in the wire are for that face of that node
        self._reader = BatchReader()
        self._dispatchers: dict[Face, RxDispatcher] = {}
        self._zids = iter(range(1, 1000))

    def zid(self) -> bytes:
        return bytes([next(self._zids)])

    def node(self, whatami: WhatAmI, **options: Any) -> Node:
        node = Node(self.zid(), whatami, now=lambda: self.now, wall=lambda: int((1000 + self.now) * 2**32), **options)
        node.on_error = self._raise
        self.nodes.append(node)
        return node

    @staticmethod
    def _raise(error: Exception) -> None:
        raise error

    def hand(
        self, node: Node, whatami: WhatAmI = CLIENT, request_ids: int = 0xFFFFFFFF, guard: FaceAccess | None = None,
        is_gateway: bool = False,
    ) -> Hand:  # fmt: skip
        return Hand(self, node, whatami, self.zid(), request_ids, guard, is_gateway)

    def link(self, a: Node, b: Node, settle: bool = True) -> None:
        there, back = Wire(), Wire()
        face_a = Face(there, b.zid, a.whatami, b.whatami)
        face_b = Face(back, a.zid, b.whatami, a.whatami)
        self._pairs += [(b, face_b, there), (a, face_a, back)]
        a.add_face(face_a)
        b.add_face(face_b)
        if settle:
            self.settle()

    def cut(self, a: Node, b: Node, settle: bool = True) -> None:
        """End the connection of two nodes; what is on its way is lost."""
        ends = {(a.zid, b.zid), (b.zid, a.zid)}
        for pair in [pair for pair in self._pairs if (pair[0].zid, pair[1].zid) in ends]:
            self._pairs.remove(pair)
            pair[0].remove_face(pair[1])
        if settle:
            self.settle()

    def hear(self, node: Node, face: Face, message: bytes, priority: int = 5, reliable: bool = True) -> None:
        reader = self._reader
        reader.bind(message)
        reader.begin_network(0, len(message))
        reader.frame.priority, reader.frame.reliable = priority, reliable
        if face not in self._dispatchers:
            self._dispatchers[face] = RxDispatcher(node)
            self._dispatchers[face].attach(face)
        dispatcher = self._dispatchers[face]
        dispatcher.begin()
        dispatcher.on_message(reader.next(), reader)
        dispatcher.finish()

    def move(self, choice: int) -> bool:
        """Deliver one message of the selected wire. Return False if all wires are empty."""
        for node in self.nodes:
            node.flush()
        waiting = [pair for pair in self._pairs if pair[2].waiting]
        if waiting:
            node, face, wire = waiting[choice % len(waiting)]
            self.hear(node, face, *wire.waiting.popleft())
        return bool(waiting)

    def settle(self) -> None:
        """Deliver messages until all queues are empty."""
        moving = True
        while moving:
            moving = False
            for node in self.nodes:
                node.jobs.run()
                node.flush()
                moving |= bool(node.jobs._ready)
            for node, face, wire in self._pairs:
                while wire.waiting:
                    moving = True
                    self.hear(node, face, *wire.waiting.popleft())

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for node in self.nodes:
            node.on_timeout(self.now)
            while (due := node.next_timeout()) is not None and due <= self.now:
                node.on_timeout(self.now)
        self.settle()
