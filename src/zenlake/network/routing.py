# SPDX-License-Identifier: Apache-2.0
"""Routes of samples. A route is computed once for (source face, tree, key), then cached.

The work for each sample is in `forwarding`. This module has the work for each key, the publications of the application, and
rare cases.
"""

from typing import TYPE_CHECKING, Any

from zenlake.core.keyexpr import validate
from zenlake.core.peer_limits import Resource
from zenlake.errors import KeyExprError
from zenlake.network.access_control import INGRESS
from zenlake.network.declarations import may_pass
from zenlake.network.face import SUBSCRIBER, Face
from zenlake.network.forwarding import PushListener, Route, Target
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
            root = node.routers.find_root(face, node_id)
            if root is None:
                return None
            walk = self.walk(face, root, key)
            if not face.is_application:
                route = node.compute(face, (name, node_id), walk)
                return None if route is None else self._cache(face, name, node_id, key, route)
        route = node.run(walk)
        with node.lock:
            return self._cache(face, name, node_id, key, route)

    def _cache(self, face: Face, name: object, node_id: int, key: bytes, route: Route) -> Route:
        routes = face.tree_routes.setdefault(node_id, {}) if node_id else face.routes
        old = routes.pop(name, None)
        if old is not None:
            face.account.release(Resource.ROUTES, measure_route(old))
        if len(key) > MAX_UNUSED and not route.targets and not route.receivers:
            return route  # no targets: not worth its memory
        size = measure_route(route)
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
        return self._route_puts_and_deletes(source, root, key)

    def _route_puts_and_deletes(self, source: Face, root: RemoteRouter, key: bytes) -> Walk[Route]:
        delete_route = yield from self._route_with_access(source, root, key, "delete")
        return (yield from self._route_with_access(source, root, key, "put", delete_route))

    def _route_with_access(
        self, source: Face, root: RemoteRouter, key: bytes, message: str, delete_route: Route | None = None
    ) -> Walk[Route]:
        """Find the targets if access control is configured."""
        if source.guard is not None and not source.guard.allows(INGRESS, message, key):
            no_target = Target(None, *encode_key((0, True, key)))
            return Route(
                self.node.declarations.epoch.number, key, (), (), no_target, delete_route, f"denied: {message}"
            )
        route = yield from self._route(source, root, key)
        targets = tuple(
            target for target in route.targets if target.face.allows_egress(message, key)
        )  # fmt: skip
        return Route(route.epoch, key, route.receivers, targets, route.full_key, delete_route, app_key=route.app_key)

    def _route(self, source: Face, root: RemoteRouter, key: bytes) -> Walk[Route]:
        declarations, is_elected = self.node.declarations, self.node.routers.is_elected
        epoch = declarations.epoch.number  # a change meanwhile makes the route outdated
        faces: dict[Face, None] = {}
        subscribers = yield from declarations.tables[SUBSCRIBER].walk(key)
        for number, resource in enumerate(subscribers, 1):
            if number % MAX_STEPS == 0:
                yield
            for face in resource.holders:
                if isinstance(face, RemoteRouter):
                    if face.zid in root.next_hops and is_elected(source, root, face):
                        faces[root.next_hops[face.zid]] = None
                elif face.is_application or face is source or not face.is_open:
                    continue
                elif may_pass(source, face) and is_elected(source, root, face):
                    faces[face] = None
        for face in list(declarations.faces):
            if face in faces or not may_pass(source, face):
                continue
            if face.receives_all_samples:
                if is_elected(source, root, face):
                    faces[face] = None
            elif face.needs_interests and not (yield from Interests.is_covered(face, key)):
                faces[face] = None  # its subscribers are not all known
        app_key = self.node.application.namespace.strip_prefix(key)
        receivers = () if app_key is None else self.node.application.find_receivers(key, source)
        full_key = Target(None, *encode_key((0, True, key)))
        # Shared: with many keys, memory use dominates the time.
        heads: dict[tuple[WrittenKey, int], tuple[int, Blob, Blob]] = {
            ((0, True, key), 0): (full_key.flags, full_key.key, full_key.key_before_exts)
        }
        targets = []
        for face in faces:
            name = face.wire_key(key), root.psid if face.role is FaceRole.TREE else 0
            if name not in heads:
                heads[name] = encode_key(*name)
            targets.append(Target(face, *heads[name]))
        return Route(epoch, key, receivers, tuple(targets), full_key, app_key=app_key)

    # Publications of the application

    def publish(
        self, key: bytes, tail: bytes, has_exts: bool, qos: int, reliable: bool, local: bool = True, remote: bool = True,
        is_put: bool = True, shared: SharedPayload | None = None,
    ) -> bool:  # fmt: skip
        """Publish a sample, given the bytes after the key.

        Returns:
            False if a connection or a subscriber had no room and dropped it.
        """
        route = self.find_local_route(key)
        if route is not None and not is_put and route.delete_route is not None:
            route = route.delete_route
        if route is None:
            return True
        if shared is not None:
            return self._publish_shared(route, tail, has_exts, qos, reliable, local, remote, shared)
        is_delivered = True
        if local and route.receivers:
            is_delivered = self.deliver(route, write_key(route.full_key, tail, has_exts), None, reliable, qos & 7)
        results = [
            self.send(target, write_key(target, tail, has_exts), qos, reliable) for target in route.targets if remote
        ]
        return is_delivered and all(results)

    def _publish_shared(
        self, route: Route, tail: bytes, has_exts: bool, qos: int, reliable: bool, local: bool, remote: bool,
        shared: SharedPayload,
    ) -> bool:  # fmt: skip
        """Publish a sample whose payload is in shared memory: `tail` has its reference."""
        is_delivered = True
        if local and route.receivers:
            copy = shared.inline(write_key(route.full_key, tail, has_exts))
            is_delivered = copy is not None and self.deliver(route, copy, None, reliable, qos & 7, shared)
        results = [
            self.send(
                target,
                ReferenceMessage.make(write_key(target, tail, has_exts), (shared.buffer,), qos & 7, shared.inline),
                qos,
                reliable,
            )
            for target in route.targets
            if remote
        ]
        return is_delivered and all(results)

    def find_local_route(self, key: bytes) -> Route | None:
        """Return the route of a sample of the application on a key."""
        face = self.node.application
        route: Route | None = face.routes.get(key)
        if route is None or route.epoch != self.node.declarations.epoch.number:
            route = self.find(face, 0, True, key, key)
        return route

    def send(self, target: Target, message: bytes, qos: int, reliable: bool, source: Face | None = None) -> bool:
        """Send to a target. Return False if there was no room and it was dropped. A message that must not be dropped is stored."""
        if target.face.send(message, qos, reliable):
            return True
        self.node.handle_refusal(target.face, source)
        return not target.face.is_open or (reliable and qos & message_ids.QOS_BLOCKING != 0)

    def deliver(
        self, route: Route, message: bytes, source_reader: Any, reliable: bool = True, priority: int = 5, shared: Any = None,
        receivers: tuple[PushListener, ...] | None = None,
    ) -> bool:  # fmt: skip
        """Deliver a sample that is not in a reader yet to the application, or to some of its receivers.

        `source_reader` is the reader that received it.

        Returns:
            False if a subscriber had no room and dropped it.
        """
        reader = self.node.borrow_reader(message)
        reader.shared = shared if source_reader is None else source_reader.shared
        reader.frame.reliable = reliable if source_reader is None else source_reader.frame.reliable
        reader.frame.priority = priority if source_reader is None else source_reader.frame.priority
        try:
            reader.next()
            dropped = [
                self.node.call(receiver.take, route.app_key, reader)
                for receiver in (route.receivers if receivers is None else receivers)
            ]
        finally:
            self.node.return_reader(reader)
        return not any(dropped)

    # Rare cases

    def forward_reference(self, route: Route, reader: Any, source: Face) -> None:
        """Handle a sample whose payload is in shared memory: pass on its references, and a copy of the bytes where needed."""
        if route.denial_counter is not None and not route.targets:
            self.node.counters[route.denial_counter] += 1
        if not route.receivers and not route.targets:
            return
        push = self._copy_push(reader)
        if self.node.adds_timestamps and not self._check_timestamp(push.put):
            return
        payload = reader.shared
        if payload is None:  # a reference on a session that did not negotiate shared memory
            self.node.counters["messages dropped: reference to shared memory without an agreement"] += 1
            return
        message: bytes = push.encode()
        tail, has_exts = message[2:], message[0] & message_ids.Z != 0
        whole = write_key(route.full_key, tail, has_exts)
        without_copy = tuple(each for each in route.receivers if payload.buffer is not None and each.takes_buffers)
        with_copy = tuple(each for each in route.receivers if each not in without_copy)
        if with_copy:
            copy = payload.inline(whole)
            if copy is None:
                self.node.counters["messages dropped: shared memory given up"] += 1
                return
            self.deliver(route, copy, reader, receivers=with_copy)
        if without_copy:
            self.deliver(route, payload.without_payload(whole), reader, receivers=without_copy)
        for target in route.targets:
            shared = ReferenceMessage.make(
                write_key(target, tail, has_exts), payload.buffers, push.qos & 7, payload.inline
            )
            self.send(target, shared, push.qos, reader.frame.reliable != 0, source)

    def _check_timestamp(self, put: Any) -> bool:
        """Set a timestamp if the sample has none or an incredible one. Return False if it is to be dropped."""
        stamp = put.timestamp
        is_ahead = stamp.id.size >= 0 and not self.node.clock.merge(stamp.ntp64, self.node.wall())
        if is_ahead and self.node.drops_future:
            self.node.counters["samples dropped: their timestamp is too far ahead"] += 1
            return False
        if is_ahead or stamp.id.size < 0:
            self.node.restamp(put)
        return True

    def _copy_push(self, reader: Any) -> Push:
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
        push = self._copy_push(reader)
        if self.node.adds_timestamps and push.is_put:
            self.node.restamp(push.put)
        message: bytes = push.encode()
        tail, has_exts = message[2:], message[0] & message_ids.Z != 0
        if route.receivers:
            self.deliver(route, write_key(route.full_key, tail, has_exts), reader)
        for target in route.targets:
            self.send(target, write_key(target, tail, has_exts), push.qos, reader.frame.reliable != 0, source)

    def forward_with_record(self, route: Route, reader: Any, source: Face) -> None:
        """Forward a sample whose timestamp stack asks for a record of this node (1.10)."""
        push = self._copy_push(reader)
        if self.node.adds_timestamps and push.is_put:
            stamp = push.put.timestamp
            if (
                self.node.drops_future
                and stamp.id.size >= 0
                and not self.node.clock.merge(stamp.ntp64, self.node.wall())
            ):
                self.node.counters["samples dropped: their timestamp is too far ahead"] += 1
                return
            self.node.restamp(push.put)
        if route.receivers:
            message: bytes = push.encode()
            self.deliver(route, write_key(route.full_key, message[2:], message[0] & message_ids.Z != 0), reader)
        self.node.add_route_record(push.timestamp_stack)
        message = push.encode()
        tail, has_exts = message[2:], message[0] & message_ids.Z != 0
        for target in route.targets:
            self.send(target, write_key(target, tail, has_exts), push.qos, reader.frame.reliable != 0, source)


def measure_route(route: Route) -> int:
    """Return the bytes that a route takes: its name, its key, and the encoded keys."""
    blobs = {
        id(blob): blob.size
        for target in (*route.targets, route.full_key)
        for blob in (target.key, target.key_before_exts)
    }
    delete_route = 0 if route.delete_route is None else measure_route(route.delete_route)
    size: int = ROUTE + TARGET * len(route.targets) + 2 * len(route.key) + sum(blobs.values()) + delete_route
    return size


def write_key(target: Target, tail: bytes, has_exts: bool) -> bytes:
    """Encode a whole PUSH for a target."""
    key: bytes = (target.key_before_exts if has_exts else target.key).value
    return bytes([message_ids.PUSH | target.flags | (message_ids.Z if has_exts else 0)]) + key + tail


def encode_key(key: WrittenKey, node_id: int = 0) -> tuple[int, Blob, Blob]:
    """Encode a key with its flags, followed by a NodeId: as the last extension, or before others."""
    scope, sender, suffix = key
    flags = message_ids.SENDERS if sender else 0
    w = WireWriter(16)
    w.z64("key_scope", scope)
    if suffix is not None:
        flags |= message_ids.SUFFIX
        w.z64("key_suffix", len(suffix))
        w.run("key_suffix", Blob(suffix))
    if not node_id:
        key_blob = Blob(w.to_bytes())
        return flags, key_blob, key_blob
    key_bytes = w.to_bytes()
    w.clear()
    w.z64("node_id", node_id)
    return (
        flags | message_ids.Z,
        Blob(key_bytes + bytes([message_ids.EXT_NODE_ID]) + w.to_bytes()),
        Blob(key_bytes + bytes([message_ids.EXT_NODE_ID | message_ids.Z]) + w.to_bytes()),
    )
