# SPDX-License-Identifier: Apache-2.0
"""Bodies of PUSH, REQUEST and RESPONSE: PUT, DEL, QUERY, REPLY, ERR."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.fields import EncodingField, Source, Stamp
from cython.cimports.zenlake.wire.message_base import Message

# Header flags, each with the messages that have it.
C = cython.declare(cython.int, 0x20)  # QUERY, REPLY: consolidation
P = cython.declare(cython.int, 0x40)  # QUERY: parameters

ANY = cython.declare(cython.Py_ssize_t, 0x7FFFFFFFFFFFFFFF)  # no limit except the end

# Extension header bytes without Z.
QUERY_SHM = cython.declare(cython.int, 0x04)  # in QUERY's own chain, before the body (divergence B7)
QUERY_BODY = cython.declare(cython.int, 0x43)
QUERY_ATTACHMENT = cython.declare(cython.int, 0x45)


def read_slices(c, slices, number, sort, slice):
    """Read a payload in shared memory: a count, then slices of (kind, length, bytes). The bytes are stored unchanged.

    The last three arguments name the fields.
    """
    start: cython.Py_ssize_t = c.at
    count: cython.ulonglong = c.z64(number)
    at: cython.Py_ssize_t
    kind: cython.int
    while count > 0:  # each slice needs at least two bytes, so an impossible count fails early
        at = c.at
        kind = c.u8(sort)
        if kind > 1:
            c.fail(sort, at, "a slice is 0 (raw) or 1 (shared memory)")
        c.blob(slice, slices)
        count -= 1
    slices.at = start
    slices.size = c.at - start
    return 0


class Put(Message):
    """PUT: publish a value.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|E|T|   PUT   |   0x01
    +-+-+-+---------+
    ~   timestamp   ~   if T==1: VLE NTP64, VLE id length, id
    +---------------+
    ~   encoding    ~   if E==1
    +---------------+
    ~     exts      ~   if Z==1: source, shm, attachment
    +---------------+
    ~    payload    ~   <u8;z32>; slices of shared memory if the shm extension is there
    +---------------+
    """

    NAME = "PUT"
    ID = 0x01
    FIELDS = ("timestamp", "encoding", "source", "shm", "attachment", "payload", "slices")
    EXTS = {message_ids.EXT_SOURCE: "source", message_ids.EXT_SHM: "shm", message_ids.EXT_PUT_ATTACHMENT: "attachment"}

    def __init__(self, **values):
        self.timestamp = Stamp()
        self.encoding = EncodingField()
        self.source = Source()
        self.shm = False
        self.attachment = Blob()
        self.payload = Blob(b"")
        self.slices = Blob()
        Message.__init__(self, (self.timestamp, self.encoding, self.source, self.attachment, self.payload, self.slices))
        self.set(values)

    def read(self, c, h):
        c.message = "PUT"
        if h & message_ids.STAMPED:
            self.timestamp.read(c)
        else:
            self.timestamp.clear()
        if h & message_ids.ENCODED:
            self.encoding.read(c, "encoding.id", "encoding.schema")
        else:
            self.encoding.clear()
        self.source.clear()
        self.shm = False
        self.attachment.clear()
        self.next_exts(c, h)
        if self.shm:
            self.payload.clear()
            return read_slices(c, self.slices, "payload.slices", "payload.kind", "payload.slice")
        self.slices.clear()
        return c.next_blob("payload", self.payload, ANY)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_SOURCE:
            self.source.read_ext(c)
        elif kind == message_ids.EXT_SHM:
            self.shm = True
        elif kind == message_ids.EXT_PUT_ATTACHMENT:
            c.next_blob("exts.attachment", self.attachment, ANY)
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "PUT"
        stamped: cython.bint = self.timestamp.id.size >= 0
        encoded: cython.int = message_ids.ENCODED if self.encoding.is_explicit() else 0
        w.header(message_ids.PUT | (message_ids.STAMPED if stamped else 0) | encoded)
        if stamped:
            self.timestamp.write(w)
        if self.encoding.is_explicit():
            self.encoding.write(w)
        if self.source.entity.zid.size >= 0:
            self.source.write_ext(w, message_ids.EXT_SOURCE)
        if self.shm:
            w.ext(message_ids.EXT_SHM)
        if self.attachment.size >= 0:
            w.ext_blob(message_ids.EXT_PUT_ATTACHMENT, self.attachment)
        self.write_unknown(w)
        return w.run("payload", self.slices) if self.shm else w.blob("payload", self.payload)


class Del(Message):
    """DEL: delete a resource. It has no payload.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|T|   DEL   |   0x02
    +-+-+-+---------+
    ~   timestamp   ~   if T==1
    +---------------+
    ~     exts      ~   if Z==1: source, attachment (at 0x2, where PUT has shm)
    +---------------+
    """

    NAME = "DEL"
    ID = 0x02
    FIELDS = ("timestamp", "source", "attachment")
    EXTS = {message_ids.EXT_SOURCE: "source", message_ids.EXT_DEL_ATTACHMENT: "attachment"}

    def __init__(self, **values):
        self.timestamp = Stamp()
        self.source = Source()
        self.attachment = Blob()
        Message.__init__(self, (self.timestamp, self.source, self.attachment))
        self.set(values)

    def read(self, c, h):
        c.message = "DEL"
        if h & message_ids.STAMPED:
            self.timestamp.read(c)
        else:
            self.timestamp.clear()
        self.source.clear()
        self.attachment.clear()
        return self.next_exts(c, h)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_SOURCE:
            self.source.read_ext(c)
        elif kind == message_ids.EXT_DEL_ATTACHMENT:
            c.next_blob("exts.attachment", self.attachment, ANY)
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "DEL"
        stamped: cython.bint = self.timestamp.id.size >= 0
        w.header(message_ids.DEL | (message_ids.STAMPED if stamped else 0))
        if stamped:
            self.timestamp.write(w)
        if self.source.entity.zid.size >= 0:
            self.source.write_ext(w, message_ids.EXT_SOURCE)
        if self.attachment.size >= 0:
            w.ext_blob(message_ids.EXT_DEL_ATTACHMENT, self.attachment)
        return self.write_unknown(w)


class Query(Message):
    """QUERY: the consolidation, parameters and body of a query.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|P|C|  QUERY  |   0x03
    +-+-+-+---------+
    | consolidation |   if C==1: 0 auto, 1 none, 2 monotonic, 3 latest
    +---------------+
    ~  parameters   ~   if P==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: source, body, attachment
    +---------------+

    The body extension is an encoding followed by bytes up to the extension's end: no inner length (divergence A4). After the shm
    extension these bytes are slices, and the declared size is not their size (divergence B7).
    """

    NAME = "QUERY"
    ID = 0x03
    FIELDS = ("consolidation", "parameters", "source", "shm", "encoding", "body", "attachment")
    EXTS = {message_ids.EXT_SOURCE: "source", QUERY_SHM: "shm", QUERY_BODY: "body", QUERY_ATTACHMENT: "attachment"}

    def __init__(self, **values):
        self.consolidation = 0
        self.parameters = Blob()
        self.source = Source()
        self.shm = False
        self.encoding = EncodingField()
        self.body = Blob()
        self.attachment = Blob()
        Message.__init__(self, (self.parameters, self.source, self.encoding, self.body, self.attachment))
        self.set(values)

    def read(self, c, h):
        c.message = "QUERY"
        self.consolidation = c.z8("consolidation") if h & C else 0
        if h & P:
            c.text("parameters", self.parameters, 0xFFFF)
        else:
            self.parameters.clear()
        self.source.clear()
        self.shm = False
        self.encoding.clear()
        self.body.clear()
        self.attachment.clear()
        return self.next_exts(c, h)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_SOURCE:
            self.source.read_ext(c)
        elif kind == QUERY_SHM:
            self.shm = True
        elif kind == QUERY_BODY and self.shm:
            c.z32("exts.body.size")  # not the size of the slices: eclipse-zenoh counts the bytes in shared memory
            self.encoding.read(c, "exts.body.encoding", "exts.body.schema")
            read_slices(c, self.body, "exts.body.slices", "exts.body.kind", "exts.body.slice")
        elif kind == QUERY_BODY:
            outer: cython.Py_ssize_t = c.open("exts.body")
            self.encoding.read(c, "exts.body.encoding", "exts.body.schema")
            c.rest("exts.body.payload", self.body)
            c.close("exts.body", outer)
        elif kind == QUERY_ATTACHMENT:
            c.next_blob("exts.attachment", self.attachment, ANY)
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "QUERY"
        w.header(message_ids.QUERY | (C if self.consolidation else 0) | (P if self.parameters.size >= 0 else 0))
        if self.consolidation:
            w.z8("consolidation", self.consolidation)
        if self.parameters.size >= 0:
            w.short_blob("parameters", self.parameters, 0xFFFF)
        if self.source.entity.zid.size >= 0:
            self.source.write_ext(w, message_ids.EXT_SOURCE)
        if self.shm:
            w.ext(QUERY_SHM)
        if self.body.size >= 0:
            w.ext_size(QUERY_BODY, self.encoding.size() + self.body.size)
            self.encoding.write(w)
            w.run("exts.body", self.body)
        if self.attachment.size >= 0:
            w.ext_blob(QUERY_ATTACHMENT, self.attachment)
        return self.write_unknown(w)


class Reply(Message):
    """REPLY: a successful reply, with a PUT or a DEL.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|C|  REPLY  |   0x04
    +-+-+-+---------+
    | consolidation |   if C==1
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    ~     body      ~   PUT or DEL
    +---------------+
    """

    NAME = "REPLY"
    ID = 0x04
    FIELDS = ("consolidation", "body")

    def __init__(self, **values):
        self.consolidation = 0
        self.is_put = True
        self.put = Put()
        self.delete = Del()
        Message.__init__(self)
        self.set(values)

    @property
    def body(self):
        return self.put if self.is_put else self.delete

    @body.setter
    def body(self, value):
        if isinstance(value, Put):
            self.put, self.is_put = value, True
        elif isinstance(value, Del):
            self.delete, self.is_put = value, False
        else:
            raise TypeError(f"the body of a REPLY is a Put or a Del, not {value!r}")

    def bind(self, buf):
        Message.bind(self, buf)
        self.put.bind(buf)
        self.delete.bind(buf)
        return 0

    def read(self, c, h):
        c.message = "REPLY"
        self.consolidation = c.z8("consolidation") if h & C else 0
        self.next_exts(c, h)
        at: cython.Py_ssize_t = c.at
        b: cython.int = c.u8("body")
        self.is_put = b & 0x1F == message_ids.PUT
        if self.is_put:
            return self.put.read(c, b)
        if b & 0x1F != message_ids.DEL:
            c.fail("body", at, "a reply is a PUT (0x01) or a DEL (0x02)")
        return self.delete.read(c, b)

    def write(self, w):
        w.message = "REPLY"
        w.header(message_ids.REPLY | (C if self.consolidation else 0))
        if self.consolidation:
            w.z8("consolidation", self.consolidation)
        self.write_unknown(w)
        return self.put.write(w) if self.is_put else self.delete.write(w)


class Err(Message):
    """ERR: an error reply. The payload is the reason.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|E|X|   ERR   |   0x05
    +-+-+-+---------+
    ~   encoding    ~   if E==1
    +---------------+
    ~     exts      ~   if Z==1: source, shm
    +---------------+
    ~    payload    ~   <u8;z32>
    +---------------+

    eclipse-zenoh sets shm on a large error although its payload is plain (divergence B7). A node that forwards it
    drops the extension.
    """

    NAME = "ERR"
    ID = 0x05
    FIELDS = ("encoding", "source", "shm", "payload")
    EXTS = {message_ids.EXT_SOURCE: "source", message_ids.EXT_SHM: "shm"}

    def __init__(self, **values):
        self.encoding = EncodingField()
        self.source = Source()
        self.shm = False
        self.payload = Blob(b"")
        Message.__init__(self, (self.encoding, self.source, self.payload))
        self.set(values)

    def read(self, c, h):
        c.message = "ERR"
        if h & message_ids.ENCODED:
            self.encoding.read(c, "encoding.id", "encoding.schema")
        else:
            self.encoding.clear()
        self.source.clear()
        self.shm = False
        self.next_exts(c, h)
        return c.next_blob("payload", self.payload, ANY)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_SOURCE:
            self.source.read_ext(c)
        elif kind == message_ids.EXT_SHM:
            self.shm = True
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "ERR"
        w.header(message_ids.ERR | (message_ids.ENCODED if self.encoding.is_explicit() else 0))
        if self.encoding.is_explicit():
            self.encoding.write(w)
        if self.source.entity.zid.size >= 0:
            self.source.write_ext(w, message_ids.EXT_SOURCE)
        if self.shm:
            w.ext(message_ids.EXT_SHM)
        self.write_unknown(w)
        return w.blob("payload", self.payload)
