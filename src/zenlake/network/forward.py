# SPDX-License-Identifier: Apache-2.0
"""The path of every sample that passes: read, looked up, written again. Compiled; no object is made for a sample.

A `Door` is where a connection's messages enter the node. A PUSH is looked up under the key as it is written (`Route`,
worked out by `routes` and good until a declaration changes) and written into the queue of each receiving face: the
header and the key anew, in the way that suits that face, the bytes behind it (extensions known and unknown, body) as
they came. A router that stamps writes its timestamp in between. All else goes to the node.
"""

import cython

from zenlake.network.roles import Stand

if cython.compiled:
    from cython.cimports.zenlake.transport.inbox import Sink
    from cython.cimports.zenlake.transport.queue import Queue
    from cython.cimports.zenlake.wire.cursor import Blob
    from cython.cimports.zenlake.wire.memory import copy, take
    from cython.cimports.zenlake.wire.message import Message
    from cython.cimports.zenlake.wire.network import Push
else:
    from zenlake.transport.inbox import Sink
    from zenlake.transport.queue import Queue
    from zenlake.wire.cursor import Blob
    from zenlake.wire.memory import copy, take
    from zenlake.wire.message import Message
    from zenlake.wire.network import Push

PUSH = cython.declare(cython.int, 0x1D)
Z = cython.declare(cython.int, 0x80)
T = cython.declare(cython.int, 0x20)
BLOCK = cython.declare(cython.int, 0x28)  # the QoS bits of either kind of block
EXPRESS = cython.declare(cython.int, 0x10)
NODE_ID = cython.declare(cython.int, 0x33)  # the extension, and its bit among those
NODE_ID_BIT = cython.declare(cython.ulonglong, 1 << 0x33)


class Epoch:
    """Counts the changes after which a route may be another."""

    def __init__(self):
        self.number = 0


class Lane:
    """The way into a connection's queue from the loop's thread, without a detour."""

    def __init__(self, queue, lock, arm):
        self.queue = queue
        self.acquire = lock.acquire
        self.release = lock.release
        self.arm = arm
        self.armed = False

    def push(self, message, qos, reliable):
        """Queue it. False if there is no room."""
        done: cython.bint
        queue: Queue = self.queue
        self.acquire()
        try:
            if not queue.is_open or queue.ended:
                return True  # it has just closed: whoever is to know will hear of it
            done = queue.push(message, qos & 7, reliable, qos & EXPRESS != 0, qos & BLOCK == 0 or not reliable)
        finally:
            self.release()
        if done and not self.armed:
            self.armed = True
            self.arm()
        return done


class Target:
    """A face that a sample goes to, how the key is written for it, and our number for whose tree it follows (0: ours)."""

    def __init__(self, face, flags, key, node_id):
        self.face = face
        self.lane = None if face is None else face.lane
        self.backlog = None if face is None else face.backlog
        self.flags = flags
        self.key = Blob(key)
        self.node_id = node_id


class Route:
    """Where the samples of one key from one face go."""

    def __init__(self, epoch, key, receivers, targets, whole):
        self.epoch = epoch
        self.key = key
        self.receivers = receivers  # subscribers of the application
        self.targets = targets
        self.whole = whole  # the key written in full


class Forwarded(Message):
    """A PUSH whose bytes lie elsewhere: written again with another key, another node id, and a timestamp if it is to have one."""

    NAME = "PUSH"
    ID = 0x1D

    def __init__(self):
        self.flags = 0
        self.key = None
        self.node_id = 0
        self.had_node_id = False
        self.source = None
        self.at = 0
        self.body_at = 0
        self.end = 0
        self.ntp64 = 0
        self.clock_id = Blob()
        Message.__init__(self)

    def write(self, w):
        at: cython.Py_ssize_t = self.at
        if self.node_id == 0 and not self.had_node_id:
            w.header(PUSH | self.flags)
            w.run("key", self.key)
        else:
            w.header(PUSH | (self.flags & ~Z))
            w.run("key", self.key)
            if self.node_id != 0:
                w.ext_z64(NODE_ID, self.node_id)
            if self.flags & Z:
                w.unknown(self.source, NODE_ID_BIT, 0)
            at = self.body_at
        w.need(self.end - at + 32)
        if self.ntp64 == 0:
            self.copied(w, at, self.end)
            return 0
        self.copied(w, at, self.body_at)
        w.data[w.at] = self.source.data[self.body_at] | T
        w.at += 1
        w.z64("timestamp.time", self.ntp64)
        w.z64("timestamp.id_len", self.clock_id.size)
        w.run("timestamp.id", self.clock_id)
        w.need(self.end - self.body_at)
        self.copied(w, self.body_at + 1, self.end)
        return 0

    def copied(self, w, at, end):
        copy(w.data, w.at, self.source.data, at, end - at)
        w.at += end - at
        return 0


class Door(Sink):
    """Where one connection's messages enter the node."""

    def __init__(self, node, join=None):
        self.node = node
        self.join = join
        self.face = None
        self.routes = {}
        self.tree_routes = {}
        self.is_tree = False
        self.epoch = node.declarations.epoch
        self.clock = node.clock
        self.stamps = node.stamps
        self.message = Forwarded()
        self.message.clock_id.set(node.zid)
        self.last_start = 0
        self.now = 0

    def enter(self, face):
        """From now on: its messages."""
        self.face = face
        self.routes = face.routes
        self.tree_routes = face.tree_routes
        self.is_tree = face.stand is Stand.TREE

    def on_message(self, kind, reader):
        if self.face is None:  # what came with the OpenAck, in the same read, is here before the news that it is open
            self.join()
        if kind == PUSH:
            return self.push(reader)
        self.node.on_message(self.face, kind, reader)
        return 0

    def push(self, reader):
        push: Push = reader.push
        route: Route = self.find(push.key, push.node_id if self.is_tree else 0)  # of others it has no meaning
        if route is None or (not route.targets and not route.receivers):
            return 0
        m: Forwarded = self.message
        m.ntp64 = 0
        if self.stamps and push.is_put:
            if reader.start <= self.last_start:  # another batch: look at the clock
                self.now = self.node.wall()
            self.last_start = reader.start
            if push.put.timestamp.id.size < 0:
                m.ntp64 = self.clock.tick(self.now)
            elif not self.clock.merge(push.put.timestamp.ntp64, self.now):
                return self.rewritten(reader, route)
        m.had_node_id = push.node_id != 0
        m.source = push.exts
        m.at = push.exts.at if push.exts.size >= 0 else push.body_at
        m.body_at = push.body_at
        m.end = reader.c.at
        reliable: cython.bint = reader.frame.reliable
        if route.receivers:
            if m.ntp64:
                self.node.routes.show(route, self.written(route.whole, push), reader)
            else:
                self.node.show(self.face, route, reader)
        target: Target
        for target in route.targets:
            self.send(target, push, reliable)
        return 0

    def find(self, wire, node_id):
        """The route of a key as it is written, along the tree of a node; None if there is none."""
        name: object
        if wire.suffix.size < 0:
            name = 2 * wire.scope + wire.sender
        else:
            suffix: bytes = take(wire.suffix.data, wire.suffix.at, wire.suffix.size)
            name = suffix if wire.scope == 0 else (2 * wire.scope + wire.sender, suffix)
        routes: dict = self.routes
        if node_id != 0:
            routes = self.tree_routes.get(node_id)
        found = None if routes is None else routes.get(name)
        route: Route = found
        if route is None or route.epoch != self.epoch.number:
            route = self.node.routes.find(self.face, wire.scope, wire.sender != 0, wire.suffix.value, name, node_id)
        return route

    def prepared(self, target, push):
        m: Forwarded = self.message
        m.flags = target.flags | (Z if push.exts.size >= 0 else 0)
        m.key = target.key
        m.node_id = target.node_id
        return m

    def written(self, target, push):
        return self.prepared(target, push).encode()

    def send(self, target, push, reliable):
        lane: Lane = target.lane
        in_order: cython.bint = push.qos & BLOCK == 0 or not target.backlog  # never before what was kept
        self.prepared(target, push)
        if lane is not None and in_order and lane.push(self.message, push.qos, reliable):
            return 0
        if not target.face.send(self.message.encode(), push.qos, reliable):
            self.node.refused(target.face, self.face)
        return 0

    def rewritten(self, reader, route):
        """What is seldom: another timestamp instead of its own."""
        self.node.routes.rewrite(route, reader, self.face)
        return 0
