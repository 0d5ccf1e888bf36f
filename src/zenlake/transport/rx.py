# SPDX-License-Identifier: Apache-2.0
"""Receive path: split bytes into batches, decode messages, check sequence numbers and reassemble fragments.

Messages are delivered in the reader's own records, which the next message overwrites. A sink that keeps a value copies it
(`value`). A sink that forwards a message copies its bytes. `reader.frame` identifies the lane of the message.

A message whose payload is in shared memory reaches a sink with a copy of the bytes, or with its references if the sink
`takes_references`. Either way its references are acknowledged to the sender, also if the message is dropped or refused.

A sink can suspend its receive path after any message by setting `suspended`. The receive path then stores copies of further bytes
and delivers nothing until `resume`. With RETRY, the current message is delivered again.

The receive buffer and its readers form an `RxArena`. One arena serves all connections of a thread, so idle connections
hold no buffers. A connection stores only the beginning of an incomplete batch.
"""

from collections import deque

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.session.lanes import JOINED, OLD, OUT_OF_RANGE, TOO_LARGE, lane_of
from cython.cimports.zenlake.wire.batch_reader import BatchReader
from cython.cimports.zenlake.wire.raw_memory import copy, take

from zenlake.core.peer_limits import Resource
from zenlake.errors import CloseReason, RemoteError
from zenlake.wire.framing import decompress, room_on_stream

DATA = cython.declare(cython.int, 5)
PARTIAL_MESSAGES = Resource.PARTIAL_MESSAGES


MAX_BATCH = 65535 + 4
ROOM = cython.declare(cython.Py_ssize_t, 4 * 65536)
MAX_WAITING = cython.declare(
    cython.Py_ssize_t, 4 * 65536
)  # maximum bytes of datagrams that a suspended receive path stores

SUSPEND, RETRY = 1, 2
"""Values of `Sink.suspended`: continue with the next message, or deliver the current message again."""


class Sink:
    """Receiver of network messages. Subclass it, compiled or not."""

    if not cython.compiled:  # compiled: an attribute, in the .pxd
        accepts_runs: bool = False  # whether `on_run` is implemented
        takes_references: bool = (
            False  # whether PUSH is delivered with its references (`reader.shared`), without a copy
        )
        suspended: int = 0  # SUSPEND or RETRY: deliver nothing until `RxPath.resume`, which sets it to 0

    def begin(self):
        """Handle the start of a read: its messages follow."""
        return 0

    def finish(self):
        """Handle the end of a read. Also called after an error."""
        return 0

    def on_message(self, kind, reader):
        """Handle one network message. `reader.record(kind)` is valid until this method returns."""
        return 0

    def on_run(self, reader):
        """Consume messages ahead of the reader, before the next message of a frame is decoded.

        Moves the reader after the consumed messages. The first message that is not consumed is decoded and delivered.

        Returns:
            The number of consumed messages.
        """
        return 0


def has_references(kind, reader):
    """Return whether the payload of a message is in shared memory."""
    if kind == message_ids.PUSH:
        return reader.push.is_put and reader.push.put.shm
    if kind == message_ids.REQUEST:
        return reader.request.query.shm and reader.request.query.body.size >= 0
    if kind == message_ids.RESPONSE:
        return reader.response.is_reply and reader.response.reply.is_put and reader.response.reply.put.shm
    return False


class RxArena:
    """Receive buffer of links and the readers over it. Used by one thread."""

    def __init__(self):
        self.buf = bytearray(ROOM)
        self.data = cython.address(self.buf[0]) if cython.compiled else self.buf
        self.whole = memoryview(self.buf)
        self.reader = BatchReader()
        self.reader.bind(self.buf)
        self.reassembly_reader = BatchReader()
        self.decompressed_reader = BatchReader()


class RxPath:
    """Receive path of a connection.

    `owner` receives handshake batches (`on_batch`), CLOSE and JOIN. `sink` receives all other messages.
    """

    def __init__(self, arena, owner, sink, prefix):
        self.arena = arena
        self.owner = owner
        self.sink = sink
        self.prefix = prefix
        self.limit = MAX_BATCH
        self.batch_size = MAX_BATCH
        self.incomplete = b""
        # While the sink is suspended: the rest of the current batch, a reassembled message to retry, later bytes.
        self.rest = None
        self.rest_in_frame = False
        self.retry_message = None
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
        self.shared = None  # shared memory of the session
        self.mounted = None  # buffers of the message that is delivered again
        self.refused = 0  # messages with references that name no valid bytes
        self.budget = None
        self.account = None
        self.held = 0  # bytes of partly received messages
        self.max_message_size = 0

    def start(self, lanes, batch_size, qos, compression, low_latency):
        """Decode messages from the next batch on. The handshake is complete."""
        self.lanes = lanes
        if self.account is not None:
            lanes.max_message_size = min(lanes.max_message_size, self.account.limits[PARTIAL_MESSAGES])
        self.max_message_size = lanes.max_message_size
        self.batch_size = batch_size
        self.qos = qos
        self.compression = compression
        self.low_latency = low_latency
        if self.prefix:
            self.prefix = 4 if low_latency else 2
            self.limit = room_on_stream(batch_size, low_latency)
        self.is_open = True

    def stop(self):
        """Discard all further bytes, including those already received."""
        self.stopped = True
        self.incomplete = b""
        self.rest = self.retry_message = self.waiting = self.mounted = None
        self.waiting_size = 0
        self.charge()
        self.update_held(0)

    # Bytes of a stream

    def get_buffer(self):
        """Return the buffer to read into. Call `receive_buffered` afterwards. Incomplete bytes of earlier reads are before it."""
        size: cython.Py_ssize_t = len(self.incomplete)
        if size == 0:
            return self.arena.whole
        copy(self.arena.data, 0, self.incomplete, 0, size)
        return self.arena.whole[size:]

    def receive_buffered(self, size):
        """Process the complete batches and keep the remaining bytes."""
        self.sink.begin()
        try:
            self.process_batches(size)
        finally:
            self.sink.finish()
        if self.sink.suspended:
            self.charge()
        return 0

    def process_batches(self, size):
        arena: RxArena = self.arena
        end: cython.Py_ssize_t = len(self.incomplete) + size
        at: cython.Py_ssize_t = 0
        i: cython.int
        byte: cython.Py_ssize_t
        self.incomplete = b""
        while not self.stopped and self.sink.suspended == 0 and end - at >= self.prefix:
            start: cython.Py_ssize_t = at + self.prefix
            length: cython.Py_ssize_t = 0
            for i in range(self.prefix):
                byte = arena.data[at + i]
                length |= byte << (8 * i)
            if length > self.limit:
                raise RemoteError(
                    f"batch of {length} bytes exceeds the negotiated limit of {self.limit}", CloseReason.INVALID
                )
            if end - start < length:
                break
            at = start + length
            self.batch(start, at)
        if end > at and not self.stopped:
            self.incomplete = take(arena.data, at, end - at)
        return 0

    def receive(self, data):
        """Process bytes of a stream in pieces of any size, or one whole datagram."""
        view = memoryview(data)
        if not self.prefix:
            size: cython.Py_ssize_t = len(view)
            if size > self.limit:
                raise RemoteError(f"datagram of {size} bytes exceeds the maximum batch size", CloseReason.INVALID)
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
        """Process a piece of a stream, of any size."""
        size: cython.Py_ssize_t
        while len(view) and not self.stopped:
            if self.sink.suspended:
                return self.store(view, True)
            space = self.get_buffer()
            size = min(len(space), len(view))
            space[:size] = view[:size]
            self.process_batches(size)
            view = view[size:]
        return 0

    # While the sink is suspended

    def store(self, data, first):
        """Store bytes while the sink is suspended, before or after other stored bytes. Datagrams over the limit are dropped."""
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
        """Process the stored bytes until they are consumed or the sink is suspended again."""
        self.sink.suspended = 0
        self.sink.begin()
        try:
            self.process_stored()
        finally:
            self.sink.finish()
        self.charge()
        return 0

    def process_stored(self):
        if self.retry_message is not None:
            message, self.retry_message = self.retry_message, None
            self.deliver(message, self.priority, self.reliable)
        if self.rest is not None and self.sink.suspended == 0 and not self.stopped:
            rest, self.rest = self.rest, None
            reader: BatchReader = self.arena.decompressed_reader
            reader.low_latency = self.low_latency
            reader.bind(rest)
            reader.begin(0, len(rest))
            reader.in_frame = self.rest_in_frame
            reader.frame.priority = self.priority
            reader.frame.reliable = self.reliable
            self.deliver_messages(reader)
        if self.prefix and self.sink.suspended == 0 and not self.stopped:
            self.get_buffer()  # copies the stored bytes into the arena
            self.process_batches(0)
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
        """Store the rest of the batch, from the current message on RETRY, else from the next message."""
        at: cython.Py_ssize_t = reader.c.at
        if self.retry_message is None:
            self.priority = reader.frame.priority
            self.reliable = reader.frame.reliable
            if self.sink.suspended == RETRY:
                at = reader.start
                self.messages -= 1
        self.rest = take(reader.c.data, at, reader.c.end - at)
        self.rest_in_frame = reader.in_frame
        return 0

    def charge(self):
        """Charge the bytes that are stored for a suspended sink."""
        size: cython.Py_ssize_t = 0
        if self.sink.suspended and not self.stopped:
            size = len(self.incomplete) + self.waiting_size
            if self.rest is not None:
                size += len(self.rest)
            if self.retry_message is not None:
                size += len(self.retry_message)
        if self.budget is not None and size != self.stored:
            self.budget.add(size - self.stored, 0)
            self.stored = size
        return 0

    # Batches

    def batch(self, at, end):
        """Process one batch in the arena."""
        if self.stopped or at == end:
            return 0
        self.batches += 1
        self.bytes_in += end - at
        if not self.is_open:
            data = take(self.arena.data, at, end - at)
            if self.tee is not None:
                self.tee.on_receive(data, end - at + self.prefix, False)
            self.owner.on_batch(data)
            return 0
        if not self.compression or self.arena.data[at] == 0:
            start: cython.Py_ssize_t = at + self.compression
            if self.tee is not None:
                data = self.copy_batch(self.arena.buf, start, end)
                if data is not None:
                    return self.walk_copy(data, end - at, False)
                self.tee.on_receive(self.arena.whole[start:end], end - at + self.prefix, False)
            return self.walk(self.arena.reader, start, end)
        data = decompress(take(self.arena.data, at, end - at), self.batch_size)
        if self.tee is not None:
            data = self.copy_batch(data, 0, len(data)) or data
            self.tee.on_receive(data, end - at + self.prefix, True)
        self.arena.decompressed_reader.bind(data)
        return self.walk(self.arena.decompressed_reader, 0, len(data))

    def walk(self, reader, at, end):
        reader.low_latency = self.low_latency
        reader.begin(at, end)
        return self.deliver_messages(reader)

    def deliver_messages(self, reader):
        """Deliver the messages from the reader's position to the end of the batch."""
        kind: cython.int
        fresh: cython.bint = True
        while True:
            if self.sink.accepts_runs and reader.in_frame and fresh:
                self.messages += self.sink.on_run(reader)
                if self.stopped:
                    return 0
            kind = reader.next()
            if kind == message_ids.END:
                return 0
            if kind >= message_ids.NETWORK:
                if fresh:
                    self.messages += 1
                    if has_references(kind, reader):
                        self.take_references(kind, reader)
                    else:
                        self.sink.on_message(kind, reader)
                    if self.stopped:
                        return 0
                    if self.sink.suspended:
                        return self.suspend(reader)
            elif kind == message_ids.FRAME:
                fresh = self.accept(reader.frame.priority, reader.frame.reliable, reader.frame.sn)
            elif kind == message_ids.FRAGMENT:
                self.join(reader)
                if self.stopped:
                    return 0
                if self.sink.suspended:
                    return self.suspend(reader)
            elif kind == message_ids.CLOSE:
                self.owner.on_close(reader.close.reason, reader.close.session)
                return 0
            elif kind == message_ids.JOIN:
                self.owner.on_join(reader.join)
                if self.stopped:
                    return 0
            # KEEP_ALIVE needs no reply; OAM and late handshake messages (a repeated datagram) are ignored

    def accept(self, priority, reliable, sn):
        """Return whether the sequence number is new on its lane."""
        if priority != DATA and not self.qos:
            raise RemoteError(f"frame of priority {priority} on a session without QoS", CloseReason.INVALID)
        gap: cython.longlong = self.lanes.accept(lane_of(priority, reliable), sn)
        if gap == OUT_OF_RANGE:
            raise RemoteError(f"sequence number {sn} exceeds the maximum of {self.lanes.mask}", CloseReason.INVALID)
        if gap == OLD:
            self.old += 1
            return False
        self.missing += gap
        return True

    def update_held(self, size):
        """Update the number of bytes held."""
        if size == self.held:
            return 0
        if self.account is not None:  # also charges the budget
            self.account.set(PARTIAL_MESSAGES, size)
        if self.budget is not None:
            self.budget.add(0 if self.account is not None else size - self.held, size - self.held)
        self.held = size
        return 0

    def join(self, reader):
        """Process a fragment. The last fragment completes its message."""
        f = reader.fragment
        if not self.accept(f.priority, f.reliable, f.sn):
            return 0
        lane: cython.int = lane_of(f.priority, f.reliable)
        if self.budget is not None:
            self.lanes.max_message_size = min(self.max_message_size, self.held + self.budget.room_for_partial())
        result: cython.int = self.lanes.join(lane, f)
        if result < 0:
            self.lost += 1
            if result == TOO_LARGE and self.lanes.max_message_size < self.max_message_size:
                self.budget.refused += 1
        if result != JOINED:
            self.update_held(self.lanes.held_bytes())
            return 0
        message = self.lanes.take(lane)
        self.update_held(self.lanes.held_bytes())
        return self.deliver(message, f.priority, f.reliable)

    def deliver(self, message, priority, reliable):
        """Deliver a message that was reassembled from fragments."""
        whole: BatchReader = self.arena.reassembly_reader
        whole.bind(message)
        whole.begin_network(0, len(message))
        whole.frame.priority = priority
        whole.frame.reliable = reliable
        kind: cython.int = whole.next()
        if kind != message_ids.END:
            self.messages += 1
            if has_references(kind, whole):
                message = self.copy_references(kind, whole)
                if message is None:
                    whole.bind(b"")
                    return 0
            self.sink.on_message(kind, whole)
            if self.sink.suspended == RETRY and not self.stopped:
                self.messages -= 1
                self.retry_message = message
                self.priority = priority
                self.reliable = reliable
        whole.bind(b"")
        whole.shared = None
        return 0

    # Shared memory

    def mount(self, kind, reader):
        """Return the buffers of a message, or None if it is to be dropped."""
        mounted, self.mounted = self.mounted, None
        if mounted is None and self.shared is not None:
            mounted = self.shared.mount(kind, reader)
        if mounted is None:
            self.refused += 1
        return mounted

    def take_references(self, kind, reader):
        """Deliver a message whose payload is in shared memory."""
        if not self.sink.takes_references or kind != message_ids.PUSH:
            self.messages -= 1  # `deliver` counts it
            return self.deliver(
                take(reader.c.data, reader.start, reader.c.at - reader.start),
                reader.frame.priority,
                reader.frame.reliable,
            )
        mounted = self.mount(kind, reader)
        if mounted is None:
            return 0
        reader.shared = mounted
        try:
            self.sink.on_message(kind, reader)
        finally:
            reader.shared = None
            if self.sink.suspended == RETRY:
                self.mounted = mounted
            else:
                mounted.settle()
        return 0

    def copy_batch(self, buf, at, end):
        """Return a batch with copies of the bytes that its references name, or None if it has no references.

        For a recorded session: the references would mean nothing to a later reader of the recording. A datagram may be a
        duplicate, whose references were taken over before. It stays as it is.
        """
        if self.shared is None or not self.prefix:
            return None
        reader: BatchReader = self.arena.decompressed_reader
        reader.low_latency = self.low_latency
        reader.bind(buf)
        reader.begin(at, end)
        pieces: list = []
        kind: cython.int = reader.next()
        while kind != message_ids.END:
            if kind >= message_ids.NETWORK and has_references(kind, reader):
                pieces.append(take(reader.c.data, at, reader.start - at))
                at = reader.c.at
                mounted = self.mount(kind, reader)
                message = None if mounted is None else mounted.inline()
                if mounted is not None:
                    mounted.settle()
                    self.refused += message is None
                if message is not None:
                    pieces.append(message)
            kind = reader.next()
        if not pieces:
            return None
        pieces.append(take(reader.c.data, at, end - at))
        return b"".join(pieces)

    def walk_copy(self, data, wire_size, compressed):
        """Record and process a copy of a batch."""
        self.tee.on_receive(data, wire_size + self.prefix, compressed)
        self.arena.decompressed_reader.bind(data)
        return self.walk(self.arena.decompressed_reader, 0, len(data))

    def copy_references(self, kind, whole):
        """Move a reader to a copy of its message that holds the bytes. Return the copy, or None if the message is dropped."""
        mounted = self.mount(kind, whole)
        if mounted is None:
            return None
        message = mounted.inline()
        mounted.settle()
        if message is None:
            self.refused += 1
            return None
        priority: cython.int = whole.frame.priority
        reliable: cython.bint = whole.frame.reliable
        whole.bind(message)
        whole.begin_network(0, len(message))
        whole.frame.priority = priority
        whole.frame.reliable = reliable
        whole.next()
        whole.shared = mounted
        return message
