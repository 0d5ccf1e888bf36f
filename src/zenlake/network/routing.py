# SPDX-License-Identifier: Apache-2.0
"""Routes of samples. A route is computed once for (source face, tree, key), then cached.

The work for each sample is in `forwarding`. This module has the work for each key, the publications of the application, and
rare cases.
"""

from typing import TYPE_CHECKING, Any

from zenlake.core.keyexpr import validate
from zenlake.core.limits import Resource
from zenlake.errors import KeyExprError
from zenlake.network.access_control import INGRESS
from zenlake.network.declarations import may_pass
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.forwarding import Route, Target
from zenlake.network.interests import Interests
from zenlake.network.keyexpr_tree import MAX_STEPS, Walk
from zenlake.network.remote_router import RemoteRouter
from zenlake.network.roles import FaceRole
from zenlake.transport.references import ReferenceMessage, SharedPayload
from zenlake.wire import message_ids
from zenlake.wire.cursor import Blob, Cursor
from zenlake.wire.network import Push
from zenlake.wire.writer import WireWriter

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["Routing"]

M, N = 0x40, 0x20
NODE_ID = 0x33  # the NodeId extension, which selects the tree of a message
BLOCK = 0x28  # QoS bits of the two blocking congestion controls
MAX_CACHED_ROUTES = 1 << 16  # cached routes of one face
MAX_UNUSED = 256  # bytes of a key whose route is cached even if it has no targets
ROUTE, TARGET = 600, 200  # bytes that are charged for a route and for each of its targets, besides keys

WrittenKey = tuple[int, bool, bytes | None]  # id, whether the sender declared it, suffix


class Routing:
    """Route computation. Needs the node's lock only to compute a route."""

    def __init__(self, node: "Node") -> None:
        self.node = node

    def find(
        self, face: Face, scope: int, by_sender: bool, suffix: bytes | None, name: object, node_id: int = 0
    ) -> Route | None:
        """Compute a route and cache it under a name. Return None, counted, if the key or the tree is invalid."""
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
            root = node.routers.root(face, node_id)
            if root is None:
                return None
            walk = self.walk(face, root, key)
            if not face.is_application:
                route = node.compute(face, (name, node_id), walk)
                return None if route is None else self._remember(face, name, node_id, key, route)
        route = node.run(walk)
        with node.lock:
            return self._remember(face, name, node_id, key, route)

    def _remember(self, face: Face, name: object, node_id: int, key: bytes, route: Route) -> Route:
        routes = face.tree_routes.setdefault(node_id, {}) if node_id else face.routes
        old = routes.pop(name, None)
        if old is not None:
            face.account.release(Resource.ROUTES, score_bytes(old))
        if len(key) > MAX_UNUSED and not route.targets and not route.receivers:
            return route  # no targets: not worth its memory
        size = score_bytes(route)
        if len(routes) >= MAX_CACHED_ROUTES or not face.account.charge(Resource.ROUTES, size):
            self.forget(face)
            if not face.account.charge(Resource.ROUTES, size):
                return route
        (face.tree_routes.setdefault(node_id, {}) if node_id else face.routes)[name] = route
        return route

    @staticmethod
    def forget(face: Face) -> None:
        """Forget all routes of a face."""
        face.routes.clear()
        face.tree_routes.clear()
        face.account.release(Resource.ROUTES, face.account.used.get(Resource.ROUTES, 0))

    def walk(self, source: Face, root: RemoteRouter, key: bytes) -> Walk[Route]:
        """Find the targets of a sample on a key from a face, along the tree of a router. Each slice needs the lock."""
        if not self.node.is_guarded:
            return self._route(source, root, key)
        return self._guarded_both(source, root, key)

    def _guarded_both(self, source: Face, root: RemoteRouter, key: bytes) -> Walk[Route]:
        deleting = yield from self._guarded(source, root, key, "delete")
        return (yield from self._guarded(source, root, key, "put", deleting))

    def _guarded(
        self, source: Face, root: RemoteRouter, key: bytes, message: str, deleting: Route | None = None
    ) -> Walk[Route]:
        """Find the targets if access control is configured."""
        if source.guard is not None and not source.guard.allows(INGRESS, message, key):
            nowhere = Target(None, *head((0, True, key)))
            return Route(self.node.declarations.epoch.number, key, (), (), nowhere, deleting, f"denied: {message}")
        route = yield from self._route(source, root, key)
        targets = tuple(
            target for target in route.targets if target.face.allows_egress(message, key)
        )  # fmt: skip
        return Route(route.epoch, key, route.receivers, targets, route.whole, deleting, shown=route.shown)

    def _route(self, source: Face, root: RemoteRouter, key: bytes) -> Walk[Route]:
        declarations, elected = self.node.declarations, self.node.routers.elected
        epoch = declarations.epoch.number  # a change meanwhile makes the route outdated
        faces: dict[Face, None] = {}
        found = yield from declarations.tables[SUBSCRIBER].walk(key)
        for number, resource in enumerate(found, 1):
            if number % MAX_STEPS == 0:
                yield
            for face in resource.holders:
                if isinstance(face, RemoteRouter):
                    if face.zid in root.below and elected(source, root, face):
                        faces[root.below[face.zid]] = None
                elif face.is_application or face is source or not face.is_open:
                    continue
                elif may_pass(source, face) and elected(source, root, face):
                    faces[face] = None
        for face in list(declarations.faces):
            if face in faces or not may_pass(source, face):
                continue
            if face.hears_all or (face.is_asked and not (yield from Interests.covers(face, key))):
                faces[face] = None  # its subscribers are not all known
        shown = self.node.application.namespace.own(key)
        receivers = () if shown is None else self.node.application.receivers(key, source)
        whole = Target(None, *head((0, True, key)))
        # Shared: with many keys, memory use dominates the time.
        heads: dict[tuple[WrittenKey, int], tuple[int, Blob, Blob]] = {
            ((0, True, key), 0): (whole.flags, whole.key, whole.more)
        }
        targets = []
        for face in faces:
            name = face.wire_key(key), root.psid if face.stand is FaceRole.TREE else 0
            if name not in heads:
                heads[name] = head(*name)
            targets.append(Target(face, *heads[name]))
        return Route(epoch, key, receivers, tuple(targets), whole, shown=shown)

    # Publications of the application

    def publish(
        self, key: bytes, rest: bytes, has_exts: bool, qos: int, reliable: bool, local: bool = True, remote: bool = True,
        is_put: bool = True, shared: SharedPayload | None = None,
    ) -> bool:  # fmt: skip
        """Publish a sample, given the bytes after the key.

        Returns:
            False if a connection or a subscriber had no room and dropped it.
        """
        route = self.published(key)
        if route is not None and not is_put and route.deleting is not None:
            route = route.deleting
        if route is None:
            return True
        if shared is not None:
            return self._publish_shared(route, rest, has_exts, qos, reliable, local, remote, shared)
        shown = True
        if local and route.receivers:
            shown = self.show(route, write_key(route.whole, rest, has_exts), None, reliable, qos & 7)
        sent = [
            self.sent(target, write_key(target, rest, has_exts), qos, reliable) for target in route.targets if remote
        ]
        return shown and all(sent)

    def _publish_shared(
        self, route: Route, rest: bytes, has_exts: bool, qos: int, reliable: bool, local: bool, remote: bool,
        shared: SharedPayload,
    ) -> bool:  # fmt: skip
        """Publish a sample whose payload is in shared memory: `rest` has its reference."""
        shown = True
        if local and route.receivers:
            copy = shared.inline(write_key(route.whole, rest, has_exts))
            shown = copy is not None and self.show(route, copy, None, reliable, qos & 7, shared)
        sent = [
            self.sent(
                target,
                ReferenceMessage.make(write_key(target, rest, has_exts), (shared.buffer,), qos & 7, shared.inline),
                qos,
                reliable,
            )
            for target in route.targets
            if remote
        ]
        return shown and all(sent)

    def published(self, key: bytes) -> Route | None:
        """Return the route of a sample of the application on a key."""
        face = self.node.application
        route: Route | None = face.routes.get(key)
        if route is None or route.epoch != self.node.declarations.epoch.number:
            route = self.find(face, 0, True, key, key)
        return route

    def sent(self, target: Target, message: bytes, qos: int, reliable: bool, source: Face | None = None) -> bool:
        """Send to a target. Return False if there was no room and it was dropped. A message that must not be dropped is stored."""
        if target.face.send(message, qos, reliable):
            return True
        self.node.refused(target.face, source)
        return not target.face.is_open or (reliable and qos & BLOCK != 0)

    def show(
        self, route: Route, message: bytes, like: Any, reliable: bool = True, priority: int = 5, shared: Any = None
    ) -> bool:  # fmt: skip
        """Deliver a sample to the application that is not in a reader yet. `like` is the reader that received it.

        Returns:
            False if a subscriber had no room and dropped it.
        """
        reader = self.node.reader(message)
        reader.shared = shared if like is None else like.shared
        reader.frame.reliable = reliable if like is None else like.frame.reliable
        reader.frame.priority = priority if like is None else like.frame.priority
        try:
            reader.next()
            dropped = [self.node.call(receiver.take, route.shown, reader) for receiver in route.receivers]
        finally:
            self.node.done(reader)
        return not any(dropped)

    # Rare cases

    def pass_on(self, route: Route, reader: Any, source: Face) -> None:
        """Handle a sample whose payload is in shared memory: pass on its references, and a copy of the bytes where needed."""
        if route.denied is not None and not route.targets:
            self.node.counters[route.denied] += 1
        if not route.receivers and not route.targets:
            return
        push = self._detached(reader)
        if self.node.stamps and not self._restamp(push.put):
            return
        mounted = reader.shared
        if mounted is None:  # a reference on a session that did not negotiate shared memory
            self.node.counters["messages dropped: reference to shared memory without an agreement"] += 1
            return
        message: bytes = push.encode()
        rest, has_exts = message[2:], message[0] & message_ids.Z != 0
        if route.receivers:
            copy = mounted.inline(write_key(route.whole, rest, has_exts))
            if copy is None:
                self.node.counters["messages dropped: shared memory given up"] += 1
                return
            self.show(route, copy, reader)
        for target in route.targets:
            shared = ReferenceMessage.make(
                write_key(target, rest, has_exts), mounted.buffers, push.qos & 7, mounted.inline
            )
            self.sent(target, shared, push.qos, reader.frame.reliable != 0, source)

    def _restamp(self, put: Any) -> bool:
        """Set a timestamp if the sample has none or an incredible one. Return False if it is to be dropped."""
        stamp = put.timestamp
        is_late = stamp.id.size >= 0 and not self.node.clock.merge(stamp.ntp64, self.node.wall())
        if is_late and self.node.drops_future:
            self.node.counters["samples dropped: their timestamp is too far ahead"] += 1
            return False
        if is_late or stamp.id.size < 0:
            self.node.restamp(put)
        return True

    def _detached(self, reader: Any) -> Push:
        """Return the sample in a reader as an object of its own, without key and tree."""
        span = reader.cursor.span()
        span.at, span.size = reader.start, reader.cursor.at - reader.start
        push: Push = Push().decode(Cursor(span.value))
        push.node_id = 0
        push.key.set((0, False, None))
        return push

    def rewrite(self, route: Route, reader: Any, source: Face) -> None:
        """Handle a sample that cannot be forwarded unchanged: its timestamp is too far in the future."""
        if self.node.drops_future:
            self.node.counters["samples dropped: their timestamp is too far ahead"] += 1
            return
        push = self._detached(reader)
        if self.node.stamps and push.is_put:
            self.node.restamp(push.put)
        message: bytes = push.encode()
        rest, has_exts = message[2:], message[0] & message_ids.Z != 0
        if route.receivers:
            self.show(route, write_key(route.whole, rest, has_exts), reader)
        for target in route.targets:
            self.sent(target, write_key(target, rest, has_exts), push.qos, reader.frame.reliable != 0, source)


def score_bytes(route: Route) -> int:
    """Return the bytes that a route takes: its name, its key, and the encoded keys."""
    blobs = {id(blob): blob.size for target in (*route.targets, route.whole) for blob in (target.key, target.more)}
    deleting = 0 if route.deleting is None else score_bytes(route.deleting)
    size: int = ROUTE + TARGET * len(route.targets) + 2 * len(route.key) + sum(blobs.values()) + deleting
    return size


def write_key(target: Target, rest: bytes, has_exts: bool) -> bytes:
    """Encode a whole PUSH for a target."""
    key: bytes = (target.more if has_exts else target.key).value
    return bytes([message_ids.PUSH | target.flags | (message_ids.Z if has_exts else 0)]) + key + rest


def head(key: WrittenKey, node_id: int = 0) -> tuple[int, Blob, Blob]:
    """Encode a key with its flags, followed by a NodeId: as the last extension, or before others."""
    scope, sender, suffix = key
    flags = M if sender else 0
    w = WireWriter(16)
    w.z64("key_scope", scope)
    if suffix is not None:
        flags |= N
        w.z64("key_suffix", len(suffix))
        w.run("key_suffix", Blob(suffix))
    if not node_id:
        alone = Blob(w.taken())
        return flags, alone, alone
    plain = w.taken()
    w.clear()
    w.z64("node_id", node_id)
    return (
        flags | message_ids.Z,
        Blob(plain + bytes([NODE_ID]) + w.taken()),
        Blob(plain + bytes([NODE_ID | message_ids.Z]) + w.taken()),
    )
