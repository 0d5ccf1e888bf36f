# SPDX-License-Identifier: Apache-2.0
"""Transmit queue: eight bounded queues, the most urgent priority first.

A message is encoded directly into the open batch of its priority, after a FRAME of its lane. A full batch is closed and
queued, and a new one is opened. A message that exceeds a batch is queued whole. It is split into fragments one at a time, when
the link is ready: batches of a more urgent priority can pass between two fragments, and splitting needs no second copy.

At most `size` batches (or messages to be fragmented) are queued per priority. Beyond that, `push` returns False and changes
nothing. The caller decides whether to wait, drop or close, because it knows the congestion control of the message. The same
applies to droppable messages when all connections together have used up their `Budget`.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.transport.tx_stage import Batch, FragmentedMessage, TxStage
from cython.cimports.zenlake.wire.raw_memory import copy, take
from cython.cimports.zenlake.wire.transport import Fragment, Frame
from cython.cimports.zenlake.wire.writer import WireWriter, vle_size

from zenlake.errors import LocalError
from zenlake.wire.framing import compress

if cython.compiled:
    from cython.cimports.cpython.buffer import PyBUF_READ
    from cython.cimports.cpython.memoryview import PyMemoryView_FromMemory

PRIORITIES = cython.declare(cython.int, 8)
DATA = cython.declare(cython.int, 5)
DROP = cython.declare(cython.int, 0)
FULL = cython.declare(cython.int, 0)  # results of `splice`
TAKEN = cython.declare(cython.int, 1)
OVER = cython.declare(cython.int, 2)
MAX_SPARE_BATCHES = cython.declare(cython.Py_ssize_t, 2)
SHORT = cython.declare(cython.Py_ssize_t, 16)  # a last fragment of 1/16 batch or less is sent with the one before it


def join_buffers(header, key, before, rest, at, end):
    """Return the pieces joined into one message."""
    w: WireWriter = WireWriter(32 + key.size)
    w.header(header)
    w.run("key", key)
    return w.to_bytes() + before.to_bytes() + take(rest.data, at, end - at)


class TxQueue:
    """Transmit queue of one connection. Not thread-safe."""

    def __init__(self, prefix):
        self.prefix = prefix  # size of the length prefix of a batch: 2 on a stream, 0 where a datagram is a batch
        self.current = None
        self.control_batches = []
        self.spare_batches = []
        self.stages = []
        self.tee = None
        self.frame = Frame()
        self.fragment = Fragment()
        self.is_open = False
        self.ended = False
        self.complete = 0
        self.begun = 0
        self.messages = 0
        self.dropped = 0
        self.compression = False
        self.qos = False
        self.head = prefix
        self.limit = 0
        self.mask = 0
        self.max_wait = 0.0
        self.budget = None
        self.held = 0  # bytes of full batches and of messages to be fragmented
        self.is_over_budget = False  # whether the last message was refused because of the budget

    def start(self, batch_size, mask, initial_sn, qos, compression, size, max_wait):
        """Accept messages from now on. The handshake is complete."""
        self.compression = compression
        self.head = self.prefix + (1 if compression else 0)
        self.limit = batch_size
        self.mask = mask
        self.qos = qos
        self.max_wait = max_wait
        self.stages = [TxStage(priority, size, initial_sn & mask) for priority in range(PRIORITIES)]
        self.is_open = True

    # Messages in

    def send(self, message, priority, reliable, congestion, express):
        """Queue a network message, encoded or not.

        Returns:
            False, without any change, if the queue of its priority is full.
        """
        if not self.is_open or self.ended:
            raise LocalError("the session is closed" if self.ended else "the session is not open yet")
        droppable: cython.bint = congestion == DROP or not reliable
        if isinstance(message, bytes):
            return self.push_encoded(message, priority, reliable, express, droppable)
        return self.push(message, priority, reliable, express, droppable)

    def end(self):
        """Accept no more messages. Queued messages are still sent."""
        self.ended = True

    def push(self, message, priority, reliable, express, droppable):
        """Queue a message. Return False, without any change, if the queue of its priority is full."""
        stage: TxStage = self.stage(priority)
        is_new: cython.bint = stage.open is None
        if is_new and len(stage.jobs) >= stage.size:
            self.is_over_budget = False
            return False
        if is_new and droppable and self.exceeds_budget(0):
            return False
        batch: Batch = self.new_batch() if is_new else stage.open
        w: WireWriter = batch.w
        start: cython.Py_ssize_t = w.at
        body: cython.Py_ssize_t = start
        try:
            if batch.lane != reliable:
                self.write_frame(w, stage, reliable)
            body = w.at
            message.write(w)
        except BaseException:
            w.at = start
            if is_new:
                self.recycle(batch)
            raise
        if w.at <= self.limit:
            stage.open = batch
            self.commit(stage, batch, reliable, express, is_new)
            return True
        encoded = take(w.data, body, w.at - body)
        w.at = start
        if is_new:
            self.recycle(batch)
        return self.enqueue(encoded, stage, reliable, express, droppable)

    def push_encoded(self, data, priority, reliable, express, droppable):
        """Queue an encoded network message, as `push` does."""
        return self.enqueue(data, self.stage(priority), reliable, express, droppable)

    def splice(self, header, key, before, rest, at, end, qos, reliable):
        """Queue a message given in pieces: header, key, extensions inserted by a router, and the received bytes.

        Returns:
            TAKEN, also after the end of the session, which is reported elsewhere. FULL if the message is droppable and the queue
            is full. OVER if it is not droppable and was queued above the limit: the caller must then stop reading from its source.
        """
        if not self.is_open or self.ended:
            return TAKEN
        stage: TxStage = self.stage(qos)
        batch: Batch = stage.open
        size: cython.Py_ssize_t = 1 + key.size + before.at + end - at
        express: cython.bint = qos & message_ids.QOS_EXPRESS != 0
        if batch is None:
            batch = self.begin(stage, size, qos, reliable)
        if batch is None or batch.lane != reliable or batch.w.at + size > self.limit:
            return self.push_large(join_buffers(header, key, before, rest, at, end), stage, qos, reliable)
        w: WireWriter = batch.w
        w.need(size)
        w.data[w.at] = header
        to: cython.Py_ssize_t = w.at + 1
        copy(w.data, to, key.data, key.at, key.size)
        to += key.size
        copy(w.data, to, before.data, 0, before.at)
        to += before.at
        copy(w.data, to, rest.data, at, end - at)
        w.at = to + end - at
        self.messages += 1
        if express:
            self.close_batch(stage)
        return TAKEN

    def begin(self, stage, size, qos, reliable):
        """Return the open batch with space for a message of that size, or None if the message does not fit or the queue is full."""
        if (
            len(stage.jobs) >= stage.size
            or self.head + self.frame_size(stage, reliable) + size > self.limit
            or (self.budget is not None and self.budget.held >= self.budget.limit)
        ):
            return None
        batch: Batch = self.new_batch()
        self.write_frame(batch.w, stage, reliable)
        batch.lane = reliable
        stage.next_sn[reliable] = (stage.next_sn[reliable] + 1) & self.mask
        stage.open = batch
        self.begun += 1
        return batch

    def push_large(self, data, stage, qos, reliable):
        """Queue a message that does not fit into the open batch."""
        droppable: cython.bint = qos & message_ids.QOS_BLOCKING == 0 or not reliable
        express: cython.bint = qos & message_ids.QOS_EXPRESS != 0
        if self.enqueue(data, stage, reliable, express, droppable):
            return TAKEN
        if droppable:
            return FULL
        size: cython.Py_ssize_t = stage.size
        stage.size = len(stage.jobs) + 2
        self.enqueue(data, stage, reliable, express, False)
        stage.size = size
        return OVER

    @property
    def is_over(self):
        """Return whether the queue exceeds its limit."""
        stage: TxStage
        for stage in self.stages:  # noqa: SIM110  compiled, a generator sees no attribute of a record
            if len(stage.jobs) > stage.size:
                return True
        return False

    def enqueue(self, data, stage, reliable, express, droppable):
        size: cython.Py_ssize_t = len(data)
        head: cython.Py_ssize_t = self.frame_size(stage, reliable)
        batch: Batch = stage.open
        waiting: cython.Py_ssize_t = len(stage.jobs)
        if batch is not None:
            if batch.w.at + size + (head if batch.lane != reliable else 0) <= self.limit:
                self.append(data, size, stage, batch, reliable, express, False)
                return True
            waiting += 1
        if waiting >= stage.size:
            self.is_over_budget = False
            return False
        if droppable and self.exceeds_budget(size):
            return False
        if batch is not None:
            self.close_batch(stage)
        if self.head + head + size <= self.limit:
            stage.open = self.new_batch()
            self.append(data, size, stage, stage.open, reliable, express, True)
        else:
            stage.jobs.append(FragmentedMessage(data, reliable, droppable, stage.next_sn[reliable]))
            self.charge(size)
            stage.next_sn[reliable] = (stage.next_sn[reliable] + self.fragments(size, stage)) & self.mask
            self.complete += 1
            self.messages += 1
        return True

    def append(self, data, size, stage, batch, reliable, express, is_new):
        w: WireWriter = batch.w
        if batch.lane != reliable:
            self.write_frame(w, stage, reliable)
        w.need(size)
        copy(w.data, w.at, data, 0, size)
        w.at += size
        self.commit(stage, batch, reliable, express, is_new)
        return 0

    def commit(self, stage, batch, reliable, express, is_new):
        """Count the message, and consume the sequence number of its FRAME if it has a new one."""
        if batch.lane != reliable:
            batch.lane = reliable
            stage.next_sn[reliable] = (stage.next_sn[reliable] + 1) & self.mask
        self.begun += is_new
        self.messages += 1
        if express:
            self.close_batch(stage)
        return 0

    def close_batch(self, stage):
        """Close the open batch."""
        batch: Batch = stage.open
        self.charge(batch.w.at)
        stage.jobs.append(batch)
        stage.open = None
        self.begun -= 1
        self.complete += 1
        return 0

    def charge(self, size):
        self.held += size
        if self.budget is not None:
            self.budget.add(size, 0)
        return 0

    def exceeds_budget(self, size):
        """Return whether `size` bytes exceed the budget."""
        self.is_over_budget = self.budget is not None and self.budget.held + size >= self.budget.limit
        if self.is_over_budget:
            self.budget.refused += 1
        return self.is_over_budget

    def stage(self, priority):
        return self.stages[priority & 7 if self.qos else DATA]

    # FRAME and FRAGMENT

    def frame_size(self, stage, reliable):
        return 1 + vle_size(stage.next_sn[reliable]) + (0 if stage.priority == DATA else 2)

    def write_frame(self, w, stage, reliable):
        self.frame.reliable = reliable != 0
        self.frame.sn = stage.next_sn[reliable]
        self.frame.priority = stage.priority
        return self.frame.write(w)

    def fragment_room(self, stage):
        """Return the payload size of a fragment other than the first. The first holds one byte less."""
        return self.limit - self.head - 1 - vle_size(self.mask) - (0 if stage.priority == DATA else 2)

    def fragments(self, size, stage):
        room: cython.Py_ssize_t = self.fragment_room(stage)
        return 1 + (size - (room - 1) + room - 1) // room

    def next_fragment(self, stage, fragmented_message, now):
        """Return a batch with the next fragment of the message. The last fragment removes the message from the queue.

        A droppable message that the link did not accept in time ends here, with a Drop. On a stream, a short last
        fragment is sent together with the one before it. Performance: messages just above the batch size are common,
        and a write is expensive.
        """
        batch: Batch = self.new_batch()
        left: cython.Py_ssize_t = self.write_fragment(batch.w, stage, fragmented_message, now)
        if 0 < left <= self.limit // SHORT and self.prefix > 0 and not self.compression:
            self.write_length(batch.w, 0)
            batch.second = batch.w.at
            batch.w.need(self.head)
            batch.w.at += self.head
            left = self.write_fragment(batch.w, stage, fragmented_message, now)
        if left == 0:
            stage.jobs.pop(0)
            self.complete -= 1
            self.charge(-len(fragmented_message.data))
        return batch

    def write_fragment(self, w, stage, fragmented_message, now):
        """Encode the next fragment. Return the number of remaining bytes."""
        late: cython.bint = now - fragmented_message.progress_time > self.max_wait
        left: cython.Py_ssize_t = fragmented_message.write(
            w, self.fragment, self.fragment_room(stage), stage.priority, late
        )
        fragmented_message.sn = (fragmented_message.sn + 1) & self.mask
        fragmented_message.progress_time = now
        self.dropped += self.fragment.drop
        return left

    # Batches out

    def control(self, message):
        """Queue KEEP_ALIVE, CLOSE or a handshake message: alone in its batch, before everything else."""
        head: cython.Py_ssize_t = self.prefix
        if self.is_open and self.compression:
            message = b"\0" + message
            head += 1
        self.control_batches.append(
            (len(message).to_bytes(self.prefix, "little") + message if self.prefix else message, head)
        )

    def data(self, now):
        """Return a view of the next bytes to write, or None. Call `advance` with the number of written bytes."""
        batch: Batch = self.current
        if batch is None:
            batch = self.next_batch(now)
            if batch is None:
                return None
            self.current = batch
        # Safety: valid until `advance`, like the batch. Performance: a view that owns its buffer would cost five times as much.
        if cython.compiled:
            start = cython.cast(cython.p_char, batch.w.data + batch.sent)
            return PyMemoryView_FromMemory(start, batch.w.at - batch.sent, PyBUF_READ)
        return memoryview(batch.w.buf)[batch.sent : batch.w.at]

    def advance(self, size):
        """Remove that many written bytes of `data`. Return True if the batch is finished."""
        batch: Batch = self.current
        batch.sent += size
        if batch.sent < batch.w.at:
            return False
        self.current = None
        self.recycle(batch)
        return True

    def next_batch(self, now):
        batch: Batch
        stage: TxStage
        if self.control_batches:
            data, head = self.control_batches.pop(0)
            if self.tee is not None:
                self.tee.on_send(data[head:], len(data), False)
            return self.frame_control(data)
        for stage in self.stages:
            if stage.jobs:
                job = stage.jobs[0]
                if isinstance(job, FragmentedMessage):
                    return self.seal(self.next_fragment(stage, job, now))
                self.complete -= 1
                batch = stage.jobs.pop(0)
                self.charge(-batch.w.at)
                return self.seal(batch)
            if stage.open is not None:
                batch = stage.open
                stage.open = None
                self.begun -= 1
                return self.seal(batch)
        return None

    def seal(self, batch):
        """Compress the batch if negotiated, and write its length prefix."""
        w: WireWriter = batch.w
        plain: cython.Py_ssize_t = self.head
        if self.compression:
            whole: bytes = take(w.data, plain, w.at - plain)
            data: bytes = compress(whole)
            w.at = self.prefix
            w.need(len(data))
            copy(w.data, w.at, data, 0, len(data))
            w.at += len(data)
            if self.tee is not None:
                self.tee.on_send(whole, w.at, data[0] != 0)
        elif self.tee is not None:
            end: cython.Py_ssize_t = batch.second or w.at
            self.tee.on_send(take(w.data, plain, end - plain), end, False)
            if batch.second:
                self.tee.on_send(take(w.data, end + plain, w.at - end - plain), w.at - end, False)
        self.write_length(w, batch.second)
        return batch

    def write_length(self, w, start):
        """Write the length prefix of the batch from `start` to the current position."""
        size: cython.Py_ssize_t = w.at - start - self.prefix
        i: cython.Py_ssize_t = 0
        while i < self.prefix:
            w.data[start + i] = size >> (8 * i) & 0xFF
            i += 1
        return 0

    def frame_control(self, data):
        batch = Batch(len(data))
        w: WireWriter = batch.w
        copy(w.data, 0, data, 0, len(data))
        w.at = len(data)
        return batch

    def discard(self):
        """Discard the queue, because the peer no longer reads.

        A partly sent batch and the messages queued by `control` are kept.
        """
        stage: TxStage
        for stage in self.stages:
            stage.jobs.clear()
            stage.open = None
        self.complete = 0
        self.begun = 0
        self.charge(-self.held)

    def new_batch(self):
        batch: Batch
        if self.spare_batches:
            batch = self.spare_batches.pop()
        else:
            batch = Batch()
        batch.w.clear()
        batch.w.need(self.head)
        batch.w.at = self.head
        batch.lane = -1
        batch.sent = 0
        batch.second = 0
        return batch

    def recycle(self, batch):
        """Reuse the memory of a finished batch, unless a large message made it too large."""
        if len(self.spare_batches) < MAX_SPARE_BATCHES and batch.w.room <= 4 * self.limit:
            self.spare_batches.append(batch)
        return 0

    @property
    def waiting(self):
        """Return whether there are bytes to write."""
        return self.is_waiting()

    def is_waiting(self):
        return self.current is not None or self.complete > 0 or self.begun > 0 or len(self.control_batches) > 0

    def next_sns(self):
        """Return the next sequence numbers, (reliable, best effort) for each priority, as sent in JOIN."""
        stage: TxStage
        numbers = []
        for stage in self.stages:
            numbers.append((stage.next_sn[1], stage.next_sn[0]))
        return numbers

    def backlog(self):
        """Return the number of queued batches and messages by priority, for tests and statistics."""
        stage: TxStage
        counts = []
        for stage in self.stages:
            counts.append(len(stage.jobs) + (stage.open is not None))
        return counts
