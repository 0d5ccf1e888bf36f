# SPDX-License-Identifier: Apache-2.0
"""Rows of `samples`: one per PUT and DEL, from decoded records.

A row is first staged: numbers, and offsets of its bytes (`row_staging`). The columns gather the staged rows when there are
many, or before the buffer or the declared keys change.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.columns.row_staging import ALL, NONE, SpanStaging
from cython.cimports.zenlake.columns.table_builders import TableBuilder
from cython.cimports.zenlake.columns.text_encoders import EncodingText, EnumText, ZenohIdText

if not cython.compiled:
    from zenlake.columns.row_staging import make_staging

from zenlake.columns.row_staging import MAX_STAGED_ROWS

PUT = cython.declare(cython.int, 0)
DEL = cython.declare(cython.int, 0x100)  # besides the QoS bits


if not cython.compiled:  # compiled: in the .pxd
    MAX_STAGED_BYTES = 131072  # maximum staged bytes: a table may exceed its size by this

    def as_signed(value):
        """Return the same 64 bits as a signed number: Parquet, DuckDB and Spark share no unsigned one."""
        return value - (1 << 64) if value >> 63 else value

    def microseconds(ntp64):
        """Convert NTP64 to microseconds since 1970."""
        return (ntp64 >> 32 & 0xFFFFFFFF) * 1_000_000 + ((ntp64 & 0xFFFFFFFF) * 1_000_000 >> 32)


class SamplesBuilder(TableBuilder):
    """Table with one row per PUT and DEL, published (PUSH) or replied (REPLY)."""

    def __init__(self, columns, rows):
        TableBuilder.__init__(self, "samples", columns, rows)
        of = self.columns
        self.kind = of["kind"]
        self.payload = of["payload"]
        self.payload_size = of["payload_size"]
        self.shm = of["shm"]
        self.encoding = EncodingText(of["encoding"], of["schema"])
        self.timestamp = of["timestamp"]
        self.ntp64 = of["ntp64"]
        self.timestamp_id = ZenohIdText(of["timestamp_id"])
        self.source_zid = ZenohIdText(of["source_zid"])
        self.source_eid = of["source_eid"]
        self.source_sn = of["source_sn"]
        self.attachment = of["attachment"]
        self.priority = of["priority"]
        self.congestion = of["congestion"]
        self.express = of["express"]
        self.reliable = of["reliable"]
        self.sn = of["sn"]
        self.fragments = of["fragments"]
        self.request_id = of["request_id"]
        self.responder_zid = ZenohIdText(of["responder_zid"])
        self.responder_eid = of["responder_eid"]
        self.timestamp_stack = of["timestamp_stack"]
        self.kinds = EnumText(["put", "del"])
        self.congestions = EnumText(["drop", "block", "block_first"])
        # Staged rows
        self.most = min(MAX_STAGED_ROWS, max(rows, 1))
        self.gathered = 0
        self.bytes = 0
        if not cython.compiled:  # compiled: a part of this object
            self.notes = make_staging()
        self.suffixes = SpanStaging().over(self.notes.suffix.at, self.notes.suffix.size)
        self.payloads = SpanStaging().over(self.notes.payload.at, self.notes.payload.size)
        self.slices = SpanStaging().over(self.notes.slices.at, self.notes.slices.size)
        self.schemas = SpanStaging().over(self.notes.schema.at, self.notes.schema.size)
        self.stamps = SpanStaging().over(self.notes.stamp.at, self.notes.stamp.size)
        self.sources = SpanStaging().over(self.notes.source.at, self.notes.source.size)
        self.attachments = SpanStaging().over(self.notes.attachment.at, self.notes.attachment.size)
        self.responders = SpanStaging().over(self.notes.responder.at, self.notes.responder.size)
        self.stacks = SpanStaging().over(self.notes.stack.at, self.notes.stack.size)

    # Staging

    def add_push(self, p, push, accepted, data):
        """Stage a publication. `accepted`: the acceptor of the session declared the key id."""
        self.stage_key(push.key, accepted)
        return self.note_push(p, push, data)

    def add_reply(self, p, response, accepted, data):
        """Stage a reply with a sample."""
        self.stage_key(response.key, accepted)
        return self.stage_reply(p, response, data)

    def stage_key(self, expr, accepted):
        i: cython.Py_ssize_t = self.row - self.gathered
        self.notes.scope[i] = -expr.scope if accepted else expr.scope
        self.suffixes.note(i, expr.suffix)

    def stage_no_key(self):
        """Finish a row whose key was written by the caller."""
        i: cython.Py_ssize_t = self.row - self.gathered
        self.notes.scope[i] = 0
        self.suffixes.skip(i)

    def note_push(self, p, push, data):
        self.responders.skip(self.row - self.gathered)
        self.stacks.note(self.row - self.gathered, push.timestamp_stack)
        if push.is_put:
            self.stage_put(push.put)
            return self.note(p, PUT | push.qos, data)
        self.stage_del(push.delete)
        return self.note(p, DEL | push.qos, data)

    def stage_reply(self, p, response, data):
        self.request_id.put(self.row, response.id)
        self.stacks.note(self.row - self.gathered, response.timestamp_stack)
        self.responders.note(self.row - self.gathered, response.responder.zid)
        if response.responder.zid.size >= 0:
            self.responder_eid.put(self.row, response.responder.eid)
        if response.reply.is_put:
            self.stage_put(response.reply.put)
            return self.note(p, PUT | response.qos, data)
        self.stage_del(response.reply.delete)
        return self.note(p, DEL | response.qos, data)

    def stage_put(self, put):
        i: cython.Py_ssize_t = self.row - self.gathered
        self.payloads.note(i, put.payload)
        self.slices.note(i, put.slices)
        self.notes.encoding[i] = put.encoding.id
        self.schemas.note(i, put.encoding.schema)
        self.bytes += put.payload.size  # an estimate: one less if the payload is absent
        self.stage_origin(i, put.timestamp, put.source, put.attachment)

    def stage_del(self, delete):
        i: cython.Py_ssize_t = self.row - self.gathered
        self.payloads.skip(i)
        self.slices.skip(i)
        self.notes.encoding[i] = -1
        self.schemas.skip(i)
        self.stage_origin(i, delete.timestamp, delete.source, delete.attachment)

    def stage_origin(self, i, stamp, source, attachment):
        self.stamps.note(i, stamp.id)
        self.notes.ntp64[i] = as_signed(stamp.ntp64)
        if source.entity.zid.size >= 0:
            self.sources.note(i, source.entity.zid)
            self.notes.eid[i] = source.entity.eid
            self.notes.sn[i] = source.sn
        else:
            self.sources.skip(i)
        self.attachments.note(i, attachment)
        self.bytes += attachment.size

    def note(self, p, manner, data):
        self.notes.manner[self.row - self.gathered] = manner
        self.data = data
        self.index.put(self.row, p.index)
        self.row += 1
        return 0

    def forget(self, first, last):
        """Remove rows from the staging area."""
        self.suffixes.forget(first, last)
        self.payloads.forget(first, last)
        self.slices.forget(first, last)
        self.schemas.forget(first, last)
        self.stamps.forget(first, last)
        self.sources.forget(first, last)
        self.attachments.forget(first, last)
        self.responders.forget(first, last)
        self.stacks.forget(first, last)

    def move(self, by, data):
        """Move the last row's bytes to other memory, by this distance."""
        i: cython.Py_ssize_t = self.row - 1 - self.gathered
        self.payloads.move(i, by)
        self.slices.move(i, by)
        self.schemas.move(i, by)
        self.stamps.move(i, by)
        self.sources.move(i, by)
        self.attachments.move(i, by)
        self.responders.move(i, by)
        self.stacks.move(i, by)
        self.data = data

    if not cython.compiled:  # compiled: inline, in the .pxd

        def is_crowded(self):
            """Return whether the staged rows must be gathered before the next is added."""
            return self.row - self.gathered >= self.most or self.bytes >= MAX_STAGED_BYTES

        def used_bytes(self):
            return self.payload.used + self.attachment.used + self.key.used

    # Gathering: many rows, one column at a time

    def settle(self, p):
        """Write the shared values of the rows since the last call."""
        if p.in_lane:
            self.reliable.fill(self.settled, self.row, p.reliable)
            self.sn.fill(self.settled, self.row, p.sn)
        if p.fragments:
            self.fragments.fill(self.settled, self.row, p.fragments)
        return self.settle_where(p)

    def gather(self, opener, acceptor):
        """Write the staged rows to their columns, with the declared keys of both sides."""
        first: cython.Py_ssize_t = self.gathered
        count: cython.Py_ssize_t = self.row - first
        if count == 0:
            return 0
        self.gathered = self.row  # also if an error follows: their bytes are not read a second time
        self.bytes = 0
        try:
            self.gather_columns(first, count, opener, acceptor)
        finally:
            self.forget(0, count)
        return 0

    def gather_columns(self, first, count, opener, acceptor):
        self.suffixes.look(count)
        self.payloads.look(count)
        self.slices.look(count)
        self.schemas.look(count)
        self.stamps.look(count)
        self.sources.look(count)
        self.attachments.look(count)
        self.responders.look(count)
        self.stacks.look(count)
        self.gather_keys(first, count, opener, acceptor)
        self.payload.gather(first, self.payloads, count, self.data)
        self.payload_size.gather(first, self.notes.payload.size, self.payloads, count)
        self.shm.gather(first, self.slices, count, self.data)
        self.encoding.gather(first, self.notes.encoding, self.schemas, count, self.data)
        self.gather_times(first, count)
        self.ntp64.gather(first, self.notes.ntp64, self.stamps, count)
        self.timestamp_id.gather(first, self.stamps, count, self.data)
        self.source_zid.gather(first, self.sources, count, self.data)
        self.source_eid.gather(first, self.notes.eid, self.sources, count)
        self.source_sn.gather(first, self.notes.sn, self.sources, count)
        self.attachment.gather(first, self.attachments, count, self.data)
        self.responder_zid.gather(first, self.responders, count, self.data)
        self.timestamp_stack.gather(first, self.stacks, count, self.data)
        return self.gather_qos(first, count)

    def gather_keys(self, first, count, opener, acceptor):
        i: cython.Py_ssize_t = 0
        scope: cython.int
        if not self.key.on and not self.unresolved_key.on:
            return 0
        if self.suffixes.presence == NONE:  # the common case: all keys are declared in full by one side
            i = self.key.gather_numbered(first, self.notes.scope, 1, opener, count)
            if i == 0:
                i = self.key.gather_numbered(first, self.notes.scope, -1, acceptor, count)
        elif self.are_complete(count):
            return self.key.gather(first, self.suffixes, count, self.data)
        while i < count:
            scope = self.notes.scope[i]
            if scope >= 0:
                self.put_key(first + i, opener, scope, self.data, self.suffixes.at[i], self.suffixes.size[i])
            else:
                self.put_key(first + i, acceptor, -scope, self.data, self.suffixes.at[i], self.suffixes.size[i])
            i += 1
        return 0

    def are_complete(self, count):
        """Return whether all staged rows have an undeclared key, the other common case."""
        i: cython.Py_ssize_t = 0
        while i < count and self.notes.scope[i] == 0 and self.notes.suffix.size[i] > 0:
            i += 1
        return i == count

    def gather_times(self, first, count):
        i: cython.Py_ssize_t
        if not self.timestamp.on:
            return 0
        if self.stamps.presence == ALL:
            times: cython.p_longlong = self.timestamp.next_rows(first, count)
            for i in range(count):
                times[i] = microseconds(self.notes.ntp64[i])
            return 0
        for i in range(count):
            self.notes.time[i] = microseconds(self.notes.ntp64[i])
        return self.timestamp.gather(first, self.notes.time, self.stamps, count)

    def gather_qos(self, first, count):
        """Write kind and QoS, which seldom change between rows."""
        if not (self.kind.on or self.priority.on or self.congestion.on or self.express.on):
            return 0
        row: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        manner: cython.int
        while row < count:
            manner = self.notes.manner[row]
            last = row + 1
            while last < count and self.notes.manner[last] == manner:
                last += 1
            self.fill_qos(first + row, first + last, manner)
            row = last
        return 0

    def fill_qos(self, first, last, manner):
        self.kinds.fill(self.kind, first, last, 1 if manner & DEL else 0)
        self.priority.fill(first, last, manner & message_ids.QOS_PRIORITY)
        congestion: cython.int = (
            1 if manner & message_ids.QOS_BLOCK else 2 if manner & message_ids.QOS_BLOCK_FIRST else 0
        )
        self.congestions.fill(self.congestion, first, last, congestion)
        self.express.fill(first, last, manner & message_ids.QOS_EXPRESS != 0)
        return 0

    def finish(self):
        batch = TableBuilder.finish(self)
        self.gathered = 0
        return batch
