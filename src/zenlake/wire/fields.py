# SPDX-License-Identifier: Apache-2.0
"""Composite fields of several messages: key expression, timestamp, encoding, entity.

Each class reads and writes one field. Its `value` is the value type that the other layers use.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob, Field
from cython.cimports.zenlake.wire.writer import vle_size

from zenlake.core.encoding import Encoding
from zenlake.core.identifiers import EntityGlobalId, SourceInfo, Timestamp, ZenohId

# Encoding of an OAM's body: the same bits as in an extension header.

U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)


class WireExpr(Field):
    """A key expression on the wire: the id of a prefix, and a suffix.

    % key_scope:z16 %   0 = no prefix
    ~  key_suffix   ~   if N==1: <u8;z16>

    The M flag identifies the declaring side of the id: 1 = sender, 0 = receiver. With scope 0 the flag has no meaning, but it
    is stored.
    """

    def __init__(self):
        self.scope = 0
        self.sender = True
        self.suffix = Blob()

    def bind(self, buf):
        return self.suffix.bind(buf)

    def flags(self):
        return (message_ids.SUFFIX if self.suffix.size >= 0 else 0) | (message_ids.SENDERS if self.sender else 0)

    def write(self, w):
        w.z16("key_scope", self.scope)
        if self.suffix.size >= 0:
            w.short_blob("key_suffix", self.suffix, 0xFFFF)
        return 0

    if not cython.compiled:  # compiled: inline, in the .pxd

        def read(self, c, h):
            self.sender = h & message_ids.SENDERS != 0
            self.scope = c.next_z("key_scope", 0xFFFF)
            if h & message_ids.SUFFIX:
                return c.text("key_suffix", self.suffix, 0xFFFF)
            self.suffix.clear()
            return 0

        def clear(self):
            self.scope = 0
            self.sender = False
            self.suffix.clear()

    @property
    def value(self):
        """Return (scope, whether the sender declared it, suffix or None)."""
        return (self.scope, self.sender != 0, self.suffix.text)

    def set(self, value):
        """Set a full key as text, or (scope, sender, suffix)."""
        if isinstance(value, tuple):
            self.scope, self.sender, suffix = value
        else:
            self.scope, self.sender, suffix = 0, True, str(value)
        self.suffix.set(None if suffix is None else suffix.encode())


class Stamp(Field):
    """An HLC timestamp: VLE NTP64, VLE id length, id. `ntp64` counts from 1970 (divergence A6). Absent if the id is."""

    def __init__(self):
        self.ntp64 = 0
        self.id = Blob()

    def bind(self, buf):
        return self.id.bind(buf)

    def read_ext(self, c):
        outer: cython.Py_ssize_t = c.open("exts.timestamp")
        self.ntp64 = c.z64("exts.timestamp.time")
        c.zid("exts.timestamp.id", self.id, c.z64("exts.timestamp.id_len"))
        return c.close("exts.timestamp", outer)

    def write(self, w):
        w.z64("timestamp.time", self.ntp64)
        w.z64("timestamp.id_len", self.id.size)
        return w.zid("timestamp.id", self.id)

    def write_ext(self, w, header):
        w.ext_size(header, vle_size(self.ntp64) + 1 + self.id.size)
        return self.write(w)

    if not cython.compiled:  # compiled: inline, in the .pxd

        def read(self, c):
            self.ntp64 = c.next_time("timestamp.time")
            return c.next_zid("timestamp.id", self.id, c.next_z64("timestamp.id_len"))

        def clear(self):
            self.ntp64 = 0
            self.id.clear()

    @property
    def value(self):
        return None if self.id.size < 0 else Timestamp.from_wire(self.ntp64, self.id.value)

    def set(self, value):
        self.ntp64 = 0 if value is None else value.ntp64
        self.id.set(None if value is None else value.id.to_wire())


class EncodingField(Field):
    """A content type: VLE of (id << 1 | S), then the schema if S. Absent means id 0 without schema."""

    def __init__(self):
        self.id = 0
        self.schema = Blob()

    def bind(self, buf):
        return self.schema.bind(buf)

    def read(self, c, id, schema):
        """Read an encoding. The two names are its fields in the message."""
        word: cython.ulonglong = c.next_z(id, U32)
        self.id = word >> 1
        if word & 1:
            c.next_blob(schema, self.schema, 0xFF)
        else:
            self.schema.clear()
        return 0

    def is_explicit(self):
        """Return whether the field must be written: encoding 0 without a schema is the default."""
        return self.id != 0 or self.schema.size >= 0

    def size(self):
        word: cython.ulonglong = self.id
        if self.schema.size < 0:
            return vle_size(word << 1)
        return vle_size(word << 1) + vle_size(self.schema.size) + self.schema.size

    def write(self, w):
        word: cython.ulonglong = self.id
        if self.schema.size < 0:
            return w.z32("encoding.id", word << 1)
        w.z32("encoding.id", word << 1 | 1)
        return w.short_blob("encoding.schema", self.schema, 0xFF)

    if not cython.compiled:  # compiled: inline, in the .pxd

        def clear(self):
            self.id = 0
            self.schema.clear()

    @property
    def value(self):
        return Encoding.from_wire(self.id, self.schema.value)

    def set(self, value):
        self.id = 0 if value is None else value.id
        self.schema.set(None if value is None else value.schema)


class Entity(Field):
    """Global id of an entity: a ZenohID and an id in that node. Absent if the ZenohID is.

     7 6 5 4 3 2 1 0
    |zid_len|X|X|X|X|
    ~      zid      ~  1 + zid_len bytes
    %   eid : z32   %
    """

    def __init__(self):
        self.zid = Blob()
        self.eid = 0

    def bind(self, buf):
        return self.zid.bind(buf)

    def read(self, c):
        c.next_zid("exts.entity.zid", self.zid, 1 + (c.next_u8("exts.entity.zid_len") >> 4))
        self.eid = c.next_z("exts.entity.eid", U32)
        return 0

    def read_ext(self, c):
        outer: cython.Py_ssize_t = c.open("exts.entity")
        self.read(c)
        return c.close("exts.entity", outer)

    def size(self):
        return 1 + self.zid.size + vle_size(self.eid)

    def write(self, w):
        if self.zid.size < 1 or self.zid.size > 16:
            w.refuse("exts.entity.zid", "a ZenohID has 1 to 16 bytes")
        w.u8("exts.entity.zid_len", (self.zid.size - 1) << 4)
        w.zid("exts.entity.zid", self.zid)
        return w.z32("exts.entity.eid", self.eid)

    def write_ext(self, w, header):
        w.ext_size(header, self.size())
        return self.write(w)

    if not cython.compiled:  # compiled: inline, in the .pxd

        def clear(self):
            self.zid.clear()
            self.eid = 0

    @property
    def value(self):
        return None if self.zid.size < 0 else EntityGlobalId(ZenohId.from_wire(self.zid.value), self.eid)

    def set(self, value):
        self.zid.set(None if value is None else value.zid.to_wire())
        self.eid = 0 if value is None else value.eid


class Source(Field):
    """Source of a sample: the publisher's entity, followed by its sequence number % sn : z32 %."""

    def __init__(self):
        self.entity = Entity()
        self.sn = 0

    def bind(self, buf):
        return self.entity.bind(buf)

    def read_ext(self, c):
        outer: cython.Py_ssize_t = c.next_open("exts.source")
        self.entity.read(c)
        self.sn = c.next_z("exts.source.sn", U32)
        return c.next_close("exts.source", outer)

    def write_ext(self, w, header):
        w.ext_size(header, self.entity.size() + vle_size(self.sn))
        self.entity.write(w)
        return w.z32("exts.source.sn", self.sn)

    if not cython.compiled:  # compiled: inline, in the .pxd

        def clear(self):
            self.entity.clear()
            self.sn = 0

    @property
    def value(self):
        entity = self.entity.value
        return None if entity is None else SourceInfo(entity, self.sn)

    def set(self, value):
        self.entity.set(None if value is None else value.source_id)
        self.sn = 0 if value is None else value.source_sn


class OamBody(Field):
    """The body of an OAM. The ENC bits of the header select none, a number, or bytes."""

    def __init__(self):
        self.enc = 0
        self.number = 0
        self.data = Blob()

    def bind(self, buf):
        return self.data.bind(buf)

    def begin(self, c, h):
        """Store ENC of the header. The body follows after the extensions."""
        self.enc = h & message_ids.ENC
        self.number = 0
        self.data.clear()
        if self.enc == message_ids.ENC:
            c.fail("header", c.at - 1, "the encoding 0b11 is reserved")
        return 0

    def read(self, c):
        if self.enc == message_ids.ENC_Z64:
            self.number = c.z64("body")
        elif self.enc == message_ids.ENC_ZBUF:
            c.blob("body", self.data)
        return 0

    def write(self, w):
        if self.enc == message_ids.ENC_Z64:
            w.z64("body", self.number)
        elif self.enc == message_ids.ENC_ZBUF:
            w.blob("body", self.data)
        return 0

    @property
    def value(self):
        if self.enc == message_ids.ENC_Z64:
            return self.number
        return self.data.value if self.enc == message_ids.ENC_ZBUF else None

    def set(self, value):
        self.number = value if isinstance(value, int) else 0
        self.data.set(None if isinstance(value, int) else value)
        self.enc = message_ids.ENC_Z64 if isinstance(value, int) else 0 if value is None else message_ids.ENC_ZBUF
