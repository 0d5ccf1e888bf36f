# SPDX-License-Identifier: Apache-2.0
"""Publish tables: each row is encoded from its Arrow buffers directly into the outgoing batch. Compiled.

Performance: no Python object is created for a row, unless a subscriber of the same session receives it. Keys are few, so the
route of each is computed once per record batch. Rows with only a payload of their own are written like `Publisher.put`, after a
prefix that is constant per key. Rows are sent in groups of `RUN`, so that messages of other threads can be sent in between.
"""

import cython

from zenlake.core.keyexpr import KeyExpr

if cython.compiled:
    from cython.cimports.zenlake.columns.column_readers import EnumReader
    from cython.cimports.zenlake.columns.encoder import Encoder
    from cython.cimports.zenlake.network.forwarding import Route, Target
    from cython.cimports.zenlake.network.prepared_put import PreparedPush, ThreadQueueHandle, encode_prepared
    from cython.cimports.zenlake.wire.fields import WireExpr
    from cython.cimports.zenlake.wire.network import Push
else:
    from zenlake.columns.column_readers import EnumReader
    from zenlake.columns.encoder import Encoder
    from zenlake.network.forwarding import Route, Target
    from zenlake.network.prepared_put import PreparedPush, ThreadQueueHandle, encode_prepared
    from zenlake.wire.fields import WireExpr
    from zenlake.wire.network import Push

__all__ = ["TablePublisher"]

RUN = cython.declare(cython.Py_ssize_t, 1024)
EXPRESS = cython.declare(cython.int, 0x10)
# Columns of rows that have only a payload of their own, and otherwise few combinations.
PLAIN = {"key", "payload", "priority", "congestion", "express", "reliable"}


class TablePublisher:
    """Sender of record batches. `node` is the network node; `local` and `remote` select the receivers of the rows."""

    def __init__(self, node, local, remote):
        self.node = node
        self.local = local
        self.remote = remote
        self.encoder = Encoder()
        self.push = self.encoder.push
        self.payload = self.push.put.payload
        self.routes = []
        self.keys = []
        self.only = None
        self.encoding = None
        self.posts = {}
        self.is_plain = False

    def send(self, samples, keys, key, **usual):
        """Send each row on its own key, or all rows on `key`. Return the number of queued rows.

        `usual` is passed to `Encoder.bind`.
        """
        self.encoder.bind(samples, **usual)
        self.encoding = usual.get("encoding")
        self.posts = {}
        self.is_plain = set(samples.schema.names) <= PLAIN
        self.routes = []
        self.keys = []
        codes: EnumReader = EnumReader(keys, self.route, -1)
        if keys is None:
            self.route(key)
        self.only = self.shared_way()
        rows: cython.Py_ssize_t = samples.num_rows
        row: cython.Py_ssize_t = 0
        sent: cython.Py_ssize_t = 0
        while row < rows:
            sent += self.run(row, min(rows, row + RUN), codes, keys is None)
            row += RUN
        return sent

    def route(self, key):
        """Compute the route of the rows of a key. Return its number."""
        own: bytes = KeyExpr(key).utf8 if isinstance(key, str) else key
        route: Route = self.node.routes.published(self.node.application.namespace.whole(own))
        target: Target
        wires = [encode_key((0, True, route.key))]
        for target in route.targets:
            wires.append(encode_key(target.face.wire_key(route.key)))
        self.routes.append(route)
        self.keys.append(wires)
        return len(self.routes) - 1

    def shared_way(self):
        """Return the route of all rows if there is only one connection and no local subscriber, else None."""
        way = None
        route: Route
        target: Target
        for route in self.routes:
            if (self.local and route.receivers) or not self.remote or self.node.stamps or len(route.targets) != 1:
                return None
            target = route.targets[0]
            if target.way is None or (way is not None and way is not target.way):
                return None
            way = target.way
        return way

    def run(self, first, end, codes, one):
        way: ThreadQueueHandle = self.only
        if way is None:
            return self.run_anywhere(first, end, codes, one)
        if self.is_plain:
            return self.run_plain(way, first, end, codes, one)
        push: Push = self.push
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        sent: cython.Py_ssize_t = 0
        reliable: cython.bint
        way.begin()
        try:
            for row in range(first, end):
                code = 0 if one else codes.get(row)
                push.key = self.keys[code][1]
                self.encoder.point(row)
                reliable = self.encoder.is_reliable(row)
                if way.add(push, push.qos, reliable):
                    sent += 1
                else:
                    sent += self.sent_otherwise(code, push.encode(), push.qos, reliable)
        finally:
            way.end()
        return sent

    def run_plain(self, way, first, end, codes, one):
        encoder: Encoder = self.encoder
        message: PreparedPush = None
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        last: cython.Py_ssize_t = -1
        qos: cython.int
        last_qos: cython.int = -1
        sent: cython.Py_ssize_t = 0
        reliable: cython.bint
        way.begin()
        try:
            for row in range(first, end):
                code = 0 if one else codes.get(row)
                qos = encoder.priority.get(row) & 7 | encoder.congestion.get(row)
                if encoder.express.get(row) != 0:
                    qos |= EXPRESS
                if code != last or qos != last_qos:
                    message = self.post(code, qos)
                    last, last_qos = code, qos
                encoder.payloads.point(row, self.payload)
                message.lay(self.payload)
                reliable = encoder.reliable.get(row) != 0
                if way.add(message, qos, reliable):
                    sent += 1
                else:
                    sent += self.sent_otherwise(code, message.encode(), qos, reliable)
        finally:
            way.end()
        return sent

    def sent_otherwise(self, code, message, qos, reliable):
        """Send a row that does not fit the batch: flush or wait, depending on the congestion control."""
        route: Route = self.routes[code]
        return self.node.routes.sent(route.targets[0], message, qos, reliable)

    def post(self, code, qos):
        """Return the message prefix of a key's rows with this QoS, without the payload."""
        message: PreparedPush = self.posts.get((code, qos))
        if message is None:
            route: Route = self.routes[code]
            target: Target = route.targets[0]
            message = self.posts[code, qos] = encode_prepared(self.encoding, qos)
            message.flags |= target.flags
            message.key = target.key
        return message

    def run_anywhere(self, first, end, codes, one):
        """Send rows that have several connections, local subscribers or timestamps."""
        push: Push = self.push
        route: Route
        way: ThreadQueueHandle
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        i: cython.Py_ssize_t
        sent: cython.Py_ssize_t = 0
        for row in range(first, end):
            code = 0 if one else codes.get(row)
            route = self.routes[code]
            wires = self.keys[code]
            self.encoder.point(row)
            reliable = self.encoder.is_reliable(row)
            stamp = push.put.timestamp if push.is_put else push.delete.timestamp
            if self.node.stamps and stamp.id.size < 0:
                stamp.set(self.node.timestamp())
            queued: cython.bint = True
            if self.local and route.receivers:
                push.key = wires[0]
                queued = self.node.routes.show(route, push.encode(), None, reliable, push.qos & 7)
            if self.remote:
                for i in range(len(route.targets)):
                    push.key = wires[1 + i]
                    way = route.targets[i].way
                    if way is None or not way.send(push, push.qos, reliable):
                        queued &= self.node.routes.sent(route.targets[i], push.encode(), push.qos, reliable)
            sent += queued
        return sent


def encode_key(key):
    scope, sender, suffix = key
    wire = WireExpr()
    wire.set((scope, sender, None if suffix is None else suffix.decode()))
    return wire
