# SPDX-License-Identifier: Apache-2.0
"""Publish tables: each row is encoded from its Arrow buffers directly into the outgoing batch. Compiled.

Performance: no Python object is created for a row, unless a subscriber of the same session receives it. A table has few different
keys, so the route of each is computed once per record batch. Rows that differ only in key, QoS and payload are written like
`Publisher.put`, after a prefix that is constant per key and QoS. Rows are sent in groups of `RUN`, so that messages of other
threads can be sent in between.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.columns.column_readers import EnumReader
from cython.cimports.zenlake.columns.encoder import Encoder
from cython.cimports.zenlake.network.forwarding import Route, Target
from cython.cimports.zenlake.network.prepared_put import PreparedPush, encode_prepared
from cython.cimports.zenlake.transport.queue_handle import QueueHandle
from cython.cimports.zenlake.wire.fields import WireExpr
from cython.cimports.zenlake.wire.network import Push

from zenlake.core.keyexpr import KeyExpr

__all__ = ["TablePublisher"]

RUN = cython.declare(cython.Py_ssize_t, 1024)
# Columns of rows that differ only in their payload and in few combinations of key and QoS.
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
        self.single_handle = None
        self.encoding = None
        self.messages = {}
        self.is_plain = False

    def send(self, samples, keys, key, **usual):
        """Send each row on its own key, or all rows on `key`. Return the number of queued rows.

        `usual` is passed to `Encoder.bind`.
        """
        self.encoder.bind(samples, **usual)
        self.encoding = usual.get("encoding")
        self.messages = {}
        self.is_plain = set(samples.schema.names) <= PLAIN
        self.routes = []
        self.keys = []
        codes: EnumReader = EnumReader(keys, self.route, -1)
        if keys is None:
            self.route(key)
        self.single_handle = self.find_single_handle()
        rows: cython.Py_ssize_t = samples.num_rows
        row: cython.Py_ssize_t = 0
        count: cython.Py_ssize_t = 0
        while row < rows:
            count += self.run(row, min(rows, row + RUN), codes, keys is None)
            row += RUN
        return count

    def route(self, key):
        """Compute the route of a key. Return its number."""
        app_key: bytes = KeyExpr(key).utf8 if isinstance(key, str) else key
        route: Route = self.node.routes.find_local_route(self.node.application.namespace.add_prefix(app_key))
        target: Target
        wires = [encode_key((0, True, route.key))]
        for target in route.targets:
            wires.append(encode_key(target.face.wire_key(route.key)))
        self.routes.append(route)
        self.keys.append(wires)
        return len(self.routes) - 1

    def find_single_handle(self):
        """Return the queue handle of all rows if they go to one connection only and need no timestamp, else None."""
        handle = None
        route: Route
        target: Target
        for route in self.routes:
            if (
                (self.local and route.receivers)
                or not self.remote
                or self.node.adds_timestamps
                or len(route.targets) != 1
            ):
                return None
            target = route.targets[0]
            if target.queue_handle is None or (handle is not None and handle is not target.queue_handle):
                return None
            handle = target.queue_handle
        return handle

    def run(self, first, end, codes, one):
        handle: QueueHandle = self.single_handle
        if handle is None:
            return self.run_anywhere(first, end, codes, one)
        if self.is_plain:
            return self.run_plain(handle, first, end, codes, one)
        push: Push = self.push
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        reliable: cython.bint
        handle.begin()
        try:
            for row in range(first, end):
                code = 0 if one else codes.get(row)
                push.key = self.keys[code][1]
                self.encoder.bind_push(row)
                reliable = self.encoder.is_reliable(row)
                if handle.add(push, push.qos, reliable):
                    count += 1
                else:
                    count += self.send_unbatched(code, push.encode(), push.qos, reliable)
        finally:
            handle.end(False)
        return count

    def run_plain(self, handle, first, end, codes, one):
        encoder: Encoder = self.encoder
        message: PreparedPush = None
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        last: cython.Py_ssize_t = -1
        qos: cython.int
        last_qos: cython.int = -1
        count: cython.Py_ssize_t = 0
        reliable: cython.bint
        handle.begin()
        try:
            for row in range(first, end):
                code = 0 if one else codes.get(row)
                qos = encoder.priority.get(row) & 7 | encoder.congestion.get(row)
                if encoder.express.get(row) != 0:
                    qos |= message_ids.QOS_EXPRESS
                if code != last or qos != last_qos:
                    message = self.find_message(code, qos)
                    last, last_qos = code, qos
                encoder.payloads.bind_row(row, self.payload)
                message.set_payload_view(self.payload)
                reliable = encoder.reliable.get(row) != 0
                if handle.add(message, qos, reliable):
                    count += 1
                else:
                    count += self.send_unbatched(code, message.encode(), qos, reliable)
        finally:
            handle.end(False)
        return count

    def send_unbatched(self, code, message, qos, reliable):
        """Send a row that does not fit the batch: flush or wait, depending on the congestion control."""
        route: Route = self.routes[code]
        return self.node.routes.send(route.targets[0], message, qos, reliable)

    def find_message(self, code, qos):
        """Return the message prefix of a key's rows with this QoS, without the payload."""
        message: PreparedPush = self.messages.get((code, qos))
        if message is None:
            route: Route = self.routes[code]
            target: Target = route.targets[0]
            message = self.messages[code, qos] = encode_prepared(self.encoding, qos)
            message.flags |= target.flags
            message.key = target.key
        return message

    def run_anywhere(self, first, end, codes, one):
        """Send rows to several connections or local subscribers, or with timestamps."""
        push: Push = self.push
        route: Route
        handle: QueueHandle
        row: cython.Py_ssize_t
        code: cython.Py_ssize_t
        i: cython.Py_ssize_t
        count: cython.Py_ssize_t = 0
        for row in range(first, end):
            code = 0 if one else codes.get(row)
            route = self.routes[code]
            wires = self.keys[code]
            self.encoder.bind_push(row)
            reliable = self.encoder.is_reliable(row)
            stamp = push.put.timestamp if push.is_put else push.delete.timestamp
            remote: cython.bint = self.remote
            if self.node.adds_timestamps:
                is_ahead: cython.bint = (
                    push.is_put and stamp.id.size >= 0 and not self.node.accept_timestamp(stamp.value)
                )
                if is_ahead and not self.node.replaces_future_timestamp():
                    remote = False
                elif is_ahead or stamp.id.size < 0:
                    stamp.set(self.node.timestamp())
            is_queued: cython.bint = remote or self.local
            if self.local and route.receivers:
                push.key = wires[0]
                is_queued = self.node.routes.deliver(route, push.encode(), None, reliable, push.qos & 7)
            if remote:
                for i in range(len(route.targets)):
                    push.key = wires[1 + i]
                    handle = route.targets[i].queue_handle
                    if handle is None or not handle.send(push, push.qos, reliable):
                        is_queued &= self.node.routes.send(route.targets[i], push.encode(), push.qos, reliable)
            count += is_queued
        return count


def encode_key(key):
    scope, sender, suffix = key
    wire = WireExpr()
    wire.set((scope, sender, None if suffix is None else suffix.decode()))
    return wire
