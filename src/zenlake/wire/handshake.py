# SPDX-License-Identifier: Apache-2.0
"""Messages that begin, advertise and end a session: INIT, OPEN, CLOSE, JOIN."""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.cursor import Blob
from cython.cimports.zenlake.wire.message_base import Message
from cython.cimports.zenlake.wire.writer import vle_size

A = cython.declare(cython.int, 0x20)  # INIT, OPEN: the reply
S = cython.declare(cython.int, 0x40)  # INIT, JOIN: sizes are present
T = cython.declare(cython.int, 0x40)  # OPEN: the lease is in seconds
JOIN_T = cython.declare(cython.int, 0x20)  # JOIN has the same flag at another bit
CLOSE_S = cython.declare(cython.int, 0x20)  # CLOSE: the session, not only this link

# Extension header bytes without Z. INIT uses id 1 twice, OPEN ids 2 and 4 twice. The complete byte identifies them.
QOS = cython.declare(cython.int, 0x01)
QOS_LINK = cython.declare(cython.int, 0x21)
SHM = cython.declare(cython.int, 0x42)
SHM_NUMBER = cython.declare(cython.int, 0x22)
AUTH = cython.declare(cython.int, 0x43)
MULTILINK = cython.declare(cython.int, 0x44)
MULTILINK_ACK = cython.declare(cython.int, 0x04)
LOW_LATENCY = cython.declare(cython.int, 0x05)
COMPRESSION = cython.declare(cython.int, 0x06)
PATCH = cython.declare(cython.int, 0x27)
REGION = cython.declare(cython.int, 0x48)
REMOTE_BOUND = cython.declare(cython.int, 0x27)
JOIN_QOS = cython.declare(cython.int, 0x51)
JOIN_SHM = cython.declare(cython.int, 0x52)

# Defaults without S: 32-bit sequence numbers and request ids. INIT and JOIN differ in the batch size (divergence B9).
DEFAULT_RESOLUTION = cython.declare(cython.int, 0x0A)
INIT_BATCH_SIZE = cython.declare(cython.int, 65535)
JOIN_BATCH_SIZE = cython.declare(cython.int, 8192)

LANES = cython.declare(cython.int, 8)
U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)


class NodeFields(Message):
    """Common fields of INIT and JOIN: id and role of the sender, and its sizes.

    |    version    |   u8, 0x09
    |zid_len|X|X|WAI|   0 router, 1 peer, 2 client
    ~      zid      ~   1 + zid_len bytes, little-endian
    |X|X|X|X|RID|FSN|   if S==1: resolution
    |   batch_size  |   if S==1: u16 LE
    """

    def __init__(self, parts=()):
        self.version = 9
        self.whatami = 2
        self.zid = Blob()
        self.sized = False
        self.resolution = DEFAULT_RESOLUTION
        self.batch_size = INIT_BATCH_SIZE
        Message.__init__(self, (self.zid, *parts))

    def read_node(self, c, h, batch_size):
        self.version = c.u8("version")
        at: cython.Py_ssize_t = c.at
        packed: cython.int = c.u8("whatami")
        self.whatami = packed & 3
        if self.whatami == 3:
            c.fail("whatami", at, "the role 0b11 is reserved")
        c.zid("zid", self.zid, 1 + (packed >> 4))
        self.sized = h & S != 0
        self.resolution = c.u8("resolution") if h & S else DEFAULT_RESOLUTION
        self.batch_size = c.u16("batch_size") if h & S else batch_size
        return 0

    def write_node(self, w):
        w.u8("version", self.version)
        if self.zid.size < 1 or self.zid.size > 16:
            w.refuse("zid", "a ZenohID has 1 to 16 bytes")
        if self.whatami < 0 or self.whatami > 2:
            w.refuse("whatami", "a role is 0 (router), 1 (peer) or 2 (client)")
        w.u8("whatami", (self.zid.size - 1) << 4 | self.whatami)
        w.zid("zid", self.zid)
        if self.sized:
            w.u8("resolution", self.resolution)
            w.u16("batch_size", self.batch_size)
        return 0


class Init(NodeFields):
    """INIT: the first message of a session (InitSyn) and the reply (InitAck).

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|S|A|   INIT  |   0x01
    +-+-+-+---------+
    |    version    |   0x09
    +---------------+
    |    whatami    |   bits 7:4 zid_len, bits 1:0 the role
    +---------------+
    ~      zid      ~   1 + zid_len bytes
    +---------------+
    |   resolution  |   if S==1
    +---------------+
    |   batch_size  |   if S==1: u16 LE
    +---------------+
    ~    cookie     ~   if A==1: <u8;z16>
    +---------------+
    ~     exts      ~   if Z==1: qos or qos_link, shm, auth, multilink, low_latency, compression, patch, region
    +---------------+
    """

    NAME = "INIT"
    ID = 0x01
    FIELDS = (
        "ack", "version", "whatami", "zid", "sized", "resolution", "batch_size", "cookie", "qos", "qos_link", "shm",
        "auth", "multilink", "low_latency", "compression", "patch", "region",
    )  # fmt: skip
    EXTS = {
        0x01: "qos", 0x21: "qos_link", 0x42: "shm", 0x43: "auth", 0x44: "multilink", 0x05: "low_latency",
        0x06: "compression", 0x27: "patch", 0x48: "region",
    }  # fmt: skip

    def __init__(self, **values):
        self.ack = False
        self.cookie = Blob()
        self.qos = False
        self.qos_link = 0  # 0 = absent: a QoSLink is never 0
        self.shm = Blob()
        self.auth = Blob()
        self.multilink = Blob()
        self.low_latency = False
        self.compression = False
        self.patch = 0
        self.region = Blob()
        NodeFields.__init__(self, (self.cookie, self.shm, self.auth, self.multilink, self.region))
        self.set(values)

    def read(self, c, h):
        c.message = "INIT"
        self.ack = h & A != 0
        self.read_node(c, h, INIT_BATCH_SIZE)
        if h & A:
            c.short_blob("cookie", self.cookie, 0xFFFF)
        else:
            self.cookie.clear()
        self.qos = False
        self.qos_link = 0
        self.shm.clear()
        self.auth.clear()
        self.multilink.clear()
        self.low_latency = False
        self.compression = False
        self.patch = 0
        self.region.clear()
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == QOS:
            self.qos = True
        elif kind == QOS_LINK:
            self.qos_link = c.z64("exts.qos_link")
        elif kind == SHM:
            c.blob("exts.shm", self.shm)
        elif kind == AUTH:
            c.blob("exts.auth", self.auth)
        elif kind == MULTILINK:
            c.blob("exts.multilink", self.multilink)
        elif kind == LOW_LATENCY:
            self.low_latency = True
        elif kind == COMPRESSION:
            self.compression = True
        elif kind == PATCH:
            self.patch = c.z8("exts.patch")
        elif kind == REGION:
            c.text("exts.region", self.region, 32)
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "INIT"
        w.header(message_ids.INIT | (A if self.ack else 0) | (S if self.sized else 0))
        self.write_node(w)
        if self.ack:
            w.short_blob("cookie", self.cookie, 0xFFFF)
        if self.qos:
            w.ext(QOS)
        if self.qos_link:
            w.ext_z64(QOS_LINK, self.qos_link)
        if self.shm.size >= 0:
            w.ext_blob(SHM, self.shm)
        if self.auth.size >= 0:
            w.ext_blob(AUTH, self.auth)
        if self.multilink.size >= 0:
            w.ext_blob(MULTILINK, self.multilink)
        if self.low_latency:
            w.ext(LOW_LATENCY)
        if self.compression:
            w.ext(COMPRESSION)
        if self.patch:
            w.ext_z(PATCH, self.patch, 0xFF)
        if self.region.size >= 0:
            w.ext(REGION)
            w.short_blob("exts.region", self.region, 32)
        return self.write_unknown(w)


class Open(Message):
    """OPEN: the second message of a session (OpenSyn) and the reply (OpenAck).

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|T|A|   OPEN  |   0x02
    +-+-+-+---------+
    %     lease     %   z64, seconds where T==1, else milliseconds
    +---------------+
    %  initial_sn   %   z64, of every lane
    +---------------+
    ~    cookie     ~   if A==0: <u8;z16>, as the InitAck gave it
    +---------------+
    ~     exts      ~   if Z==1: qos, shm, auth, multilink, low_latency, compression, remote_bound
    +---------------+
    """

    NAME = "OPEN"
    ID = 0x02
    FIELDS = (
        "ack", "seconds", "lease", "initial_sn", "cookie", "qos", "shm", "shm_number", "auth", "multilink",
        "multilink_ack", "low_latency", "compression", "remote_bound",
    )  # fmt: skip
    EXTS = {
        0x01: "qos", 0x42: "shm", 0x22: "shm_number", 0x43: "auth", 0x44: "multilink", 0x04: "multilink_ack",
        0x05: "low_latency", 0x06: "compression", 0x27: "remote_bound",
    }  # fmt: skip

    def __init__(self, **values):
        self.ack = False
        self.seconds = False
        self.lease = 0
        self.initial_sn = 0
        self.cookie = Blob()
        self.qos = False
        self.shm = Blob()
        self.shm_number = -1
        self.auth = Blob()
        self.multilink = Blob()
        self.multilink_ack = False
        self.low_latency = False
        self.compression = False
        self.remote_bound = -1
        Message.__init__(self, (self.cookie, self.shm, self.auth, self.multilink))
        self.set(values)

    @property
    def lease_ms(self):
        return self.lease * (1000 if self.seconds else 1)

    def read(self, c, h):
        c.message = "OPEN"
        self.ack = h & A != 0
        self.seconds = h & T != 0
        self.lease = c.z64("lease")
        self.initial_sn = c.z64("initial_sn")
        if h & A:
            self.cookie.clear()
        else:
            c.short_blob("cookie", self.cookie, 0xFFFF)
        self.qos = False
        self.shm.clear()
        self.shm_number = -1
        self.auth.clear()
        self.multilink.clear()
        self.multilink_ack = False
        self.low_latency = False
        self.compression = False
        self.remote_bound = -1
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == QOS:
            self.qos = True
        elif kind == SHM:
            c.blob("exts.shm", self.shm)
        elif kind == SHM_NUMBER:
            self.shm_number = c.z32("exts.shm_number")
        elif kind == AUTH:
            c.blob("exts.auth", self.auth)
        elif kind == MULTILINK:
            c.blob("exts.multilink", self.multilink)
        elif kind == MULTILINK_ACK:
            self.multilink_ack = True
        elif kind == LOW_LATENCY:
            self.low_latency = True
        elif kind == COMPRESSION:
            self.compression = True
        elif kind == REMOTE_BOUND:
            self.remote_bound = c.z8("exts.remote_bound")
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "OPEN"
        w.header(message_ids.OPEN | (A if self.ack else 0) | (T if self.seconds else 0))
        w.z64("lease", self.lease)
        w.z64("initial_sn", self.initial_sn)
        if not self.ack:
            w.short_blob("cookie", self.cookie, 0xFFFF)
        if self.qos:
            w.ext(QOS)
        if self.shm.size >= 0:
            w.ext_blob(SHM, self.shm)
        if self.shm_number >= 0:
            w.ext_z(SHM_NUMBER, self.shm_number, U32)
        if self.auth.size >= 0:
            w.ext_blob(AUTH, self.auth)
        if self.multilink.size >= 0:
            w.ext_blob(MULTILINK, self.multilink)
        if self.multilink_ack:
            w.ext(MULTILINK_ACK)
        if self.low_latency:
            w.ext(LOW_LATENCY)
        if self.compression:
            w.ext(COMPRESSION)
        if self.remote_bound >= 0:
            w.ext_z(REMOTE_BOUND, self.remote_bound, 0xFF)
        return self.write_unknown(w)


class Close(Message):
    """CLOSE: end the link or the session.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|X|S|  CLOSE  |   0x03; S: the whole session
    +-+-+-+---------+
    |    reason     |   u8, see `errors.CloseReason`
    +---------------+
    ~     exts      ~   if Z==1: no known ids
    +---------------+
    """

    NAME = "CLOSE"
    ID = 0x03
    FIELDS = ("session", "reason")

    def __init__(self, **values):
        self.session = False
        self.reason = 0
        Message.__init__(self)
        self.set(values)

    def read(self, c, h):
        c.message = "CLOSE"
        self.session = h & CLOSE_S != 0
        self.reason = c.u8("reason")
        return self.read_exts(c, h)

    def write(self, w):
        w.message = "CLOSE"
        w.header(message_ids.CLOSE | (CLOSE_S if self.session else 0))
        w.u8("reason", self.reason)
        return self.write_unknown(w)


class Join(NodeFields):
    """JOIN: the periodic announcement of a member of a multicast group.

     7 6 5 4 3 2 1 0
    +-+-+-+-+-+-+-+-+
    |Z|S|T|   JOIN  |   0x07
    +-+-+-+---------+
    |    version    |   0x09
    +---------------+
    |    whatami    |   bits 7:4 zid_len, bits 1:0 the role
    +---------------+
    ~      zid      ~   1 + zid_len bytes
    +---------------+
    |   resolution  |   if S==1
    +---------------+
    |   batch_size  |   if S==1: u16 LE
    +---------------+
    %     lease     %   z64, seconds where T==1, else milliseconds
    +---------------+
    %  reliable_sn  %   z64, the next one
    +---------------+
    % best_effort_sn%   z64, the next one
    +---------------+
    ~     exts      ~   if Z==1: qos (the next numbers of all 16 lanes, instead of the two above), shm, patch
    +---------------+
    """

    NAME = "JOIN"
    ID = 0x07
    FIELDS = (
        "version", "whatami", "zid", "sized", "resolution", "batch_size", "seconds", "lease", "reliable_sn",
        "best_effort_sn", "lanes", "shm", "patch",
    )  # fmt: skip
    EXTS = {0x51: "lanes", 0x52: "shm", 0x27: "patch"}

    def __init__(self, **values):
        self.seconds = False
        self.lease = 0
        self.reliable_sn = 0
        self.best_effort_sn = 0
        self.has_lanes = False
        self.lane_sns = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        self.shm = Blob()
        self.patch = 0
        NodeFields.__init__(self, (self.shm,))
        self.batch_size = JOIN_BATCH_SIZE
        self.set(values)

    @property
    def lanes(self):
        """Return the next sequence numbers, (reliable, best effort) for each priority from 0 on, or None."""
        if not self.has_lanes:
            return None
        return [(self.lane_sns[2 * i], self.lane_sns[2 * i + 1]) for i in range(LANES)]

    @lanes.setter
    def lanes(self, value):
        self.has_lanes = value is not None
        for i in range(LANES):
            self.lane_sns[2 * i], self.lane_sns[2 * i + 1] = value[i] if value is not None else (0, 0)

    @property
    def lease_ms(self):
        return self.lease * (1000 if self.seconds else 1)

    def read(self, c, h):
        c.message = "JOIN"
        self.read_node(c, h, JOIN_BATCH_SIZE)
        self.seconds = h & JOIN_T != 0
        self.lease = c.z64("lease")
        self.reliable_sn = c.z64("reliable_sn")
        self.best_effort_sn = c.z64("best_effort_sn")
        self.has_lanes = False
        self.shm.clear()
        self.patch = 0
        return self.read_exts(c, h)

    def read_ext(self, c, kind):
        if kind == JOIN_QOS:
            i: cython.int
            outer: cython.Py_ssize_t = c.open("exts.lanes")
            for i in range(2 * LANES):
                self.lane_sns[i] = c.z64("exts.lanes.sn")
            c.close("exts.lanes", outer)
            self.has_lanes = True
        elif kind == JOIN_SHM:
            c.blob("exts.shm", self.shm)
        elif kind == PATCH:
            self.patch = c.z8("exts.patch")
        else:
            return 0
        return 1

    def write(self, w):
        w.message = "JOIN"
        w.header(message_ids.JOIN | (S if self.sized else 0) | (JOIN_T if self.seconds else 0))
        self.write_node(w)
        w.z64("lease", self.lease)
        w.z64("reliable_sn", self.reliable_sn)
        w.z64("best_effort_sn", self.best_effort_sn)
        if self.has_lanes:
            i: cython.int
            size: cython.Py_ssize_t = 0
            for i in range(2 * LANES):
                size += vle_size(self.lane_sns[i])
            w.ext_size(JOIN_QOS, size)
            for i in range(2 * LANES):
                w.z64("exts.lanes.sn", self.lane_sns[i])
        if self.shm.size >= 0:
            w.ext_blob(JOIN_SHM, self.shm)
        if self.patch:
            w.ext_z(PATCH, self.patch, 0xFF)
        return self.write_unknown(w)
