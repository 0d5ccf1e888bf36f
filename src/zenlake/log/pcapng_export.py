# SPDX-License-Identifier: Apache-2.0
"""Export of a log as a capture, for Wireshark or any other reader of pcapng.

Packets are synthesised around the batches: raw IP with TCP (or UDP, if the link was UDP), numbered and acknowledged without
any loss. Compressed batches are exported uncompressed, with the header that says so. Encrypted links are exported as plain
text. Links without IP addresses get addresses from 127.0.0.0/8. Redacted samples are omitted, because a capture cannot mark
that the payload is a hash.
"""

import ipaddress
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.log.block import unpack
from zenlake.log.layout import NOTE
from zenlake.log.reader import Log
from zenlake.log.redaction import Removal
from zenlake.log.session_state import LogFace
from zenlake.log.session_tracker import SessionTracker

__all__ = ["ExportResult", "export"]

RAW_IP = 101
PROGRESS_INTERVAL = 1000  # packets between two progress messages
MAX_PAYLOAD = 65000  # bytes of TCP payload in a packet
SYN, ACK, PUSH = 0x02, 0x10, 0x08
DATAGRAMS = ("udp", "multicast", "scouting")

Address = tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]


class ExportResult(NamedTuple):
    """Number of written packets, and number of samples omitted because their values are redacted."""

    packets: int
    left_out: int


def export(log: Log, out: Path, said: Callable[[str], None] = lambda _: None) -> ExportResult:
    """Write all batches of a log as one pcapng file, writer after writer. `said` receives progress messages."""
    count = 0
    removal = Removal()
    with out.open("wb") as file:
        file.write(_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)))
        resolution = struct.pack("<HHB3x", 9, 1, 9) + bytes(4)  # nanoseconds
        file.write(_block(1, struct.pack("<HHI", RAW_IP, 0, 0) + resolution))
        for received, packet in packets(log, removal):
            head = struct.pack("<IIIII", 0, received >> 32, received & 0xFFFFFFFF, len(packet), len(packet))
            file.write(_block(6, head + packet + bytes(-len(packet) % 4)))
            count += 1
            if count % PROGRESS_INTERVAL == 0:
                said(f"{count:,} packets")
    return ExportResult(count, removal.count)


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return struct.pack("<II", kind, size) + body + struct.pack("<I", size)


def packets(log: Log, removal: Removal) -> Iterator[tuple[int, bytes]]:
    """Yield (received in ns, IP packet). `removal` removes messages with redacted values."""
    flows: dict[str, ExportFlow] = {}
    for part in log.plan(size=1 << 62):
        segment = log.segment(part)
        state = segment.state(part.first)
        tracker = SessionTracker()
        tracker.sessions[:] = state.sessions
        for block in range(part.first, part.last):
            rows, about = segment.read(block)
            for face in segment.new_faces(block, about):
                state.introduce(face)
                tracker.sessions.append(state.sessions[-1])
            rows = segment.validate_rows(rows, block, len(state.faces))
            removal.expect(unpack(about.withheld) if about.withheld is not None else ())
            if "cut" in about.facts and about.changes is not None:
                segment.apply(about.changes, block, state)
                tracker.sessions[:] = state.sessions
            is_batch = pc.greater(rows.column("direction"), NOTE)
            numbers = pc.indices_nonzero(is_batch).to_pylist()
            rows = rows.filter(is_batch)
            times = rows.column("received").cast(pa.int64()).to_pylist()
            faces, directions = rows.column("face").to_pylist(), rows.column("direction").to_pylist()
            for i, data in enumerate(rows.column("batch").to_pylist()):
                face, session = state.faces[faces[i]], tracker.sessions[faces[i]]
                flow = flows.get(face.name)
                if flow is None:
                    flow = flows[face.name] = ExportFlow(face, len(flows))
                    for packet in flow.handshake_packets(session.generation == 0):
                        yield times[i], packet
                low_latency = session.is_open and session.low_latency
                batch = removal.remove_redacted(numbers[i], data, low_latency)
                if batch:
                    batch = b"\0" + batch if session.is_open and session.compression else batch
                    if not flow.datagrams:
                        batch = len(batch).to_bytes(4 if low_latency else 2, "little") + batch
                    for packet in flow.packets(directions[i], batch):
                        yield times[i], packet
                tracker.follow(rows.slice(i, 1))


class ExportFlow:
    """Packets of one face."""

    def __init__(self, face: LogFace, serial: int) -> None:
        self.datagrams = face.protocol in DATAGRAMS
        own = ipaddress.IPv4Address("127.1.0.1") + serial % (1 << 20)
        found = [address(text) for text in (face.client, face.server)]
        alike = found[0] is not None and found[1] is not None and found[0][0].version == found[1][0].version
        self.ends: list[Address] = (
            [end for end in found if end is not None] if alike else [(own, 40000 + serial % 20000), (own, 7447)]
        )
        self.next = [1000, 2000]

    def handshake_packets(self, whole: bool) -> Iterator[bytes]:
        """Yield the TCP handshake, if the recording begins with the session."""
        if whole and not self.datagrams:
            yield self._tcp(0, b"", SYN)
            yield self._tcp(1, b"", SYN | ACK)
            yield self._tcp(0, b"", ACK)

    def packets(self, direction: int, payload: bytes) -> Iterator[bytes]:
        if self.datagrams:
            (_, source), (_, target) = self.ends[direction], self.ends[1 - direction]
            yield self._ip(direction, 17, struct.pack(">HHHH", source, target, 8 + len(payload), 0) + payload)
            return
        for at in range(0, len(payload), MAX_PAYLOAD):
            yield self._tcp(direction, payload[at : at + MAX_PAYLOAD], PUSH | ACK)

    def _tcp(self, direction: int, payload: bytes, flags: int) -> bytes:
        (_, source), (_, target) = self.ends[direction], self.ends[1 - direction]
        number = self.next[direction]
        answered = self.next[1 - direction] if flags & ACK else 0
        self.next[direction] = (number + len(payload) + (1 if flags & SYN else 0)) & 0xFFFFFFFF
        head = struct.pack(">HHIIBBHHH", source, target, number, answered, 0x50, flags, 65535, 0, 0)
        return self._ip(direction, 6, head + payload)

    def _ip(self, direction: int, protocol: int, payload: bytes) -> bytes:
        (source, _), (target, _) = self.ends[direction], self.ends[1 - direction]
        if source.version == 6:
            head = struct.pack(">IHBB", 0x60000000, len(payload), protocol, 64)
            return head + source.packed + target.packed + payload
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0)
        head += source.packed + target.packed
        total = sum(struct.unpack(">10H", head))
        total = (total & 0xFFFF) + (total >> 16)
        check = ~(total + (total >> 16)) & 0xFFFF
        return head[:10] + struct.pack(">H", check) + head[12:] + payload


def address(text: str) -> Address | None:
    """Return host and port, if the host is an IP address."""
    host, _, port = text.rpartition(":")
    try:
        return ipaddress.ip_address(host.strip("[]").partition("%")[0]), int(port)
    except ValueError:
        return None
