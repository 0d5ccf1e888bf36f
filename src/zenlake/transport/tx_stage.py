# SPDX-License-Identifier: Apache-2.0
"""State of one priority in a `TxQueue`: open and closed batches, and messages that are fragmented when they are sent."""

import cython
from cython.cimports.zenlake.wire.writer import WireWriter

SMALL = cython.declare(cython.Py_ssize_t, 512)


class Batch:
    """Bytes for the link: being filled, queued or partly sent."""

    def __init__(self, room=SMALL):
        self.w = WireWriter(room)
        self.lane = -1  # 1 if its last FRAME is reliable, 0 if best effort, -1 without a FRAME
        self.sent = 0
        self.second = 0  # start of a second batch that is sent together with the first


class FragmentedMessage:
    """A message that exceeds a batch, and its progress. Its sequence numbers are reserved."""

    def __init__(self, data, reliable, droppable, sn):
        self.data = data
        self.reliable = reliable
        self.droppable = droppable
        self.sn = sn
        self.at = 0
        self.progress_time = 0.0

    def write(self, w, f, room, priority, late):
        """Encode the next fragment. Return the number of remaining bytes.

        Its payload has `room` bytes, or one byte less in the first fragment.
        A `late` droppable message that has begun ends here, with a Drop.
        """
        left: cython.Py_ssize_t = len(self.data) - self.at
        f.first = self.at == 0
        f.drop = self.droppable and not f.first and late
        f.payload.set(self.data)
        f.payload.at = self.at
        f.payload.size = 0 if f.drop else min(left, room - 1 if f.first else room)
        f.more = not f.drop and f.payload.size < left
        f.reliable = self.reliable != 0
        f.sn = self.sn
        f.priority = priority
        f.write(w)
        self.at += f.payload.size
        left -= f.payload.size
        f.payload.set(b"")
        return left if f.more else 0


class TxStage:
    """State of one priority.

    It consists of the queue (oldest first), the open batch, and the next sequence number of its two lanes.
    """

    def __init__(self, priority, size, initial_sn):
        self.priority = priority
        self.size = size
        self.jobs = []
        self.open = None
        self.next_sn = [initial_sn, initial_sn]
