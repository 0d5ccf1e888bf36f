# SPDX-License-Identifier: Apache-2.0
"""Row filter of the planning pass: keep only the bytes that change session state.

Session state depends on handshakes, declarations, fragments and sequence numbers. Most batches are one FRAME of PUSH
messages. Only the header of such a FRAME matters, and of consecutive numbers on one lane only the first and the last. The
remaining rows are decoded as usual, so this module does not implement state. A test compares the skipped PUSH messages
with the wire layer. An uncertain batch is kept whole.
"""

import cython

if cython.compiled:
    import cython.cimports.zenlake.wire.message_ids as message_ids
    from cython.cimports.zenlake.capture.batch_builder import BatchBuilder
    from cython.cimports.zenlake.capture.heuristics import number
else:
    from zenlake.capture.batch_builder import BatchBuilder
    from zenlake.capture.heuristics import number
    from zenlake.wire import message_ids

SHM = cython.declare(cython.int, 0x12)

# A lane accepts a number less than half its space ahead, and the smallest space has 128. For any earlier state, the last
# of this many consecutive numbers leaves the lane in the same state as all of them.
MAX_RUN = cython.declare(cython.int, 32)


def skip_number(p, at, end):
    """Skip a variable-length number. Return -1 if the bytes end, now or before."""
    last: cython.Py_ssize_t = at + 8  # the ninth byte has no continuation bit
    if at < 0:
        return -1
    while at < end:
        if p[at] < 0x80 or at == last:
            return at + 1
        at += 1
    return -1


def skip_run(p, at, end):
    """Skip a length and its bytes."""
    size: cython.Py_ssize_t = 0
    shift: cython.int = 0
    if at < 0:
        return -1
    while at < end and shift < 35:
        size |= (p[at] & 0x7F) << shift
        at += 1
        if p[at - 1] < 0x80:
            return at + size if size <= end - at else -1
        shift += 7
    return -1


def skip_exts(p, at, end, h):
    """Skip a chain of extensions, if bit 7 of `h` announces one."""
    while h & 0x80 and 0 <= at < end:
        h = p[at]
        at += 1
        if h & 0x7F == SHM:  # the payload is then of another kind
            return -1
        if h & 0x60 == 0x20:
            at = skip_number(p, at, end)
        elif h & 0x60 == 0x40:
            at = skip_run(p, at, end)
        elif h & 0x60 == 0x60:
            return -1
    return -1 if h & 0x80 else at


def skip_push(p, at, end):
    """Skip a PUSH with its PUT or DEL. Return -1 for other messages."""
    h: cython.int = p[at]
    if h & 0x1F != message_ids.PUSH:
        return -1
    at = skip_number(p, at + 1, end)  # key_scope
    if h & 0x20:
        at = skip_run(p, at, end)  # key_suffix
    at = skip_exts(p, at, end, h)
    if at < 0 or at >= end:
        return -1
    h = p[at]
    at += 1
    if h & 0x20:
        at = skip_run(p, skip_number(p, at, end), end)  # timestamp
    if h & 0x1F == message_ids.DEL:
        return skip_exts(p, at, end, h)
    if h & 0x1F != message_ids.PUT:
        return -1
    if h & 0x40:  # encoding: the lowest bit of the number announces a schema
        if at < 0 or at >= end:
            return -1
        at = skip_run(p, skip_number(p, at, end), end) if p[at] & 1 else skip_number(p, at, end)
    return skip_run(p, skip_exts(p, at, end, h), end)


def frame_of_pushes(p, at, end):
    """Return the size of a FRAME's header if the batch is one FRAME of PUSH messages only, else 0."""
    start: cython.Py_ssize_t = at
    if at >= end or p[at] & 0x1F != message_ids.FRAME:
        return 0
    at = skip_exts(p, skip_number(p, at + 1, end), end, p[at])
    size: cython.Py_ssize_t = at - start
    while 0 <= at < end:
        at = skip_push(p, at, end)
    return size if at == end else 0


def dependent_bytes(batch):
    """Return the number of bytes of a batch that later batches depend on: none, the FRAME header, or all."""
    p: cython.p_const_uchar = batch
    n: cython.Py_ssize_t = len(batch)
    if n > 0 and (skip_push(p, 0, n) == n or (n == 1 and p[0] == message_ids.KEEP_ALIVE)):
        return 0
    size: cython.Py_ssize_t = frame_of_pushes(p, 0, n)
    return size if size > 0 else n


@cython.cclass
class StateFilter(BatchBuilder):
    """Rows for a decoder that tracks sessions and fills no table. All rows can be collected in addition."""

    def __init__(self, most_rows: int, most_bytes: int, most_held: int) -> None:
        BatchBuilder.__init__(self, most_rows, most_bytes, most_held)
        self.beside = None
        self.most_beside = 0
        self.run = 0  # number of consecutive sequence numbers that the last rows represent
        self.run_face = self.run_direction = self.run_lane = 0
        self.run_number = 0

    def gather(self, beside, most):
        """Collect every row in `beside` too, up to this number of record batches."""
        self.beside = beside
        self.most_beside = most

    def stop_gathering(self):
        """Stop collecting and drop the collected rows."""
        if self.beside is not None:
            self.collect_rows()
            self.beside = None
        return 0

    def collect_rows(self):
        """Return the record batches of all rows since, or None if there were too many or collecting was off."""
        if self.beside is None:
            return None
        self.beside.flush()
        return self.beside.collect()

    def append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file):
        if self.beside is not None:
            self.beside.append(p, at, end, face, direction, wire_size, compressed, received, packet, file)
            if self.beside.finished > self.most_beside:
                with cython.gil:
                    self.stop_gathering()
        size: cython.Py_ssize_t = frame_of_pushes(p, at, end)
        if size == 0:
            self.run = 0
            if at < end and (skip_push(p, at, end) == end or (end - at == 1 and p[at] == message_ids.KEEP_ALIVE)):
                return 0
            return BatchBuilder.append(self, p, at, end, face, direction, wire_size, compressed, received, packet, file)
        sn: cython.longlong = number(p, at, at + size, 0)
        lane: cython.int = p[at]
        if lane & 0x80:  # a priority, the only known extension here
            lane |= p[at + size - 2] << 16 | p[at + size - 1] << 8
        after: cython.Py_ssize_t = skip_number(p, at + 1, end) + (2 if lane & 0x80 else 0)
        if (
            0 < self.run < MAX_RUN
            and sn == self.run_number + 1
            and lane == self.run_lane
            and face == self.run_face
            and direction == self.run_direction
            and after == at + size
            and self.count >= min(self.run, 2)
        ):
            if self.run > 1:
                self.count -= 1
                self.used = self.offset[self.count]
            self.run += 1
        else:
            self.run = 1 if sn >= 0 and after == at + size else 0
            self.run_face = face
            self.run_direction = direction
            self.run_lane = lane
        self.run_number = sn
        return BatchBuilder.append(
            self, p, at, at + size, face, direction, wire_size, compressed, received, packet, file
        )
