# SPDX-License-Identifier: Apache-2.0
"""Declarations and interests: DECLARE with its nine bodies, and INTEREST."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.fields import WireExpr
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.network import NetworkMessage
from cython.cimports.zenlake.wire.writer import vle_size

I = cython.declare(cython.int, 0x20)  # DECLARE: the interest that it answers  # noqa: E741

# Extension header bytes without Z.
QUERYABLE_INFO = cython.declare(cython.int, 0x21)
WIRE_EXPR = cython.declare(cython.int, 0x5F)

# INTEREST: the mode is in the header, the options are a separate byte.
MODE = cython.declare(cython.int, 0x60)
RESTRICTED = cython.declare(cython.int, 0x10)
OPTION_N = cython.declare(cython.int, 0x20)
OPTION_M = cython.declare(cython.int, 0x40)


class DeclareKeyExpr(Message):
    """D_KEYEXPR: declare an id for a key expression.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|N|D_KEYEXPR|   0x00
    +-+-+-+---------+
    %      id       %   z16, not 0
    +---------------+
    %   key_scope   %   z16; the real network understands only 0 here (divergence A13)
    +---------------+
    ~  key_suffix   ~   if N==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "D_KEYEXPR"
    ID = 0x00
    FIELDS = ("id", "key")

    def __init__(self, **values):
        self.id = 0
        self.key = WireExpr()
        self.key.sender = False
        Message.__init__(self, (self.key,))
        self.set(values)

    def read(self, c, h):
        c.message = "D_KEYEXPR"
        at: cython.Py_ssize_t = c.at
        self.id = c.z16("id")
        if self.id == 0:
            c.fail("id", at, "0 stands for no prefix and cannot be declared")
        self.key.read(c, h & message_ids.SUFFIX)
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "D_KEYEXPR"
        if self.id == 0:
            w.refuse("id", "0 stands for no prefix and cannot be declared")
        w.header(message_ids.D_KEYEXPR | (self.key.flags() & message_ids.SUFFIX))
        w.z16("id", self.id)
        self.key.write(w)
        return self.write_unknown(w)


class UndeclareKeyExpr(Message):
    """U_KEYEXPR: undeclare the id of a key expression.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X|U_KEYEXPR|   0x01
    +-+-+-+---------+
    %      id       %   z16
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "U_KEYEXPR"
    ID = 0x01
    FIELDS = ("id",)

    def __init__(self, **values):
        self.id = 0
        Message.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "U_KEYEXPR"
        self.id = c.z16("id")
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "U_KEYEXPR"
        w.header(message_ids.U_KEYEXPR)
        w.z16("id", self.id)
        return self.write_unknown(w)


class DeclareEntity(Message):
    """D_SUBSCRIBER (0x02), D_QUERYABLE (0x04), D_TOKEN (0x06): declare an entity of this node.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|M|N| D_ENTITY|   0x02, 0x04 or 0x06
    +-+-+-+---------+
    %      id       %   z32
    +---------------+
    %   key_scope   %   z16
    +---------------+
    ~  key_suffix   ~   if N==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: of a queryable, info: bit 0 complete, bits 8..23 distance
    +---------------+
    """

    NAME = "D_ENTITY"
    ID = 0x02
    FIELDS = ("kind", "id", "key", "info")
    EXTS = {0x21: "info"}

    def __init__(self, **values):
        self.kind = message_ids.D_SUBSCRIBER
        self.id = 0
        self.key = WireExpr()
        self.info = 0
        Message.__init__(self, (self.key,))
        self.set(values)

    def read(self, c, h):
        c.message = "D_ENTITY"
        self.kind = h & 0x1F
        self.id = c.z32("id")
        self.key.read(c, h)
        self.info = 0
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == QUERYABLE_INFO and self.kind == message_ids.D_QUERYABLE:
            self.info = c.z64("exts.info")
            return 1
        return 0

    def known_exts(self):
        return self.EXTS if self.kind == message_ids.D_QUERYABLE else {}

    def write(self, w):
        w.message = "D_ENTITY"
        if (
            self.kind != message_ids.D_SUBSCRIBER
            and self.kind != message_ids.D_QUERYABLE
            and self.kind != message_ids.D_TOKEN
        ):
            w.refuse("kind", "0x02 (subscriber), 0x04 (queryable) or 0x06 (token) can be declared")
        w.header(self.kind | self.key.flags())
        w.z32("id", self.id)
        self.key.write(w)
        if self.info and self.kind == message_ids.D_QUERYABLE:
            w.ext_z64(QUERYABLE_INFO, self.info)
        return self.write_unknown(w)


class UndeclareEntity(Message):
    """U_SUBSCRIBER (0x03), U_QUERYABLE (0x05), U_TOKEN (0x07): undeclare an entity.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X| U_ENTITY|   0x03, 0x05 or 0x07
    +-+-+-+---------+
    %      id       %   z32; 0 between routers, which know it by its key
    +---------------+
    ~     exts      ~   if Z==1: key
    +---------------+

    The key extension has its own flags (bit 0 N, bit 1 M), the scope, and the suffix without a length up to the
    extension's end.
    """

    NAME = "U_ENTITY"
    ID = 0x03
    FIELDS = ("kind", "id", "key")
    EXTS = {0x5F: "key"}

    def __init__(self, **values):
        self.kind = message_ids.U_SUBSCRIBER
        self.id = 0
        self.has_key = False
        self.wire_expr = WireExpr()
        Message.__init__(self, (self.wire_expr,))
        self.set(values)

    @property
    def key(self):
        return self.wire_expr.value if self.has_key else None

    @key.setter
    def key(self, value):
        self.has_key = value is not None
        if self.has_key:
            self.wire_expr.set(value)
        else:
            self.wire_expr.clear()

    def read(self, c, h):
        c.message = "U_ENTITY"
        self.kind = h & 0x1F
        self.id = c.z32("id")
        self.has_key = False
        self.wire_expr.clear()
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind != WIRE_EXPR:
            return 0
        outer: cython.Py_ssize_t = c.open("exts.key")
        flags: cython.int = c.u8("exts.key.flags")
        self.has_key = True
        self.wire_expr.sender = flags & 2 != 0
        self.wire_expr.scope = c.z16("exts.key.scope")
        if flags & 1:
            c.rest("exts.key.suffix", self.wire_expr.suffix)
            c.utf8("exts.key.suffix", self.wire_expr.suffix)
        else:
            self.wire_expr.suffix.clear()
        c.close("exts.key", outer)
        return 1

    def write(self, w):
        w.message = "U_ENTITY"
        if (
            self.kind != message_ids.U_SUBSCRIBER
            and self.kind != message_ids.U_QUERYABLE
            and self.kind != message_ids.U_TOKEN
        ):
            w.refuse("kind", "0x03 (subscriber), 0x05 (queryable) or 0x07 (token) can be undeclared")
        w.header(self.kind)
        w.z32("id", self.id)
        if self.has_key:
            size: cython.Py_ssize_t = self.wire_expr.suffix.size
            w.ext_size(WIRE_EXPR, 1 + vle_size(self.wire_expr.scope) + (size if size > 0 else 0))
            w.u8("exts.key.flags", (1 if size >= 0 else 0) | (2 if self.wire_expr.sender else 0))
            w.z16("exts.key.scope", self.wire_expr.scope)
            if size >= 0:
                w.run("exts.key.suffix", self.wire_expr.suffix)
        return self.write_unknown(w)


class DeclareFinal(Message):
    """D_FINAL: end the current declarations that an interest requested.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X| D_FINAL |   0x1A
    +-+-+-+---------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "D_FINAL"
    ID = 0x1A
    FIELDS = ()

    def __init__(self, **values):
        Message.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "D_FINAL"
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "D_FINAL"
        w.header(message_ids.D_FINAL)
        return self.write_unknown(w)


class Declare(NetworkMessage):
    """DECLARE: one declaration or undeclaration.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|I| DECLARE |   0x1E
    +-+-+-+---------+
    %  interest_id  %   if I==1: z32, the INTEREST whose current phase this answers
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp, node_id
    +---------------+
    ~     body      ~   one of nine
    +---------------+
    """

    NAME = "DECLARE"
    ID = 0x1E
    FIELDS = ("interest_id", "qos", "network_timestamp", "node_id", "body")
    EXTS = {**NetworkMessage.EXTS, message_ids.EXT_NODE_ID: "node_id"}

    def __init__(self, **values):
        self.answers = False
        self.interest = 0
        self.node_id = 0
        self.body_id = message_ids.D_FINAL
        self.key_expr = DeclareKeyExpr()
        self.no_key_expr = UndeclareKeyExpr()
        self.entity = DeclareEntity()
        self.no_entity = UndeclareEntity()
        self.final = DeclareFinal()
        NetworkMessage.__init__(self)
        self.set(values)

    @property
    def interest_id(self):
        return self.interest if self.answers else None

    @interest_id.setter
    def interest_id(self, value):
        self.answers = value is not None
        self.interest = value or 0

    @property
    def body(self):
        if self.body_id == message_ids.D_KEYEXPR:
            return self.key_expr
        if self.body_id == message_ids.U_KEYEXPR:
            return self.no_key_expr
        if self.body_id == message_ids.D_FINAL:
            return self.final
        return self.no_entity if self.body_id & 1 else self.entity

    @body.setter
    def body(self, value):
        if isinstance(value, DeclareKeyExpr):
            self.key_expr, self.body_id = value, message_ids.D_KEYEXPR
        elif isinstance(value, UndeclareKeyExpr):
            self.no_key_expr, self.body_id = value, message_ids.U_KEYEXPR
        elif isinstance(value, DeclareFinal):
            self.final, self.body_id = value, message_ids.D_FINAL
        elif isinstance(value, UndeclareEntity) and value.kind in (
            message_ids.U_SUBSCRIBER,
            message_ids.U_QUERYABLE,
            message_ids.U_TOKEN,
        ):
            self.no_entity, self.body_id = value, value.kind
        elif isinstance(value, DeclareEntity) and value.kind in (
            message_ids.D_SUBSCRIBER,
            message_ids.D_QUERYABLE,
            message_ids.D_TOKEN,
        ):
            self.entity, self.body_id = value, value.kind
        else:
            raise TypeError(f"the body of a DECLARE is one of the nine declarations, not {value!r}")

    def bind(self, buf):
        NetworkMessage.bind(self, buf)
        self.key_expr.bind(buf)
        self.no_key_expr.bind(buf)
        self.entity.bind(buf)
        self.no_entity.bind(buf)
        self.final.bind(buf)
        return 0

    def read(self, c, h):
        c.message = "DECLARE"
        self.answers = h & I != 0
        self.interest = c.z32("interest_id") if h & I else 0
        self.node_id = 0
        self.read_exts(c, h)
        at: cython.Py_ssize_t = c.at
        b: cython.int = c.u8("body")
        self.body_id = b & 0x1F
        if self.body_id == message_ids.D_KEYEXPR:
            return self.key_expr.read(c, b)
        if self.body_id == message_ids.U_KEYEXPR:
            return self.no_key_expr.read(c, b)
        if self.body_id == message_ids.D_FINAL:
            return self.final.read(c, b)
        if self.body_id > message_ids.U_TOKEN:
            c.fail("body", at, "no declaration has this id")
        return self.no_entity.read(c, b) if b & 1 else self.entity.read(c, b)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_NODE_ID:
            self.node_id = c.z16("exts.node_id")
            return 1
        return self.read_common_ext(c, kind)

    def write(self, w):
        w.message = "DECLARE"
        w.header(message_ids.DECLARE | (I if self.answers else 0))
        if self.answers:
            w.z32("interest_id", self.interest)
        self.write_common_exts(w)
        if self.node_id:
            w.ext_z(message_ids.EXT_NODE_ID, self.node_id, 0xFFFF)
        self.write_unknown(w)
        if self.body_id == message_ids.D_KEYEXPR:
            return self.key_expr.write(w)
        if self.body_id == message_ids.U_KEYEXPR:
            return self.no_key_expr.write(w)
        if self.body_id == message_ids.D_FINAL:
            return self.final.write(w)
        return self.no_entity.write(w) if self.body_id & 1 else self.entity.write(w)


class Interest(NetworkMessage):
    """INTEREST: request current declarations, future ones, or both.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|MOD| INTEREST|   0x19; 00 final (no more interest), 01 current, 10 future, 11 both
    +-+-+-+---------+
    %      id       %   z32
    +---------------+
    |A|M|N|R|T|Q|S|K|   options, if MOD!=00: aggregate, key flags, restricted, tokens, queryables, subscribers, keys
    +---------------+
    %   key_scope   %   if MOD!=00 and R==1: z16
    +---------------+
    ~  key_suffix   ~   if MOD!=00 and R==1 and N==1: <u8;z16> UTF-8
    +---------------+
    ~     exts      ~   if Z==1: qos, network_timestamp, node_id
    +---------------+
    """

    NAME = "INTEREST"
    ID = 0x19
    FIELDS = ("mode", "id", "options", "key", "qos", "network_timestamp", "node_id")
    EXTS = {**NetworkMessage.EXTS, message_ids.EXT_NODE_ID: "node_id"}

    def __init__(self, **values):
        self.mode = 0
        self.id = 0
        self.options = 0
        self.wire_expr = WireExpr()
        self.node_id = 0
        NetworkMessage.__init__(self, (self.wire_expr,))
        self.set(values)

    @property
    def key(self):
        """Return the key expression as (scope, sender, suffix), or None if the interest is not restricted."""
        return self.wire_expr.value if self.options & RESTRICTED else None

    @key.setter
    def key(self, value):
        """Set the key and the bits R, N and M of the options. Set `options` first."""
        if value is not None or self.options & RESTRICTED:
            self.options = self.options & ~(RESTRICTED | OPTION_N | OPTION_M)
        if value is None:
            self.wire_expr.clear()
        else:
            self.wire_expr.set(value)
            # N and M are the same bits in the options byte as in a header
            self.options = self.options | RESTRICTED | self.wire_expr.flags()

    def read(self, c, h):
        c.message = "INTEREST"
        self.mode = (h & MODE) >> 5
        self.id = c.z32("id")
        self.options = c.u8("options") if self.mode else 0
        if self.options & RESTRICTED:
            self.wire_expr.read(c, self.options)
        else:
            self.wire_expr.clear()
        self.node_id = 0
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == message_ids.EXT_NODE_ID:
            self.node_id = c.z16("exts.node_id")
            return 1
        return self.read_common_ext(c, kind)

    def write(self, w):
        w.message = "INTEREST"
        if self.mode < 0 or self.mode > 3:
            w.refuse("mode", "0 (final), 1 (current), 2 (future) or 3 (both)")
        w.header(message_ids.INTEREST | self.mode << 5)
        w.z32("id", self.id)
        if self.mode:
            w.u8("options", self.options)
            if self.options & RESTRICTED:
                self.wire_expr.write(w)
        self.write_common_exts(w)
        if self.node_id:
            w.ext_z(message_ids.EXT_NODE_ID, self.node_id, 0xFFFF)
        return self.write_unknown(w)
