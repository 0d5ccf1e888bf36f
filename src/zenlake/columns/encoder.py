# SPDX-License-Identifier: Apache-2.0
"""Encoder: a table of samples to batches.

One PUSH record is reused. Its fields are bound to the Arrow buffers once and moved from row to row. A payload is
therefore copied once, from its column into the batch. Messages fill the open FRAME of their lane. Another lane opens another
FRAME in the same batch. Messages larger than a batch are fragmented. Columns have the names of `schemas.SAMPLES`; only
`key` is required.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
import pyarrow as pa
import pyarrow.compute as pc
from cython.cimports.zenlake.columns.column_readers import BytesReader, EnumReader, IntReader
from cython.cimports.zenlake.session.lanes import lane_of
from cython.cimports.zenlake.wire.network import Push
from cython.cimports.zenlake.wire.raw_memory import copy
from cython.cimports.zenlake.wire.transport import Fragment, Frame
from cython.cimports.zenlake.wire.writer import WireWriter
from cython.cimports.zenlake.wire.zenoh_body import Del, Put

from zenlake.columns.schemas import SAMPLES
from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import ZenohId
from zenlake.errors import EncodeError, InvalidValue

DATA = cython.declare(cython.int, 5)
NO_LANE = cython.declare(cython.int, -1)
ABSENT = cython.declare(cython.Py_ssize_t, -1)
FRAGMENT_HEAD = cython.declare(
    cython.Py_ssize_t, 16
)  # header, nine bytes of sequence number, three extensions, and a reserve

CUSTOM = 65535
KINDS = {None: 0, "put": 0, "del": 1}
CONGESTION = {None: 0, "drop": 0x00, "block": 0x08, "block_first": 0x20}
NOT_MESSAGES = (
    "received", "received_ns", "log", "writer", "session", "direction", "file", "segment", "block", "row", "packet", "index",
    "payload_size", "sn",
)  # fmt: skip


class Encoder:
    """Encoder of samples into batches of at most `batch_size` bytes, with length prefixes of `prefix` bytes (2 on a stream)."""

    def __init__(self, batch_size=65535, prefix=2, mask=0x0FFFFFFF, first_sn=0, qos=True, keys=None):
        if not 32 <= batch_size <= 65535 or prefix not in (0, 2):
            raise InvalidValue("batch_size must be 32 to 65535 and prefix 0 or 2")
        self.limit = batch_size
        self.prefix = prefix
        self.mask = mask
        self.qos = qos
        self.next_sn = [first_sn] * 16
        self.ids = dict(keys or {})
        self.w = WireWriter(2 * batch_size)
        self.spare = WireWriter(256)
        self.push = Push()
        self.frame = Frame()
        self.part = Fragment()
        self.batch_at = -1
        self.frame_at = 0
        self.body_at = 0
        self.lane = NO_LANE
        self.ends = []

    def encode(self, samples):
        """Encode the rows of a RecordBatch. `take` returns the bytes."""
        rows: cython.Py_ssize_t = samples.num_rows
        if "key" not in samples.schema.names:
            raise InvalidValue("missing column 'key'")
        keyless = samples.column("key").null_count
        if keyless:
            raise InvalidValue(f"{keyless} samples have no key")
        self.bind(samples)
        with cython.nogil:
            self.write_rows(rows)

    def take(self):
        """Return the encoded bytes with prefixes, and the end of each batch. The encoder is then empty."""
        self.close()
        data, ends = self.w.to_bytes(), self.ends
        self.w.clear()
        self.ends = []
        return data, ends

    # Columns

    def bind(self, samples, priority=5, congested=0, express=0, reliable=1, encoding=None):
        """Bind the columns, before the first row. Columns that describe the origin are ignored."""
        names = samples.schema.names
        wrong = [name for name in names if name not in SAMPLES.names]
        if wrong:
            raise InvalidValue(f"unknown column {wrong[0]!r}; expected one of {', '.join(SAMPLES.names)}")
        of = {name: samples.column(name) for name in names if name not in NOT_MESSAGES}
        self.keys = BytesReader(of.get("key"))
        self.payloads = BytesReader(of.get("payload"))
        self.attachments = BytesReader(of.get("attachment"))
        self.scopes = EnumReader(of.get("key") if self.ids else None, self.scope, 0)
        self.deletes = EnumReader(of.get("kind"), kind, 0)
        self.congestion = EnumReader(of.get("congestion"), congestion, congested)
        self.priority = IntReader(of.get("priority"), priority)
        self.express = IntReader(of.get("express"), express)
        self.reliable = IntReader(of.get("reliable"), reliable)
        self.ntp64 = IntReader(of.get("ntp64"))
        self.eid = IntReader(of.get("source_eid"))
        self.source_sn = IntReader(of.get("source_sn"))
        self.texts = bytearray()
        self.runs = []
        self.stamp_ids = EnumReader(of.get("timestamp_id"), self.add_node, -1)
        self.sources = EnumReader(of.get("source_zid"), self.add_node, -1)
        default = -1 if encoding is None else self.add_run(encoding.schema, encoding.id)
        self.encodings = self.encoding_reader(of.get("encoding"), of.get("schema"), default)
        self.run_at = memoryview(bytearray(8 * len(self.runs) + 8)).cast("q")
        self.run_size = memoryview(bytearray(8 * len(self.runs) + 8)).cast("q")
        self.run_id = memoryview(bytearray(8 * len(self.runs) + 8)).cast("q")
        for i, (at, size, id) in enumerate(self.runs):
            self.run_at[i], self.run_size[i], self.run_id[i] = at, size, id
        texts = bytes(self.texts)
        put: Put = self.push.put
        delete: Del = self.push.delete
        self.push.key.suffix.bind(self.keys.data)
        put.payload.bind(self.payloads.data)
        put.attachment.bind(self.attachments.data)
        delete.attachment.bind(self.attachments.data)
        put.timestamp.bind(texts)
        put.source.bind(texts)
        put.encoding.bind(texts)
        delete.timestamp.bind(texts)
        delete.source.bind(texts)

    def add_run(self, text, id=0):
        """Store the bytes of a shared value. Return its number."""
        self.runs.append((len(self.texts), ABSENT if text is None else len(text), id))
        self.texts += text or b""
        return len(self.runs) - 1

    def add_node(self, zid):
        return -1 if zid is None else self.add_run(ZenohId.parse(zid).to_wire())

    def encoding_reader(self, encoding, schema, default):
        """Bind the encodings, by text. A column of schemas is exact where the text is not: `b""`, or bytes that are not text."""
        if schema is None:
            return EnumReader(
                encoding, lambda text: default if text is None else self.add_encoding(text, None), default
            )
        if encoding is None:
            raise InvalidValue("column 'schema' needs a column 'encoding'")
        texts, schemas = pc.dictionary_encode(encoding), pc.dictionary_encode(schema)
        text_of, schema_of = [*texts.dictionary.to_pylist(), None], [*schemas.dictionary.to_pylist(), None]
        pairs = pc.add(
            pc.multiply(pc.fill_null(texts.indices, len(text_of) - 1).cast(pa.int64()), len(schema_of)),
            pc.fill_null(schemas.indices, len(schema_of) - 1).cast(pa.int64()),
        )

        def pair(code):
            text, schema = text_of[code // len(schema_of)], schema_of[code % len(schema_of)]
            return default if text is None else self.add_encoding(text, schema)

        return EnumReader(pairs, pair, default)

    def add_encoding(self, text, schema):
        if schema is None:
            encoding = parse_encoding(text)
            return self.add_run(encoding.schema, encoding.id)
        # The text of a custom encoding is its schema: an empty text is the custom encoding with an empty schema.
        return self.add_run(schema, parse_encoding(text).id if text else CUSTOM)

    def scope(self, key):
        return self.ids.get(key, 0)

    # Rows

    def write_rows(self, rows):
        row: cython.Py_ssize_t
        for row in range(rows):
            self.push.key.scope = self.scopes.get(row)
            self.push.key.sender = True
            if self.push.key.scope:
                self.push.key.suffix.size = ABSENT
            else:
                self.keys.bind_row(row, self.push.key.suffix)
            self.bind_push(row)
            self.add(self.push.qos & 7 if self.qos else DATA, self.is_reliable(row))
        return 0

    def bind_push(self, row):
        """Set the PUSH to this row, except its key."""
        self.push.qos = (
            self.priority.get(row) & 7
            | self.congestion.get(row)
            | (message_ids.QOS_EXPRESS if self.express.get(row) else 0)
        )
        self.push.is_put = self.deletes.get(row) == 0
        if self.push.is_put:
            self.payloads.bind_row(row, self.push.put.payload)
            self.attachments.bind_row(row, self.push.put.attachment)
            self.set_origin(row, self.push.put.timestamp, self.push.put.source)
            self.set_encoding(row)
        else:
            self.attachments.bind_row(row, self.push.delete.attachment)
            self.set_origin(row, self.push.delete.timestamp, self.push.delete.source)

    def is_reliable(self, row):
        return self.reliable.get(row) != 0

    def set_origin(self, row, stamp, source):
        i: cython.longlong = self.stamp_ids.get(row)
        if i < 0:
            stamp.clear()
        else:
            stamp.ntp64 = to_unsigned(self.ntp64.get(row))
            stamp.id.at, stamp.id.size = self.run_at[i], self.run_size[i]
        i = self.sources.get(row)
        if i < 0:
            source.clear()
        else:
            source.entity.zid.at, source.entity.zid.size = self.run_at[i], self.run_size[i]
            source.entity.eid = self.eid.get(row)
            source.sn = self.source_sn.get(row)

    def set_encoding(self, row):
        i: cython.longlong = self.encodings.get(row)
        if i < 0:
            self.push.put.encoding.clear()
        else:
            self.push.put.encoding.id = self.run_id[i]
            self.push.put.encoding.schema.at = self.run_at[i]
            self.push.put.encoding.schema.size = self.run_size[i]

    # Batches

    def add(self, priority, reliable):
        """Write the PUSH into the open batch, the next one, or fragments."""
        if self.batch_at < 0 or self.lane != lane_of(priority, reliable):
            self.open(priority, reliable)
        start: cython.Py_ssize_t = self.w.at
        self.push.write(self.w)
        if self.w.at - self.batch_at <= self.limit:
            return 0
        size: cython.Py_ssize_t = self.w.at - start
        self.spare.clear()
        self.spare.need(size)
        copy(self.spare.data, 0, self.w.data, start, size)
        self.w.at = start
        self.next_batch(priority, reliable)
        if self.w.at + size - self.batch_at <= self.limit:
            self.w.need(size)
            copy(self.w.data, self.w.at, self.spare.data, 0, size)
            self.w.at += size
            return 0
        return self.fragment(priority, reliable, size)

    def open(self, priority, reliable):
        """Start a FRAME on this lane, in the open batch if there is one."""
        if self.batch_at < 0:
            self.batch_at = self.w.at
            self.w.need(self.prefix)
            self.w.at += self.prefix
        self.frame_at = self.w.at
        self.lane = lane_of(priority, reliable)
        self.frame.priority = priority
        self.frame.reliable = reliable
        self.frame.sn = self.next_sn[self.lane]
        self.next_sn[self.lane] = (self.next_sn[self.lane] + 1) & self.mask
        self.frame.write(self.w)
        self.body_at = self.w.at
        return 0

    def next_batch(self, priority, reliable):
        """End the batch before a message that does not fit, and start another. An empty FRAME is removed."""
        if self.w.at == self.body_at:
            self.w.at = self.frame_at
            self.next_sn[self.lane] = (self.next_sn[self.lane] - 1) & self.mask
        self.end_batch()
        return self.open(priority, reliable)

    def fragment(self, priority, reliable, size):
        """Fragment the message into batches of its own: First on the first, consecutive SNs, no `more` on the last."""
        lane: cython.int = lane_of(priority, reliable)
        self.w.at = self.batch_at
        self.batch_at = -1
        self.next_sn[lane] = (self.next_sn[lane] - 1) & self.mask
        sent: cython.Py_ssize_t = 0
        most: cython.Py_ssize_t = self.limit - self.prefix - FRAGMENT_HEAD
        self.part.payload.size = 0
        while sent < size:
            self.batch_at = self.w.at
            self.w.need(self.limit)
            self.w.at += self.prefix
            self.part.priority = priority
            self.part.reliable = reliable
            self.part.sn = self.next_sn[lane]
            self.part.first = sent == 0
            self.part.more = size - sent > most
            self.part.write(self.w)
            copy(self.w.data, self.w.at, self.spare.data, sent, min(most, size - sent))
            self.w.at += min(most, size - sent)
            sent += most
            self.next_sn[lane] = (self.next_sn[lane] + 1) & self.mask
            self.end_batch()
        return 0

    def end_batch(self):
        """Write the final length of the batch."""
        if self.batch_at < 0:
            return 0
        if self.w.at == self.batch_at + self.prefix:  # only the prefix
            self.w.at = self.batch_at
        else:
            size: cython.Py_ssize_t = self.w.at - self.batch_at - self.prefix
            if self.prefix:
                self.w.data[self.batch_at] = size & 0xFF
                self.w.data[self.batch_at + 1] = size >> 8
            self.mark_end()
        self.batch_at = -1
        self.lane = NO_LANE
        return 0

    def mark_end(self):
        self.ends.append(self.w.at)
        return 0

    def close(self):
        """End the open batch."""
        if self.batch_at >= 0:
            self.end_batch()


def to_unsigned(value):
    """Return the same 64 bits as an unsigned number."""
    return value if cython.compiled else value & 0xFFFFFFFFFFFFFFFF


def kind(text):
    if text not in KINDS:
        raise InvalidValue(f"invalid kind {text!r}; expected put or del")
    return KINDS[text]


def congestion(text):
    if text not in CONGESTION:
        raise InvalidValue(f"invalid congestion {text!r}; expected drop, block or block_first")
    return CONGESTION[text]


def parse_encoding(text):
    """Parse the text form, also of an unregistered number."""
    if text.startswith("unknown("):
        number, _, schema = text[len("unknown(") :].partition(")")
        if number.isdigit() and int(number) < 1 << 31:
            return Encoding.from_wire(int(number), schema[1:].encode() if schema.startswith(";") else None)
    try:
        return Encoding(text)
    except ValueError as error:
        raise EncodeError("PUT.encoding", str(error)) from None
