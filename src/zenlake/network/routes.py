# SPDX-License-Identifier: Apache-2.0
"""Where a sample goes. A route is worked out once for (the face it comes from, the key) and remembered.

What happens to each sample is in `forward`; here is what happens once for a key, what the application publishes, and what
is seldom.
"""

from typing import TYPE_CHECKING, Any

from zenlake.errors import KeyExprError
from zenlake.keyexpr import validate
from zenlake.network.declarations import passes
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.forward import Route, Target
from zenlake.network.interests import Interests
from zenlake.wire.cursor import Cursor
from zenlake.wire.network import Push
from zenlake.wire.writer import Writer

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Routes"]

PUSH = 0x1D
Z, M, N = 0x80, 0x40, 0x20
BLOCK = 0x28  # the QoS bits of either kind of block
MOST = 1 << 16  # routes remembered for one face


class Routes:
    """Needs the node's lock only to work out a route."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    def find(self, face: Face, scope: int, by_sender: bool, suffix: bytes | None, name: object) -> Route | None:
        """Work out a route and remember it under a name; None, and counted, if the key is none."""
        node = self.node
        with node.lock:
            key = face.resolve(scope, by_sender, suffix)
            if key is None:
                node.counters["messages with an unknown key id"] += 1
                return None
            try:
                validate(key)
            except KeyExprError:
                node.counters["messages with an invalid key"] += 1
                return None
            if len(face.routes) >= MOST:
                face.routes.clear()
            route = face.routes[name] = self.route(face, key)
            return route

    def route(self, source: Face, key: bytes) -> Route:
        """With the lock held: where a sample on a key from a face goes."""
        declarations = self.node.declarations
        faces: dict[Face, None] = {}
        for resource in declarations.tables[SUBSCRIBER].matching(key):
            for face in resource.holders:
                if not face.is_application and face is not source and passes(source, face):
                    faces[face] = None
        for face in declarations.faces:
            if face.is_asked and face not in faces and passes(source, face) and not Interests.covers(face, key):
                faces[face] = None  # nobody told us that there is nobody
        targets = tuple(Target(face, *head(face.wire_key(key))) for face in faces)
        receivers = self.node.application.receivers(key, source)
        whole = Target(None, *head((0, True, key)))
        return Route(declarations.epoch.number, key, receivers, targets, whole)

    # What the application publishes

    def publish(
        self, key: bytes, rest: bytes, has_exts: bool, qos: int, reliable: bool, local: bool = True, remote: bool = True
    ) -> bool:
        """Everything behind the key, as bytes. False if a connection had no room and dropped it."""
        route = self.published(key)
        if route is None:
            return True
        if local and route.receivers:
            self.show(route, written(route.whole, rest, has_exts), None, reliable, qos & 7)
        sent = [self.sent(target, written(target, rest, has_exts), qos, reliable) for target in route.targets if remote]
        return all(sent)

    def published(self, key: bytes) -> Route | None:
        """Where a sample of the application on a key goes."""
        face = self.node.application
        route: Route | None = face.routes.get(key)
        if route is None or route.epoch != self.node.declarations.epoch.number:
            route = self.find(face, 0, True, key, key)
        return route

    def sent(self, target: Target, message: bytes, qos: int, reliable: bool, source: Face | None = None) -> bool:
        """Send to a target. False if there was no room and it was dropped: one that must not be is kept."""
        if target.face.send(message, qos, reliable):
            return True
        self.node.refused(target.face, source)
        return not target.face.is_open or (reliable and qos & BLOCK != 0)

    def show(self, route: Route, message: bytes, like: Any, reliable: bool = True, priority: int = 5) -> None:
        """Show the application a sample that is in no reader yet; `like`: the reader that it came in."""
        reader = self.node.reader(message)
        reader.frame.reliable = reliable if like is None else like.frame.reliable
        reader.frame.priority = priority if like is None else like.frame.priority
        try:
            reader.next()
            for receiver in route.receivers:
                self.node.call(receiver.deliver, route.key, reader)
        finally:
            self.node.done(reader)

    # What is seldom

    def rewrite(self, route: Route, reader: Any, source: Face) -> None:
        """A sample that cannot go on as it came: another timestamp, or a node id that goes no further."""
        start = reader.start
        span = reader.cursor.span()
        span.at, span.size = start, reader.cursor.at - start
        push = Push().decode(Cursor(span.value))
        push.node_id = 0
        push.key.set((0, False, None))
        if self.node.stamps and push.is_put:
            self.node.restamp(push.put)
        message: bytes = push.encode()
        rest, has_exts = message[2:], message[0] & Z != 0
        if route.receivers:
            self.show(route, written(route.whole, rest, has_exts), reader)
        for target in route.targets:
            self.sent(target, written(target, rest, has_exts), push.qos, reader.frame.reliable != 0, source)


def written(target: Target, rest: bytes, has_exts: bool) -> bytes:
    """A whole PUSH as it is sent to a target."""
    key: bytes = target.key.value
    return bytes([PUSH | target.flags | (Z if has_exts else 0)]) + key + rest


def head(key: tuple[int, bool, bytes | None]) -> tuple[int, bytes]:
    """The bits and bytes with which a key is written."""
    scope, sender, suffix = key
    w = Writer(16)
    w.z64("key_scope", scope)
    if suffix is None:
        return (M if sender else 0), w.taken()
    w.z64("key_suffix", len(suffix))
    return (M if sender else 0) | N, w.taken() + suffix
