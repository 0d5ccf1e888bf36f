# SPDX-License-Identifier: Apache-2.0
"""What arrives: bytes cut into batches, batches walked, lanes checked, fragments joined, messages handed on.

Messages are handed on in the reader's own records, which the next message overwrites: who wants to keep something
copies it (`value`), and who forwards copies the bytes. `reader.frame` tells the lane that the message came on.

A sink can suspend its inbox after any message: it sets `suspended`. The inbox then keeps copies of the bytes that follow
and delivers nothing until `resume`. With RETRY, the message at hand is delivered again.

The buffer into which a link reads, and the readers over it, are an `Arena`: one serves all connections of a thread, so
that a thousand idle connections hold no buffers. A connection keeps only the beginning of a batch whose end has not
come.
"""

from collections import deque

import cython

from zenlake.errors import CloseReason, RemoteError
from zenlake.limits import Resource
from zenlake.wire.framing import decompressed, room_on_stream

if cython.compiled:
    import cython.cimports.zenlake.wire.ids as ids
    from cython.cimports.zenlake.session.lanes import JOINED, OLD, OUT_OF_RANGE, TOO_LARGE, lane_of
    from cython.cimports.zenlake.wire.memory import copy, take
    from cython.cimports.zenlake.wire.reader import Reader
else:
    from zenlake.session.lanes import JOINED, OLD, OUT_OF_RANGE, TOO_LARGE, lane_of
    from zenlake.wire import ids
    from zenlake.wire.memory import copy, take
    from zenlake.wire.reader import Reader

DATA = cython.declare(cython.int, 5)
PARTIAL_MESSAGES = Resource.PARTIAL_MESSAGES


LARGEST = 65535 + 4
ROOM = cython.declare(cython.Py_ssize_t, 4 * 65536)
MAX_WAITING = cython.declare(cython.Py_ssize_t, 4 * 65536)  # bytes of datagrams that a suspended inbox keeps

SUSPEND, RETRY = 1, 2
"""Values of `Sink.suspended`: continue with the next message, or deliver the message at hand again."""


class Sink:
    """Who receives network messages. Subclass it, compiled or not."""

    if not cython.compiled:  # compiled: an attribute, in the .pxd
        runs: bool = False  # whether `on_run` is worth a call
        suspended: int = 0  # SUSPEND or RETRY: deliver nothing until `Inbox.resume`, which sets it to 0

    def begin(self):
        """Messages of one read follow."""
        return 0

    def finish(self):
        """That was all of that read; called also when something in it failed."""
        return 0

    def on_message(self, kind, reader):
        """One network message, in `reader.record(kind)` until this returns."""
        return 0

    def on_run(self, reader):
        """Before the next message of a frame is read: take some of those that lie ahead, move the reader behind them, and
        tell how many they were. The first that is not taken is read and handed on."""
        return 0


class Arena:
    """Where links read into, and the readers that walk it. For one thread."""

    def __init__(self):
        self.buf = bytearray(ROOM)
        self.data = cython.address(self.buf[0]) if cython.compiled else self.buf
        self.whole = memoryview(self.buf)
        self.reader = Reader()
        self.reader.bind(self.buf)
        self.joined = Reader()
        self.plain = Reader()


class Inbox:
    """The receiving half of a connection.

    `owner` gets handshake batches (`on_batch`), CLOSE and JOIN, `sink` the rest.
    """

    def __init__(self, arena, owner, sink, prefix):
        self.arena = arena
        self.owner = owner
        self.sink = sink
        self.prefix = prefix
        self.limit = LARGEST
        self.batch_size = LARGEST
        self.kept = b""
        # While the sink is suspended: the rest of the batch at hand, a joined message to deliver again, later pieces.
        self.rest = None
        self.rest_in_frame = False
        self.joined = None
        self.priority = 0
        self.reliable = False
        self.waiting = None
        self.waiting_size = 0
        self.stored = 0
        self.lanes = None
        self.tee = None
        self.is_open = False
        self.stopped = False
        self.qos = False
        self.compression = False
        self.low_latency = False
        self.batches = 0
        self.bytes_in = 0
        self.messages = 0
        self.missing = 0
        self.old = 0
        self.lost = 0
        self.budget = None
        self.account = None
        self.held = 0  # bytes of messages that have come in part
        self.most = 0

    def start(self, lanes, batch_size, qos, compression, low_latency):
        """The handshake is over: from the next batch on, messages."""
        self.lanes = lanes
        if self.account is not None:
            lanes.most = min(lanes.most, self.account.limits[PARTIAL_MESSAGES])
        self.most = lanes.most
        self.batch_size = batch_size
        self.qos = qos
        self.compression = compression
        self.low_latency = low_latency
        if self.prefix:
            self.prefix = 4 if low_latency else 2
            self.limit = room_on_stream(batch_size, low_latency)
        self.is_open = True

    def stop(self):
        """Nothing more is of interest, also of what has arrived already."""
        self.stopped = True
        self.kept = b""
        self.rest = self.joined = self.waiting = None
        self.waiting_size = 0
        self.charge()
        self.hold(0)

    # Bytes of a stream

    def space(self):
        """Where to read into; then say `filled`. What was kept lies before it."""
        size: cython.Py_ssize_t = len(self.kept)
        if size == 0:
            return self.arena.whole
        copy(self.arena.data, 0, self.kept, 0, size)
        return self.arena.whole[size:]

    def filled(self, size):
        """Walk the batches that are whole now, and keep the rest."""
        self.sink.begin()
        try:
            self.walk_whole(size)
        finally:
            self.sink.finish()
        if self.sink.suspended:
            self.charge()
        return 0

    def walk_whole(self, size):
        arena: Arena = self.arena
        end: cython.Py_ssize_t = len(self.kept) + size
        at: cython.Py_ssize_t = 0
        i: cython.int
        byte: cython.Py_ssize_t
        self.kept = b""
        while not self.stopped and self.sink.suspended == 0 and end - at >= self.prefix:
            start: cython.Py_ssize_t = at + self.prefix
            length: cython.Py_ssize_t = 0
            for i in range(self.prefix):
                byte = arena.data[at + i]
                length |= byte << (8 * i)
            if length > self.limit:
                raise RemoteError(
                    f"a batch of {length} bytes where {self.limit} is the most agreed on", CloseReason.INVALID
                )
            if end - start < length:
                break
            at = start + length
            self.batch(start, at)
        if end > at and not self.stopped:
            self.kept = take(arena.data, at, end - at)
        return 0

    def receive(self, data):
        """Bytes of a stream in pieces of any size, or one whole datagram."""
        view = memoryview(data)
        if not self.prefix:
            size: cython.Py_ssize_t = len(view)
            if size > self.limit:
                raise RemoteError(f"a datagram of {size} bytes: no batch is that long", CloseReason.INVALID)
            if self.sink.suspended:
                return self.store(view, False)
            memoryview(self.arena.buf)[:size] = view
            self.sink.begin()
            try:
                self.batch(0, size)
            finally:
                self.sink.finish()
            if self.sink.suspended:
                self.charge()
            return 0
        if self.sink.suspended:
            return self.store(view, False)
        self.sink.begin()
        try:
            self.feed(view)
        finally:
            self.sink.finish()
        if self.sink.suspended:
            self.charge()
        return 0

    def feed(self, view):
        """Walk a piece of a stream, of any size."""
        size: cython.Py_ssize_t
        while len(view) and not self.stopped:
            if self.sink.suspended:
                return self.store(view, True)
            space = self.space()
            size = min(len(space), len(view))
            space[:size] = view[:size]
            self.walk_whole(size)
            view = view[size:]
        return 0

    # While the sink is suspended

    def store(self, data, first):
        """Keep a piece while the sink is suspended, before or after other pieces. Datagrams over the limit are lost."""
        size: cython.Py_ssize_t = len(data)
        if not self.prefix and self.waiting_size + size > MAX_WAITING:
            self.lost += 1
            return 0
        if self.waiting is None:
            self.waiting = deque()
        if first:
            self.waiting.appendleft(bytes(data))
        else:
            self.waiting.append(bytes(data))
        self.waiting_size += size
        return self.charge()

    def resume(self):
        """Continue with the bytes that were kept, until they are used up or the sink is suspended again."""
        self.sink.suspended = 0
        self.sink.begin()
        try:
            self.walk_kept()
        finally:
            self.sink.finish()
        self.charge()
        return 0

    def walk_kept(self):
        if self.joined is not None:
            message, self.joined = self.joined, None
            self.deliver(message, self.priority, self.reliable)
        if self.rest is not None and self.sink.suspended == 0 and not self.stopped:
            rest, self.rest = self.rest, None
            reader: Reader = self.arena.plain
            reader.low_latency = self.low_latency
            reader.bind(rest)
            reader.begin(0, len(rest))
            reader.in_frame = self.rest_in_frame
            reader.frame.priority = self.priority
            reader.frame.reliable = self.reliable
            self.walk_on(reader)
        if self.prefix and self.sink.suspended == 0 and not self.stopped:
            self.space()  # copies the kept bytes into the arena
            self.walk_whole(0)
        while self.waiting and self.sink.suspended == 0 and not self.stopped:
            piece = self.waiting.popleft()
            self.waiting_size -= len(piece)
            if self.prefix:
                self.feed(memoryview(piece))
            else:
                memoryview(self.arena.buf)[: len(piece)] = piece
                self.batch(0, len(piece))
        return 0

    def suspend(self, reader):
        """Keep the rest of the batch: from the message at hand if it is to be delivered again, else from the next one."""
        at: cython.Py_ssize_t = reader.c.at
        if self.joined is None:
            self.priority = reader.frame.priority
            self.reliable = reader.frame.reliable
            if self.sink.suspended == RETRY:
                at = reader.start
                self.messages -= 1
        self.rest = take(reader.c.data, at, reader.c.end - at)
        self.rest_in_frame = reader.in_frame
        return 0

    def charge(self):
        """Charge the bytes that are kept for a suspended sink."""
        size: cython.Py_ssize_t = 0
        if self.sink.suspended and not self.stopped:
            size = len(self.kept) + self.waiting_size
            if self.rest is not None:
                size += len(self.rest)
            if self.joined is not None:
                size += len(self.joined)
        if self.budget is not None and size != self.stored:
            self.budget.add(size - self.stored, 0)
            self.stored = size
        return 0

    # Batches

    def batch(self, at, end):
        """One batch, in the arena."""
        if self.stopped or at == end:
            return 0
        self.batches += 1
        self.bytes_in += end - at
        if not self.is_open:
            data = take(self.arena.data, at, end - at)
            if self.tee is not None:
                self.tee.received(data, end - at + self.prefix, False)
            self.owner.on_batch(data)
            return 0
        if not self.compression or self.arena.data[at] == 0:
            start: cython.Py_ssize_t = at + self.compression
            if self.tee is not None:
                self.tee.received(self.arena.whole[start:end], end - at + self.prefix, False)
            return self.walk(self.arena.reader, start, end)
        data = decompressed(take(self.arena.data, at, end - at), self.batch_size)
        if self.tee is not None:
            self.tee.received(data, end - at + self.prefix, True)
        self.arena.plain.bind(data)
        return self.walk(self.arena.plain, 0, len(data))

    def walk(self, reader, at, end):
        reader.low_latency = self.low_latency
        reader.begin(at, end)
        return self.walk_on(reader)

    def walk_on(self, reader):
        """Deliver the messages from the reader's position to the end of the batch."""
        kind: cython.int
        fresh: cython.bint = True
        while True:
            if self.sink.runs and reader.in_frame and fresh:
                self.messages += self.sink.on_run(reader)
                if self.stopped:
                    return 0
            kind = reader.next()
            if kind == ids.END:
                return 0
            if kind >= ids.NETWORK:
                if fresh:
                    self.messages += 1
                    self.sink.on_message(kind, reader)
                    if self.stopped:
                        return 0
                    if self.sink.suspended:
                        return self.suspend(reader)
            elif kind == ids.FRAME:
                fresh = self.accept(reader.frame.priority, reader.frame.reliable, reader.frame.sn)
            elif kind == ids.FRAGMENT:
                self.join(reader)
                if self.stopped:
                    return 0
                if self.sink.suspended:
                    return self.suspend(reader)
            elif kind == ids.CLOSE:
                self.owner.on_close(reader.close.reason, reader.close.session)
                return 0
            elif kind == ids.JOIN:
                self.owner.on_join(reader.join)
                if self.stopped:
                    return 0
            # KEEP_ALIVE needs no answer; OAM and strays of the handshake (a repeated datagram) are not for us

    def accept(self, priority, reliable, sn):
        """Whether this is news on its lane."""
        if priority != DATA and not self.qos:
            raise RemoteError(f"a frame of priority {priority} where no QoS was agreed on", CloseReason.INVALID)
        gap: cython.longlong = self.lanes.accept(lane_of(priority, reliable), sn)
        if gap == OUT_OF_RANGE:
            raise RemoteError(f"sequence number {sn} where {self.lanes.mask} is the largest", CloseReason.INVALID)
        if gap == OLD:
            self.old += 1
            return False
        self.missing += gap
        return True

    def hold(self, size):
        """So much is held from now on."""
        if size == self.held:
            return 0
        if self.account is not None:  # which charges the budget
            self.account.set(PARTIAL_MESSAGES, size)
        if self.budget is not None:
            self.budget.add(0 if self.account is not None else size - self.held, size - self.held)
        self.held = size
        return 0

    def join(self, reader):
        """A fragment: when it is the last, its message is whole."""
        f = reader.fragment
        if not self.accept(f.priority, f.reliable, f.sn):
            return 0
        lane: cython.int = lane_of(f.priority, f.reliable)
        if self.budget is not None:
            self.lanes.most = min(self.most, self.held + self.budget.room_for_parts())
        answer: cython.int = self.lanes.join(lane, f)
        if answer < 0:
            self.lost += 1
            if answer == TOO_LARGE and self.lanes.most < self.most:
                self.budget.refused += 1
        if answer != JOINED:
            self.hold(self.lanes.held())
            return 0
        message = self.lanes.take(lane)
        self.hold(self.lanes.held())
        return self.deliver(message, f.priority, f.reliable)

    def deliver(self, message, priority, reliable):
        """Deliver a message that was joined from fragments."""
        whole: Reader = self.arena.joined
        whole.bind(message)
        whole.begin_network(0, len(message))
        whole.frame.priority = priority
        whole.frame.reliable = reliable
        kind: cython.int = whole.next()
        if kind != ids.END:
            self.messages += 1
            self.sink.on_message(kind, whole)
            if self.sink.suspended == RETRY and not self.stopped:
                self.messages -= 1
                self.joined = message
                self.priority = priority
                self.reliable = reliable
        whole.bind(b"")
        return 0
