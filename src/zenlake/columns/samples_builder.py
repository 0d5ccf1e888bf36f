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
        self.max_staged = min(MAX_STAGED_ROWS, max(rows, 1))
        self.first_staged = 0
        self.bytes = 0
        if not cython.compiled:  # compiled: a part of this object
            self.staged = make_staging()
        self.suffixes = SpanStaging().bind(self.staged.suffix.at, self.staged.suffix.size)
        self.payloads = SpanStaging().bind(self.staged.payload.at, self.staged.payload.size)
        self.slices = SpanStaging().bind(self.staged.slices.at, self.staged.slices.size)
        self.schemas = SpanStaging().bind(self.staged.schema.at, self.staged.schema.size)
        self.stamps = SpanStaging().bind(self.staged.stamp.at, self.staged.stamp.size)
        self.sources = SpanStaging().bind(self.staged.source.at, self.staged.source.size)
        self.attachments = SpanStaging().bind(self.staged.attachment.at, self.staged.attachment.size)
        self.responders = SpanStaging().bind(self.staged.responder.at, self.staged.responder.size)
        self.stacks = SpanStaging().bind(self.staged.stack.at, self.staged.stack.size)

    # Staging

    def add_push(self, p, push, accepted, data):
        """Stage a publication. `accepted`: the acceptor of the session declared the key id."""
        self.stage_key(push.key, accepted)
        return self.stage_push(p, push, data)

    def add_reply(self, p, response, accepted, data):
        """Stage a reply with a sample."""
        self.stage_key(response.key, accepted)
        return self.stage_reply(p, response, data)

    def stage_key(self, expr, accepted):
        i: cython.Py_ssize_t = self.row - self.first_staged
        self.staged.scope[i] = -expr.scope if accepted else expr.scope
        self.suffixes.set(i, expr.suffix)

    def stage_no_key(self):
        """Finish a row whose key was written by the caller."""
        i: cython.Py_ssize_t = self.row - self.first_staged
        self.staged.scope[i] = 0
        self.suffixes.skip(i)

    def stage_push(self, p, push, data):
        self.responders.skip(self.row - self.first_staged)
        self.stacks.set(self.row - self.first_staged, push.timestamp_stack)
        if push.is_put:
            self.stage_put(push.put)
            return self.end_row(p, PUT | push.qos, data)
        self.stage_del(push.delete)
        return self.end_row(p, DEL | push.qos, data)

    def stage_reply(self, p, response, data):
        self.request_id.put(self.row, response.id)
        self.stacks.set(self.row - self.first_staged, response.timestamp_stack)
        self.responders.set(self.row - self.first_staged, response.responder.zid)
        if response.responder.zid.size >= 0:
            self.responder_eid.put(self.row, response.responder.eid)
        if response.reply.is_put:
            self.stage_put(response.reply.put)
            return self.end_row(p, PUT | response.qos, data)
        self.stage_del(response.reply.delete)
        return self.end_row(p, DEL | response.qos, data)

    def stage_put(self, put):
        i: cython.Py_ssize_t = self.row - self.first_staged
        self.payloads.set(i, put.payload)
        self.slices.set(i, put.slices)
        self.staged.encoding[i] = put.encoding.id
        self.schemas.set(i, put.encoding.schema)
        self.bytes += put.payload.size  # an estimate: one less if the payload is absent
        self.stage_origin(i, put.timestamp, put.source, put.attachment)

    def stage_del(self, delete):
        i: cython.Py_ssize_t = self.row - self.first_staged
        self.payloads.skip(i)
        self.slices.skip(i)
        self.staged.encoding[i] = -1
        self.schemas.skip(i)
        self.stage_origin(i, delete.timestamp, delete.source, delete.attachment)

    def stage_origin(self, i, stamp, source, attachment):
        self.stamps.set(i, stamp.id)
        self.staged.ntp64[i] = as_signed(stamp.ntp64)
        if source.entity.zid.size >= 0:
            self.sources.set(i, source.entity.zid)
            self.staged.eid[i] = source.entity.eid
            self.staged.sn[i] = source.sn
        else:
            self.sources.skip(i)
        self.attachments.set(i, attachment)
        self.bytes += attachment.size

    def end_row(self, p, qos_and_kind, data):
        self.staged.qos_and_kind[self.row - self.first_staged] = qos_and_kind
        self.data = data
        self.index.put(self.row, p.index)
        self.row += 1
        return 0

    def clear(self, first, last):
        """Remove rows from the staging area."""
        self.suffixes.clear(first, last)
        self.payloads.clear(first, last)
        self.slices.clear(first, last)
        self.schemas.clear(first, last)
        self.stamps.clear(first, last)
        self.sources.clear(first, last)
        self.attachments.clear(first, last)
        self.responders.clear(first, last)
        self.stacks.clear(first, last)

    def shift(self, by, data):
        """Move the last row's bytes to other memory, by this distance."""
        i: cython.Py_ssize_t = self.row - 1 - self.first_staged
        self.payloads.shift(i, by)
        self.slices.shift(i, by)
        self.schemas.shift(i, by)
        self.stamps.shift(i, by)
        self.sources.shift(i, by)
        self.attachments.shift(i, by)
        self.responders.shift(i, by)
        self.stacks.shift(i, by)
        self.data = data

    if not cython.compiled:  # compiled: inline, in the .pxd

        def must_gather(self):
            """Return whether the staged rows must be gathered before the next is added."""
            return self.row - self.first_staged >= self.max_staged or self.bytes >= MAX_STAGED_BYTES

        def used_bytes(self):
            return self.payload.used + self.attachment.used + self.key.used

    # Gathering: many rows, one column at a time

    def fill_shared(self, p):
        """Write the shared values of the rows since the last call."""
        if p.in_lane:
            self.reliable.fill(self.filled_rows, self.row, p.reliable)
            self.sn.fill(self.filled_rows, self.row, p.sn)
        if p.fragments:
            self.fragments.fill(self.filled_rows, self.row, p.fragments)
        return self.fill_position(p)

    def gather(self, opener, acceptor):
        """Write the staged rows to their columns, with the declared keys of both sides."""
        first: cython.Py_ssize_t = self.first_staged
        count: cython.Py_ssize_t = self.row - first
        if count == 0:
            return 0
        self.first_staged = self.row  # also if an error follows: their bytes are not read a second time
        self.bytes = 0
        try:
            self.gather_columns(first, count, opener, acceptor)
        finally:
            self.clear(0, count)
        return 0

    def gather_columns(self, first, count, opener, acceptor):
        self.suffixes.scan(count)
        self.payloads.scan(count)
        self.slices.scan(count)
        self.schemas.scan(count)
        self.stamps.scan(count)
        self.sources.scan(count)
        self.attachments.scan(count)
        self.responders.scan(count)
        self.stacks.scan(count)
        self.gather_keys(first, count, opener, acceptor)
        self.payload.gather(first, self.payloads, count, self.data)
        self.payload_size.gather(first, self.staged.payload.size, self.payloads, count)
        self.shm.gather(first, self.slices, count, self.data)
        self.encoding.gather(first, self.staged.encoding, self.schemas, count, self.data)
        self.gather_times(first, count)
        self.ntp64.gather(first, self.staged.ntp64, self.stamps, count)
        self.timestamp_id.gather(first, self.stamps, count, self.data)
        self.source_zid.gather(first, self.sources, count, self.data)
        self.source_eid.gather(first, self.staged.eid, self.sources, count)
        self.source_sn.gather(first, self.staged.sn, self.sources, count)
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
            i = self.key.gather_declared(first, self.staged.scope, 1, opener, count)
            if i == 0:
                i = self.key.gather_declared(first, self.staged.scope, -1, acceptor, count)
        elif self.are_complete(count):
            return self.key.gather(first, self.suffixes, count, self.data)
        while i < count:
            scope = self.staged.scope[i]
            if scope >= 0:
                self.put_key(first + i, opener, scope, self.data, self.suffixes.at[i], self.suffixes.size[i])
            else:
                self.put_key(first + i, acceptor, -scope, self.data, self.suffixes.at[i], self.suffixes.size[i])
            i += 1
        return 0

    def are_complete(self, count):
        """Return whether all staged rows have an undeclared key, the other common case."""
        i: cython.Py_ssize_t = 0
        while i < count and self.staged.scope[i] == 0 and self.staged.suffix.size[i] > 0:
            i += 1
        return i == count

    def gather_times(self, first, count):
        i: cython.Py_ssize_t
        if not self.timestamp.on:
            return 0
        if self.stamps.presence == ALL:
            times: cython.p_longlong = self.timestamp.next_rows(first, count)
            for i in range(count):
                times[i] = microseconds(self.staged.ntp64[i])
            return 0
        for i in range(count):
            self.staged.time[i] = microseconds(self.staged.ntp64[i])
        return self.timestamp.gather(first, self.staged.time, self.stamps, count)

    def gather_qos(self, first, count):
        """Write kind and QoS, which seldom change between rows."""
        if not (self.kind.on or self.priority.on or self.congestion.on or self.express.on):
            return 0
        row: cython.Py_ssize_t = 0
        last: cython.Py_ssize_t
        qos_and_kind: cython.int
        while row < count:
            qos_and_kind = self.staged.qos_and_kind[row]
            last = row + 1
            while last < count and self.staged.qos_and_kind[last] == qos_and_kind:
                last += 1
            self.fill_qos(first + row, first + last, qos_and_kind)
            row = last
        return 0

    def fill_qos(self, first, last, qos_and_kind):
        self.kinds.fill(self.kind, first, last, 1 if qos_and_kind & DEL else 0)
        self.priority.fill(first, last, qos_and_kind & message_ids.QOS_PRIORITY)
        congestion: cython.int = (
            1 if qos_and_kind & message_ids.QOS_BLOCK else 2 if qos_and_kind & message_ids.QOS_BLOCK_FIRST else 0
        )
        self.congestions.fill(self.congestion, first, last, congestion)
        self.express.fill(first, last, qos_and_kind & message_ids.QOS_EXPRESS != 0)
        return 0

    def finish(self):
        batch = TableBuilder.finish(self)
        self.first_staged = 0
        return batch
