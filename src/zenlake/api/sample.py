# SPDX-License-Identifier: Apache-2.0
"""`Sample`, and its construction from a decoded message (compiled: runs for every sample).

The reader reuses its record after the callback. The bytes of a sample are therefore copied once. `ZBytes`, `Timestamp` and
`Encoding` objects are created on first access.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.api.zbytes import ZBytes, make_zbytes
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.fields import Source, Stamp
from cython.cimports.zenlake.wire.raw_memory import equal_bytes, take

from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Priority, SampleKind
from zenlake.core.identifiers import Timestamp

__all__ = ["Sample", "read_payload", "make_sample"]

PUT, DELETE = SampleKind.PUT, SampleKind.DELETE
BYTES = Encoding.ZENOH_BYTES
DROP, BLOCK, BLOCK_FIRST = CongestionControl.DROP, CongestionControl.BLOCK, CongestionControl.BLOCK_FIRST
PRIORITIES = (Priority.REAL_TIME, *Priority)  # by number on the wire; 0 is reserved for control messages

# Larger payloads were fragmented. Their reassembly buffer is kept and viewed instead of copied.
MAX_COPY = cython.declare(cython.Py_ssize_t, 65535)

LAST_CLOCK = cython.declare(bytes, b"")


# Immutable: no reference cycles, so no garbage collection. The free list reuses the memory of the previous sample.
@cython.no_gc
@cython.freelist(8)
@cython.cclass
class Sample:
    """A published value (kind PUT) or deletion (kind DELETE).

    Attributes:
        key_expr: Key of the sample.
        source_info: Identity and sequence number of the source, or None.
        timestamp_stack: Timestamps recorded along the way, or None.
    """

    def __init__(
        self,
        key_expr,
        payload=b"",
        kind=PUT,
        encoding=None,
        timestamp=None,
        congestion_control=DROP,
        priority=Priority.DATA,
        express=False,
        attachment=None,
        source_info=None,
        timestamp_stack=None,
    ):
        self.key_expr = key_expr
        self._payload = payload
        self.is_put = kind == PUT
        self._encoding = encoding
        self._timestamp = timestamp
        self.ntp64 = 0
        self.clock = None
        self.qos = (
            int(priority)
            | (
                message_ids.QOS_BLOCK
                if congestion_control == BLOCK
                else message_ids.QOS_BLOCK_FIRST
                if congestion_control == BLOCK_FIRST
                else 0
            )
            | (message_ids.QOS_EXPRESS if express else 0)
        )
        self._attachment = attachment
        self.source_info = source_info
        self.timestamp_stack = timestamp_stack

    @property
    def payload(self) -> ZBytes:
        """The payload. Empty for a deletion."""
        if isinstance(self._payload, bytes):
            self._payload = make_zbytes(self._payload)
        return self._payload

    @property
    def kind(self) -> SampleKind:
        """PUT or DELETE."""
        return PUT if self.is_put else DELETE

    @property
    def encoding(self) -> Encoding:
        """Encoding of the payload."""
        if self._encoding is None:
            return BYTES
        if isinstance(self._encoding, tuple):
            self._encoding = Encoding.from_wire(*self._encoding)
        return self._encoding

    @property
    def timestamp(self) -> Timestamp | None:
        """Timestamp of the publisher or of the first router, or None."""
        if self.clock is not None:
            self._timestamp = Timestamp.from_wire(self.ntp64, self.clock)
            self.clock = None
        return self._timestamp

    @property
    def congestion_control(self) -> CongestionControl:
        """Behaviour of full queues along the way."""
        return (
            BLOCK
            if self.qos & message_ids.QOS_BLOCK
            else BLOCK_FIRST
            if self.qos & message_ids.QOS_BLOCK_FIRST
            else DROP
        )

    @property
    def priority(self) -> Priority:
        """Priority of the sample."""
        return PRIORITIES[self.qos & 7]

    @property
    def express(self) -> bool:
        """Whether the sample was sent immediately instead of batched."""
        return self.qos & message_ids.QOS_EXPRESS != 0

    @property
    def attachment(self) -> ZBytes | None:
        """Attachment of the sample, or None."""
        if isinstance(self._attachment, bytes):
            self._attachment = make_zbytes(self._attachment)
        return self._attachment

    def __repr__(self) -> str:
        stamp = "" if self.timestamp is None else f", timestamp={self.timestamp}"
        return f"Sample({self.key_expr!r}, {self.payload!r}, {self.kind}, {str(self.encoding)!r}{stamp})"

    def __reduce__(self):
        return Sample, (
            self.key_expr, self.payload, self.kind, self.encoding, self.timestamp, self.congestion_control, self.priority,
            self.express, self.attachment, self.source_info, self.timestamp_stack,
        )  # fmt: skip


if not cython.compiled:  # compiled: inline, in the .pxd

    def new_sample(key_expr, is_put, qos):
        """Return a new sample without optional fields."""
        sample = Sample.__new__(Sample)
        sample.key_expr = key_expr
        sample.is_put = is_put
        sample.qos = qos
        sample.ntp64 = 0
        sample._encoding = sample._timestamp = sample.clock = None
        sample._attachment = sample.source_info = sample.timestamp_stack = None
        return sample


def read_clock(data, at, size):
    """Return the clock id. Few clocks issue most timestamps, so the previous id is reused if equal."""
    global LAST_CLOCK
    if size != len(LAST_CLOCK) or not equal_bytes(data, at, LAST_CLOCK, 0, size):
        LAST_CLOCK = take(data, at, size)
    return LAST_CLOCK


def read_payload(blob):
    """Return a copy of a field whose buffer is reused, or a view of a reassembled message."""
    if blob.size > MAX_COPY:
        return ZBytes(blob.view.toreadonly())
    return make_zbytes(take(blob.data, blob.at, blob.size))


def make_sample(key_expr, put, delete, is_put, qos, stack):
    """Create a sample from the records of a message's body."""
    sample: Sample = new_sample(key_expr, is_put, qos)
    sample.timestamp_stack = stack
    stamp: Stamp = put.timestamp if is_put else delete.timestamp
    source: Source = put.source if is_put else delete.source
    attachment: Blob = put.attachment if is_put else delete.attachment
    if is_put and put.payload.size > MAX_COPY:
        sample._payload = read_payload(put.payload)
    elif is_put and put.payload.size > 0:
        sample._payload = take(put.payload.data, put.payload.at, put.payload.size)
    else:
        sample._payload = b""
    if is_put and (put.encoding.id != 0 or put.encoding.schema.size >= 0):
        sample._encoding = (put.encoding.id, put.encoding.schema.value)
    if stamp.id.size >= 0:
        sample.ntp64 = stamp.ntp64
        sample.clock = read_clock(stamp.id.data, stamp.id.at, stamp.id.size)
    if attachment.size >= 0:
        sample._attachment = take(attachment.data, attachment.at, attachment.size)
    if source.entity.zid.size >= 0:
        sample.source_info = source.value
    return sample
