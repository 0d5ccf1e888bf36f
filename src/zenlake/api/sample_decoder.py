# SPDX-License-Identifier: Apache-2.0
"""Decode received PUSH messages into samples for subscribers. Compiled: runs for every received sample.

Single messages, short sequences and uncommon layouts are decoded into a `Sample` immediately. Consecutive common messages in one
frame are copied as raw bytes, once, and queued as a `LazySamples`. The consumer thread decodes each sample when it
takes it from the
channel. This keeps the event loop thread short and the queue small: a sample lives only as long as its callback, in memory that
the previous sample has just released.

Key ids of a run are resolved on arrival, because the peer may redeclare them before the samples are consumed.
"""

import cython

from zenlake.api.zbytes import of_buffer, with_buffer
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import KeyExprError

if cython.compiled:
    import cython.cimports.zenlake.wire.message_ids as message_ids
    from cython.cimports.zenlake.api.channel import LazyItems
    from cython.cimports.zenlake.api.sample import Sample, make_sample, new_sample, read_clock
    from cython.cimports.zenlake.api.zbytes import ZBytes
    from cython.cimports.zenlake.network.forwarding import PushListener
    from cython.cimports.zenlake.wire.cursor import Cursor
    from cython.cimports.zenlake.wire.network import Push
    from cython.cimports.zenlake.wire.raw_memory import eight_bytes, join_sevens, short_vle, take
else:
    from zenlake.api.channel import LazyItems
    from zenlake.api.sample import Sample, make_sample, new_sample, read_clock
    from zenlake.api.zbytes import ZBytes
    from zenlake.network.forwarding import PushListener
    from zenlake.wire import message_ids
    from zenlake.wire.cursor import Cursor
    from zenlake.wire.network import Push
    from zenlake.wire.raw_memory import eight_bytes, join_sevens, short_vle, take

__all__ = ["KeyExprCache", "PushView", "LazySamples", "SampleListener"]

MAX_CACHED_KEYS = 4096

if not cython.compiled:  # compiled: C constants, documented in the .pxd
    QOS = 0x21
    DEFAULT_QOS = 0x05
    MAY_BLOCK = 0x28
    MAX_KEY_ID = 0xFFFF
    LOOKAHEAD = 48
    MIN_RUN = 4
    NOT_COMMON = -1

# Continuation bits of the first eight bytes of a time, and the mask of the last eight for the ninth.
GOES_ON = cython.declare(cython.ulonglong, 0x8080808080808080)
NINTH = cython.declare(cython.ulonglong, 0xFF00000000000000)


class PushView:
    """Offsets of the fields of one common PUSH/PUT message: declared key, optional QoS, timestamp and encoding.

    `Push.read` accepts every layout; this class scans the most common one in a fifth of the time. Other layouts are not an error
    here. `tests/api/test_sample_decoder.py` compares both on complete and on damaged messages.
    """

    def __init__(self):
        self.scope = 0  # the key id: negative if declared by the receiver, not by the sender
        self.qos = 0
        self.clock_at = 0  # offset after the time
        self.clock_size = 0  # 0: no timestamp
        self.encoding = 0
        self.payload_at = 0
        self.payload_size = 0

    def read(self, data, at, end):
        """Scan the message at `at`. Return the offset after it, or OTHER if it is uncommon or incomplete."""
        if end - at < LOOKAHEAD:
            return NOT_COMMON
        header: cython.int = data[at]
        number: cython.longlong = short_vle(data, at + 1)
        if (
            header & (message_ids.KIND | message_ids.SUFFIX) != message_ids.PUSH
            or number >> 3 < 1
            or number >> 3 > MAX_KEY_ID
        ):  # 0 means no key
            return NOT_COMMON
        at += 1 + (number & 7)
        self.scope = number >> 3 if header & message_ids.SENDERS else -(number >> 3)
        self.qos = DEFAULT_QOS
        if header & message_ids.Z:
            if data[at] != QOS or data[at + 1] >= 0x80:
                return NOT_COMMON
            self.qos = data[at + 1]
            at += 2
        header = data[at]
        at += 1
        if header & ~(message_ids.STAMPED | message_ids.ENCODED) != message_ids.PUT:
            return NOT_COMMON
        self.clock_size = 0
        if header & message_ids.STAMPED:  # nine bytes of time (until the year 2106), then the clock id
            self.clock_size = data[at + 9]
            self.clock_at = at + 10
            if eight_bytes(data, at) & GOES_ON != GOES_ON or not 1 <= self.clock_size <= 16 or data[at + 10] == 0:
                return NOT_COMMON
            at += 10 + self.clock_size
        self.encoding = 0
        if header & message_ids.ENCODED:
            number = short_vle(data, at)
            if number < 0 or number & 8:  # with a schema
                return NOT_COMMON
            self.encoding = number >> 4
            at += number & 7
        number = short_vle(data, at)
        at += number & 7
        if number < 0 or number >> 3 > end - at:
            return NOT_COMMON
        self.payload_at = at
        self.payload_size = number >> 3
        return at + self.payload_size

    def time(self, data):
        """Return the timestamp as NTP64."""
        at: cython.Py_ssize_t = self.clock_at - 10
        return join_sevens(eight_bytes(data, at)) | eight_bytes(data, at + 1) & NINTH


class LazySamples(LazyItems):
    """Queued common publications as raw bytes, decoded one by one on demand."""

    def __init__(self, kept, count, names):
        self.left = count
        self.kept = kept  # the messages, followed by readable padding
        self.data = self.kept
        self.at = 0
        self.plain = PushView()
        self.names = names  # key expressions by id, at the time of arrival
        self.scope = 0
        self.key_expr = None

    def next(self):
        plain: PushView = self.plain
        self.at = plain.read(self.data, self.at, len(self.kept))
        if plain.scope != self.scope:
            self.scope = plain.scope
            self.key_expr = self.names[plain.scope]
        sample: Sample = new_sample(self.key_expr, True, plain.qos)
        if plain.clock_size:
            sample.ntp64 = plain.time(self.data)
            sample.clock = read_clock(self.data, plain.clock_at, plain.clock_size)
        sample._payload = take(self.data, plain.payload_at, plain.payload_size)
        if (
            plain.encoding
        ):  # last, because the garbage collector may run here and code in it may request the next sample
            sample._encoding = (plain.encoding, None)
        return sample


class KeyExprCache:
    """Cache of key expressions by their bytes, because few keys repeat often."""

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
    """Subscriber listener: creates a Sample of each message and pushes it, into the channel if there is one."""

    def __init__(self, push, channel, keys, stamper):
        self.push = push
        self.channel = channel
        self.keys = keys
        self.stamper = stamper
        self.takes_buffers = self.channel is None
        self.accepts_runs = self.channel is not None and not (
            self.channel.ring or self.channel.refuses
        )  # which drop single items
        self.plain = PushView()
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
            elif not self.channel.has_room_for(message.qos & MAY_BLOCK != 0):
                return 1
            else:
                return self.channel.push(sample)
        return 0

    def take_run(self, dispatcher, reader):
        c: Cursor = reader.c
        plain: PushView = self.plain
        at: cython.Py_ssize_t = c.at
        last: cython.Py_ssize_t = at
        scope: cython.int = 0
        count: cython.Py_ssize_t = 0
        if c.end - at < MIN_RUN * LOOKAHEAD:
            return 0
        if dispatcher is not self.dispatcher or dispatcher.epoch.number != self.epoch:
            self.dispatcher = dispatcher
            self.epoch = dispatcher.epoch.number
            self.names = {}
        while True:
            beyond: cython.Py_ssize_t = plain.read(c.data, at, c.end)
            if beyond == NOT_COMMON or (plain.scope != scope and not self.is_named(plain.scope)):
                break
            scope = plain.scope
            last = at
            at = beyond
            count += 1
        if count < MIN_RUN:
            return 0
        run: LazySamples = LazySamples(take(c.data, c.at, max(at, last + LOOKAHEAD) - c.at), count, self.names)
        c.at = at
        self.channel.push_several(run)
        return count

    def is_named(self, scope):
        """Return whether a key id has publications for this subscriber alone."""
        if scope in self.names:
            return True
        key: bytes = self.dispatcher.app_key_for(self, scope)
        key_expr = None if key is None else self.keys.valid(key)
        # An allocation may run a finalizer that has declared an entity.
        if key_expr is None or self.dispatcher.epoch.number != self.epoch:
            return False
        self.names[scope] = key_expr
        return True
