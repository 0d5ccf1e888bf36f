# SPDX-License-Identifier: Apache-2.0
"""Reader of a batch: one reused record for each kind of message.

A batch is a sequence of transport messages. A FRAME is followed by network messages (ids 0x19..0x1F). It ends at the first
byte with another id, or at the end of the batch. Transport ids are outside this range, so a FRAME has no length field. With
low latency there is no FRAME: a batch is one network message, KEEP_ALIVE or CLOSE.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Cursor
from cython.cimports.zenlake.wire.declare import Declare, Interest
from cython.cimports.zenlake.wire.handshake import Close, Init, Join, Open
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from cython.cimports.zenlake.wire.transport import Fragment, Frame, KeepAlive, TransportOam

TRANSPORT_MESSAGES = (TransportOam, Init, Open, Close, KeepAlive, Frame, Fragment, Join)
NETWORK_MESSAGES = (Interest, ResponseFinal, Response, Request, Push, Declare, Oam)


class BatchReader:
    """Reader of the messages of a batch, in order. Each message is read into the record of its kind."""

    def __init__(self):
        self.c = Cursor(b"")
        self.start = 0
        self.in_frame = False
        self.bare = False
        self.low_latency = False
        self.shared = None  # buffers of the current message, if its payload is in shared memory
        self.transport_oam = TransportOam()
        self.init = Init()
        self.open = Open()
        self.close = Close()
        self.keep_alive = KeepAlive()
        self.frame = Frame()
        self.fragment = Fragment()
        self.join = Join()
        self.interest = Interest()
        self.final = ResponseFinal()
        self.response = Response()
        self.request = Request()
        self.push = Push()
        self.declare = Declare()
        self.oam = Oam()
        self.records = (
            self.transport_oam, self.init, self.open, self.close, self.keep_alive, self.frame, self.fragment, self.join,
            self.interest, self.final, self.response, self.request, self.push, self.declare, self.oam,
        )  # fmt: skip

    def bind(self, buf):
        """Set the buffer of the next batches."""
        record: Message
        if buf is None:
            raise TypeError("a reader needs bytes, not None")
        self.c.point(buf)
        for record in self.records:
            record.bind(self.c.buf)
        self.begin(0, 0)
        return 0

    def begin(self, at, end):
        """Start to read the batch at this byte range."""
        if at < 0 or at > end or end > self.c.buf.shape[0]:
            self.c.fail("begin", at, "the batch does not lie in the buffer")
        self.c.at = at
        self.c.end = end
        self.c.message = "batch"
        self.in_frame = False
        self.bare = False
        return 0

    def begin_network(self, at, end):
        """Start to read one network message without a FRAME, reassembled from fragments."""
        self.begin(at, end)
        self.bare = True
        return 0

    def next(self):
        """Read the next message into its record. Return its id, or END at the end of the batch."""
        if self.c.at >= self.c.end:
            return message_ids.END
        self.start = self.c.at
        self.c.message = "batch"
        h: cython.int = self.c.next_u8("header")
        kind: cython.int = h & 0x1F
        if kind >= message_ids.NETWORK:
            if not self.in_frame and not self.bare and not self.low_latency:
                self.c.fail("header", self.start, "a network message outside a FRAME")
            if kind == message_ids.PUSH:
                self.push.read(self.c, h)
            else:
                self.read_network(kind, h)
        else:
            if self.bare:
                self.c.fail("header", self.start, "no network message has this id")
            if self.low_latency and kind != message_ids.KEEP_ALIVE and kind != message_ids.CLOSE:
                self.c.fail("header", self.start, "low latency mode allows only network messages, KEEP_ALIVE and CLOSE")
            self.in_frame = kind == message_ids.FRAME
            self.read_transport(kind, h)
        if (self.low_latency or self.bare) and self.c.at < self.c.end:
            self.c.fail("end", self.c.at, "bytes left over after the message")
        return kind

    def read_transport(self, kind, h):
        if kind == message_ids.FRAME:
            return self.frame.read(self.c, h)
        if kind == message_ids.KEEP_ALIVE:
            return self.keep_alive.read(self.c, h)
        if kind == message_ids.FRAGMENT:
            return self.fragment.read(self.c, h)
        if kind == message_ids.INIT:
            return self.init.read(self.c, h)
        if kind == message_ids.OPEN:
            return self.open.read(self.c, h)
        if kind == message_ids.CLOSE:
            return self.close.read(self.c, h)
        if kind == message_ids.JOIN:
            return self.join.read(self.c, h)
        if kind == message_ids.TRANSPORT_OAM:
            return self.transport_oam.read(self.c, h)
        return self.c.fail("header", self.start, "no transport message has this id")

    def read_network(self, kind, h):
        if kind == message_ids.RESPONSE:
            return self.response.read(self.c, h)
        if kind == message_ids.REQUEST:
            return self.request.read(self.c, h)
        if kind == message_ids.RESPONSE_FINAL:
            return self.final.read(self.c, h)
        if kind == message_ids.DECLARE:
            return self.declare.read(self.c, h)
        if kind == message_ids.INTEREST:
            return self.interest.read(self.c, h)
        return self.oam.read(self.c, h)

    @property
    def cursor(self):
        return self.c

    def record(self, kind):
        """Return the record that `next` filled when it returned this id."""
        if 0 <= kind < len(TRANSPORT_MESSAGES):
            return self.records[kind]
        if message_ids.NETWORK <= kind < message_ids.NETWORK + len(NETWORK_MESSAGES):
            return self.records[kind - message_ids.NETWORK + len(TRANSPORT_MESSAGES)]
        raise ValueError(f"no message has the id {kind}")


def messages(batch, low_latency=False):
    """Yield the messages of a batch as new objects, in order: a FRAME, its network messages, then the next."""
    reader = BatchReader()
    reader.low_latency = low_latency
    reader.bind(batch)
    reader.begin(0, len(batch))
    found = []
    while (kind := reader.next()) != message_ids.END:
        found.append(type(reader.record(kind))().decode(Cursor(batch, reader.start)))
    return found


def read_network(data):
    """Decode one network message into a new object."""
    reader = BatchReader()
    reader.bind(data)
    reader.begin_network(0, len(data))
    kind = reader.next()
    if kind == message_ids.END:
        reader.c.fail("header", 0, "no bytes")
    return type(reader.record(kind))().decode(Cursor(data))


def is_plausible(batch):
    """Return whether these bytes are a complete valid batch. Captures that start midway synchronise with it."""
    reader = BatchReader()
    reader.bind(batch)
    reader.begin(0, len(batch))
    try:
        while reader.next() != message_ids.END:
            pass
    except ValueError:
        return False
    return len(batch) > 0
