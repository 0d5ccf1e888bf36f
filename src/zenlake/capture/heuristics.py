# SPDX-License-Identifier: Apache-2.0
"""Protocol detection: weigh the evidence that bytes are Zenoh.

Ports are not reliable, and a capture may begin in the middle of a session. The evidence is therefore in the bytes: the
wire layer must decode them as messages to the last byte. Messages differ in strength: a handshake is conclusive, but any
bytes can look like a FRAGMENT. A weight of 1 stands for about five bits that random data would have to match.
"""

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.wire.batch_reader import BatchReader

from zenlake.errors import DecodeError
from zenlake.wire.scouting import read_scouting

PLAIN = cython.declare(cython.int, 0)  # an unchanged batch
COMPRESSED = cython.declare(cython.int, 1)  # a batch header byte, then the batch or its LZ4 block
LOWLATENCY = cython.declare(cython.int, 2)  # one message without batch framing

REJECTED = cython.declare(cython.int, 0)
ACCEPTED = cython.declare(cython.int, 1)
UNDECIDED = cython.declare(cython.int, 2)

CERTAIN = cython.declare(cython.int, 8)  # the weight at which a flow becomes a face
BEYOND_DOUBT = cython.declare(cython.int, 64)

MAX_BATCH = cython.declare(cython.Py_ssize_t, 65535)  # maximum size of a batch, in any framing


class Framing:
    """The same constants for uncompiled modules."""

    PLAIN, COMPRESSED, LOWLATENCY = 0, 1, 2


@cython.cclass
class ProtocolDetector:
    """Detector of Zenoh batches: scores the bytes that `set_data` was called with."""

    def __init__(self) -> None:
        self.reader = None  # created on first use: most ranges of a capture do not need it
        self.data = self.p = b""

    def set_data(self, data):
        if self.reader is None:
            self.reader = BatchReader()
        self.data = data
        self.p = data
        self.reader.bind(data)
        return 0

    def score_bytes(self, at, end, framing):
        """Return the weight of data[at:end] as a whole Zenoh batch. 0 = it cannot be a batch."""
        if starts_message(self.p, at, end, framing) == 0:
            return 0
        if framing == COMPRESSED:
            if self.p[at] == 1:
                return score_compressed(self.p, at + 1, end)
            at += 1
        self.reader.low_latency = framing == LOWLATENCY
        try:
            self.reader.begin(at, end)
            return self.score_messages(framing)
        except DecodeError:
            return 0

    def score_messages(self, framing):
        kind: cython.int
        total: cython.int = 0
        empty: cython.bint = False  # a FRAME without messages, which no implementation sends
        while True:
            kind = self.reader.next()
            if kind == message_ids.END:
                return 0 if empty else total
            if kind >= message_ids.NETWORK:
                if framing == LOWLATENCY:
                    total = (
                        3
                        if kind == message_ids.RESPONSE or kind == message_ids.REQUEST or kind == message_ids.PUSH
                        else 1
                    )
                elif empty:
                    total += 4
                empty = False
                continue
            if empty or kind == message_ids.TRANSPORT_OAM:
                return 0
            empty = kind == message_ids.FRAME
            if kind == message_ids.CLOSE or kind == message_ids.KEEP_ALIVE:
                if kind == message_ids.CLOSE and self.reader.close.reason > 16:
                    return 0
                total += 2
            elif kind == message_ids.FRAGMENT:
                total = max(total, 1)
            elif kind != message_ids.FRAME:  # INIT, OPEN and JOIN are always alone in a batch
                if total > 0 or self.reader.c.at < self.reader.c.end:
                    return 0
                if kind == message_ids.INIT and abs(self.reader.init.version - 10) > 5:
                    return 0
                if kind == message_ids.JOIN and abs(self.reader.join.version - 10) > 5:
                    return 0
                total = 4 if kind == 2 else CERTAIN
        return 0

    def check_chain(self, at, end, framing, enough, edge):
        """Check consecutive length-prefixed batches from `at`. Accepted once their weight reaches `enough`.

        Undecided: the complete batches are plausible but weak, and more bytes may decide. Consecutive sequence numbers have the
        largest weight, because random data would have to match 28 bits. Next is a batch that ends at `edge`, the end of its
        segment.
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
                if starts_message(p, at, end, framing) == 0:
                    return REJECTED
                break
            weight = self.score_bytes(at, at + n, framing)
            if weight == 0:
                return REJECTED
            sequence = sequence_number(p, at, at + n, framing)
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

    def find_chain(self, at, until, end, framing, enough):
        """Return the first offset in [at, until) from which a chain is accepted, or -1."""
        while at < until:
            if self.check_chain(at, end, framing, enough, -1) == ACCEPTED:
                return at
            at += 1
        return -1

    def features(self):
        """Return the offered features of an INIT message that change the framing: 1 = low latency, 2 = compression."""
        self.reader.low_latency = False
        try:
            self.reader.begin(0, len(self.data))
            self.reader.next()
        except DecodeError:
            return 0
        return self.reader.init.low_latency + 2 * self.reader.init.compression

    def scouting_kind(self):
        """Return 1 if the datagram is a SCOUT, 2 if it is a HELLO, else 0."""
        kind: cython.int = self.data[0] & 0x1F if len(self.data) > 2 else 0
        if kind == 0 or kind > 2 or abs(self.data[1] - 10) > 5:
            return 0
        try:
            read_scouting(self.data)
        except DecodeError:
            return 0
        return kind


def starts_message(p, at, end, framing):
    """Return whether a batch may begin like this. This check works while the end of the batch is unknown."""
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
        return kind == message_ids.CLOSE or kind == message_ids.KEEP_ALIVE or kind >= message_ids.NETWORK
    if kind != message_ids.FRAME and kind != message_ids.FRAGMENT:
        return kind <= message_ids.JOIN
    i: cython.Py_ssize_t = at + 1  # the sequence number is below 2**28, so it has at most four bytes
    while i < end and p[i] >= 0x80:
        i += 1
    if i > at + 4:
        return False
    return i + 1 >= end or kind == message_ids.FRAGMENT or p[at] >= 0x80 or p[i + 1] & 0x1F >= message_ids.NETWORK


def sequence_number(p, at, end, framing):
    """Return the sequence number of a batch that begins with FRAME or FRAGMENT, or -1 for others and compressed ones."""
    if framing == COMPRESSED and at < end:
        at += 1 if p[at] == 0 else end - at
    if framing == LOWLATENCY or at + 2 > end or p[at] & 0x1F < message_ids.FRAME or p[at] & 0x1F > message_ids.FRAGMENT:
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
    """Return the uncompressed size of an LZ4 block, or -1 if the bytes are not a block."""
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
            return size if size <= MAX_BATCH else -1
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
        if size > MAX_BATCH:
            return -1
    return -1


def score_compressed(p, at, end):
    """Like `begins`, for a batch in an LZ4 block: its first byte is the first literal. Small batches are not compressed."""
    if lz4_size(p, at, end) <= 0 or p[at] < 0x10:
        return 0
    first: cython.Py_ssize_t = at + 1
    if p[at] >= 0xF0:
        while p[first] == 255:
            first += 1
        first += 1
    return 3 if message_ids.FRAME <= p[first] & 0x1F <= message_ids.FRAGMENT else 0


def skip_bytes(at, end, n):
    return at + n if 0 <= at <= end - n else -1


def detect_tls(p, at, end):
    """Detect a TLS ClientHello: 0 = no, 1 = yes, 2 = yes, with ALPN for another protocol (Zenoh sends none)."""
    n: cython.Py_ssize_t
    if end - at < 6 or p[at] != 0x16 or p[at + 1] != 3 or p[at + 5] != 1:
        return 0
    at = skip_bytes(at + 9, end, 34)  # record and handshake headers; version and random
    if at < 0 or at >= end:
        return 1
    at = skip_bytes(at, end, 1 + p[at])  # session id
    if at < 0 or at + 2 > end:
        return 1
    at = skip_bytes(at, end, 2 + (p[at] << 8 | p[at + 1]))  # cipher suites
    if at < 0 or at >= end:
        return 1
    at = skip_bytes(at, end, 1 + p[at])  # compression methods
    if at < 0:
        return 1
    at += 2
    while at + 4 <= end:
        if p[at] == 0 and p[at + 1] == 16:
            return 2
        n = p[at + 2] << 8 | p[at + 3]
        at += 4 + n
    return 1


def detect_quic(p, at, end):
    """Detect a QUIC Initial of version 1 or 2: long header, version, connection id, 1200 bytes as RFC 9000 requires."""
    if end - at < 1200 or p[at] & 0xC0 != 0xC0 or p[at + 5] > 20:
        return False
    if p[at + 1] == 0 and p[at + 2] == 0 and p[at + 3] == 0:
        return p[at + 4] == 1 and p[at] & 0x30 == 0
    return p[at + 1] == 0x6B and p[at + 2] == 0x33 and p[at + 3] == 0x43 and p[at + 4] == 0xCF and p[at] & 0x30 == 0x10
