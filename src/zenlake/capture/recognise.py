# SPDX-License-Identifier: Apache-2.0
"""Does this look like Zenoh? The shapes of messages, walked without keeping anything.

A capture gives no ports to trust and may begin in the middle of a session, so bytes must speak for themselves. Each walker
takes a position and returns the one after its part, or -1 where the bytes cannot be that part; -1 passes through, so that
a message is one line of walkers. Evidence is a weight: a handshake message leaves no doubt, a lone KEEP_ALIVE little.
Shapes are those of the companion pages `transport`, `session` and `scouting`; an unknown optional extension is no objection.
"""

import cython

PLAIN = cython.declare(cython.int, 0)  # a batch as it is
COMPRESSED = cython.declare(cython.int, 1)  # a batch header byte, then the batch or its LZ4 block
LOWLATENCY = cython.declare(cython.int, 2)  # one bare message

REJECTED = cython.declare(cython.int, 0)
ACCEPTED = cython.declare(cython.int, 1)
UNDECIDED = cython.declare(cython.int, 2)

CERTAIN = cython.declare(cython.int, 8)  # the weight that makes a flow a face

MOST = cython.declare(cython.Py_ssize_t, 65535)  # no batch is larger, in any framing


class Framing:
    """The same numbers, for those who are not compiled."""

    PLAIN, COMPRESSED, LOWLATENCY = 0, 1, 2


def z(p, at, end):
    """A variable-length integer: at most nine bytes, the ninth has no continuation bit."""
    if at < 0:
        return -1
    last: cython.Py_ssize_t = at + 8
    while at < end:
        if p[at] < 0x80 or at == last:
            return at + 1
        at += 1
    return -1


def sn(p, at, end):
    """A sequence number: below 2**28, so at most four bytes."""
    after: cython.Py_ssize_t = z(p, at, end)
    return after if after - at <= 4 else -1


def skip(at, end, n):
    return at + n if 0 <= at <= end - n else -1


def blob(p, at, end):
    """A length and that many bytes."""
    if at < 0:
        return -1
    n: cython.Py_ssize_t = 0
    shift: cython.int = 0
    while at < end and shift < 35:
        n |= (p[at] & 0x7F) << shift
        shift += 7
        at += 1
        if p[at - 1] < 0x80:
            return at + n if n <= end - at else -1
    return -1


def ext(p, at, end):
    """One extension: header byte (Z, ENC, M, ID), then nothing, an integer or a blob."""
    if at < 0 or at >= end:
        return -1
    enc: cython.int = p[at] & 0x60
    at += 1
    return at if enc == 0 else z(p, at, end) if enc == 0x20 else blob(p, at, end) if enc == 0x40 else -1


def exts(p, at, end, more):
    """A chain of extensions; the Z bit says that another one follows."""
    while more != 0:
        more = p[at] & 0x80 if 0 <= at < end else 0
        at = ext(p, at, end)
    return at


def key(p, at, end, h):
    """A key expression: scope, and a suffix if N, which is text."""
    at = z(p, at, end)
    if h & 0x20 == 0:
        return at
    after: cython.Py_ssize_t = blob(p, at, end)
    at = z(p, at, end)
    while at < after:
        if p[at] < 0x20:
            return -1
        at += 1
    return after


def value(p, at, end):
    """The body of PUSH and of REPLY: PUT or DEL."""
    if at < 0 or at >= end:
        return -1
    h: cython.int = p[at]
    at += 1
    if h & 0x1F == 1:
        if h & 0x20:
            at = blob(p, z(p, at, end), end)
        if h & 0x40:
            if at < 0 or at >= end:
                return -1
            schema: cython.int = p[at] & 1
            at = z(p, at, end)
            if schema:
                at = blob(p, at, end)
        return blob(p, exts(p, at, end, h & 0x80), end)
    if h & 0x1F == 2:
        if h & 0x20:
            at = blob(p, z(p, at, end), end)
        return exts(p, at, end, h & 0x80)
    return -1


def declaration(p, at, end):
    """The body of DECLARE."""
    if at < 0 or at >= end:
        return -1
    h: cython.int = p[at]
    kind: cython.int = h & 0x1F
    at += 1
    if kind == 0x1A:
        return exts(p, at, end, h & 0x80)
    if kind > 7:
        return -1
    at = z(p, at, end)
    if kind & 1 == 0:
        at = key(p, at, end, h)
    return exts(p, at, end, h & 0x80)


def network(p, at, end):
    """One network message."""
    if at < 0 or at >= end:
        return -1
    h: cython.int = p[at]
    kind: cython.int = h & 0x1F
    at += 1
    if kind == 0x1D:  # PUSH
        return value(p, exts(p, key(p, at, end, h), end, h & 0x80), end)
    if kind == 0x1E:  # DECLARE
        if h & 0x20:
            at = z(p, at, end)
        return declaration(p, exts(p, at, end, h & 0x80), end)
    if kind < 0x19:
        return -1
    at = z(p, at, end)  # the others begin with an id
    if kind == 0x1A:  # RESPONSE_FINAL
        return exts(p, at, end, h & 0x80)
    if kind == 0x19:  # INTEREST
        if h & 0x60:
            if at < 0 or at >= end:
                return -1
            options: cython.int = p[at]
            at += 1
            if options & 0x10:
                at = key(p, at, end, options)
        return exts(p, at, end, h & 0x80)
    if kind == 0x1F:  # OAM
        at = exts(p, at, end, h & 0x80)
        if h & 0x60 == 0x20:
            return z(p, at, end)
        return at if h & 0x60 == 0 else blob(p, at, end) if h & 0x60 == 0x40 else -1
    at = exts(p, key(p, at, end, h), end, h & 0x80)
    if at < 0 or at >= end:
        return -1
    h = p[at]
    at += 1
    if kind == 0x1C and h & 0x1F == 3:  # REQUEST: QUERY
        if h & 0x20:
            at = skip(at, end, 1)
        if h & 0x40:
            at = blob(p, at, end)
        return exts(p, at, end, h & 0x80)
    if kind == 0x1B and h & 0x1F == 4:  # RESPONSE: REPLY
        if h & 0x20:
            at = skip(at, end, 1)
        return value(p, exts(p, at, end, h & 0x80), end)
    if kind == 0x1B and h & 0x1F == 5:  # RESPONSE: ERR
        if h & 0x40:
            if at >= end:
                return -1
            schema: cython.int = p[at] & 1
            at = z(p, at, end)
            if schema:
                at = blob(p, at, end)
        return blob(p, exts(p, at, end, h & 0x80), end)
    return -1


def identity(p, at, end):
    """Version and ZID, as INIT, JOIN and HELLO begin."""
    if at + 3 > end or p[at] < 5 or p[at] > 15 or p[at + 1] & 0x0C or p[at + 1] & 3 == 3:
        return -1
    return skip(at + 2, end, 1 + (p[at + 1] >> 4))


def transport(p, at, end):
    """One transport message; OAM, which nobody sends, is not recognised."""
    h: cython.int = p[at]
    kind: cython.int = h & 0x1F
    at += 1
    if kind == 5:  # FRAME
        at = exts(p, sn(p, at, end), end, h & 0x80)
        if at < 0 or at >= end or p[at] & 0x1F < 0x19:  # nobody sends an empty one
            return -1
        while 0 <= at < end and p[at] & 0x1F >= 0x19:
            at = network(p, at, end)
        return at
    if kind == 6:  # FRAGMENT
        at = exts(p, sn(p, at, end), end, h & 0x80)
        return end if at >= 0 else -1
    if kind == 4:  # KEEP_ALIVE
        return exts(p, at, end, h & 0x80) if h & 0x60 == 0 else -1
    if kind == 3:  # CLOSE
        if at < end and p[at] <= 16 and h & 0x40 == 0:
            return exts(p, at + 1, end, h & 0x80)
    elif kind == 1:  # INIT
        at = identity(p, at, end)
        if h & 0x40:
            at = skip(at, end, 3)
        if h & 0x20:
            at = blob(p, at, end)
        return exts(p, at, end, h & 0x80)
    elif kind == 2:  # OPEN
        at = sn(p, z(p, at, end), end)
        if h & 0x20 == 0:
            at = blob(p, at, end)
        return exts(p, at, end, h & 0x80)
    elif kind == 7:  # JOIN
        at = identity(p, at, end)
        if h & 0x40:
            at = skip(at, end, 3)
        at = z(p, at, end)
        return exts(p, sn(p, sn(p, at, end), end), end, h & 0x80)
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
    return 3 if 5 <= p[first] & 0x1F <= 6 else 0


def weigh(p, at, end, framing):
    """How much the whole batch p[at:end] speaks for Zenoh, about 1 for five bits of chance; 0 = it cannot be one."""
    if at >= end:
        return 0
    if framing == COMPRESSED:
        if p[at] == 1:
            return weigh_packed(p, at + 1, end)
        if p[at] != 0 or at + 1 == end:
            return 0
        at += 1
    kind: cython.int = p[at] & 0x1F
    if framing == LOWLATENCY:
        if kind >= 0x19:
            if network(p, at, end) != end:
                return 0
            return 3 if kind == 0x1D or kind == 0x1B or kind == 0x1C else 1
        return 2 if 3 <= kind <= 4 and transport(p, at, end) == end else 0
    total: cython.int = 0
    while at < end:
        kind = p[at] & 0x1F
        at = transport(p, at, end)
        if at < 0:
            return 0
        if kind == 5:
            total += 4
        elif kind == 3 or kind == 4:
            total += 2
        elif kind == 6:  # has the shape of anything
            total = max(total, 1)
        elif total > 0 or at < end:  # INIT, OPEN and JOIN come alone
            return 0
        else:
            total = 4 if kind == 2 else CERTAIN
    return total


def number(p, at, end, framing):
    """The sequence number of a batch that begins with FRAME or FRAGMENT; -1 = another, or compressed."""
    if framing == COMPRESSED and at < end:
        at += 1 if p[at] == 0 else end - at
    if framing == LOWLATENCY or at + 2 > end or p[at] & 0x1F < 5 or p[at] & 0x1F > 6:
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


def begins(p, at, end, framing):
    """Whether a batch may begin so; all that can be said of one whose end is still to come."""
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
        return kind == 3 or kind == 4 or kind >= 0x19
    return kind <= 7


def chain(p, at, end, framing, enough, edge):
    """Walks length-prefixed batches from `at`: accepted once their weight is `enough`.

    Undecided: what is complete is believable, but light, and more bytes may tell. Sequence numbers that follow each
    other weigh most, as chance would have to hit 28 bits; then a batch that ends at `edge`, the end of its segment.
    """
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
        weight = weigh(p, at, at + n, framing)
        if weight == 0:
            return REJECTED
        sequence = number(p, at, at + n, framing)
        at += n
        total += weight
        if sequence >= 0:
            total += 6 if sequence == ((last + 1) & 0xFFFFFFF) else 0
            last = sequence
        if n <= 2:  # a length with many zero bits
            total += 2
        if framing == LOWLATENCY:
            total += 2
        if at == edge:
            total += 4
        if total >= 64:  # beyond doubt
            return ACCEPTED
    return ACCEPTED if total >= enough else UNDECIDED


def find(p, at, until, end, framing, enough):
    """The first position in [at, until) from which a chain is accepted; -1 = none."""
    while at < until:
        if chain(p, at, end, framing, enough, -1) == ACCEPTED:
            return at
        at += 1
    return -1


def features(p, at, end):
    """What an INIT message negotiates that changes the framing: 1 = low latency, 2 = compression; -1 = malformed."""
    h: cython.int = p[at]
    at = identity(p, at + 1, end)
    if h & 0x40:
        at = skip(at, end, 3)
    if h & 0x20:
        at = blob(p, at, end)
    found: cython.int = 0
    while h & 0x80:
        if at < 0 or at >= end:
            return -1
        h = p[at]
        if h & 0x7F == 0x05:
            found |= 1
        elif h & 0x7F == 0x06:
            found |= 2
        at = ext(p, at, end)
    return found if at >= 0 else -1


def scouting(p, at, end):
    """SCOUT or HELLO: whole datagrams with their own ids."""
    n: cython.Py_ssize_t = end - at
    if n < 3:
        return False
    h: cython.int = p[at]
    if h & 0x7F == 1:  # SCOUT: version, then zid_len, I, what; ZID if I
        if p[at + 1] < 5 or p[at + 1] > 15:
            return False
        if p[at + 2] & 8 == 0:
            return p[at + 2] & 0xF0 == 0 and exts(p, at + 3, end, h & 0x80) == end
        return exts(p, skip(at + 3, end, 1 + (p[at + 2] >> 4)), end, h & 0x80) == end
    if h & 0x5F != 2:
        return False
    at = identity(p, at + 1, end)  # HELLO: then the locators if L
    if h & 0x20:
        if at < 0 or at >= end:
            return False
        count: cython.int = p[at] & 0x7F
        at = z(p, at, end)
        while count > 0 and at >= 0:
            at = blob(p, at, end)
            count -= 1
    return exts(p, at, end, h & 0x80) == end


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
    """A QUIC Initial of version 1 or 2: long header, version, connection ids, at least 1200 bytes as RFC 9000 demands."""
    if end - at < 1200 or p[at] & 0xC0 != 0xC0 or p[at + 5] > 20:
        return False
    if p[at + 1] == 0 and p[at + 2] == 0 and p[at + 3] == 0:
        return p[at + 4] == 1 and p[at] & 0x30 == 0
    return p[at + 1] == 0x6B and p[at + 2] == 0x33 and p[at + 3] == 0x43 and p[at + 4] == 0xCF and p[at] & 0x30 == 0x10
