# SPDX-License-Identifier: Apache-2.0
"""Fast path for repeated puts of the application: one key, the same settings, different payloads. Compiled.

The bytes before the payload are encoded once (`PreparedPut.head`). The route is computed once and is valid until a declaration
changes. A put checks the route, then writes key, head and payload directly into the batch of each connection, through its
`QueueHandle`. Puts with a timestamp, an attachment or other fields use `LocalFace.put`.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.network.forwarding import Route, Target
from cython.cimports.zenlake.transport.queue_handle import QueueHandle
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.network import Push
from cython.cimports.zenlake.wire.raw_memory import copy


class PreparedPush(Message):
    """A PUSH in three parts: the key for a target, the common head, and the payload."""

    NAME = "PUSH"
    ID = 0x1D

    def __init__(self, head):
        self.flags = 0
        self.key = None
        self.head = self.head_data = head  # the bytes object, and its address
        self.head_size = len(head)
        self.is_busy = False
        self.set_payload(b"")
        Message.__init__(self)

    def set_payload(self, payload):
        self.payload = self.data = payload
        self.size = len(payload)
        return 0

    def set_payload_view(self, payload):
        """Set the payload like `set_payload`, without a copy. The caller keeps the memory alive. A missing payload is empty."""
        self.size = max(payload.size, 0)
        if cython.compiled:
            self.data = payload.data + payload.at
        else:
            self.data = payload.data[payload.at : payload.at + self.size]
        return 0

    def write(self, w):
        w.need(1 + self.key.size + self.head_size + 10 + self.size)
        w.data[w.at] = message_ids.PUSH | self.flags
        w.at += 1
        copy(w.data, w.at, self.key.data, self.key.at, self.key.size)
        w.at += self.key.size
        copy(w.data, w.at, self.head_data, 0, self.head_size)
        w.at += self.head_size
        w.z64("payload", self.size)
        copy(w.data, w.at, self.data, 0, self.size)
        w.at += self.size
        return 0


def encode_prepared(encoding, qos):
    """Return a PUSH with these settings and no key."""
    push = Push(key=(0, False, None), qos=qos)
    push.put.encoding.set(encoding)
    full_key = push.encode()  # header, key (one byte), common head, and the length 0 of the empty payload
    message: PreparedPush = PreparedPush(full_key[2 : len(full_key) - 1])
    message.flags = full_key[0] & message_ids.Z
    return message


class PreparedPut:
    """Puts on one key with the same settings. Usable from any thread."""

    def __init__(self, node, key, encoding, qos, reliable, local, remote):
        self.node = node
        self.key = key
        self.qos = qos
        self.reliable = reliable
        self.local = local
        self.remote = remote
        self.epoch = node.declarations.epoch
        self.route = None
        self.message = encode_prepared(encoding, qos)
        self.flags = self.message.flags

    def put(self, payload):
        """Publish bytes. Return False if a connection or a subscriber had no room and dropped them."""
        route: Route = self.route
        if route is None or route.epoch != self.epoch.number:
            route = self.node.routes.find_local_route(self.key)
            self.route = route
            if route is None:
                return True
        message: PreparedPush = self.message
        if message.is_busy:  # in use by another thread
            message = PreparedPush(message.head)
        message.is_busy = True
        message.set_payload(payload)
        try:
            return self.send(message, route)
        finally:
            message.set_payload(b"")
            message.is_busy = False

    def send(self, message, route):
        target: Target
        handle: QueueHandle
        is_queued: cython.bint = True
        if self.local and route.receivers:
            target = route.full_key
            message.flags = target.flags | self.flags
            message.key = target.key
            is_queued = self.node.routes.deliver(route, message.encode(), None, self.reliable, self.qos & 7)
        if not self.remote:
            return is_queued
        for target in route.targets:
            message.flags = target.flags | self.flags
            message.key = target.key
            handle = target.queue_handle
            if handle is None or message.size >= handle.limit or not handle.send(message, self.qos, self.reliable):
                is_queued &= self.node.routes.send(target, message.encode(), self.qos, self.reliable)
        return is_queued
