# SPDX-License-Identifier: Apache-2.0
"""`Sample`, and how one is made of each message that comes. Compiled: this is called for every sample.

A reader's record lasts only as long as the callback that it was handed to, so what a sample may be asked for is copied, once;
what it becomes in Python (a ZBytes, a Timestamp, an Encoding) is made when it is asked for.
"""

import cython

from zenlake.choices import CongestionControl, Priority, SampleKind
from zenlake.encoding import Encoding
from zenlake.errors import KeyExprError
from zenlake.keyexpr import KeyExpr
from zenlake.values import Timestamp

if cython.compiled:
    from cython.cimports.zenlake.api.zbytes import ZBytes, zbytes_of
    from cython.cimports.zenlake.network.forward import Listener
    from cython.cimports.zenlake.wire.cursor import Blob
    from cython.cimports.zenlake.wire.data import Del, Put
    from cython.cimports.zenlake.wire.fields import Source, Stamp
    from cython.cimports.zenlake.wire.memory import same, take
    from cython.cimports.zenlake.wire.network import Push
else:
    from zenlake.api.zbytes import ZBytes, zbytes_of
    from zenlake.network.forward import Listener
    from zenlake.wire.cursor import Blob
    from zenlake.wire.data import Del, Put  # noqa: F401
    from zenlake.wire.fields import Source, Stamp
    from zenlake.wire.memory import same, take
    from zenlake.wire.network import Push

__all__ = ["Keys", "Sample", "Samples", "payload_of", "sample_of"]

PUT, DELETE = SampleKind.PUT, SampleKind.DELETE
BYTES = Encoding.ZENOH_BYTES
DROP, BLOCK, BLOCK_FIRST = CongestionControl.DROP, CongestionControl.BLOCK, CongestionControl.BLOCK_FIRST
PRIORITIES = (Priority.REAL_TIME, *Priority)  # by the wire's number; 0 is Zenoh's own and never a sample's
MOST_KEYS = 4096

# What is larger came in fragments, joined in a buffer of its own, which has little else in it: that is kept, and viewed.
LARGEST_COPY = cython.declare(cython.Py_ssize_t, 65535)

LAST_CLOCK = cython.declare(bytes, b"")

BLOCK_BIT = cython.declare(cython.int, 0x08)
EXPRESS_BIT = cython.declare(cython.int, 0x10)
BLOCK_FIRST_BIT = cython.declare(cython.int, 0x20)


@cython.no_gc  # it never changes, so nothing that it holds can hold it
@cython.cclass
class Sample:
    """A value that was put on a key, or the news that it was deleted."""

    def __init__(
        self,
        key_expr,
        payload=b"",
        kind=PUT,
        encoding=None,
        timestamp=None,
        congestion_control=DROP,
        priority=Priority.DATA,
        express=False,
        attachment=None,
        source_info=None,
        timestamp_stack=None,
    ):
        self.key_expr = key_expr
        self._payload = payload
        self.is_put = kind == PUT
        self._encoding = encoding
        self._timestamp = timestamp
        self.ntp64 = 0
        self.clock = None
        self.qos = (
            int(priority)
            | (
                BLOCK_BIT
                if congestion_control == BLOCK
                else BLOCK_FIRST_BIT
                if congestion_control == BLOCK_FIRST
                else 0
            )
            | (EXPRESS_BIT if express else 0)
        )
        self._attachment = attachment
        self.source_info = source_info
        self.timestamp_stack = timestamp_stack

    @property
    def payload(self) -> ZBytes:
        if isinstance(self._payload, bytes):
            self._payload = zbytes_of(self._payload)
        return self._payload

    @property
    def kind(self) -> SampleKind:
        return PUT if self.is_put else DELETE

    @property
    def encoding(self) -> Encoding:
        if self._encoding is None:
            return BYTES
        if isinstance(self._encoding, tuple):
            self._encoding = Encoding.from_wire(*self._encoding)
        return self._encoding

    @property
    def timestamp(self) -> Timestamp | None:
        if self.clock is not None:
            self._timestamp = Timestamp.from_wire(self.ntp64, self.clock)
            self.clock = None
        return self._timestamp

    @property
    def congestion_control(self) -> CongestionControl:
        return BLOCK if self.qos & BLOCK_BIT else BLOCK_FIRST if self.qos & BLOCK_FIRST_BIT else DROP

    @property
    def priority(self) -> Priority:
        return PRIORITIES[self.qos & 7]

    @property
    def express(self) -> bool:
        return self.qos & EXPRESS_BIT != 0

    @property
    def attachment(self) -> ZBytes | None:
        if isinstance(self._attachment, bytes):
            self._attachment = zbytes_of(self._attachment)
        return self._attachment

    def __repr__(self) -> str:
        stamp = "" if self.timestamp is None else f", timestamp={self.timestamp}"
        return f"Sample({self.key_expr!r}, {self.payload!r}, {self.kind}, {str(self.encoding)!r}{stamp})"

    def __reduce__(self):
        return Sample, (
            self.key_expr, self.payload, self.kind, self.encoding, self.timestamp, self.congestion_control, self.priority,
            self.express, self.attachment, self.source_info, self.timestamp_stack,
        )  # fmt: skip


class Keys:
    """Key expressions by their bytes: the same few keys come again and again."""

    def __init__(self):
        self.known = {}

    def __call__(self, utf8: bytes) -> KeyExpr:
        found = self.known.get(utf8)
        if found is None:
            if len(self.known) >= MOST_KEYS:
                self.known.clear()
            found = self.known[utf8] = KeyExpr.from_wire(utf8)
        return found

    def valid(self, utf8):
        """None for what is no key expression: a peer may send anything."""
        try:
            return self(utf8)
        except KeyExprError:
            return None


class Samples(Listener):
    """What a subscriber is: makes a Sample of each message and pushes it, into the channel if there is one."""

    def __init__(self, push, channel, keys, stamper):
        self.push = push
        self.channel = channel
        self.keys = keys
        self.stamper = stamper

    def take(self, key, reader):
        key_expr = self.keys.known.get(key)
        if key_expr is None:
            key_expr = self.keys.valid(key)
        if key_expr is not None:
            message: Push = reader.push
            stack = None
            if message.timestamp_stack.size >= 0:
                stack = self.stamper.received(message.timestamp_stack.value)
            sample: Sample = sample_of(key_expr, message.put, message.delete, message.is_put, message.qos, stack)
            if self.channel is None:
                self.push(sample)
            elif not self.channel.admits(message.qos & (BLOCK_BIT | BLOCK_FIRST_BIT) != 0):
                return 1
            else:
                return self.channel.push(sample)
        return 0


def clock_of(id):
    """The same few clocks stamp all samples: often the one of the sample before."""
    global LAST_CLOCK
    if id.size != len(LAST_CLOCK) or not same(id.data, id.at, LAST_CLOCK, 0, id.size):
        LAST_CLOCK = take(id.data, id.at, id.size)
    return LAST_CLOCK


def payload_of(blob):
    """Of a field that lasts only as long as its reader's record: a copy, or a view of what came in fragments."""
    if blob.size > LARGEST_COPY:
        return ZBytes(blob.view.toreadonly())
    return zbytes_of(take(blob.data, blob.at, blob.size))


def sample_of(key_expr, put, delete, is_put, qos, stack):
    """From the records of a message's body."""
    sample: Sample = Sample.__new__(Sample)
    if not cython.compiled:  # there, all is None to begin with
        sample._encoding = sample._timestamp = sample.clock = sample._attachment = sample.source_info = None
    sample.key_expr = key_expr
    sample.is_put = is_put
    sample.qos = qos
    sample.timestamp_stack = stack
    stamp: Stamp = put.timestamp if is_put else delete.timestamp
    source: Source = put.source if is_put else delete.source
    attachment: Blob = put.attachment if is_put else delete.attachment
    if is_put and put.payload.size > LARGEST_COPY:
        sample._payload = payload_of(put.payload)
    elif is_put and put.payload.size > 0:
        sample._payload = take(put.payload.data, put.payload.at, put.payload.size)
    else:
        sample._payload = b""
    if is_put and (put.encoding.id != 0 or put.encoding.schema.size >= 0):
        sample._encoding = (put.encoding.id, put.encoding.schema.value)
    if stamp.id.size >= 0:
        sample.ntp64 = stamp.ntp64
        sample.clock = clock_of(stamp.id)
    if attachment.size >= 0:
        sample._attachment = take(attachment.data, attachment.at, attachment.size)
    if source.entity.zid.size >= 0:
        sample.source_info = source.value
    return sample
