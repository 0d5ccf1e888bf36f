# SPDX-License-Identifier: Apache-2.0
"""Network messages except declarations: PUSH, REQUEST, RESPONSE, RESPONSE_FINAL, OAM."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.fields import Entity, OamBody, Stamp, WireExpr
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

# Extension header bytes without Z. The same id with another ENC or M is another extension (divergence A9).
RESPONDER = cython.declare(cython.int, 0x43)
TARGET = cython.declare(cython.int, 0x34)
BUDGET = cython.declare(cython.int, 0x25)
TIMEOUT = cython.declare(cython.int, 0x26)

# QoS without an extension: priority Data, Drop, not express. True for every message (divergence B1).


class NetworkMessage(Message):
    """Extensions of every network message: QoS, and a timestamp (defined, but unused by eclipse-zenoh)."""

    EXTS = {message_ids.EXT_QOS: "qos", message_ids.EXT_TIMESTAMP: "network_timestamp"}

    def __init__(self, parts=()):
        self.qos = message_ids.QOS_DEFAULT
        self.network_timestamp = Stamp()
        Message.__init__(self, (self.network_timestamp, *parts))

    def read_exts(self, c, h):
        self.qos = message_ids.QOS_DEFAULT
        self.network_timestamp.clear()
        return Message.read_exts(self, c, h)

    if not cython.compiled:  # compiled: inline, in the .pxd, because most chains have only a QoS

        def next_chain(self, c, h):
            return self.read_exts(c, h)

    def read_common_ext(self, c, kind):
        if kind == message_ids.EXT_QOS:
            self.qos = c.next_z("exts.qos", 0xFF)
        elif kind == message_ids.EXT_TIMESTAMP:
            self.network_timestamp.read_ext(c)
        else:
            return 0
        return 1

    def read_ext(self, c, kind):
        return self.read_common_ext(c, kind)

    def write_common_exts(self, w):
        if self.qos != message_ids.QOS_DEFAULT:
            w.ext_z(message_ids.EXT_QOS, self.qos, 0xFF)
        if self.network_timestamp.id.size >= 0:
            self.network_timestamp.write_ext(w, message_ids.EXT_TIMESTAMP)
        return 0


class Push(NetworkMessage):
    """PUSH: a publication, for all subscribers with an intersecting key expression.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|M|N|  PUSH   |   0x1D
    +-+-+-+---------+
    %   key_scope   %   z16
    +---------------+
    ~  key_suffix   ~   if N==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp, node_id, timestamp_stack
    +---------------+
    ~     body      ~   PUT or DEL
    +---------------+
    """

    NAME = "PUSH"
    ID = 0x1D
    FIELDS = ("key", "qos", "network_timestamp", "node_id", "timestamp_stack", "body")
    EXTS = {**NetworkMessage.EXTS, message_ids.EXT_NODE_ID: "node_id", message_ids.EXT_STACK: "timestamp_stack"}

    def __init__(self, **values):
        self.key = WireExpr()
        self.node_id = 0
        self.timestamp_stack = Blob()
        self.is_put = True
        self.put = Put()
        self.delete = Del()
        self.body_at = 0
        NetworkMessage.__init__(self, (self.key, self.timestamp_stack))
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
            raise TypeError(f"the body of a PUSH is a Put or a Del, not {value!r}")

    def bind(self, buf):
        Message.bind(self, buf)
        self.put.bind(buf)
        self.delete.bind(buf)
        return 0

    def read(self, c, h):
        c.message = "PUSH"
        self.key.read(c, h)
        self.node_id = 0
        self.timestamp_stack.clear()
        self.next_chain(c, h)
        self.body_at = c.at
        b: cython.int = c.next_u8("body")
        self.is_put = b & 0x1F == message_ids.PUT
        if self.is_put:
            return self.put.read(c, b)
        if b & 0x1F != message_ids.DEL:
            c.fail("body", self.body_at, "a push is a PUT (0x01) or a DEL (0x02)")
        return self.delete.read(c, b)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_NODE_ID:
            self.node_id = c.z16("exts.node_id")
        elif kind == message_ids.EXT_STACK:
            c.blob("exts.timestamp_stack", self.timestamp_stack)
        else:
            return self.read_common_ext(c, kind)
        return 1

    def write_head(self, w):
        """Write the message up to its body. A forwarder then appends the received bytes of the body."""
        if w is None:
            self.fail_no_writer()
        w.message = "PUSH"
        w.header(message_ids.PUSH | self.key.flags())
        self.key.write(w)
        self.write_common_exts(w)
        if self.node_id:
            w.ext_z(message_ids.EXT_NODE_ID, self.node_id, 0xFFFF)
        if self.timestamp_stack.size >= 0:
            w.ext_blob(message_ids.EXT_STACK, self.timestamp_stack)
        return self.write_unknown(w)

    def write(self, w):
        self.write_head(w)
        return self.put.write(w) if self.is_put else self.delete.write(w)


class Request(NetworkMessage):
    """REQUEST: a query, for queryables with an intersecting key expression.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|M|N| REQUEST |   0x1C
    +-+-+-+---------+
    %      id       %   z32, chosen by the asker; answers repeat it
    +---------------+
    %   key_scope   %   z16
    +---------------+
    ~  key_suffix   ~   if N==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp, node_id, target, budget, timeout, timestamp_stack
    +---------------+
    ~     body      ~   QUERY
    +---------------+
    """

    NAME = "REQUEST"
    ID = 0x1C
    FIELDS = (
        "id", "key", "qos", "network_timestamp", "node_id", "target", "budget", "timeout", "timestamp_stack", "body",
    )  # fmt: skip
    EXTS = {
        **NetworkMessage.EXTS,
        message_ids.EXT_NODE_ID: "node_id",
        TARGET: "target",
        BUDGET: "budget",
        TIMEOUT: "timeout",
        message_ids.EXT_STACK: "timestamp_stack",
    }

    def __init__(self, **values):
        self.id = 0
        self.key = WireExpr()
        self.node_id = 0
        self.target = 0
        self.budget = 0
        self.has_timeout = False
        self.timeout_ms = 0
        self.timestamp_stack = Blob()
        self.query = Query()
        self.body_at = 0
        NetworkMessage.__init__(self, (self.key, self.timestamp_stack))
        self.set(values)

    @property
    def body(self):
        return self.query

    @body.setter
    def body(self, value):
        if not isinstance(value, Query):
            raise TypeError(f"the body of a REQUEST is a Query, not {value!r}")
        self.query = value

    def bind(self, buf):
        Message.bind(self, buf)
        return self.query.bind(buf)

    @property
    def timeout(self):
        """Timeout in milliseconds, or None."""
        return self.timeout_ms if self.has_timeout else None

    @timeout.setter
    def timeout(self, value):
        self.has_timeout = value is not None
        self.timeout_ms = value or 0

    def read(self, c, h):
        c.message = "REQUEST"
        self.id = c.z32("id")
        self.key.read(c, h)
        self.node_id = 0
        self.target = 0
        self.budget = 0
        self.has_timeout = False
        self.timeout_ms = 0
        self.timestamp_stack.clear()
        self.read_exts(c, h)
        self.body_at = c.at
        b: cython.int = c.next_u8("body")
        if b & 0x1F != message_ids.QUERY:
            c.fail("body", self.body_at, "a request is a QUERY (0x03)")
        return self.query.read(c, b)

    def read_ext(self, c, kind):
        at: cython.Py_ssize_t = c.at
        if kind == message_ids.EXT_NODE_ID:
            self.node_id = c.z16("exts.node_id")
        elif kind == TARGET:
            self.target = c.z("exts.target", 2)
        elif kind == BUDGET:
            self.budget = c.z32("exts.budget")
            if self.budget == 0:
                c.fail("exts.budget", at, "a budget of no reply is not allowed")
        elif kind == TIMEOUT:
            self.has_timeout = True
            self.timeout_ms = c.z64("exts.timeout")
        elif kind == message_ids.EXT_STACK:
            c.blob("exts.timestamp_stack", self.timestamp_stack)
        else:
            return self.read_common_ext(c, kind)
        return 1

    def write_head(self, w):
        """Write the message up to its body. A forwarder then appends the received bytes of the body."""
        if w is None:
            self.fail_no_writer()
        w.message = "REQUEST"
        w.header(message_ids.REQUEST | self.key.flags())
        w.z32("id", self.id)
        self.key.write(w)
        self.write_common_exts(w)
        if self.node_id:
            w.ext_z(message_ids.EXT_NODE_ID, self.node_id, 0xFFFF)
        if self.target:
            w.ext_z(TARGET, self.target, 2)
        if self.budget:
            w.ext_z64(BUDGET, self.budget)
        if self.has_timeout:
            w.ext_z64(TIMEOUT, self.timeout_ms)
        if self.timestamp_stack.size >= 0:
            w.ext_blob(message_ids.EXT_STACK, self.timestamp_stack)
        return self.write_unknown(w)

    def write(self, w):
        self.write_head(w)
        return self.query.write(w)


class Response(NetworkMessage):
    """RESPONSE: one reply to a REQUEST.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|M|N| RESPONSE|   0x1B
    +-+-+-+---------+
    %      id       %   z32, of the REQUEST
    +---------------+
    %   key_scope   %   z16
    +---------------+
    ~  key_suffix   ~   if N==1: <u8;z16> UTF-8; a router's "Timeout" has no key at all (divergence B4)
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp, responder, timestamp_stack
    +---------------+
    ~     body      ~   REPLY or ERR
    +---------------+
    """

    NAME = "RESPONSE"
    ID = 0x1B
    FIELDS = ("id", "key", "qos", "network_timestamp", "responder", "timestamp_stack", "body")
    EXTS = {**NetworkMessage.EXTS, RESPONDER: "responder", message_ids.EXT_STACK: "timestamp_stack"}

    def __init__(self, **values):
        self.id = 0
        self.key = WireExpr()
        self.responder = Entity()
        self.timestamp_stack = Blob()
        self.is_reply = True
        self.reply = Reply()
        self.err = Err()
        self.body_at = 0
        NetworkMessage.__init__(self, (self.key, self.responder, self.timestamp_stack))
        self.set(values)

    @property
    def body(self):
        return self.reply if self.is_reply else self.err

    @body.setter
    def body(self, value):
        if isinstance(value, Reply):
            self.reply, self.is_reply = value, True
        elif isinstance(value, Err):
            self.err, self.is_reply = value, False
        else:
            raise TypeError(f"the body of a RESPONSE is a Reply or an Err, not {value!r}")

    def bind(self, buf):
        Message.bind(self, buf)
        self.reply.bind(buf)
        self.err.bind(buf)
        return 0

    def read(self, c, h):
        c.message = "RESPONSE"
        self.id = c.z32("id")
        self.key.read(c, h)
        self.responder.clear()
        self.timestamp_stack.clear()
        self.read_exts(c, h)
        self.body_at = c.at
        b: cython.int = c.next_u8("body")
        self.is_reply = b & 0x1F == message_ids.REPLY
        if self.is_reply:
            return self.reply.read(c, b)
        if b & 0x1F != message_ids.ERR:
            c.fail("body", self.body_at, "a response is a REPLY (0x04) or an ERR (0x05)")
        return self.err.read(c, b)

    def read_ext(self, c, kind):
        if kind == RESPONDER:
            self.responder.read_ext(c)
        elif kind == message_ids.EXT_STACK:
            c.blob("exts.timestamp_stack", self.timestamp_stack)
        else:
            return self.read_common_ext(c, kind)
        return 1

    def write_head(self, w):
        """Write the message up to its body. A forwarder then appends the received bytes of the body."""
        if w is None:
            self.fail_no_writer()
        w.message = "RESPONSE"
        w.header(message_ids.RESPONSE | self.key.flags())
        w.z32("id", self.id)
        self.key.write(w)
        self.write_common_exts(w)
        if self.responder.zid.size >= 0:
            self.responder.write_ext(w, RESPONDER)
        if self.timestamp_stack.size >= 0:
            w.ext_blob(message_ids.EXT_STACK, self.timestamp_stack)
        return self.write_unknown(w)

    def write(self, w):
        self.write_head(w)
        return self.reply.write(w) if self.is_reply else self.err.write(w)


class ResponseFinal(NetworkMessage):
    """RESPONSE_FINAL: the end of the replies to a REQUEST.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X|  FINAL  |   0x1A
    +-+-+-+---------+
    %      id       %   z32, of the REQUEST
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp
    +---------------+
    """

    NAME = "RESPONSE_FINAL"
    ID = 0x1A
    FIELDS = ("id", "qos", "network_timestamp")
    EXTS = NetworkMessage.EXTS

    def __init__(self, **values):
        self.id = 0
        NetworkMessage.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "RESPONSE_FINAL"
        self.id = c.z32("id")
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "RESPONSE_FINAL"
        w.header(message_ids.RESPONSE_FINAL)
        w.z32("id", self.id)
        self.write_common_exts(w)
        return self.write_unknown(w)


class Oam(NetworkMessage):
    """OAM: management between nodes. Id 1 is the link state (see `linkstate`).

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|ENC|   OAM   |   0x1F; ENC as in an extension: 00 nothing, 01 a number, 10 bytes
    +-+-+-+---------+
    %      id       %   z16
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp
    +---------------+
    ~     body      ~   if ENC==01: z64; if ENC==10: <u8;z32>
    +---------------+
    """

    NAME = "OAM"
    ID = 0x1F
    FIELDS = ("id", "qos", "network_timestamp", "body")
    EXTS = NetworkMessage.EXTS

    def __init__(self, **values):
        self.id = 0
        self.body = OamBody()
        NetworkMessage.__init__(self, (self.body,))
        self.set(values)

    def read(self, c, h):
        c.message = "OAM"
        self.body.begin(c, h)
        self.id = c.z16("id")
        self.read_exts(c, h)
        return self.body.read(c)

    def write(self, w):
        w.message = "OAM"
        w.header(message_ids.OAM | self.body.enc)
        w.z16("id", self.id)
        self.write_common_exts(w)
        self.write_unknown(w)
        return self.body.write(w)
