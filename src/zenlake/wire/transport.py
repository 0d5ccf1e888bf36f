# SPDX-License-Identifier: Apache-2.0
"""Transport messages within a session: FRAME, FRAGMENT, KEEP_ALIVE, transport OAM."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.fields import OamBody
from cython.cimports.zenlake.wire.message_base import Message

R = cython.declare(cython.int, 0x20)  # FRAME, FRAGMENT: the reliable lane
M = cython.declare(cython.int, 0x40)  # FRAGMENT: more follow

# Extension header bytes without Z. With the M bit clear (0x21) the priority is an unknown optional one (divergence A9).
PRIORITY = cython.declare(cython.int, 0x31)
FIRST = cython.declare(cython.int, 0x02)
DROP = cython.declare(cython.int, 0x03)

DATA = cython.declare(cython.int, 5)  # the priority of a frame without a QoS extension


class Frame(Message):
    """FRAME: a sequence number, then network messages up to the batch's end or the next transport message.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|R|  FRAME  |   0x05
    +-+-+-+---------+
    %      sn       %   of the lane (priority, reliability)
    +---------------+
    ~     exts      ~   if Z==1: priority
    +---------------+
    """

    NAME = "FRAME"
    ID = 0x05
    FIELDS = ("reliable", "sn", "priority")
    EXTS = {0x31: "priority"}

    def __init__(self, **values):
        self.reliable = True
        self.sn = 0
        self.priority = DATA
        Message.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "FRAME"
        self.reliable = h & R != 0
        self.sn = c.z64("sn")
        self.priority = DATA
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == PRIORITY:
            self.priority = c.z("exts.priority", 7)
            return 1
        return 0

    def write(self, w):
        w.message = "FRAME"
        w.header(message_ids.FRAME | (R if self.reliable else 0))
        w.z64("sn", self.sn)
        if self.priority != DATA:
            w.ext_z(PRIORITY, self.priority, 7)
        return self.write_unknown(w)


class Fragment(Message):
    """FRAGMENT: a part of a network message that is too large for a batch. It extends to the end of the batch.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|M|R| FRAGMENT|   0x06; M: more follow
    +-+-+-+---------+
    %      sn       %   the same count as FRAME's; a message's fragments are consecutive
    +---------------+
    ~     exts      ~   if Z==1: priority, first, drop
    +---------------+
    ~    payload    ~   the rest of the batch
    +---------------+
    """

    NAME = "FRAGMENT"
    ID = 0x06
    FIELDS = ("reliable", "more", "sn", "priority", "first", "drop", "payload")
    EXTS = {0x31: "priority", 0x02: "first", 0x03: "drop"}

    def __init__(self, **values):
        self.reliable = True
        self.more = False
        self.sn = 0
        self.priority = DATA
        self.first = False
        self.drop = False
        self.payload = Blob(b"")
        Message.__init__(self, (self.payload,))
        self.set(values)

    def read(self, c, h):
        c.message = "FRAGMENT"
        self.reliable = h & R != 0
        self.more = h & M != 0
        self.sn = c.z64("sn")
        self.priority = DATA
        self.first = False
        self.drop = False
        self.read_exts(c, h)
        return c.rest("payload", self.payload)

    def read_ext(self, c, kind):
        if kind == PRIORITY:
            self.priority = c.z("exts.priority", 7)
        elif kind == FIRST:
            self.first = True
        elif kind == DROP:
            self.drop = True
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "FRAGMENT"
        w.header(message_ids.FRAGMENT | (R if self.reliable else 0) | (M if self.more else 0))
        w.z64("sn", self.sn)
        if self.priority != DATA:
            w.ext_z(PRIORITY, self.priority, 7)
        if self.first:
            w.ext(FIRST)
        if self.drop:
            w.ext(DROP)
        self.write_unknown(w)
        return w.run("payload", self.payload) if self.payload.size > 0 else 0


class KeepAlive(Message):
    """KEEP_ALIVE: keep the session open while there is no traffic.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X| KALIVE  |   0x04
    +-+-+-+---------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "KEEP_ALIVE"
    ID = 0x04
    FIELDS = ()

    def __init__(self, **values):
        Message.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "KEEP_ALIVE"
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "KEEP_ALIVE"
        w.header(message_ids.KEEP_ALIVE)
        return self.write_unknown(w)


class TransportOam(Message):
    """OAM of the transport: management of one link. eclipse-zenoh sends none. An unknown id is ignored.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|ENC|   OAM   |   0x00; ENC as in an extension: 00 nothing, 01 a number, 10 bytes
    +-+-+-+---------+
    %      id       %   z16
    +---------------+
    ~     exts      ~   if Z==1: priority
    +---------------+
    ~     body      ~   if ENC==01: z64; if ENC==10: <u8;z32>
    +---------------+
    """

    NAME = "TRANSPORT_OAM"
    ID = 0x00
    FIELDS = ("id", "priority", "body")
    EXTS = {0x31: "priority"}

    def __init__(self, **values):
        self.id = 0
        self.priority = DATA
        self.body = OamBody()
        Message.__init__(self, (self.body,))
        self.set(values)

    def read(self, c, h):
        c.message = "TRANSPORT_OAM"
        self.body.begin(c, h)
        self.priority = DATA
        self.id = c.z16("id")
        self.read_exts(c, h)
        return self.body.read(c)

    def read_ext(self, c, kind):
        if kind == PRIORITY:
            self.priority = c.z("exts.priority", 7)
            return 1
        return 0

    def write(self, w):
        w.message = "TRANSPORT_OAM"
        w.header(message_ids.TRANSPORT_OAM | self.body.enc)
        w.z16("id", self.id)
        if self.priority != DATA:
            w.ext_z(PRIORITY, self.priority, 7)
        self.write_unknown(w)
        return self.body.write(w)
