# SPDX-License-Identifier: Apache-2.0
"""Builder of captures: Zenoh batches, sessions, packets on every link layer, and capture files.

The code follows the specifications of the formats and shares nothing with the reader under test.
"""

import struct
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

import pyarrow as pa

from zenlake import capture
from zenlake.core.batch_schema import BATCHES_SCHEMA

ZID = bytes(range(1, 17))
START = 1_700_000_000_000_000_000  # ns
STEP = 10_000  # default ns between packets


# Batches.


def vle(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


def init_syn(exts=b""):
    return bytes([0x41 | (0x80 if exts else 0), 9, 0xF2]) + ZID + bytes([0x0A]) + b"\xff\xff" + exts


def init_ack(exts=b""):
    return bytes([0x61 | (0x80 if exts else 0), 9, 0xF0]) + ZID + bytes([0x0A]) + b"\xff\xff" + b"\x04COOK" + exts


def open_syn(sn=0):
    return bytes([0x42, 10]) + vle(sn) + b"\x04COOK"


def open_ack(sn=0):
    return bytes([0x62, 10]) + vle(sn)


def push(payload, key=b"demo/key"):
    return b"\x3d\x00" + vle(len(key)) + key + b"\x01" + vle(len(payload)) + payload


def frame(sn, payload=b"hello"):
    return b"\x25" + vle(sn) + push(payload)


def fragment(sn, payload, more=True):
    return bytes([0x66 if more else 0x26]) + vle(sn) + payload


KEEP_ALIVE = b"\x04"
CLOSE = b"\x03\x00"
LOWLATENCY = b"\x05"
COMPRESSION = b"\x06"
HANDSHAKE = [(0, init_syn()), (1, init_ack()), (0, open_syn()), (1, open_ack())]


def add_prefix(batch, width=2):
    return len(batch).to_bytes(width, "little") + batch


# Packets.


def ipv4(src, dst, protocol, payload, id=0, offset=0, more=False, options=b""):
    words = 5 + len(options) // 4
    flags = (0x2000 if more else 0) | offset // 8
    head = struct.pack(
        ">BBHHHBBH4s4s",
        0x40 | words,
        0,
        words * 4 + len(payload),
        id,
        flags,
        64,
        protocol,
        0,
        ip_address(src).packed,
        ip_address(dst).packed,
    )
    return head + options + payload


def ipv6(src, dst, protocol, payload, extensions=()):
    """Extension headers are (type, body without the next-header byte)."""
    chain = [kind for kind, _ in extensions] + [protocol]
    body = b"".join(bytes([chain[i + 1]]) + rest for i, (_, rest) in enumerate(extensions)) + payload
    head = struct.pack(">IHBB", 0x60000000, len(body), chain[0], 64)
    return head + ip_address(src).packed + ip_address(dst).packed + body


def tcp(sport, dport, seq, payload=b"", flags=0x18, ack=0, options=b""):
    words = 5 + len(options) // 4
    head = struct.pack(">HHIIBBHHH", sport, dport, seq & 0xFFFFFFFF, ack & 0xFFFFFFFF, words << 4, flags, 65535, 0, 0)
    return head + options + payload


def udp(sport, dport, payload):
    return struct.pack(">HHHH", sport, dport, 8 + len(payload), 0) + payload


LINKS = {
    "ethernet": (1, lambda kind: b"\x02\0\0\0\0\1\x02\0\0\0\0\2" + kind),
    "vlan": (1, lambda kind: b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x81\x00\x00\x07" + kind),
    "qinq": (1, lambda kind: b"\x02\0\0\0\0\1\x02\0\0\0\0\2\x88\xa8\x00\x05\x81\x00\x00\x07" + kind),
    "cooked": (113, lambda kind: b"\x00\x00\x00\x01\x00\x06\x02\0\0\0\0\1\0\0" + kind),
    "cooked-vlan": (113, lambda kind: b"\x00\x00\x00\x01\x00\x06\x02\0\0\0\0\1\0\0\x81\x00\x00\x07" + kind),
    "cooked2": (276, lambda kind: kind + b"\0\0\0\0\0\1\x00\x01\x00\x06\x02\0\0\0\0\1\0\0"),
    "raw": (101, lambda kind: b""),
    "raw-bsd": (12, lambda kind: b""),
    "loopback-little": (0, lambda kind: b"\x02\0\0\0" if kind == b"\x08\x00" else b"\x1e\0\0\0"),
    "loopback-big": (0, lambda kind: b"\0\0\0\x02" if kind == b"\x08\x00" else b"\0\0\0\x1e"),
    "loop-openbsd": (108, lambda kind: b"\0\0\0\x02" if kind == b"\x08\x00" else b"\0\0\0\x18"),
}


def on_link(name, packet):
    return LINKS[name][1](b"\x08\x00" if packet[0] >> 4 == 4 else b"\x86\xdd") + packet


@dataclass
class Connection:
    """A TCP connection: `send` returns its next packet on Ethernet."""

    client: tuple = ("10.0.0.2", 40000)
    server: tuple = ("10.0.0.1", 7447)
    seq: list = field(default_factory=lambda: [1000, 5000])
    link: str = "ethernet"
    id: int = 0

    def segment(self, side, seq, payload=b"", flags=0x18, **more):
        (src, sport), (dst, dport) = (self.client, self.server) if side == 0 else (self.server, self.client)
        body = tcp(sport, dport, seq, payload, flags, self.seq[1 - side], **more)
        self.id += 1
        packet = ipv6(src, dst, 6, body) if ":" in src else ipv4(src, dst, 6, body, id=self.id & 0xFFFF)
        return on_link(self.link, packet)

    def send(self, side, payload=b"", flags=0x18, **more):
        packet = self.segment(side, self.seq[side], payload, flags, **more)
        self.seq[side] = (self.seq[side] + len(payload) + (1 if flags & 3 else 0)) & 0xFFFFFFFF
        return packet

    def open(self):
        return [self.send(0, flags=0x02), self.send(1, flags=0x12), self.send(0, flags=0x10)]

    def say(self, talk, width=2):
        """Return one segment for each batch."""
        return [self.send(side, add_prefix(batch, width)) for side, batch in talk]


def datagram(payload, src=("10.0.0.2", 40000), dst=("10.0.0.1", 7447), id=0):
    body = udp(src[1], dst[1], payload)
    packet = ipv6(src[0], dst[0], 17, body) if ":" in src[0] else ipv4(src[0], dst[0], 17, body, id=id)
    return on_link("ethernet", packet)


# Files.


def pcap(packets, link=1, order="<", ns=False, times=None, snaplen=262144):
    out = bytearray(struct.pack(order + "IHHiIII", 0xA1B23C4D if ns else 0xA1B2C3D4, 2, 4, 0, 0, snaplen, link))
    for i, packet in enumerate(packets):
        seconds, rest = divmod(times[i] if times else START + i * STEP, 1_000_000_000)
        kept = packet[:snaplen]
        out += struct.pack(order + "IIII", seconds, rest if ns else rest // 1000, len(kept), len(packet)) + kept
    return bytes(out)


def pad(data):
    return data + bytes(-len(data) % 4)


def block(kind, body, order="<"):
    size = 12 + len(pad(body))
    return struct.pack(order + "II", kind, size) + pad(body) + struct.pack(order + "I", size)


def option(code, value, order="<"):
    return struct.pack(order + "HH", code, len(value)) + pad(value)


def section(order="<"):
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link=1, order="<", options=b"", snaplen=0):
    return block(1, struct.pack(order + "HHI", link, 0, snaplen) + options, order)


def packet_block(packet, ticks, interface=0, order="<", options=b"", original=None):
    head = struct.pack(
        order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(packet), original or len(packet)
    )
    return block(6, head + pad(packet) + options, order)


def pcapng(packets, link=1, order="<"):
    out = section(order) + interface(link, order)
    for i, packet in enumerate(packets):
        out += packet_block(packet, (START + i * STEP) // 1000, order=order)
    return out


# Reading.


def read(*files, **limits):
    """Read paths. Return the exhausted capture and its rows as one table."""
    found = capture.open([Path(f) for f in files], **limits)
    batches = list(found.batches())
    for batch in batches:
        batch.validate(full=True)
    return found, pa.Table.from_batches(batches, BATCHES_SCHEMA)


def read_packets(folder, packets, **options):
    path = folder / "forged.pcap"
    path.write_bytes(pcap(packets, **options))
    return read(path)


def list_batches(table):
    """Return (direction, batch) of each row, in order."""
    return list(zip(table["direction"].to_pylist(), table["batch"].to_pylist(), strict=True))


def sum_notes(found):
    """Return the notes without their positions: {(kind, face): (count, bytes)}."""
    sums = {}
    for note in found.notes():
        count, size = sums.get((note.kind, note.face), (0, 0))
        sums[note.kind, note.face] = (count + note.count, size + note.bytes)
    return sums
