# SPDX-License-Identifier: Apache-2.0
"""Parse packet headers: link layer, IP, TCP or UDP.

One record is reused: `read` fills it and returns the kind of packet. Lengths come from the headers where the capture has
the bytes, so padding and trailers are ignored. `missing` is the number of payload bytes that the snap length cut off.
"""

import cython

TCP = cython.declare(cython.int, 6)
UDP = cython.declare(cython.int, 17)
FRAGMENT = cython.declare(cython.int, 1)
NOT_IP = cython.declare(cython.int, -1)
MALFORMED = cython.declare(cython.int, -2)
LINK_TYPE = cython.declare(cython.int, -3)

# LINKTYPE_ values of the pcap registry; several mean raw IP.
NULL = cython.declare(cython.int, 0)
ETHERNET = cython.declare(cython.int, 1)
LOOP = cython.declare(cython.int, 108)
LINUX_SLL = cython.declare(cython.int, 113)
LINUX_SLL2 = cython.declare(cython.int, 276)

MAPPED = cython.declare(cython.ulonglong, 0xFFFF << 32)  # IPv4 addresses are stored as IPv4-mapped IPv6: ::ffff:a.b.c.d


def u16(p, at):
    return p[at] << 8 | p[at + 1]


def u32(p, at):
    high: cython.uint = p[at]
    return high << 24 | p[at + 1] << 16 | p[at + 2] << 8 | p[at + 3]


def u64(p, at):
    high: cython.ulonglong = u32(p, at)
    return high << 32 | u32(p, at + 4)


@cython.cclass
class Headers:
    def __init__(self) -> None:
        self.at = self.end = self.missing = 0  # the payload, and the number of bytes cut off
        self.src_hi = self.src_lo = self.dst_hi = self.dst_lo = 0
        self.ports = 0  # protocol << 32 | source port << 16 | destination port
        self.protocol = 0
        self.seq = self.ack = 0
        self.flags = 0  # of TCP; 0 for UDP
        self.id = self.offset = 0  # of the IP packet; offset of the fragment
        self.more = False

    def read(self, p, at, end, missing, link):
        """Parse the link layer, down to IP."""
        kind: cython.int
        if link == ETHERNET:
            at += 12
        elif link == LINUX_SLL:
            at += 14
        elif link == LINUX_SLL2:  # protocol first, then unused fields
            if end - at < 20:
                return MALFORMED
            kind = u16(p, at)
            at += 20
            while (kind == 0x8100 or kind == 0x88A8) and end - at >= 4:
                kind = u16(p, at + 2)
                at += 4
            return self.ip(p, at, end, missing) if kind == 0x0800 or kind == 0x86DD else NOT_IP
        elif link in (NULL, LOOP):  # a protocol family in unknown byte order; the version field of IP is sufficient
            return self.ip(p, at + 4, end, missing)
        elif link == 12 or link == 14 or link == 101 or link == 228 or link == 229:
            return self.ip(p, at, end, missing)
        else:
            return LINK_TYPE
        while end - at >= 2:
            kind = u16(p, at)
            at += 2
            if kind == 0x0800 or kind == 0x86DD:
                return self.ip(p, at, end, missing)
            if kind != 0x8100 and kind != 0x88A8 and kind != 0x9100:
                return NOT_IP
            at += 2  # a VLAN tag, possibly one of several
        return MALFORMED

    def ip(self, p, at, end, missing):
        if at >= end:
            return MALFORMED
        if p[at] >> 4 == 4:
            return self.ipv4(p, at, end, missing)
        if p[at] >> 4 == 6:
            return self.ipv6(p, at, end, missing)
        return NOT_IP

    def ipv4(self, p, at, end, missing):
        if end - at < 20:
            return MALFORMED
        header: cython.Py_ssize_t = (p[at] & 15) * 4
        total: cython.Py_ssize_t = u16(p, at + 2)
        if total == 0:  # segmentation offload: the network card split the packet after it was captured
            total = end - at + missing
        if header < 20 or total < header or end - at < header:
            return MALFORMED
        if at + total <= end:
            end = at + total
            missing = 0
        else:
            missing = at + total - end
        self.id = u16(p, at + 4)
        self.offset = (u16(p, at + 6) & 0x1FFF) * 8
        self.more = p[at + 6] & 0x20 != 0
        self.protocol = p[at + 9]
        self.src_hi = 0
        self.dst_hi = 0
        self.src_lo = MAPPED | u32(p, at + 12)
        self.dst_lo = MAPPED | u32(p, at + 16)
        at += header
        if self.more or self.offset != 0:
            self.at = at
            self.end = end
            self.missing = missing
            return FRAGMENT
        return self.transport(p, at, end, missing)

    def ipv6(self, p, at, end, missing):
        if end - at < 40:
            return MALFORMED
        total: cython.Py_ssize_t = u16(p, at + 4) + 40
        if total == 40:  # a jumbogram, or segmentation offload
            total = end - at + missing
        if at + total <= end:
            end = at + total
            missing = 0
        else:
            missing = at + total - end
        self.id = 0
        self.offset = 0
        self.more = False
        self.src_hi = u64(p, at + 8)
        self.src_lo = u64(p, at + 16)
        self.dst_hi = u64(p, at + 24)
        self.dst_lo = u64(p, at + 32)
        kind: cython.int = p[at + 6]
        at += 40
        while kind == 0 or kind == 43 or kind == 44 or kind == 51 or kind == 60:
            if end - at < 8:
                return MALFORMED
            if kind == 44:
                self.id = u32(p, at + 4)
                self.offset = u16(p, at + 2) & 0xFFF8
                self.more = p[at + 3] & 1 != 0
                self.protocol = p[at]
                if self.more or self.offset != 0:
                    self.at = at + 8
                    self.end = end
                    self.missing = missing
                    return FRAGMENT
                kind = p[at]
                at += 8
            else:
                total = (p[at + 1] + 2) * 4 if kind == 51 else (p[at + 1] + 1) * 8
                kind = p[at]
                at += total
        self.protocol = kind
        return self.transport(p, at, end, missing)

    def transport(self, p, at, end, missing):
        """Parse the TCP or UDP header of a whole IP packet. Its addresses are already set."""
        header: cython.Py_ssize_t
        ports: cython.ulonglong = self.protocol
        if self.protocol == TCP:
            if end - at < 20:
                return MALFORMED
            header = (p[at + 12] >> 4) * 4
            if header < 20 or end - at < header:
                return MALFORMED
            self.seq = u32(p, at + 4)
            self.ack = u32(p, at + 8)
            self.flags = p[at + 13]
        elif self.protocol == UDP:
            header = 8
            if end - at < 8:
                return MALFORMED
            if u16(p, at + 4) >= 8 and at + u16(p, at + 4) < end + missing:
                missing = max(0, at + u16(p, at + 4) - end)
                end = min(end, at + u16(p, at + 4))
            self.seq = 0
            self.ack = 0
            self.flags = 0
        else:
            return NOT_IP
        self.ports = ports << 32 | u32(p, at)
        self.at = at + header
        self.end = end
        self.missing = missing
        return self.protocol
