# SPDX-License-Identifier: Apache-2.0
"""What the application puts again and again: one key, the same settings, another payload. Compiled.

All that comes before the payload is written once (`Post.head`); where it goes is worked out once and good until a
declaration changes. So a put is: look whether the route still holds, and write key, head and payload straight into the
batch of each connection, through its `Way`. What has a timestamp, an attachment or the like goes through
`Application.put`.
"""

import cython

if cython.compiled:
    import cython.cimports.zenlake.wire.ids as ids
    from cython.cimports.zenlake.network.forward import Epoch, Route, Target
    from cython.cimports.zenlake.wire.memory import copy
    from cython.cimports.zenlake.wire.message import Message
    from cython.cimports.zenlake.wire.network import Push
else:
    from zenlake.network.forward import Epoch, Route, Target  # noqa: F401
    from zenlake.wire import ids
    from zenlake.wire.memory import copy
    from zenlake.wire.message import Message
    from zenlake.wire.network import Push


class Way:
    """From a thread of the application's into a connection's queue; the runtime has the one that writes to a link."""

    def send(self, message, qos, reliable):
        """Queue it, and see to it that it leaves. False, and nothing happened, if there is no room."""
        return False

    def begin(self):
        """Many messages follow: nobody else sends until `end`."""

    def add(self, message, qos, reliable):
        """Between `begin` and `end`: queue it. False, and nothing happened, if there is no room."""
        return False

    def end(self):
        """See to it that what was added leaves."""


class Posted(Message):
    """A PUSH as it is put: a target's key, what all have in common, and a payload of its own."""

    NAME = "PUSH"
    ID = 0x1D

    def __init__(self, head):
        self.flags = 0
        self.key = None
        self.head = self.first = head  # the bytes, and where they lie
        self.head_size = len(head)
        self.busy = False
        self.fill(b"")
        Message.__init__(self)

    def fill(self, payload):
        self.payload = self.data = payload
        self.size = len(payload)
        return 0

    def lay(self, payload):
        """As `fill`, for a payload that somebody else keeps as long as it matters; an absent one is empty."""
        self.size = max(payload.size, 0)
        if cython.compiled:
            self.data = payload.data + payload.at
        else:
            self.data = payload.data[payload.at : payload.at + self.size]
        return 0

    def write(self, w):
        w.need(1 + self.key.size + self.head_size + 10 + self.size)
        w.data[w.at] = ids.PUSH | self.flags
        w.at += 1
        copy(w.data, w.at, self.key.data, self.key.at, self.key.size)
        w.at += self.key.size
        copy(w.data, w.at, self.first, 0, self.head_size)
        w.at += self.head_size
        w.z64("payload", self.size)
        copy(w.data, w.at, self.data, 0, self.size)
        w.at += self.size
        return 0


def posted(encoding, qos):
    """What is put with these settings, as yet on no key."""
    push = Push(key=(0, False, None), qos=qos)
    push.put.encoding.set(encoding)
    whole = push.encode()  # header, key (one byte), what they have in common, and the length of no payload: 0
    message: Posted = Posted(whole[2 : len(whole) - 1])
    message.flags = whole[0] & ids.Z
    return message


class Post:
    """Puts on one key, with the same settings. From any thread."""

    def __init__(self, node, key, encoding, qos, reliable, local, remote):
        self.node = node
        self.key = key
        self.qos = qos
        self.reliable = reliable
        self.local = local
        self.remote = remote
        self.epoch = node.declarations.epoch
        self.route = None
        self.message = posted(encoding, qos)
        self.flags = self.message.flags

    def put(self, payload):
        """Publish bytes. False if a connection or a subscriber had no room and dropped it."""
        route: Route = self.route
        if route is None or route.epoch != self.epoch.number:
            route = self.node.routes.published(self.key)
            self.route = route
            if route is None:
                return True
        message: Posted = self.message
        if message.busy:  # by another thread
            message = Posted(message.head)
        message.busy = True
        message.fill(payload)
        try:
            return self.sent(message, route)
        finally:
            message.fill(b"")
            message.busy = False

    def sent(self, message, route):
        target: Target
        way: Way
        queued: cython.bint = True
        if self.local and route.receivers:
            target = route.whole
            message.flags = target.flags | self.flags
            message.key = target.key
            queued = self.node.routes.show(route, message.encode(), None, self.reliable, self.qos & 7)
        if not self.remote:
            return queued
        for target in route.targets:
            message.flags = target.flags | self.flags
            message.key = target.key
            way = target.way
            if way is None or not way.send(message, self.qos, self.reliable):
                queued &= self.node.routes.sent(target, message.encode(), self.qos, self.reliable)
        return queued
