# SPDX-License-Identifier: Apache-2.0
"""Decode received PUSH messages into samples for subscribers. Compiled: runs for every received sample.

Single messages, short sequences and uncommon layouts become a `Sample` immediately. Consecutive common messages in one
frame are scanned once (`wire.push_scan`). Their bytes and the fields found in them are copied and queued as a `LazySamples`. The
consumer thread creates each sample when it takes it from the channel. This saves work on the event loop thread and keeps the queue
small. A sample lives only as long as its callback, in memory that the previous sample has just released.

Key ids of a run are resolved on arrival, because the peer may redeclare them before the samples are consumed.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.api.channel import LazyItems
from cython.cimports.zenlake.api.sample import Sample, make_sample, new_sample, read_clock
from cython.cimports.zenlake.api.zbytes import ZBytes
from cython.cimports.zenlake.network.forwarding import PushListener
from cython.cimports.zenlake.wire.cursor import Cursor
from cython.cimports.zenlake.wire.network import Push
from cython.cimports.zenlake.wire.push_scan import OTHER, PushFields, scan_push
from cython.cimports.zenlake.wire.raw_memory import take

from zenlake.api.zbytes import of_buffer, with_buffer
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import KeyExprError

__all__ = ["KeyExprCache", "LazySamples", "SampleListener"]

MAX_CACHED_KEYS = 4096

if not cython.compiled:  # compiled: C constants, documented in the .pxd
    MIN_RUN = 4
    MAX_RUN = 256
    SHORTEST = 8


class LazySamples(LazyItems):
    """Queued publications: their bytes, and the fields that the scan found in them. Samples are created one by one on demand."""

    def __init__(self, kept, scans, count, names):
        self.left = count
        self.kept = kept
        self.data = self.kept
        self.scans = scans
        if cython.compiled:
            self.push = cython.cast(cython.pointer(PushFields), cython.cast(cython.p_char, scans))
        self.index = 0
        self.at = 0
        self.names = names  # key expressions by id, at the time of arrival
        self.id = 0  # of the last sample
        self.key_expr = None

    def next(self):
        push: cython.pointer(PushFields) = self.push + self.index if cython.compiled else self.scans[self.index]
        at: cython.Py_ssize_t = self.at
        self.index += 1
        self.at += push.payload_at + push.payload_size
        id: cython.int = push.scope if push.sender else -push.scope
        if id != self.id:
            self.id = id
            self.key_expr = self.names[id]
        sample: Sample = new_sample(self.key_expr, True, push.qos)
        if push.clock_size > 0:
            sample.ntp64 = push.ntp64
            sample.clock = read_clock(self.data, at + push.clock_at, push.clock_size)
        sample._payload = take(self.data, at + push.payload_at, push.payload_size)
        if push.attachment_size >= 0:
            sample._attachment = take(self.data, at + push.attachment_at, push.attachment_size)
        if push.encoding != 0 or push.schema_size >= 0:
            schema = None if push.schema_size < 0 else take(self.data, at + push.schema_at, push.schema_size)
            sample._encoding = (push.encoding, schema)
        return sample


class KeyExprCache:
    """Cache of key expressions by their bytes, because many samples have few different keys."""

    def __init__(self):
        self.known = {}

    def __call__(self, utf8: bytes) -> KeyExpr:
        found = self.known.get(utf8)
        if found is None:
            if len(self.known) >= MAX_CACHED_KEYS:
                self.known.clear()
            found = self.known[utf8] = KeyExpr.from_wire(utf8)
        return found

    def valid(self, utf8):
        """Return the key expression, or None for invalid bytes, which a peer may send."""
        try:
            return self(utf8)
        except KeyExprError:
            return None


class SampleListener(PushListener):
    """Listener of a subscriber. It creates a Sample of each message and pushes it, into the channel if there is one."""

    def __init__(self, push, channel, keys, stamper):
        self.push = push
        self.channel = channel
        self.keys = keys
        self.stamper = stamper
        self.takes_buffers = self.channel is None
        self.accepts_runs = self.channel is not None and not (
            self.channel.ring or self.channel.refuses
        )  # a full one drops single items
        self.dispatcher = None  # connection and epoch of the last run: while they are the same, ids have the same keys
        self.epoch = 0
        self.names = {}

    def take(self, key, reader):
        key_expr = self.keys.known.get(key)
        if key_expr is None:
            key_expr = self.keys.valid(key)
        if key_expr is not None:
            message: Push = reader.push
            stack = None
            if message.timestamp_stack.size >= 0:
                stack = self.stamper.received_stack(message.timestamp_stack.value)
            sample: Sample = make_sample(key_expr, message.put, message.delete, message.is_put, message.qos, stack)
            if reader.shared is not None and reader.shared.buffer is not None:
                if message.put.payload.size == 0:
                    payload: ZBytes = of_buffer(reader.shared.buffer)
                    sample._payload = payload
                    self.push(sample)
                    sample = None
                    payload.detach()
                    return 0
                sample._payload = with_buffer(sample._payload, reader.shared.buffer)
            if self.channel is None:
                self.push(sample)
            elif not self.channel.has_room_for(message.qos & message_ids.QOS_BLOCKING != 0):
                return 1
            else:
                return self.channel.push(sample)
        return 0

    def take_run(self, dispatcher, reader):
        c: Cursor = reader.c
        at: cython.Py_ssize_t = c.at
        id: cython.int = 0
        count: cython.Py_ssize_t = 0
        push: cython.pointer(PushFields)
        if dispatcher is not self.dispatcher or dispatcher.epoch.number != self.epoch:
            self.dispatcher = dispatcher
            self.epoch = dispatcher.epoch.number
            self.names = {}
        if c.end - at < MIN_RUN * SHORTEST:
            return 0
        if cython.compiled:
            scans = bytearray(MAX_RUN * cython.sizeof(PushFields))
            first: cython.pointer(PushFields) = cython.cast(
                cython.pointer(PushFields), cython.cast(cython.p_char, scans)
            )
        else:
            scans = [PushFields() for _ in range(MAX_RUN)]
        while count < MAX_RUN:
            push = first + count if cython.compiled else scans[count]
            beyond: cython.Py_ssize_t = scan_push(c.data, at, c.end, push)
            if beyond == OTHER or push.has_more or not push.is_put or push.scope == 0:
                break
            if push.suffix_size >= 0 or push.source_size >= 0:
                break
            if id != (push.scope if push.sender else -push.scope):
                if not self.is_named(push.scope if push.sender else -push.scope):
                    break
                id = push.scope if push.sender else -push.scope
            at = beyond
            count += 1
        if count < MIN_RUN:
            return 0
        if cython.compiled:
            del scans[count * cython.sizeof(PushFields) :]
        run: LazySamples = LazySamples(take(c.data, c.at, at - c.at), scans, count, self.names)
        c.at = at
        self.channel.push_several(run)
        return count

    def is_named(self, scope):
        """Return whether this subscriber is the only receiver of a key id's publications."""
        if scope in self.names:
            return True
        key: bytes = self.dispatcher.app_key_for(self, scope)
        key_expr = None if key is None else self.keys.valid(key)
        # An allocation may run a finalizer that has declared an entity.
        if key_expr is None or self.dispatcher.epoch.number != self.epoch:
            return False
        self.names[scope] = key_expr
        return True
