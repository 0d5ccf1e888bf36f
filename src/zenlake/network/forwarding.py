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

from zenlake.network.jobs import BUDGET
from zenlake.network.roles import FaceRole

if cython.compiled:
    import cython.cimports.zenlake.wire.message_ids as message_ids
    from cython.cimports.zenlake.transport.rx import Sink
    from cython.cimports.zenlake.transport.tx_queue import join_buffers
    from cython.cimports.zenlake.wire.cursor import Blob, Cursor
    from cython.cimports.zenlake.wire.network import Push
    from cython.cimports.zenlake.wire.raw_memory import copy, equal_bytes, short_vle, take
    from cython.cimports.zenlake.wire.writer import WireWriter
else:
    from zenlake.transport.rx import Sink
    from zenlake.transport.tx_queue import join_buffers
    from zenlake.wire import message_ids
    from zenlake.wire.cursor import Blob, Cursor
    from zenlake.wire.network import Push
    from zenlake.wire.raw_memory import copy, equal_bytes, short_vle, take
    from zenlake.wire.writer import WireWriter

# PUSH is Z|M|N|id, PUT is Z|E|T|id
MIN_MESSAGE = cython.declare(cython.Py_ssize_t, 5)  # bytes: a header and the longest id that `short_vle` decodes
NODE_ID = cython.declare(cython.ulonglong, 1 << 0x33)  # header byte of the extension, as a bit
FULL = cython.declare(cython.int, 0)  # results of a queue
OVER = cython.declare(cython.int, 2)
NO_LIMIT = cython.declare(cython.Py_ssize_t, 0x7FFFFFFFFFFFFFFF)
BLOCK = cython.declare(cython.int, 0x28)  # QoS bits of the two blocking congestion controls
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
        runs: bool = False  # whether it implements `take_run`
        mode: object = None  # for a listener to replies: the consolidation mode of the query

    def take(self, key, reader):
        """Receive one sample on this key, valid in `reader.push` until this returns.

        Returns:
            1 if there was no room and the sample was dropped, otherwise 0.
        """
        return 0

    def take_run(self, dispatcher, reader):
        """Receive consecutive messages of a reader in one call.

        The messages are publications for this listener only (`dispatcher.key_for`). The method moves the reader behind them.
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


class QueueHandle:
    """Fast path from the event loop thread into the transmit queue of a connection."""

    def __init__(self, queue, lock, arm):
        self.queue = queue
        self.acquire = lock.acquire
        self.release = lock.release
        self.arm = arm
        self.limit = NO_LIMIT  # size from which messages take the normal path, which can move them into shared memory
        self.armed = False
        self.held = False

    @property
    def is_over(self):
        """Whether the queue is over its limit."""
        return self.queue.is_over

    @property
    def is_poor(self):
        """Whether the last message was refused because of the memory limit of all connections."""
        return self.queue.poor

    @property
    def waiting(self):
        """Queued bytes."""
        return self.queue.held

    def hold(self):
        """Lock the queue until `release_held`."""
        self.acquire()
        self.held = True
        return 0

    def release_held(self):
        self.held = False
        self.release()
        if not self.armed and self.queue.begun + self.queue.complete > 0:
            self.armed = True
            self.arm()
        return 0


class Target:
    """A face that receives a sample, and the key as encoded for it, with a NodeId if the sample follows a tree.

    `more` is the same as `key` for samples that have further extensions.
    """

    def __init__(self, face, flags, key, more):
        self.face = face
        self.lane = None if face is None else face.lane
        self.way = None if face is None else face.way
        self.backlog = None if face is None else face.backlog
        self.flags = flags
        self.key = key
        self.more = more


class Route:
    """Destinations of the samples on one key from one face, along one tree."""

    def __init__(self, epoch, key, receivers, targets, whole, deleting=None, denied=None, shown=None):
        self.epoch = epoch
        self.key = key
        self.shown = key if shown is None else shown  # the key as the application sees it
        self.receivers = receivers  # listeners of the application
        self.targets = targets
        self.whole = whole  # the full key, encoded
        self.deleting = deleting  # route of deletions, if different
        self.denied = denied  # counter name if sending is denied
        self.along_tree = any(target.flags & message_ids.Z for target in targets)  # follows the tree of another router
        self.only = receivers[0] if len(receivers) == 1 and not targets else None  # the only receiver


class RxDispatcher(Sink):
    """Receiver of the messages of one connection."""

    def __init__(self, node, join=None):
        self.node = node
        self.join = join
        self.takes_references = True
        self.face = None
        self.routes = {}
        self.tree_routes = {}
        self.is_tree = False
        self.epoch = node.declarations.epoch
        self.reading = node.reading
        self.clock = node.clock
        self.stamps = node.stamps
        self.own_id = Blob(node.zid)
        self.held = deque()
        self.last = None
        self.last_suffix = b""
        self.last_size = 0
        self.last_scope = 0
        self.last_node_id = 0
        self.now = 0
        self.began = -1.0
        # The current sample, after its key: the inserted bytes, and the position of the unchanged rest.
        self.before = WireWriter(64)
        self.has_exts = False
        self.rest = None
        self.rest_at = 0
        self.rest_end = 0
        # Fast path for the replies to a query, and the request id of that query.
        self.asked = None
        self.asked_id = 0
        self.theirs = None
        self.mine = None

    def enter(self, face):
        """Attach the face of the connection. Called before its first message."""
        self.face = face
        if face.sink is None:
            face.sink = self
        self.routes = face.routes
        self.tree_routes = face.tree_routes
        self.is_tree = face.stand is FaceRole.TREE
        self.theirs = face.theirs
        self.mine = face.mine

    def begin(self):
        """Begin the messages of one read. The clock is read only when needed."""
        self.now = 0
        self.began = -1.0
        return 0

    def check_time(self):
        """Check the time before and after expensive work. Defer the rest of the read to the next turn if it exceeds the limit."""
        now: cython.double = self.node.now()
        if self.began < 0:
            self.began = now
        elif now - self.began > MAX_SECONDS:
            self.node.jobs.defer(self.face)
        return 0

    def finish(self):
        """Release the locks after a message."""
        lane: QueueHandle
        while self.held:
            lane = self.held.popleft()
            lane.release_held()
        if self.reading.face is not None:
            self.reading.face = None
        return 0

    def on_message(self, kind, reader):
        if self.face is None:  # messages in the same read as the OpenAck arrive before the event `opened`
            self.join()
        if kind == message_ids.PUSH:
            return self.push(reader)
        self.finish()
        if kind != message_ids.RESPONSE:
            self.asked = None  # it may have been the last reply: then the id is free for another query
        elif self.answer(reader):
            return 0
        if self.began < 0:
            self.check_time()
        self.node.on_message(self.face, kind, reader)
        return self.check_time()

    def answer(self, reader):
        """Deliver a reply on the fast path of a query of the application. Return False for any other reply."""
        if self.asked is None or reader.response.id != self.asked_id:
            self.asked_id = reader.response.id
            question = self.face.requests.get(self.asked_id)
            self.asked = None if question is None else question.answers
        if self.asked is None:
            return False
        self.reading.face = self.face
        try:
            return self.asked.take(reader, self.theirs, self.mine)
        except Exception as error:
            self.node.on_error(error)
        finally:
            self.reading.face = None
        return True

    def push(self, reader):
        push: Push = reader.push
        route: Route = self.find(push.key, push.node_id if self.is_tree else 0)  # has no meaning from other roles
        if route is None:
            return 0
        if not push.is_put and route.deleting is not None:
            route = route.deleting
        if push.is_put and push.put.shm:
            self.finish()
            self.node.routes.pass_on(route, reader, self.face)
            return 0
        if route.only is not None and not self.stamps:
            if self.held:
                self.finish()
            self.runs = route.only.runs
            return self.show_one(route.only, route.shown, reader)
        if not route.targets and not route.receivers:
            if route.denied is not None:
                self.node.counters[route.denied] += 1
            return 0
        w: WireWriter = self.before
        w.clear()
        self.rest = push.exts
        self.has_exts = push.exts.size >= 0
        self.rest_at = push.exts.at if self.has_exts else push.body_at
        self.rest_end = reader.c.at
        if self.has_exts and (push.node_id != 0 or route.along_tree):
            w.unknown(push.exts, NODE_ID, 0)
            self.has_exts = w.at > 0
            self.rest_at = push.body_at
        stamped: cython.bint = False
        if self.stamps and push.is_put:
            if self.now == 0:
                self.now = self.node.wall()
            if push.put.timestamp.id.size < 0:
                self.stamp(w, push)
                stamped = True
            elif not self.clock.merge(push.put.timestamp.ntp64, self.now):
                return self.rewritten(reader, route)
        if route.receivers:
            self.finish()
            if stamped:
                self.node.routes.show(route, self.written(route.whole), reader)
            else:
                self.show(route, reader)
        reliable: cython.bint = reader.frame.reliable
        target: Target
        for target in route.targets:
            self.send(target, push, reliable)
        return 0

    def show(self, route, reader):
        """Deliver the sample to the application."""
        listener: PushListener
        for listener in route.receivers:
            self.show_one(listener, route.shown, reader)
        return 0

    def show_one(self, listener, key, reader):
        if self.reading.face is not self.face:
            self.reading.face = self.face
        try:
            listener.take(key, reader)
        except Exception as error:
            self.node.on_error(error)
        return 0

    def stamp(self, w, push):
        """Insert a timestamp of this node between the header of the body and the rest."""
        size: cython.Py_ssize_t = push.body_at - self.rest_at
        w.need(size + 32)
        copy(w.data, w.at, self.rest.data, self.rest_at, size)
        w.at += size
        w.data[w.at] = self.rest.data[push.body_at] | message_ids.STAMPED
        w.at += 1
        w.z64("timestamp.time", self.clock.tick(self.now))
        w.z64("timestamp.id_len", self.own_id.size)
        w.run("timestamp.id", self.own_id)
        self.rest_at = push.body_at + 1
        return 0

    def on_run(self, reader):
        """Deliver consecutive publications if the first is for one listener only, which implements `take_run`."""
        c: Cursor = reader.c
        if c.end - c.at < MIN_MESSAGE:
            return 0
        self.runs = False
        header: cython.int = c.data[c.at]
        scope: cython.longlong = short_vle(c.data, c.at + 1)
        if header & (message_ids.KIND | message_ids.SUFFIX) != message_ids.PUSH or scope < 0:
            return 0
        route: Route = self.known((scope >> 3) * 2 + (header & message_ids.SENDERS != 0))
        if route is None or route.only is None or not route.only.runs:
            return 0
        self.runs = True
        if self.held:
            self.finish()
        if self.reading.face is not self.face:
            self.reading.face = self.face
        try:
            return route.only.take_run(self, reader)
        except Exception as error:
            self.node.on_error(error)
        return 0

    def known(self, scope):
        """Return the cached route of a declared key, or None if it is missing or outdated."""
        route: Route = self.last
        if route is None or scope != self.last_scope or self.last_size >= 0 or self.last_node_id != 0:
            found = self.routes.get(scope)
            route = found
        return route if route is not None and route.epoch == self.epoch.number else None

    def key_for(self, listener, scope):
        """Return the key of an id as the application sees it, or None if this listener is not the only receiver.

        The id is negative if this node declared it, positive if the neighbour did.
        """
        route: Route = self.known(2 * scope + 1 if scope > 0 else -2 * scope)
        return route.shown if route is not None and route.only is listener else None

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
        found = None if routes is None else routes.get(name)
        route = found
        if route is None or route.epoch != self.epoch.number:
            self.finish()
            if self.began < 0:
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
        return target.more if self.has_exts else target.key

    def written(self, target):
        """Return the whole message as contiguous bytes."""
        header: cython.int = self.header(target)
        return join_buffers(header, self.key(target), self.before, self.rest, self.rest_at, self.rest_end)

    def send(self, target, push, reliable):
        lane: QueueHandle = target.lane
        if (
            lane is not None
            and self.rest_end - self.rest_at < lane.limit
            and (push.qos & BLOCK == 0 or not target.backlog)  # keeps the order behind the backlog
        ):
            if not lane.held:
                lane.hold()
                self.held.append(lane)
            answer: cython.int = lane.queue.splice(
                self.header(target), self.key(target), self.before, self.rest, self.rest_at, self.rest_end,
                push.qos, reliable,
            )  # fmt: skip
            if answer == OVER:
                self.node.is_overfull(target.face, self.face)
            if answer != FULL:
                return 0
        if not target.face.send(self.written(target), push.qos, reliable):
            self.node.refused(target.face, self.face)
        return 0

    def rewritten(self, reader, route):
        """Replace the timestamp of a sample. This is rare."""
        self.finish()
        self.node.routes.rewrite(route, reader, self.face)
        return 0
