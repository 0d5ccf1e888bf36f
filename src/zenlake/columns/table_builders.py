# SPDX-License-Identifier: Apache-2.0
"""Rows of the decoded tables, from decoded records (`samples` has its own module).

`schemas` defines the columns. Messages are written without the GIL. Declarations, events and errors are rare and are
written with it.

Many columns have one value in all rows of a batch or lane. These are written for all such rows when the position changes
(`fill_shared`).
"""

import cython
import pyarrow as pa
from cython.cimports.zenlake.columns.array_builders import (
    ArrayBuilder,
    Int32Builder,
    Int64Builder,
    SmallIntBuilder,
    TextBuilder,
)
from cython.cimports.zenlake.columns.c_data_export import RecordBatchExport
from cython.cimports.zenlake.columns.text_encoders import EnumText
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.raw_memory import take, utf8_fault

from zenlake.columns.array_builders import column
from zenlake.columns.buffer_pool import Pool
from zenlake.columns.schemas import STACK, select_schema
from zenlake.columns.timestamp_stacks import decode_stacks

# A step of the decoder may add two rows to a table (a fragment, and the message that it completes) before the
# check whether it is full.
SLACK = cython.declare(cython.int, 4)

FOREVER = cython.declare(cython.ulonglong, 0x7FFFFFFFFFFFFFFF)  # maximum of a signed column
MAX_ERR_BYTES = cython.declare(cython.Py_ssize_t, 4096)


class RowPosition:
    """Position of the current message: source and lane, the first columns of every row.

    The tables must be settled before a change of more than `index`.
    """

    def __init__(self):
        self.received_ns = 0
        self.direction = 0
        self.segment = -1
        self.block = 0
        self.first_batch = 0
        self.packet = 0
        self.index = 0
        self.generation = 0
        self.session = Blob(b"")
        self.file = Blob()
        self.in_lane = False
        self.priority = 0
        self.reliable = False
        self.sn = 0
        self.accepted = True
        self.fragments = 0


class TableBuilder:
    """Builder of one decoded table."""

    def __init__(self, name, columns, rows):
        self.schema = select_schema(name, columns)
        whole = select_schema(name, None)
        self.on = True
        self.room = rows
        self.row = 0
        self.filled_rows = 0
        pool = Pool()
        self.columns = {
            f.name: column(f.type, rows + SLACK, pool, rows > 0 and f.name in self.schema.names) for f in whole
        }
        self.selected = [self.columns[name] for name in self.schema.names]
        self.fields = list(self.schema)
        self.separate_schemas = [
            pa.schema([field]) if pa.types.is_binary(field.type) else None for field in self.schema
        ]
        self.stack_columns = [i for i, field in enumerate(self.schema) if field.type == STACK]
        self.export_schema = self.schema  # stacks are bytes until the end
        for i in self.stack_columns:
            self.export_schema = self.export_schema.set(i, self.fields[i].with_type(pa.binary()))
        self.received = self.columns["received"]
        self.received_ns = self.columns["received_ns"]
        self.session = self.columns["session"]
        self.generation = self.columns["generation"]
        self.direction = self.columns["direction"]
        self.file = self.columns["file"]
        self.segment = self.columns["segment"]
        self.block = self.columns["block"]
        self.row_in_block = self.columns["row"]
        self.packet = self.columns["packet"]
        self.index = self.columns["index"]
        self.key = self.columns.get("key")
        self.unresolved_key = self.columns.get("unresolved_key")

    def fill_position(self, p):
        """Write the shared values of the rows since the last call."""
        first: cython.Py_ssize_t = self.filled_rows
        self.received.fill(first, self.row, p.received_ns // 1000)
        self.received_ns.fill(first, self.row, p.received_ns)
        self.session.fill(first, self.row, p.session.data, 0, p.session.size)
        self.generation.fill(first, self.row, p.generation)
        self.direction.fill(first, self.row, p.direction)
        if p.file.size >= 0:
            self.file.fill(first, self.row, p.file.data, 0, p.file.size)
        if p.segment >= 0:
            self.segment.fill(first, self.row, p.segment)
            self.block.fill(first, self.row, p.block)
            self.row_in_block.fill(first, self.row, p.packet - p.first_batch)
        self.packet.fill(first, self.row, p.packet)
        self.filled_rows = self.row
        return 0

    def put_key(self, row, keys, scope, data, at, size):
        """Write the key as text. An undeclared id is null here and appears in the other column."""
        if scope == 0:
            return self.key.put(row, data, at, size) if size > 0 else 0
        known: cython.Py_ssize_t = keys.size_of(scope)
        if known < 0:
            self.put_unresolved(row, scope, data, at, size)
        elif size <= 0:
            self.key.put(row, keys.data, keys.at[scope], known)
        elif self.key.on:
            self.key.begin(row)
            self.key.add(keys.data, keys.at[scope], known)
            self.key.add(data, at, size)
            self.key.end(row)
        return 0

    def put_unresolved(self, row, scope, data, at, size):
        self.unresolved_key.put_value(row, f"{scope}:{take(data, at, max(size, 0)).decode()}")
        return 0

    def size(self):
        """Return the bytes in columns of text and bytes."""
        total = 0
        for each in self.columns.values():
            if isinstance(each, TextBuilder):
                total += each.used
        return total

    def finish(self):
        """Return the rows as a RecordBatch. The table is then empty."""
        count = self.row
        self.row = 0
        self.filled_rows = 0
        export = RecordBatchExport(count, len(self.selected))
        separate = []
        each: ArrayBuilder
        for i, each in enumerate(self.selected):
            if self.separate_schemas[i] is not None and each.is_written():
                each.export_nulls(export, count)
                separate.append((i, self.export_separately(i, each, count)))
            else:
                each.export(export, count)
        batch = export.record_batch(self.export_schema)
        for i, single in separate:
            batch = batch.set_column(i, self.fields[i], single)
        for i in self.stack_columns:
            batch = batch.set_column(i, self.fields[i], decode_stacks(batch.column(i)))
        return batch

    def export_separately(self, i, each, count):
        """Export a column of bytes separately, so that a reference to the keys does not keep the payloads."""
        export = RecordBatchExport(count, 1)
        each.export(export, count)
        return export.record_batch(self.separate_schemas[i]).column(0)


class MessagesBuilder(TableBuilder):
    """Table with one row per transport, network and scouting message."""

    def __init__(self, columns, rows):
        TableBuilder.__init__(self, "messages", columns, rows)
        of = self.columns
        self.type = of["type"]
        self.body = of["body"]
        self.size_column = of["size"]
        self.fragments = of["fragments"]
        self.priority = of["priority"]
        self.reliable = of["reliable"]
        self.sn = of["sn"]
        self.accepted = of["accepted"]
        self.qos = of["qos"]
        self.id = of["id"]
        self.payload_size = of["payload_size"]
        self.unknown_exts = of["unknown_exts"]
        self.target = of["target"]
        self.consolidation = of["consolidation"]
        self.timeout_ms = of["timeout_ms"]
        self.detail = of["detail"]
        # by id: transport 0x00..0x07, network 0x19..0x1F
        self.types = EnumText(
            ["OAM", "INIT", "OPEN", "CLOSE", "KEEP_ALIVE", "FRAME", "FRAGMENT", "JOIN"]
            + [""] * 17
            + ["INTEREST", "RESPONSE_FINAL", "RESPONSE", "REQUEST", "PUSH", "DECLARE", "OAM"]
        )
        # by id of the data message, 0x01..0x05
        self.bodies = EnumText(["", "PUT", "DEL", "QUERY", "REPLY", "ERR"])
        self.targets = EnumText(["best_matching", "all", "all_complete"])
        self.consolidations = EnumText(["auto", "none", "monotonic", "latest"])

    def begin(self, p, kind, size, unknown):
        """Start a row with the common columns. Columns of its kind may follow, then `end`."""
        self.index.put(self.row, p.index)
        self.types.put(self.type, self.row, kind)
        self.size_column.put(self.row, size)
        self.unknown_exts.put(self.row, unknown)
        return 0

    def fill_shared(self, p):
        """Write the shared values of the rows since the last call."""
        if p.in_lane:
            self.priority.fill(self.filled_rows, self.row, p.priority)
            self.reliable.fill(self.filled_rows, self.row, p.reliable)
            self.sn.fill(self.filled_rows, self.row, p.sn)
            self.accepted.fill(self.filled_rows, self.row, p.accepted)
        if p.fragments:
            self.fragments.fill(self.filled_rows, self.row, p.fragments)
        return self.fill_position(p)

    def end(self):
        self.row += 1

    def put_expr(self, expr, keys, data):
        return self.put_key(self.row, keys, expr.scope, data, expr.suffix.at, expr.suffix.size)

    def put_push(self, push):
        self.qos.put(self.row, push.qos)
        if push.is_put:
            self.bodies.put(self.body, self.row, 1)
            if push.put.payload.size >= 0:
                self.payload_size.put(self.row, push.put.payload.size)
        else:
            self.bodies.put(self.body, self.row, 2)
        return 0

    def put_common(self, id, qos, body):
        """Write id and QoS: requests, responses, finals, interests, declarations, OAM."""
        self.id.put(self.row, id)
        self.qos.put(self.row, qos)
        return self.bodies.put(self.body, self.row, body) if body else 0

    def put_request(self, request, data):
        """Write the columns of a query."""
        self.targets.put(self.target, self.row, request.target)
        self.consolidations.put(self.consolidation, self.row, request.query.consolidation)
        if request.has_timeout:
            self.timeout_ms.put(self.row, FOREVER if request.timeout_ms >> 63 else request.timeout_ms)
        if request.query.parameters.size > 0:
            self.detail.put(self.row, data, request.query.parameters.at, request.query.parameters.size)
        if request.query.body.size >= 0:
            self.payload_size.put(self.row, request.query.body.size)
        return 0

    def put_err(self, err, data):
        """Write the size of an error payload, and its text if it is text: a router's "Timeout", an exception."""
        if err.payload.size >= 0:
            self.payload_size.put(self.row, err.payload.size)
            if err.payload.size <= MAX_ERR_BYTES and utf8_fault(data, err.payload.at, err.payload.size) < 0:
                self.detail.put(self.row, data, err.payload.at, err.payload.size)
        return 0

    def add_scouting(self, message, size, detail):
        """Write a SCOUT or HELLO, which belongs to no session."""
        self.index.put(self.row, 0)
        self.type.put_value(self.row, message.NAME)
        self.size_column.put(self.row, size)
        self.unknown_exts.put(self.row, message.unknown)
        self.detail.put_value(self.row, detail)
        self.end()

    def put_texts(self, body, detail):
        if body is not None:
            self.body.put_value(self.row, body)
        if detail is not None:
            self.detail.put_value(self.row, detail)
        return 0


class ControlTableBuilder(TableBuilder):
    """Table whose rows are Python values: declarations, events and errors."""

    def add(self, p, values):
        self.index.put(self.row, p.index)
        for name, value in values.items():
            each = self.columns[name]
            if value is None or not each.on:
                continue
            if isinstance(each, TextBuilder):
                each.put_value(self.row, value)
            elif isinstance(each, Int64Builder):
                put_long(each, self.row, value)
            elif isinstance(each, Int32Builder):
                put_int(each, self.row, value)
            else:
                put_byte(each, self.row, value)
        self.row += 1
        self.fill_position(p)


def put_long(each: Int64Builder, row: cython.Py_ssize_t, value):
    each.put(row, value)


def put_int(each: Int32Builder, row: cython.Py_ssize_t, value):
    each.put(row, value)


def put_byte(each: SmallIntBuilder, row: cython.Py_ssize_t, value):
    each.put(row, value)
