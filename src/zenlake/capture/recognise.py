# SPDX-License-Identifier: Apache-2.0
"""Does this look like Zenoh? Evidence, weighed.

A capture gives no ports to trust and may begin in the middle of a session, so bytes must speak for themselves: they do
if the wire layer can read them as messages to their very end. Not all messages say as much: a handshake leaves no
doubt, a FRAGMENT has the shape of anything. A weight of 1 stands for about five bits that chance would have had to hit.
"""

import cython

from zenlake.errors import DecodeError
from zenlake.wire.scouting import read_scouting

if cython.compiled:
    import cython.cimports.zenlake.wire.ids as ids
    from cython.cimports.zenlake.wire.reader import Reader
else:
    from zenlake.wire import ids
    from zenlake.wire.reader import Reader

PLAIN = cython.declare(cython.int, 0)  # a batch as it is
COMPRESSED = cython.declare(cython.int, 1)  # a batch header byte, then the batch or its LZ4 block
LOWLATENCY = cython.declare(cython.int, 2)  # one bare message

REJECTED = cython.declare(cython.int, 0)
ACCEPTED = cython.declare(cython.int, 1)
UNDECIDED = cython.declare(cython.int, 2)

CERTAIN = cython.declare(cython.int, 8)  # the weight that makes a flow a face
BEYOND_DOUBT = cython.declare(cython.int, 64)

MOST = cython.declare(cython.Py_ssize_t, 65535)  # no batch is larger, in any framing


class Framing:
    """The same numbers, for those who are not compiled."""

    PLAIN, COMPRESSED, LOWLATENCY = 0, 1, 2


@cython.cclass
class Judge:
    """Weighs the bytes it was last given."""

    def __init__(self) -> None:
        self.reader = None  # made when there is something to judge: most ranges of a capture have nothing
        self.data = self.p = b""

    def point(self, data):
        if self.reader is None:
            self.reader = Reader()
        self.data = data
        self.p = data
        self.reader.bind(data)
        return 0

    def weigh(self, at, end, framing):
        """How much the whole batch data[at:end] speaks for Zenoh; 0 = it cannot be one."""
        if begins(self.p, at, end, framing) == 0:
            return 0
        if framing == COMPRESSED:
            if self.p[at] == 1:
                return weigh_packed(self.p, at + 1, end)
            at += 1
        self.reader.low_latency = framing == LOWLATENCY
        try:
            self.reader.begin(at, end)
            return self.weigh_messages(framing)
        except DecodeError:
            return 0

    def weigh_messages(self, framing):
        kind: cython.int
        total: cython.int = 0
        empty: cython.bint = False  # a FRAME without messages, which nobody sends
        while True:
            kind = self.reader.next()
            if kind == ids.END:
                return 0 if empty else total
            if kind >= ids.NETWORK:
                if framing == LOWLATENCY:
                    total = 3 if kind == ids.RESPONSE or kind == ids.REQUEST or kind == ids.PUSH else 1
                elif empty:
                    total += 4
                empty = False
                continue
            if empty or kind == ids.TRANSPORT_OAM:
                return 0
            empty = kind == ids.FRAME
            if kind == ids.CLOSE or kind == ids.KEEP_ALIVE:
                if kind == ids.CLOSE and self.reader.close.reason > 16:
                    return 0
                total += 2
            elif kind == ids.FRAGMENT:
                total = max(total, 1)
            elif kind != ids.FRAME:  # INIT, OPEN and JOIN come alone
                if total > 0 or self.reader.c.at < self.reader.c.end:
                    return 0
                if kind == ids.INIT and abs(self.reader.init.version - 10) > 5:
                    return 0
                if kind == ids.JOIN and abs(self.reader.join.version - 10) > 5:
                    return 0
                total = 4 if kind == 2 else CERTAIN
        return 0

    def chain(self, at, end, framing, enough, edge):
        """Walks length-prefixed batches from `at`: accepted once their weight is `enough`.

        Undecided: what is complete is believable, but light, and more bytes may tell. Sequence numbers that follow each
        other weigh most, as chance would have to hit 28 bits; then a batch that ends at `edge`, the end of its segment.
        """
        p: cython.p_const_uchar = self.p
        total: cython.int = 0
        weight: cython.int
        n: cython.Py_ssize_t
        last: cython.longlong = -2
        sequence: cython.longlong
        width: cython.Py_ssize_t = 4 if framing == LOWLATENCY else 2
        while at + width < end:
            n = p[at] | p[at + 1] << 8
            if n == 0 or (framing == LOWLATENCY and (p[at + 2] | p[at + 3]) != 0):
                return REJECTED
            at += width
            if at + n > end:
                if begins(p, at, end, framing) == 0:
                    return REJECTED
                break
            weight = self.weigh(at, at + n, framing)
            if weight == 0:
                return REJECTED
            sequence = number(p, at, at + n, framing)
            at += n
            total += weight
            if sequence >= 0:
                total += 6 if sequence == ((last + 1) & 0xFFFFFFF) else 0
                last = sequence
            if n <= 2 or framing == LOWLATENCY:  # a length with many zero bits
                total += 2
            if at == edge:
                total += 4
            if total >= BEYOND_DOUBT:
                return ACCEPTED
        return ACCEPTED if total >= enough else UNDECIDED

    def find(self, at, until, end, framing, enough):
        """The first position in [at, until) from which a chain is accepted; -1 = none."""
        while at < until:
            if self.chain(at, end, framing, enough, -1) == ACCEPTED:
                return at
            at += 1
        return -1

    def features(self):
        """What the INIT message given offers that changes the framing: 1 = low latency, 2 = compression."""
        self.reader.low_latency = False
        try:
            self.reader.begin(0, len(self.data))
            self.reader.next()
        except DecodeError:
            return 0
        return self.reader.init.low_latency + 2 * self.reader.init.compression

    def scouts(self):
        """Whether the datagram given is a SCOUT (1) or a HELLO (2); 0 = neither."""
        kind: cython.int = self.data[0] & 0x1F if len(self.data) > 2 else 0
        if kind == 0 or kind > 2 or abs(self.data[1] - 10) > 5:
            return 0
        try:
            read_scouting(self.data)
        except DecodeError:
            return 0
        return kind


def begins(p, at, end, framing):
    """Whether a batch may begin so: all that can be said of one whose end is still to come."""
    if at >= end:
        return False
    if framing == COMPRESSED:
        if p[at] == 1:
            return True
        if p[at] != 0:
            return False
        at += 1
        if at >= end:
            return False
    kind: cython.int = p[at] & 0x1F
    if framing == LOWLATENCY:
        return kind == ids.CLOSE or kind == ids.KEEP_ALIVE or kind >= ids.NETWORK
    if kind != ids.FRAME and kind != ids.FRAGMENT:
        return kind <= ids.JOIN
    i: cython.Py_ssize_t = at + 1  # the sequence number is below 2**28, so four bytes at most
    while i < end and p[i] >= 0x80:
        i += 1
    if i > at + 4:
        return False
    return i + 1 >= end or kind == ids.FRAGMENT or p[at] >= 0x80 or p[i + 1] & 0x1F >= ids.NETWORK


def number(p, at, end, framing):
    """The sequence number of a batch that begins with FRAME or FRAGMENT; -1 = another, or compressed."""
    if framing == COMPRESSED and at < end:
        at += 1 if p[at] == 0 else end - at
    if framing == LOWLATENCY or at + 2 > end or p[at] & 0x1F < ids.FRAME or p[at] & 0x1F > ids.FRAGMENT:
        return -1
    n: cython.longlong = 0
    shift: cython.int = 0
    at += 1
    while at < end and shift < 28:
        n |= (p[at] & 0x7F) << shift
        if p[at] < 0x80:
            return n
        shift += 7
        at += 1
    return -1


def lz4_size(p, at, end):
    """The size that an LZ4 block unpacks to, or -1 if it is none."""
    size: cython.Py_ssize_t = 0
    n: cython.Py_ssize_t
    token: cython.int
    while at < end:
        token = p[at]
        at += 1
        n = token >> 4
        if n == 15:
            while at < end and p[at] == 255:
                n += 255
                at += 1
            if at >= end:
                return -1
            n += p[at]
            at += 1
        if n > end - at:
            return -1
        at += n
        size += n
        if at == end:  # the last sequence has literals only
            return size if size <= MOST else -1
        if at + 2 > end:
            return -1
        n = p[at] | p[at + 1] << 8
        if n == 0 or n > size:
            return -1
        at += 2
        n = (token & 15) + 4
        if n == 19:
            while at < end and p[at] == 255:
                n += 255
                at += 1
            if at >= end:
                return -1
            n += p[at]
            at += 1
        size += n
        if size > MOST:
            return -1
    return -1


def weigh_packed(p, at, end):
    """The same of a batch in an LZ4 block: its first byte is the first literal. Small ones are not worth packing."""
    if lz4_size(p, at, end) <= 0 or p[at] < 0x10:
        return 0
    first: cython.Py_ssize_t = at + 1
    if p[at] >= 0xF0:
        while p[first] == 255:
            first += 1
        first += 1
    return 3 if ids.FRAME <= p[first] & 0x1F <= ids.FRAGMENT else 0


def skip(at, end, n):
    return at + n if 0 <= at <= end - n else -1


def tls(p, at, end):
    """A TLS ClientHello: 0 = no, 1 = yes, 2 = yes, and it asks for some other protocol (ALPN; Zenoh names none)."""
    n: cython.Py_ssize_t
    if end - at < 6 or p[at] != 0x16 or p[at + 1] != 3 or p[at + 5] != 1:
        return 0
    at = skip(at + 9, end, 34)  # record and handshake headers; version and random
    if at < 0 or at >= end:
        return 1
    at = skip(at, end, 1 + p[at])  # session id
    if at < 0 or at + 2 > end:
        return 1
    at = skip(at, end, 2 + (p[at] << 8 | p[at + 1]))  # cipher suites
    if at < 0 or at >= end:
        return 1
    at = skip(at, end, 1 + p[at])  # compression methods
    if at < 0:
        return 1
    at += 2
    while at + 4 <= end:
        if p[at] == 0 and p[at + 1] == 16:
            return 2
        n = p[at + 2] << 8 | p[at + 3]
        at += 4 + n
    return 1


def quic(p, at, end):
    """A QUIC Initial of version 1 or 2: long header, version, connection id, 1200 bytes as RFC 9000 demands."""
    if end - at < 1200 or p[at] & 0xC0 != 0xC0 or p[at + 5] > 20:
        return False
    if p[at + 1] == 0 and p[at + 2] == 0 and p[at + 3] == 0:
        return p[at + 4] == 1 and p[at] & 0x30 == 0
    return p[at + 1] == 0x6B and p[at + 2] == 0x33 and p[at + 3] == 0x43 and p[at + 4] == 0xCF and p[at] & 0x30 == 0x10
