# SPDX-License-Identifier: Apache-2.0
"""Session tracking without rows: the state of a decoder after these batches, and its changes.

The writer of a log walks every batch once, so that a reader may begin at any block. The resulting state must equal that of
`columns.Decoder`, also for undecodable bytes. A test compares them.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.session.lanes import JOINED, OLD, OUT_OF_RANGE, WAITING, Lanes, lane_of
from cython.cimports.zenlake.session.state import SessionState, Side
from cython.cimports.zenlake.wire.batch_reader import BatchReader
from cython.cimports.zenlake.wire.raw_memory import fetch_ahead

from zenlake.columns.column_readers import offsets_view, values_view
from zenlake.errors import DecodeError


class SessionTracker:
    """Sessions of the faces of a log.

    `declared` collects (face, direction, id) of declared and undeclared key ids. `message_starts` collects where the current
    message of a lane began: (face, direction, lane) -> (row, message) of the last tracked block. The caller clears
    both.

    `watch`, if given, is notified of the positions of values. `watch.value(row, index, key, at, size)` is called for a
    PUT in an unfragmented message. `watch.fragment(session, where, row, index, outcome, pieces, at, size)` is called
    for each fragment, before the completed message is decoded. Positions are relative to the bytes of the block.
    """

    def __init__(self, watch=None):
        self.sessions = []
        self.declared = set()
        self.message_starts = {}
        self.reader = BatchReader()
        self.reassembly_reader = BatchReader()
        self.watch = watch
        self.has_watch = watch is not None

    def session(self, face):
        """Return the session of a face. An unknown face gets a new session."""
        while len(self.sessions) <= face:
            self.sessions.append(SessionState(""))
        return self.sessions[face]

    def follow(self, batches, skip=0):
        """Track rows of a log, in order. Skip the first `skip` messages of the first row."""
        count: cython.Py_ssize_t = batches.num_rows
        first: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        left_out: cython.int = skip
        if count == 0:
            return
        column = batches.column("batch")
        data = column.buffers()[2]
        self.offsets = offsets_view(column)
        self.faces = values_view(batches.column("face"), "i")
        self.directions = values_view(batches.column("direction"), "b")
        self.reader.bind(b"" if data is None else memoryview(data).cast("B"))
        while first < count:
            last = first + 1
            if self.directions[first] < 0:  # a note
                first = last
                continue
            while last < count and self.faces[last] == self.faces[first] and self.directions[last] >= 0:
                last += 1
            self.face = self.faces[first]
            session: SessionState = self.session(self.face)
            while first < last and not session.is_scouting:
                try:
                    with cython.nogil:
                        self.walk(session, first, last, left_out)
                    first = last
                except DecodeError:
                    first = self.row + 1
                left_out = 0
            first = last

    def walk(self, session, first, last, skip):
        kind: cython.int
        fresh: cython.bint
        row: cython.Py_ssize_t = first
        while row < last:
            self.row = row
            self.direction = self.directions[row]
            self.index = 0
            fresh = True
            self.reader.low_latency = session.low_latency and session.is_open
            self.reader.begin(self.offsets[row], self.offsets[row + 1])
            kind = self.reader.next()
            while kind != message_ids.END:
                if self.index >= skip:
                    if kind == message_ids.FRAME:
                        fresh = self.accept(
                            session, self.reader.frame.priority, self.reader.frame.reliable, self.reader.frame.sn
                        )
                    elif kind == message_ids.DECLARE:
                        if fresh:
                            self.declaration(session, self.reader)
                    elif kind == message_ids.FRAGMENT:
                        fresh = self.accept(
                            session, self.reader.fragment.priority, self.reader.fragment.reliable,
                            self.reader.fragment.sn,
                        )  # fmt: skip
                        if fresh:
                            self.fragment(session)
                        elif self.has_watch:
                            self.skip_old_fragment(session)
                    elif kind in (message_ids.PUSH, message_ids.RESPONSE):
                        if self.has_watch:
                            self.value(session, kind)
                    elif kind in (message_ids.INIT, message_ids.OPEN, message_ids.CLOSE, message_ids.JOIN):
                        self.transport(session, kind)
                self.index += 1
                # Prefetch: if the next message has the same length, the one after it begins there.
                fetch_ahead(self.reader.c.data, 2 * self.reader.c.at - self.reader.start)
                kind = self.reader.next()
            skip = 0
            row += 1
        return 0

    def accept(self, session, priority, reliable, sn):
        gap: cython.longlong
        if self.direction == 0:
            gap = session.opener.lanes.accept(lane_of(priority, reliable), sn)
        else:
            gap = session.acceptor.lanes.accept(lane_of(priority, reliable), sn)
        if gap == OUT_OF_RANGE:
            with cython.gil:
                raise DecodeError("FRAME.sn", self.reader.start, "above the negotiated range")
        return gap >= 0

    def fragment(self, session):
        f = self.reader.fragment
        side: Side = session.sides[self.direction]
        lanes: Lanes = side.lanes
        lane: cython.int = lane_of(f.priority, f.reliable)
        joined: cython.int = lanes.join(lane, f)
        where = (self.face, self.direction, lane)
        if self.has_watch:
            pieces = lanes.pieces[lane]
            self.watch.fragment(session, where, self.row, self.index, joined, pieces, f.payload.at, f.payload.size)
        if joined == WAITING:
            if lanes.pieces[lane] == 1:
                self.message_starts[where] = (self.row, self.index)
            return 0
        self.message_starts.pop(where, None)
        if joined == JOINED:
            data = lanes.take(lane)
            self.reassembly_reader.bind(data)
            self.reassembly_reader.begin_network(0, len(data))
            if self.reassembly_reader.next() == message_ids.DECLARE:
                self.declaration(session, self.reassembly_reader)
            self.reassembly_reader.bind(b"")
        return 0

    def skip_old_fragment(self, session):
        """Track a fragment that receivers ignore."""
        f = self.reader.fragment
        where = (self.face, self.direction, lane_of(f.priority, f.reliable))
        self.watch.fragment(session, where, self.row, self.index, OLD, 0, f.payload.at, f.payload.size)
        return 0

    def value(self, session, kind):
        push = self.reader.push
        response = self.reader.response
        if kind == message_ids.PUSH:
            if push.is_put:
                key = session.key(self.direction, push.key)
                self.watch.value(self.row, self.index, key, push.put.payload.at, push.put.payload.size)
        elif response.is_reply and response.reply.is_put:
            key = session.key(self.direction, response.key)
            payload = response.reply.put.payload
            self.watch.value(self.row, self.index, key, payload.at, payload.size)
        return 0

    def transport(self, session, kind):
        if kind == message_ids.INIT:
            session.init(self.direction, self.reader.init)
        elif kind == message_ids.OPEN:
            session.on_open(self.direction, self.reader.open)
        elif kind == message_ids.CLOSE:
            session.on_close()
        else:
            session.on_join(self.reader.join)
        return 0

    def declaration(self, session, reader):
        declare = reader.declare
        if declare.body_id == message_ids.D_KEYEXPR:
            session.declare_key(self.direction, declare.body.id, declare.body.key)
        elif declare.body_id == message_ids.U_KEYEXPR:
            session.forget_key(self.direction, declare.body.id)
        else:
            return 0
        self.declared.add((self.face, self.direction, declare.body.id))
        return 0
