# SPDX-License-Identifier: Apache-2.0
"""Where a PUSH goes: the path of every sample, so the route is worked out once and remembered.

A route belongs to (the face it comes from, the key as it is written there) and is good until a declaration changes. The
bytes behind the key (extensions known and unknown, body) are copied as they came; only the header and the key are
written anew, in the way that suits each receiving face. A router that stamps rewrites the head of the PUT besides.
"""

from typing import TYPE_CHECKING, Any

from zenlake.errors import KeyExprError
from zenlake.keyexpr import validate
from zenlake.network.declarations import passes
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.interests import Interests
from zenlake.wire.cursor import Cursor
from zenlake.wire.network import Push
from zenlake.wire.writer import Writer

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Forwarder", "Route"]

PUSH = 0x1D
Z, M, N = 0x80, 0x40, 0x20
T = 0x20
MOST_ROUTES = 1 << 16  # remembered for one face

Head = tuple[int, bytes]


class Route:
    """Where the samples of one key from one face go."""

    __slots__ = ("key", "receivers", "targets", "version")

    def __init__(self, version: int, key: bytes, receivers: tuple[Any, ...], targets: tuple[Any, ...]) -> None:
        self.version = version
        self.key = key
        self.receivers = receivers
        """Subscribers of the application."""
        self.targets = targets
        """(face, header bits and bytes of the key as it is written for that face)."""


class Forwarder:
    """Samples from anywhere to everywhere. Needs the node's lock only to work out a route."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    # From the network

    def push(self, face: Face, reader: Any) -> None:
        """A PUSH from a face."""
        push = reader.push
        wire = push.key
        name = (wire.scope, wire.sender, wire.suffix.value)
        route = face.routes.get(name)
        if route is None or route.version != self.node.declarations.version:
            route = self._find(face, name)
        if route is None or not (route.targets or route.receivers):
            return
        rest = reader.cursor.span()
        rest.at = push.exts.at if push.exts.size >= 0 else push.body_at
        rest.size = reader.cursor.at - rest.at
        has_exts = push.exts.size >= 0
        if push.node_id:
            data, has_exts = without_node_id(bytes([PUSH | (Z if has_exts else 0), 0]) + rest.value)
        else:
            data = rest.value
        reliable = reader.frame.reliable != 0
        if self.node.stamps and push.is_put:
            stamped = self._stamped(push, data, has_exts, push.body_at - rest.at)
            if stamped is not None:
                self.send(route, stamped, has_exts, push.qos, reliable, priority=reader.frame.priority)
                return
        for receiver in route.receivers:
            self.node.call(receiver.deliver, route.key, reader)
        if route.targets:
            self._send(route, data, has_exts, push.qos, reliable)

    # From the application, or written anew

    def publish(
        self, key: bytes, rest: bytes, has_exts: bool, qos: int, reliable: bool, local: bool = True, remote: bool = True
    ) -> None:
        """What the application publishes: everything behind the key, as bytes."""
        face = self.node.application
        route = face.routes.get(key)
        if route is None or route.version != self.node.declarations.version:
            route = self._find(face, (0, True, key), key)
        if route is None:
            return
        if local and route.receivers:
            self._show(route, rest, has_exts, reliable, qos & 7)
        if remote and route.targets:
            self._send(route, rest, has_exts, qos, reliable)

    def send(self, route: Route, rest: bytes, has_exts: bool, qos: int, reliable: bool, priority: int) -> None:
        if route.receivers:
            self._show(route, rest, has_exts, reliable, priority)
        if route.targets:
            self._send(route, rest, has_exts, qos, reliable)

    def _send(self, route: Route, rest: bytes, has_exts: bool, qos: int, reliable: bool) -> None:
        z = Z if has_exts else 0
        for face, (flags, key) in route.targets:
            if not face.send(bytes([PUSH | flags | z]) + key + rest, qos, reliable):
                self.node.refused(face)

    def _show(self, route: Route, rest: bytes, has_exts: bool, reliable: bool, priority: int) -> None:
        flags, key = head((0, True, route.key))
        reader = self.node.reader(bytes([PUSH | flags | (Z if has_exts else 0)]) + key + rest)
        reader.frame.reliable = reliable
        reader.frame.priority = priority
        try:
            reader.next()
            for receiver in route.receivers:
                self.node.call(receiver.deliver, route.key, reader)
        finally:
            self.node.done(reader)

    # Routes

    def _find(self, face: Face, name: tuple[int, bool, bytes | None], cache_as: Any = None) -> Route | None:
        node = self.node
        with node.lock:
            key = face.resolve(*name)
            if key is None:
                node.counters["messages with an unknown key id"] += 1
                return None
            try:
                validate(key)
            except KeyExprError:
                node.counters["messages with an invalid key"] += 1
                return None
            if len(face.routes) >= MOST_ROUTES:
                face.routes.clear()
            route = self.route(face, key)
            face.routes[name if cache_as is None else cache_as] = route
            return route

    def route(self, source: Face, key: bytes) -> Route:
        """With the lock held."""
        declarations = self.node.declarations
        faces: dict[Face, None] = {}
        for resource in declarations.tables[SUBSCRIBER].matching(key):
            for face in resource.holders:
                if not face.is_application and face is not source and passes(source, face):
                    faces[face] = None
        for face in declarations.faces:
            if face.is_asked and face not in faces and passes(source, face) and not Interests.covers(face, key):
                faces[face] = None  # nobody told us that there is nobody
        targets = tuple((face, head(face.wire_key(key))) for face in faces)
        receivers = self.node.application.receivers(key, source)
        return Route(declarations.version, key, receivers, targets)

    # Stamps

    def _stamped(self, push: Push, rest: bytes, has_exts: bool, body_at: int) -> bytes | None:
        """The same with our timestamp, if it has none or one that is too far ahead; None if it is fine as it is."""
        put = push.put
        if put.timestamp.id.size >= 0 and self.node.learn(put.timestamp.ntp64):
            return None
        if put.timestamp.id.size < 0 and not push.node_id:
            stamp = self.node.stamp()
            return rest[:body_at] + bytes([rest[body_at] | T]) + stamp + rest[body_at + 1 :]
        whole = Push().decode(Cursor(bytes([PUSH | (Z if has_exts else 0), 0]) + rest))
        whole.put.timestamp.set(self.node.timestamp())
        encoded: bytes = whole.encode()
        return encoded[2:]


def head(key: tuple[int, bool, bytes | None]) -> Head:
    """The bits and bytes with which a key is written."""
    scope, sender, suffix = key
    w = Writer(16)
    w.z64("key_scope", scope)
    start: bytes = w.taken()
    if suffix is None:
        return (M if sender else 0), start
    w.clear()
    w.z64("key_suffix", len(suffix))
    return (M if sender else 0) | N, start + w.taken() + suffix


def without_node_id(message: bytes) -> tuple[bytes, bool]:
    """Everything behind the key of a PUSH whose key is one zero byte, and whether extensions are left."""
    push = Push().decode(Cursor(message))
    push.node_id = 0
    data: bytes = push.encode()
    return data[2:], data[0] & Z != 0
