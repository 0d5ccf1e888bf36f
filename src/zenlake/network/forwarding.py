# SPDX-License-Identifier: Apache-2.0
"""Forwarding path of samples: decode, look up, encode. Compiled; no object is created for a forwarded sample.

A `RxDispatcher` receives the messages of one connection. A PUSH is looked up by its encoded key. `routing` computes its
`Route`, which is valid until a declaration changes. The PUSH is then written into the queue of each receiving face. Header
and key are encoded for that face. The remaining bytes (known and unknown extensions, body) are copied unchanged. A router
that adds timestamps inserts its timestamp in between. Between routers the NodeId selects the tree that a sample follows. It
is part of the encoded key, and the received NodeId is removed. All other messages go to the node.

Threading: the lock of a receiving queue is taken once for all samples of one read. It is released before any other
message is handled, so no foreign code runs while it is held.
"""

from collections import deque

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.transport.queue_handle import QueueHandle
from cython.cimports.zenlake.transport.rx import Sink
from cython.cimports.zenlake.transport.tx_queue import join_buffers
from cython.cimports.zenlake.wire.cursor import Blob, Cursor
from cython.cimports.zenlake.wire.network import Push
from cython.cimports.zenlake.wire.push_scan import OTHER, scan_key_id
from cython.cimports.zenlake.wire.raw_memory import copy, equal_bytes, take
from cython.cimports.zenlake.wire.writer import WireWriter

from zenlake.network.jobs import BUDGET
from zenlake.network.roles import FaceRole

# PUSH is Z|M|N|id, PUT is Z|E|T|id
ROUTED = cython.declare(cython.int, 0x02)  # point of a timestamp stack
NODE_ID = cython.declare(
    cython.ulonglong, cython.cast(cython.ulonglong, 1) << message_ids.EXT_NODE_ID
)  # header byte of the extension, as a bit
FULL = cython.declare(cython.int, 0)  # results of a queue
OVER = cython.declare(cython.int, 2)
MAX_SECONDS = cython.declare(cython.double, BUDGET)


class RouteVersion:
    """Counter of changes that can invalidate routes."""

    def __init__(self):
        self.number = 0


class CurrentMessage:
    """The face whose message is being handled, or None on other threads and between messages."""

    def __init__(self):
        self.face = None


class PushListener:
    """Receiver of the samples of a subscription. Subclass it where the cost per sample matters."""

    if not cython.compiled:  # compiled: an attribute, in the .pxd
        accepts_runs: bool = False  # whether it implements `take_run`
        takes_buffers: bool = (
            False  # whether `take` reads payloads from `reader.shared.buffer`, so that they need no copy
        )
        mode: object = None  # for a listener to replies: the consolidation mode of the query

    def take(self, key, reader):
        """Receive one sample on this key, valid in `reader.push` until this returns.

        Returns:
            1 if there was no room and the sample was dropped, otherwise 0.
        """
        return 0

    def take_run(self, dispatcher, reader):
        """Receive consecutive messages of a reader in one call.

        The messages are publications for this listener only (`dispatcher.app_key_for`). The method moves the reader behind them.
        The first other message is passed to `take`.

        Returns:
            The number of messages.
        """
        return 0


class CallbackListener(PushListener):
    """A listener that calls a function."""

    def __init__(self, deliver):
        self.deliver = deliver

    def take(self, key, reader):
        self.deliver(key, reader)
        return 0


class Target:
    """A face that receives a sample, and the key as encoded for it, with a NodeId if the sample follows a tree.

    `key_before_exts` is the same as `key` for samples that have further extensions.
    """

    def __init__(self, face, flags, key, key_before_exts):
        self.face = face
        self.queue_handle = None if face is None else face.queue_handle
        self.backlog = None if face is None else face.backlog
        self.flags = flags
        self.key = key
        self.key_before_exts = key_before_exts


class Route:
    """Destinations of the samples on one key from one face, along one tree."""

    def __init__(self, epoch, key, receivers, targets, full_key, delete_route=None, denial_counter=None, app_key=None):
        self.epoch = epoch
        self.key = key
        self.app_key = key if app_key is None else app_key  # the key as the application sees it
        self.receivers = receivers  # listeners of the application
        self.targets = targets
        self.full_key = full_key  # the full key, encoded
        self.delete_route = delete_route  # route of deletions, if different
        self.denial_counter = denial_counter  # counter name if sending is denied
        self.follows_tree = any(target.flags & message_ids.Z for target in targets)  # the tree of another router
        self.single_receiver = receivers[0] if len(receivers) == 1 and not targets else None


class RxDispatcher(Sink):
    """Receiver of the messages of one connection."""

    def __init__(self, node, on_first_message=None):
        self.node = node
        self.on_first_message = on_first_message
        self.takes_references = True
        self.face = None
        self.routes = {}
        self.tree_routes = {}
        self.is_tree = False
        self.epoch = node.declarations.epoch
        self.current_message = node.current_message
        self.clock = node.clock
        self.adds_timestamps = node.adds_timestamps
        self.own_id = Blob(node.zid)
        self.locked_handles = deque()
        self.last = None
        self.last_suffix = b""
        self.last_size = 0
        self.last_scope = 0
        self.last_node_id = 0
        self.now = 0
        self.start_time = -1.0
        # The current sample, after its key: the inserted bytes, and the position of the unchanged tail.
        self.prefix = WireWriter(64)
        self.has_exts = False
        self.tail = None
        self.tail_at = 0
        self.tail_end = 0
        # Fast path for the replies to a query, and the request id of that query.
        self.reply_path = None
        self.reply_path_id = 0
        self.remote_keys = None
        self.local_keys = None

    def attach(self, face):
        """Attach the face of the connection. Called before its first message."""
        self.face = face
        if face.sink is None:
            face.sink = self
        self.routes = face.routes
        self.tree_routes = face.tree_routes
        self.is_tree = face.role is FaceRole.TREE
        self.remote_keys = face.remote_keys
        self.local_keys = face.local_keys

    def begin(self):
        """Begin the messages of one read. The clock is read only when needed."""
        self.now = 0
        self.start_time = -1.0
        return 0

    def check_time(self):
        """Check the time before and after expensive work. Defer the rest of the read to the next turn if it exceeds the limit."""
        now: cython.double = self.node.now()
        if self.start_time < 0:
            self.start_time = now
        elif now - self.start_time > MAX_SECONDS:
            self.node.jobs.defer(self.face)
        return 0

    def finish(self):
        """Release the locks after a message."""
        handle: QueueHandle
        while self.locked_handles:
            handle = self.locked_handles.popleft()
            handle.is_held = False
            handle.end(False)
        if self.current_message.face is not None:
            self.current_message.face = None
        return 0

    def on_message(self, kind, reader):
        if self.face is None:  # messages in the same read as the OpenAck arrive before the event `opened`
            self.on_first_message()
        if kind == message_ids.PUSH:
            return self.push(reader)
        self.finish()
        if kind != message_ids.RESPONSE:
            self.reply_path = None  # it may have been the last reply: then the id is free for another query
        elif self.take_reply(reader):
            return 0
        if self.start_time < 0:
            self.check_time()
        self.node.on_message(self.face, kind, reader)
        return self.check_time()

    def take_reply(self, reader):
        """Deliver a reply on the fast path of a query of the application. Return False for any other reply."""
        if self.reply_path is None or reader.response.id != self.reply_path_id:
            self.reply_path_id = reader.response.id
            pending = self.face.requests.get(self.reply_path_id)
            self.reply_path = None if pending is None else pending.fast_path
        if self.reply_path is None:
            return False
        self.current_message.face = self.face
        try:
            return self.reply_path.take(reader, self.remote_keys, self.local_keys)
        except Exception as error:
            self.node.on_error(error)
        finally:
            self.current_message.face = None
        return True

    def push(self, reader):
        push: Push = reader.push
        route: Route = self.find(push.key, push.node_id if self.is_tree else 0)  # has no meaning from other roles
        if route is None:
            return 0
        if not push.is_put and route.delete_route is not None:
            route = route.delete_route
        if push.is_put and push.put.shm:
            self.finish()
            self.node.routes.forward_reference(route, reader, self.face)
            return 0
        if route.single_receiver is not None and not self.adds_timestamps:
            if self.locked_handles:
                self.finish()
            self.accepts_runs = route.single_receiver.accepts_runs
            return self.deliver_to(route.single_receiver, route.app_key, reader)
        if not route.targets and not route.receivers:
            if route.denial_counter is not None:
                self.node.counters[route.denial_counter] += 1
            return 0
        if (
            push.timestamp_stack.size > 0
            and route.targets
            and push.timestamp_stack.data[push.timestamp_stack.at] & ROUTED != 0
        ):
            self.finish()
            self.node.routes.forward_with_record(route, reader, self.face)
            return 0
        w: WireWriter = self.prefix
        w.clear()
        self.tail = push.exts
        self.has_exts = push.exts.size >= 0
        self.tail_at = push.exts.at if self.has_exts else push.body_at
        self.tail_end = reader.c.at
        if self.has_exts and (push.node_id != 0 or route.follows_tree):
            w.copy_unknown(push.exts, NODE_ID, 0)
            self.has_exts = w.at > 0
            self.tail_at = push.body_at
        has_new_timestamp: cython.bint = False
        if self.adds_timestamps and push.is_put:
            if self.now == 0:
                self.now = self.node.wall()
            if push.put.timestamp.id.size < 0:
                self.stamp(w, push)
                has_new_timestamp = True
            elif not self.clock.merge(push.put.timestamp.ntp64, self.now):
                return self.rewrite_timestamp(reader, route)
        if route.receivers:
            self.finish()
            if has_new_timestamp:
                self.node.routes.deliver(route, self.encode_for(route.full_key), reader)
            else:
                self.deliver(route, reader)
        reliable: cython.bint = reader.frame.reliable
        target: Target
        for target in route.targets:
            self.send(target, push, reliable)
        return 0

    def deliver(self, route, reader):
        """Deliver the sample to the application."""
        listener: PushListener
        for listener in route.receivers:
            self.deliver_to(listener, route.app_key, reader)
        return 0

    def deliver_to(self, listener, key, reader):
        if self.current_message.face is not self.face:
            self.current_message.face = self.face
        try:
            listener.take(key, reader)
        except Exception as error:
            self.node.on_error(error)
        return 0

    def stamp(self, w, push):
        """Insert a timestamp of this node between the header of the body and the tail."""
        size: cython.Py_ssize_t = push.body_at - self.tail_at
        w.need(size + 32)
        copy(w.data, w.at, self.tail.data, self.tail_at, size)
        w.at += size
        w.data[w.at] = self.tail.data[push.body_at] | message_ids.STAMPED
        w.at += 1
        w.z64("timestamp.time", self.clock.tick(self.now))
        w.z64("timestamp.id_len", self.own_id.size)
        w.run("timestamp.id", self.own_id)
        self.tail_at = push.body_at + 1
        return 0

    def on_run(self, reader):
        """Deliver consecutive publications if the first is for one listener only, which implements `take_run`."""
        c: Cursor = reader.c
        scope: cython.longlong = scan_key_id(c.data, c.at, c.end)
        self.accepts_runs = c.at == c.end  # the next batch may begin with a run
        if scope == OTHER:
            return 0
        route: Route = self.find_cached(scope)
        if route is None or route.single_receiver is None or not route.single_receiver.accepts_runs:
            return 0
        self.accepts_runs = True
        if self.locked_handles:
            self.finish()
        if self.current_message.face is not self.face:
            self.current_message.face = self.face
        try:
            return route.single_receiver.take_run(self, reader)
        except Exception as error:
            self.node.on_error(error)
        return 0

    def find_cached(self, scope):
        """Return the cached route of a declared key, or None if it is missing or outdated."""
        route: Route = self.last
        if route is None or scope != self.last_scope or self.last_size >= 0 or self.last_node_id != 0:
            entry = self.routes.get(scope)
            route = entry
        return route if route is not None and route.epoch == self.epoch.number else None

    def app_key_for(self, listener, scope):
        """Return the key of an id as the application sees it, or None if this listener is not the only receiver.

        The id is negative if this node declared it, positive if the neighbour did.
        """
        route: Route = self.find_cached(2 * scope + 1 if scope > 0 else -2 * scope)
        return route.app_key if route is not None and route.single_receiver is listener else None

    def find(self, wire, node_id):
        """Return the route of an encoded key along the tree of a node, or None if it has no route."""
        name: object
        route: Route = self.last
        scope: cython.ulonglong = 2 * wire.scope + wire.sender
        size: cython.Py_ssize_t = wire.suffix.size
        if (
            route is not None
            and scope == self.last_scope
            and node_id == self.last_node_id
            and size == self.last_size
            and route.epoch == self.epoch.number
            and (size <= 0 or equal_bytes(wire.suffix.data, wire.suffix.at, self.last_suffix, 0, size))
        ):
            return route  # the same key as in the previous message
        self.last = None
        suffix: bytes = b""
        if size < 0:
            name = scope
        else:
            suffix = take(wire.suffix.data, wire.suffix.at, size)
            name = suffix if wire.scope == 0 else (scope, suffix)
        routes: dict = self.routes
        if node_id != 0:
            routes = self.tree_routes.get(node_id)
        entry = None if routes is None else routes.get(name)
        route = entry
        if route is None or route.epoch != self.epoch.number:
            self.finish()
            if self.start_time < 0:
                self.check_time()
            route = self.node.routes.find(self.face, wire.scope, wire.sender != 0, wire.suffix.value, name, node_id)
            self.check_time()
        self.last = route
        self.last_scope = scope
        self.last_node_id = node_id
        self.last_suffix = suffix
        self.last_size = size
        return route

    def header(self, target):
        return message_ids.PUSH | target.flags | (message_ids.Z if self.has_exts else 0)

    def key(self, target):
        return target.key_before_exts if self.has_exts else target.key

    def encode_for(self, target):
        """Return the whole message as contiguous bytes."""
        header: cython.int = self.header(target)
        return join_buffers(header, self.key(target), self.prefix, self.tail, self.tail_at, self.tail_end)

    def send(self, target, push, reliable):
        handle: QueueHandle = target.queue_handle
        if (
            handle is not None
            and self.tail_end - self.tail_at < handle.limit
            and (push.qos & message_ids.QOS_BLOCKING == 0 or not target.backlog)  # keeps the order behind the backlog
        ):
            if not handle.is_held:
                handle.begin()
                handle.is_held = True
                self.locked_handles.append(handle)
            result: cython.int = handle.queue.splice(
                self.header(target), self.key(target), self.prefix, self.tail, self.tail_at, self.tail_end,
                push.qos, reliable,
            )  # fmt: skip
            if result == OVER:
                self.node.handle_full_queue(target.face, self.face)
            if result != FULL:
                return 0
        if not target.face.send(self.encode_for(target), push.qos, reliable):
            self.node.handle_refusal(target.face, self.face)
        return 0

    def rewrite_timestamp(self, reader, route):
        """Replace the timestamp of a sample. This is rare."""
        self.finish()
        self.node.routes.rewrite(route, reader, self.face)
        return 0
