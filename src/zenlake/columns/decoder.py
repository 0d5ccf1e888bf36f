# SPDX-License-Identifier: Apache-2.0
"""Decoder: batches of sessions to decoded tables.

The input is Arrow: record batches of the batch schema (`zenlake.core.batch_schema`), one row per Zenoh batch in order of receipt.
The decoder keeps a `SessionState` per face, walks every batch with one `BatchReader`, and writes rows directly from the records.
Bytes of keys and payloads are copied once, into Arrow buffers. No Python object is created per sample.

Undecodable bytes are a row of `errors`. Decoding continues with the next batch.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.columns.push_fast_path import decode_push, decode_push_messages
from cython.cimports.zenlake.columns.samples_builder import SamplesBuilder
from cython.cimports.zenlake.columns.table_builders import ControlTableBuilder, MessagesBuilder, RowPosition
from cython.cimports.zenlake.session.key_table import KeyMemory
from cython.cimports.zenlake.session.lanes import ENDED, JOINED, OUT_OF_RANGE, SKIPPED, WAITING, Lanes, lane_of
from cython.cimports.zenlake.session.state import SessionState, Side
from cython.cimports.zenlake.wire.batch_reader import BatchReader
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.message_base import Message

from zenlake.columns.column_readers import offsets_view, values_view
from zenlake.columns.declaration_rows import (
    close_reason_name,
    describe_declaration,
    describe_fragment,
    describe_interest,
    describe_message,
    describe_terms,
    entity_name,
    node,
)
from zenlake.errors import DecodeError
from zenlake.wire.scouting import read_scouting

MAX_ERROR_BYTES = 65536
MAX_NAMES = 65536


class Decoder:
    """Decoder of batches. `tables` maps table names to the requested columns, or to None for all."""

    def __init__(self, tables=None, rows=16384, size=32 << 20):
        if rows < 1 or size < 1:
            raise ValueError("a record batch needs at least one row and one byte")
        wanted = {"samples": None} if tables is None else dict(tables)
        self.size = size
        self.rows = rows
        self.reader = BatchReader()
        self.reassembly_reader = BatchReader()
        self.position = RowPosition()
        self.sessions = []
        self.memory = KeyMemory()
        self.names = {}
        self.files = []
        self.file = -1
        self.current_row = 0
        self.origin = 0
        self.samples = SamplesBuilder(wanted.get("samples"), rows if "samples" in wanted else 0)
        self.messages = MessagesBuilder(wanted.get("messages"), rows if "messages" in wanted else 0)
        self.declarations = ControlTableBuilder(
            "declarations", wanted.get("declarations"), rows if "declarations" in wanted else 0
        )
        self.events = ControlTableBuilder("events", wanted.get("events"), rows if "events" in wanted else 0)
        self.errors = ControlTableBuilder("errors", wanted.get("errors"), rows if "errors" in wanted else 0)
        self.tables = {
            "samples": self.samples, "messages": self.messages, "declarations": self.declarations,
            "events": self.events, "errors": self.errors,
        }  # fmt: skip
        for name, table in self.tables.items():
            table.on = name in wanted
        unknown = [name for name in wanted if name not in self.tables]
        if unknown:
            raise ValueError(f"unknown decoded table {unknown[0]!r}; expected one of {', '.join(self.tables)}")
        self.uses_fast_path = self.samples.on
        self.wanted = list(wanted)
        self.done = {name: [] for name in wanted}

    # Input and output

    def session(self, face):
        """Return the session of a face, creating it if necessary. Callers may name it and set its state."""
        while len(self.sessions) <= face:
            self.sessions.append(SessionState(f"face {len(self.sessions)}", self.memory))
        return self.sessions[face]

    def name(self, face, session):
        """Return the name of a session as bytes, cached for interleaved sessions."""
        known = self.names.get(face)
        if known is None or known[0] is not session.name:
            if len(self.names) >= MAX_NAMES:
                self.names.clear()
            known = self.names[face] = (session.name, Blob(session.name.encode()))
        return known[1]

    def decode(self, batches):
        """Decode a record batch of the batch schema. `take` returns complete record batches."""
        count: cython.Py_ssize_t = batches.num_rows
        if count == 0:
            return
        column = batches.column("batch")
        data = column.buffers()[2]
        self.offsets = offsets_view(column)
        self.received = values_view(batches.column("received"), "q")
        self.faces = values_view(batches.column("face"), "i")
        self.directions = values_view(batches.column("direction"), "b")
        self.packets = values_view(batches.column("packet"), "q")
        self.reader.bind(b"" if data is None else memoryview(data).cast("B"))
        files = values_view(batches.column("file"), "i") if "file" in batches.schema.names else None
        first: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t = 1
        if files is not None and files[0] != files[count - 1]:  # packet numbers restart in each file
            while files[last] == files[0]:
                last += 1
            self.decode(batches.slice(0, last))
            return self.decode(batches.slice(last))
        if files is not None and files[0] != self.file:
            self.file = files[0]
            self.position.packet = -1
        self.position.file.set(self.files[files[0]].encode() if files is not None else None)
        while first < count:
            last = first + 1
            while last < count and self.faces[last] == self.faces[first]:
                last += 1
            session = self.session(self.faces[first])
            self.position.session = self.name(self.faces[first], session)
            try:
                self.decode_run(session, first, last)
            finally:
                self.gather_staged()
            first = last

    def take(self):
        """Return the complete record batches so far, by table."""
        done, self.done = self.done, {name: [] for name in self.wanted}
        return done

    def finish(self, tables=None):
        """Return all remaining rows, by table, or those of the named tables."""
        for name in self.wanted if tables is None else tables:
            if self.tables[name].row:
                self.flush(name)
        if tables is None:
            self.position.packet = -1  # packet numbers restart, as for the next writer of a log
        return self.take()

    def flush(self, name):
        self.gather_staged()
        self.done[name].append(self.tables[name].finish())

    def flush_full(self):
        """Complete the tables that have enough rows or bytes."""
        for name in self.wanted:
            table = self.tables[name]
            if table.row >= self.rows or (table.row and table.size() >= self.size):
                self.flush(name)
        return 0

    # Walking

    def decode_run(self, session, first, last):
        """Decode consecutive batches of one session."""
        self.current_session = session
        self.position.generation = session.generation
        while first < last:
            try:
                if session.is_scouting:
                    self.decode_scouting(session, first)
                    first += 1
                else:
                    with cython.nogil:
                        self.walk_rows(session, first, last)
                    return 0
            except DecodeError as error:
                self.error(error, self.current_row)
                first = self.current_row + 1
        return 0

    def fill_shared(self):
        """Write the shared values of rows before the position changes or a table is completed."""
        if self.samples.filled_rows < self.samples.row:
            self.samples.fill_shared(self.position)
        if self.messages.filled_rows < self.messages.row:
            self.messages.fill_shared(self.position)
        return 0

    def gather_staged(self):
        """Gather staged rows before the buffer or the session's keys change."""
        self.fill_shared()
        if self.samples.first_staged < self.samples.row:
            self.samples.gather(self.current_session.opener.keys, self.current_session.acceptor.keys)
        return 0

    def begin(self, row):
        self.fill_shared()
        self.current_row = row
        self.origin = self.offsets[row]
        self.position.received_ns = self.received[row]
        self.position.direction = self.directions[row]
        if (
            self.position.packet != self.packets[row]
        ):  # otherwise another batch that ended in the same packet: continue counting
            self.position.packet = self.packets[row]
            self.position.index = -1
        self.position.in_lane = False
        self.position.accepted = True
        self.position.fragments = 0
        return 0

    def walk_rows(self, session, first, last):
        row: cython.Py_ssize_t = first
        while row < last:
            self.begin(row)
            self.reader.low_latency = session.low_latency and session.is_open
            self.reader.begin(self.offsets[row], self.offsets[row + 1])
            while self.walk(session):
                if self.samples.must_gather():
                    self.gather_staged()
                    if self.samples.used_bytes() >= self.size:
                        self.flush_full()
                if self.samples.row >= self.rows or self.messages.row >= self.rows:
                    self.flush_full()
            row += 1
        return 0

    def walk(self, session):
        """Decode the next publications of a common layout, or one message. Return False at the end of the batch."""
        if self.uses_fast_path and self.reader.in_frame and self.position.accepted and self.decode_fast_path(session):
            return True
        kind: cython.int = self.reader.next()
        if kind == message_ids.END:
            return False
        self.position.index += 1
        if kind == message_ids.PUSH:
            self.push(session, self.reader)
        elif kind == message_ids.FRAME:
            self.frame(session)
        elif kind >= message_ids.NETWORK:
            self.network(session, self.reader, kind)
        elif kind == message_ids.FRAGMENT:
            self.fragment(session)
        else:
            self.transport(session, kind)
        return True

    def decode_fast_path(self, session):
        """Return the number of messages."""
        before: cython.Py_ssize_t = self.samples.row
        self.reader.c.at = decode_push(
            self.samples, self.reader.c.data, self.reader.c.at, self.reader.c.end, self.position.direction,
            self.rows - max(self.samples.row, self.messages.row),
        )  # fmt: skip
        count: cython.Py_ssize_t = self.samples.row - before
        if count:
            self.samples.index.count(before, self.samples.row, self.position.index + 1)
            if self.messages.on:
                decode_push_messages(
                    self.messages,
                    self.samples,
                    count,
                    self.position.index + 1,
                    session.opener.keys,
                    session.acceptor.keys,
                )
            self.position.index += count
        return count

    def lane(self, session, priority, reliable, sn):
        """Enter a lane. Missing and unexpected sequence numbers are events."""
        self.fill_shared()
        self.position.in_lane = True
        self.position.priority = priority
        self.position.reliable = reliable
        self.position.sn = sn
        lane: cython.int = lane_of(priority, reliable)
        gap: cython.longlong
        if self.position.direction == 0:
            gap = session.opener.lanes.accept(lane, sn)
        else:
            gap = session.acceptor.lanes.accept(lane, sn)
        self.position.accepted = gap >= 0
        if gap != 0:
            self.gap(session, gap)
        return 0

    def gap(self, session, gap):
        if gap == OUT_OF_RANGE:
            raise DecodeError("FRAME.sn", self.reader.start, "above the negotiated range")
        if self.events.on:
            kind = "gap" if gap > 0 else "duplicate"
            # Lakes store these texts.
            detail = "frames missing before this one" if gap > 0 else "not newer than the last one: receivers ignore it"
            p = self.position
            first = (p.sn - gap) & session.opener.lanes.mask if gap > 0 else p.sn
            self.event(kind, priority=p.priority, reliable=p.reliable, sn=first, count=max(gap, 1), detail=detail)
        return 0

    def frame(self, session):
        self.lane(session, self.reader.frame.priority, self.reader.frame.reliable, self.reader.frame.sn)
        if self.messages.on:
            self.messages.begin(
                self.position, message_ids.FRAME, self.reader.c.at - self.reader.start, self.reader.frame.unknown
            )
            self.messages.end()
        return 0

    def fragment(self, session):
        f = self.reader.fragment
        self.lane(session, f.priority, f.reliable, f.sn)
        if self.messages.on:
            self.messages.begin(self.position, message_ids.FRAGMENT, self.reader.c.at - self.reader.start, f.unknown)
            self.messages.payload_size.put(self.messages.row, f.payload.size)
            self.messages.put_texts(None, describe_fragment(f))
            self.messages.end()
        if not self.position.accepted:
            return 0
        side: Side = session.sides[self.position.direction]
        lanes: Lanes = side.lanes
        lane: cython.int = lane_of(f.priority, f.reliable)
        joined: cython.int = lanes.join(lane, f)
        if joined == JOINED:
            self.gather_staged()
            self.position.fragments = lanes.pieces[lane]
            data = lanes.take(lane)
            self.reassembly_reader.bind(data)
            self.reassembly_reader.begin_network(0, len(data))
            self.origin = 0  # offsets of errors count from the start of the message, not of the batch
            self.network(session, self.reassembly_reader, self.reassembly_reader.next())
            self.gather_staged()
            self.reassembly_reader.bind(b"")
            self.position.fragments = 0
        elif joined not in (WAITING, SKIPPED) and self.events.on:
            first = f.sn if joined != ENDED else (f.sn - lanes.skipped_count + 1) & lanes.mask
            count = 1 if joined != ENDED else lanes.skipped_count
            self.event(
                "lost", priority=f.priority, reliable=f.reliable, sn=first, count=count, detail=Lanes.MISSES[joined]
            )
        return 0

    def network(self, session, reader, kind):
        """Handle a network message that `reader` has decoded."""
        if kind == message_ids.PUSH:
            self.push(session, reader)
        elif kind == message_ids.RESPONSE:
            self.response(session, reader)
        elif kind == message_ids.REQUEST:
            self.request(session, reader)
        elif kind == message_ids.RESPONSE_FINAL:
            if self.messages.on:
                self.messages.begin(self.position, kind, reader.c.at - reader.start, reader.final.unknown)
                self.messages.put_common(reader.final.id, reader.final.qos, 0)
                self.messages.end()
        else:
            self.declaration(session, reader, kind)
        return 0

    def push(self, session, reader):
        if self.samples.on and self.position.accepted:
            self.samples.add_push(self.position, reader.push, self.is_acceptor_key(reader.push.key), reader.c.data)
        if self.messages.on:
            self.messages.begin(self.position, message_ids.PUSH, reader.c.at - reader.start, reader.push.unknown)
            self.put_key(session, reader.push.key, reader.c.data)
            self.messages.put_push(reader.push)
            self.messages.end()
        return 0

    def response(self, session, reader):
        if self.samples.on and self.position.accepted and reader.response.is_reply:
            self.samples.add_reply(
                self.position, reader.response, self.is_acceptor_key(reader.response.key), reader.c.data
            )
        if self.messages.on:
            self.messages.begin(
                self.position, message_ids.RESPONSE, reader.c.at - reader.start, reader.response.unknown
            )
            self.put_key(session, reader.response.key, reader.c.data)
            self.messages.put_common(
                reader.response.id,
                reader.response.qos,
                message_ids.REPLY if reader.response.is_reply else message_ids.ERR,
            )
            if not reader.response.is_reply:
                self.messages.put_err(reader.response.err, reader.c.data)
            elif reader.response.reply.is_put and reader.response.reply.put.payload.size >= 0:
                self.messages.payload_size.put(self.messages.row, reader.response.reply.put.payload.size)
            self.messages.end()
        return 0

    def request(self, session, reader):
        if self.messages.on:
            self.messages.begin(self.position, message_ids.REQUEST, reader.c.at - reader.start, reader.request.unknown)
            self.put_key(session, reader.request.key, reader.c.data)
            self.messages.put_common(reader.request.id, reader.request.qos, message_ids.QUERY)
            self.messages.put_request(reader.request, reader.c.data)
            self.messages.end()
        return 0

    def is_acceptor_key(self, expr):
        """Return whether the acceptor of the session declared the key id: as sender or as receiver (M flag)."""
        return (self.position.direction != 0) == (expr.sender != 0)

    def put_key(self, session, expr, data):
        """Write the key of a row of `messages`."""
        if self.is_acceptor_key(expr):
            return self.messages.put_expr(expr, session.acceptor.keys, data)
        return self.messages.put_expr(expr, session.opener.keys, data)

    # Rare messages

    def event(self, kind, **values):
        values["kind"] = kind
        self.events.add(self.position, values)
        if self.events.row >= self.rows:
            self.flush("events")

    def transport(self, session, kind):
        """Handle INIT, OPEN, CLOSE, KEEP_ALIVE, JOIN and OAM."""
        reader, p = self.reader, self.position
        self.gather_staged()
        p.in_lane = False
        detail = None
        unknown = 0
        if kind == message_ids.INIT:
            session.init(p.direction, reader.init)
            p.generation = session.generation
            detail = f"{'InitAck' if reader.init.ack else 'InitSyn'} {node(reader.init)}"
            unknown = reader.init.unknown
        elif kind == message_ids.OPEN:
            unknown = reader.open.unknown
            detail = f"{'OpenAck' if reader.open.ack else 'OpenSyn'} lease {reader.open.lease_ms} ms"
            if session.on_open(p.direction, reader.open) and self.events.on:
                self.event("opened", detail=describe_terms(session))
        elif kind == message_ids.CLOSE:
            unknown = reader.close.unknown
            session.on_close()
            detail = f"{close_reason_name(reader.close.reason)}{', whole session' if reader.close.session else ''}"
            if self.events.on:
                self.event("closed", count=reader.close.reason, detail=detail)
        elif kind == message_ids.JOIN:
            unknown = reader.join.unknown
            detail = node(reader.join)
            first = session.on_join(reader.join)
            p.generation = session.generation
            if first and self.events.on:
                self.event("joined", detail=describe_terms(session))
        if self.messages.on:
            self.messages.begin(p, kind, reader.c.at - reader.start, unknown)
            self.messages.put_texts(None, detail)
            self.messages.end()
        return 0

    def declaration(self, session, reader, kind):
        """Handle DECLARE, INTEREST and network OAM."""
        p = self.position
        self.gather_staged()
        row, body, detail = {}, None, None
        if kind == message_ids.DECLARE:
            row = describe_declaration(session, p.direction, reader.declare)
            body = entity_name(row)
            if p.accepted:
                self.declare_key(session, reader.declare)
            record: Message = reader.declare
        elif kind == message_ids.INTEREST:
            row = describe_interest(session, p.direction, reader.interest)
            record = reader.interest
        else:
            record = reader.oam
            detail = "link state" if reader.oam.id == 1 else None
        if row and self.declarations.on and p.accepted:
            self.declarations.add(p, row)
            if self.declarations.row >= self.rows:
                self.flush("declarations")
        if self.messages.on:
            m = self.messages
            m.begin(p, kind, reader.c.at - reader.start, record.unknown)
            m.put_texts(body, detail)
            m.key.put_value(m.row, row.get("key"))
            m.unresolved_key.put_value(m.row, row.get("unresolved_key"))
            id = reader.oam.id if not row else row.get("id", row.get("interest_id"))
            if id is not None:
                m.id.put(m.row, id)
            m.qos.put(m.row, record.qos)
            m.end()
        return 0

    def declare_key(self, session, declare):
        """Declare a key id."""
        direction: cython.int = self.position.direction
        body = declare.body
        if declare.body_id == message_ids.U_KEYEXPR:
            session.forget_key(direction, body.id)
        elif declare.body_id == message_ids.D_KEYEXPR:
            is_new = session.declare_key(direction, body.id, body.key)
            if not is_new and self.events.on:
                first = session.sides[direction].keys.get(body.id)
                known = not first and session.key(direction, body.key) is not None
                why = "the limit of key ids is reached" if known else "prefix unknown"
                why = f"id {body.id} still means {first.decode()}" if first else f"id {body.id}: {why}"
                self.event("redeclared", count=1, detail=why)

    def decode_scouting(self, session, row):
        self.begin(row)
        start, end = self.offsets[row], self.offsets[row + 1]
        self.reader.begin(start, end)
        message = read_scouting(bytes(memoryview(self.reader.c.buf)[start:end]))
        self.position.index += 1
        if self.messages.on:
            self.messages.add_scouting(message, end - start, describe_message(message))
            self.flush_full()

    def error(self, error, row):
        """Write undecodable bytes."""
        if not self.errors.on:
            return
        start, end = self.offsets[row], self.offsets[row + 1]
        data = bytes(memoryview(self.reader.c.buf)[start : min(end, start + MAX_ERROR_BYTES)])
        self.position.index = max(self.position.index, 0)
        self.errors.add(
            self.position, {"field": error.field, "at": error.at - self.origin, "why": error.why, "bytes": data}
        )
        self.flush_full()
