# SPDX-License-Identifier: Apache-2.0
"""Scouting messages: SCOUT and HELLO. One message per datagram, with a separate id space."""

import cython
from cython.cimports.zenlake.wire.cursor import Blob, Cursor
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.writer import WireWriter

from zenlake.errors import DecodeError

SCOUT = cython.declare(cython.int, 0x01)
HELLO = cython.declare(cython.int, 0x02)

L = cython.declare(cython.int, 0x20)  # HELLO: locators are present
I = cython.declare(cython.int, 0x08)  # SCOUT, in its packed byte: the ZenohID is present  # noqa: E741


class Scout(Message):
    """SCOUT: request HELLO messages from nodes of some roles.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|X|  SCOUT  |   0x01
    +-+-+-+---------+
    |    version    |   0x09
    +---------------+
    |     what      |   bits 7:4 zid_len, bit 3 I, bits 2:0 the requested roles: 1 router, 2 peer, 4 client
    +---------------+
    ~      zid      ~   if I==1: 1 + zid_len bytes
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "SCOUT"
    ID = 0x01
    FIELDS = ("version", "what", "zid")

    def __init__(self, **values):
        self.version = 9
        self.what = 0
        self.zid = Blob()
        Message.__init__(self, (self.zid,))
        self.set(values)

    def read(self, c, h):
        c.message = "SCOUT"
        self.version = c.u8("version")
        packed: cython.int = c.u8("what")
        self.what = packed & 7
        if packed & I:
            c.zid("zid", self.zid, 1 + (packed >> 4))
        else:
            self.zid.clear()
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "SCOUT"
        w.header(SCOUT)
        w.u8("version", self.version)
        if self.what < 0 or self.what > 7:
            w.refuse("what", "three bits: 1 (router), 2 (peer), 4 (client)")
        if self.zid.size < 0:
            w.u8("what", self.what)
        else:
            if self.zid.size < 1 or self.zid.size > 16:
                w.refuse("zid", "a ZenohID has 1 to 16 bytes")
            w.u8("what", (self.zid.size - 1) << 4 | I | self.what)
            w.zid("zid", self.zid)
        return self.write_unknown(w)


class Hello(Message):
    """HELLO: id, role and locators of a node.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|L|  HELLO  |   0x02
    +-+-+-+---------+
    |    version    |   0x09
    +---------------+
    |    whatami    |   bits 7:4 zid_len, bits 1:0 the role: 0 router, 1 peer, 2 client
    +---------------+
    ~      zid      ~   1 + zid_len bytes
    +---------------+
    ~   locators    ~   if L==1: a VLE count, then <utf8;z8> each
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "HELLO"
    ID = 0x02
    FIELDS = ("version", "whatami", "zid", "locators")

    def __init__(self, **values):
        self.version = 9
        self.whatami = 0
        self.zid = Blob()
        self.raw_locators = Blob()
        self.scratch = Blob()
        Message.__init__(self, (self.zid, self.raw_locators, self.scratch))
        self.set(values)

    @property
    def locators(self):
        """Return the locators, as a list of text."""
        raw = self.raw_locators.value
        if raw is None:
            return []
        c = Cursor(raw)
        one = Blob(raw)
        found = []
        for _ in range(c.z64("locators")):
            c.blob("locators", one)
            found.append(raw[one.at : one.at + one.size].decode())
        return found

    @locators.setter
    def locators(self, value):
        if not value:
            self.raw_locators.set(None)
            return
        w = WireWriter()
        w.message = "HELLO"
        w.z64("locators", len(value))
        for text in value:
            w.short_blob("locators", Blob(text.encode()), 0xFF)
        self.raw_locators.set(w.to_bytes())

    def read(self, c, h):
        c.message = "HELLO"
        self.version = c.u8("version")
        at: cython.Py_ssize_t = c.at
        packed: cython.int = c.u8("whatami")
        self.whatami = packed & 3
        if self.whatami == 3:
            c.fail("whatami", at, "the role 0b11 is reserved")
        c.zid("zid", self.zid, 1 + (packed >> 4))
        self.raw_locators.clear()
        if h & L:
            self.raw_locators.at = c.at
            count: cython.ulonglong = c.z64("locators")
            while count > 0:  # each needs at least one byte, so an impossible count fails early
                c.text("locators", self.scratch, 0xFF)
                count -= 1
            self.raw_locators.size = c.at - self.raw_locators.at
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "HELLO"
        w.header(HELLO | (L if self.raw_locators.size >= 0 else 0))
        w.u8("version", self.version)
        if self.zid.size < 1 or self.zid.size > 16:
            w.refuse("zid", "a ZenohID has 1 to 16 bytes")
        if self.whatami < 0 or self.whatami > 2:
            w.refuse("whatami", "a role is 0 (router), 1 (peer) or 2 (client)")
        w.u8("whatami", (self.zid.size - 1) << 4 | self.whatami)
        w.zid("zid", self.zid)
        if self.raw_locators.size >= 0:
            w.run("locators", self.raw_locators)
        return self.write_unknown(w)


def read_scouting(datagram):
    """Decode the message of a scouting datagram, given as bytes or as a cursor."""
    c: Cursor = datagram if isinstance(datagram, Cursor) else Cursor(datagram, 0, None, "scouting")
    if c.at == c.end:
        raise DecodeError("scouting.header", c.at, "1 byte needed, 0 left")
    kind: cython.int = c.data[c.at] & 0x1F
    if kind != SCOUT and kind != HELLO:
        raise DecodeError("scouting.header", c.at, f"unknown scouting message id {kind:#04x}")
    message = (Scout() if kind == SCOUT else Hello()).decode(c)
    if c.at != c.end:
        raise DecodeError(f"{message.NAME}.end", c.at, f"{c.end - c.at} bytes left over")
    return message
