# SPDX-License-Identifier: Apache-2.0
"""Row filter of the planning pass: keep only the bytes that change session state.

Session state depends on handshakes, declarations, fragments and sequence numbers. Most batches are one FRAME of PUSH
messages. Only the header of such a FRAME matters, and of consecutive numbers on one lane only the first and the last. The
remaining rows are decoded as usual, so this module does not implement state. A test compares the skipped PUSH messages
with the wire layer. A batch with any other message, or with a PUSH of an uncommon layout, is kept whole.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.capture.batch_builder import BatchBuilder
from cython.cimports.zenlake.capture.heuristics import sequence_number
from cython.cimports.zenlake.wire.push_scan import OTHER, PushFields, scan_push

# A lane accepts a number less than half its space ahead, and the smallest space has 128. For any earlier state, the last
# of this many consecutive numbers leaves the lane in the same state as all of them.
MAX_RUN = cython.declare(cython.int, 32)


def frame_header(p, at, end):
    """Return the size of the header of a FRAME, or 0 for another message. It may have one extension, the priority."""
    i: cython.Py_ssize_t = at + 1
    if at >= end or p[at] & message_ids.KIND != message_ids.FRAME:
        return 0
    while i < end and p[i] >= 0x80:
        i += 1
    i += 1  # after the sequence number
    if p[at] & message_ids.Z:
        if end - i < 2 or p[i] & (message_ids.Z | message_ids.ENC) != message_ids.ENC_Z64 or p[i + 1] >= 0x80:
            return 0
        i += 2
    return i - at if i <= min(end, at + 7) else 0


def push_frame_header_size(p, at, end):
    """Return the size of a FRAME's header if the batch is one FRAME of PUSH messages only, else 0."""
    size: cython.Py_ssize_t = frame_header(p, at, end)
    at += size
    while size > 0 and at < end:
        at = end_of_push(p, at, end)
        if at == OTHER:
            return 0
    return size


def end_of_push(p, at, end):
    """Return the offset after a PUSH, or OTHER."""
    push = cython.declare(PushFields)
    if not cython.compiled:
        push = PushFields()
    return scan_push(p, at, end, cython.address(push) if cython.compiled else push)


def changes_nothing(p, at, end):
    """Return whether a batch without a FRAME changes no state: one PUSH or KEEP_ALIVE."""
    return at < end and (end_of_push(p, at, end) == end or (end - at == 1 and p[at] == message_ids.KEEP_ALIVE))


def dependent_bytes(batch):
    """Return the number of bytes of a batch that later batches depend on: none, the FRAME header, or all."""
    p: cython.p_const_uchar = batch
    n: cython.Py_ssize_t = len(batch)
    if changes_nothing(p, 0, n):
        return 0
    size: cython.Py_ssize_t = push_frame_header_size(p, 0, n)
    return size if size > 0 else n


@cython.cclass
class StateFilter(BatchBuilder):
    """Rows for a decoder that tracks sessions and fills no table. All rows can be collected in addition."""

    def __init__(self, max_rows: int, max_bytes: int, max_held: int) -> None:
        BatchBuilder.__init__(self, max_rows, max_bytes, max_held)
        self.all_rows = None
        self.max_all_rows = 0
        self.run = 0  # number of consecutive sequence numbers that the last rows represent
        self.run_face = self.run_direction = self.run_lane = 0
        self.run_number = 0

    def start_collecting(self, all_rows, max_batches):
        """Collect every row in `all_rows` too, up to this number of record batches."""
        self.all_rows = all_rows
        self.max_all_rows = max_batches

    def stop_collecting(self):
        """Stop collecting and drop the collected rows."""
        if self.all_rows is not None:
            self.collect_rows()
            self.all_rows = None
        return 0

    def collect_rows(self):
        """Return the record batches of all rows since, or None if there were too many or collecting was off."""
        if self.all_rows is None:
            return None
        self.all_rows.flush()
        return self.all_rows.collect()

    def append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file):
        if self.all_rows is not None:
            self.all_rows.append(p, at, end, face, direction, wire_size, compressed, received, packet, file)
            if self.all_rows.ready_count > self.max_all_rows:
                with cython.gil:
                    self.stop_collecting()
        size: cython.Py_ssize_t = push_frame_header_size(p, at, end)
        if size == 0:
            self.run = 0
            if changes_nothing(p, at, end):
                return 0
            return BatchBuilder.append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file)
        sn: cython.longlong = sequence_number(p, at, at + size, 0)
        lane: cython.int = p[at]
        if lane & message_ids.Z:  # a priority
            lane |= p[at + size - 2] << 16 | p[at + size - 1] << 8
        if (
            0 < self.run < MAX_RUN
            and sn == self.run_number + 1
            and lane == self.run_lane
            and face == self.run_face
            and direction == self.run_direction
            and self.count >= min(self.run, 2)
        ):
            if self.run > 1:
                self.count -= 1
                self.used = self.offset[self.count]
            self.run += 1
        else:
            self.run = 1 if sn >= 0 else 0
            self.run_face = face
            self.run_direction = direction
            self.run_lane = lane
        self.run_number = sn
        return BatchBuilder.append(
            self, p, at, at + size, face, direction, wire_size, compressed, received, packet, file
        )
