# SPDX-License-Identifier: Apache-2.0
"""Flow table: maps each packet to a flow and direction. A flow has two ends and the state of the session between them.

A flow becomes a face when its bytes are identified as Zenoh. The opener is known from SYN or INIT. If neither was
captured, the opener is guessed from the ports and the face is marked as guessed.
"""

import ipaddress
from typing import Any

import cython
import cython.cimports.zenlake.wire.message_ids as message_ids
from cython.cimports.zenlake.capture.tcp_reassembly import TcpDirection

from zenlake.capture.diagnostics import Address, CapturedFace
from zenlake.capture.heuristics import Framing

if cython.compiled:
    from cython.cimports.libc.stdlib import calloc, free

DEFAULT_PORT = 7447
SCOUTING_PORT = 7446
HTTPS_PORT = 443
MAX_SERVERS = 1 << 16  # kept to find the listening end of sessions that were captured from the middle

MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)


def address(hi: int, lo: int, port: int) -> Address:
    if hi == 0 and lo >> 32 == 0xFFFF:
        return str(ipaddress.IPv4Address(lo & 0xFFFFFFFF)), port
    return str(ipaddress.IPv6Address(hi << 64 | lo)), port


def ends_of(src_hi: int, src_lo: int, dst_hi: int, dst_lo: int, ports: int) -> tuple[Address, Address]:
    return address(src_hi, src_lo, ports >> 16 & 0xFFFF), address(dst_hi, dst_lo, ports & 0xFFFF)


class Flow:
    """State that both directions of a flow share. Side 0 sent the first captured packet of the flow."""

    def __init__(self, loop, key: tuple[int, int, int, int, int], client: int | None) -> None:
        self.loop = loop  # the reader: rows, faces, notes, listening ends
        self.key = key  # source and destination address in halves; protocol and ports
        self.udp = key[4] >> 32 == 17
        self.ends = ends_of(*key)
        self.group = self.udp and ipaddress.ip_address(self.ends[1][0]).is_multicast
        self.first = loop.position()  # file and packet
        self.client = client  # the side that opened, once known: for TCP, SYN was captured
        self.directions = tuple(
            TcpDirection(loop.rows, loop.detector, self, side, self.udp, client is not None) for side in (0, 1)
        )
        self.face: CapturedFace | None = None
        self.framing = -1  # after the handshake, once known
        self.offers: dict[bool, int] = {}  # features that InitSyn (False) and InitAck (True) offered
        self.failed_searches = 0

    # Callbacks of the streams.

    def note(self, kind: str, file: int, packet: int, size: int, count: int = 1) -> None:
        self.loop.notes.add(kind, file, packet, -1 if self.face is None else self.face.id, size, count)

    def add_offer(self, ack: bool, features: int) -> None:
        self.offers[ack] = max(features, 0)

    def negotiate(self) -> int:
        """Return the framing after OPEN, from the features that both sides offered. -1 = unknown."""
        if len(self.offers) == 2:
            both = self.offers[False] & self.offers[True]
            self.framing = Framing.LOWLATENCY if both & 1 else Framing.COMPRESSED if both & 2 else Framing.PLAIN
            self.describe()
        return self.framing

    def is_acknowledged(self, side: int) -> bool:
        """Return whether the receiver has acknowledged the byte that this side's direction still lacks."""
        direction, other = self.directions[side], self.directions[1 - side]
        return bool(other.has_acknowledged) and 0 < (other.acknowledged - direction.expected) & 0xFFFFFFFF < 1 << 31

    def register_zenoh(self, stream, first: int) -> None:
        """Register the flow as Zenoh. `first` is the first byte of its first batch."""
        if not stream.in_handshake and self.framing < 0:
            self.framing = stream.framing
        if self.face is None and stream.in_handshake:  # InitSyn and OpenSyn come from the opener
            self.client = 1 - stream.side if first & 0x20 else stream.side
        protocol = "multicast" if self.group else "udp" if self.udp else "tcp"
        midway = not stream.in_handshake and first & 0x1F != message_ids.JOIN
        face = self.face or self.add_face(protocol, "datagram" if self.udp else "stream", False, midway)
        for side in (0, 1):
            direction = int(side != self.client and face.protocol != "scouting")
            self.directions[side].stream.assign_face(face.id, direction)
        self.describe()

    def register_scouting(self, side: int, kind: int) -> bool:
        """Register scouting. HELLO is unambiguous. A SCOUT has only three bytes, so it counts only on a scouting address."""
        if self.face is not None or not (kind == 2 or self.group or SCOUTING_PORT in (end[1] for end in self.ends)):
            return False
        self.client = side
        self.add_face("scouting", "datagram", False, False)
        return True

    def register_encrypted(self, protocol: str, other: bool) -> None:
        """Register TLS or QUIC. With `other`, it carries another protocol than Zenoh, as QUIC on the HTTP port does."""
        if other or (protocol == "quic" and HTTPS_PORT in (end[1] for end in self.ends)):
            return self.ignore()
        face = self.add_face(protocol, "stream", True, False)
        for direction in self.directions:
            direction.stream.face = face.id
            direction.stream.ignore_rest()

    def ignore(self) -> None:
        for direction in self.directions:
            if direction.stream.face < 0:
                direction.stream.ignore_rest()

    def on_full_buffer(self, stream) -> None:
        """Handle a full buffer in which no batch was found."""
        self.failed_searches += 1
        if self.face is None and self.failed_searches > 4:
            stream.ignore_rest()

    def restart(self) -> None:
        """Handle INIT on a datagram flow whose session is over, or that was classified as another protocol."""
        self.end()
        self.face, self.client, self.framing = None, None, -1
        self.offers.clear()
        for direction in self.directions:
            direction.stream.reset(False)

    def add_ignored(self, file: int, packet: int, size: int, count: int) -> None:
        self.note(
            "encrypted" if self.face is not None and self.face.encrypted else "foreign", file, packet, size, count
        )

    def finish(self) -> None:
        for direction in self.directions:
            direction.finish()

    def end(self) -> None:
        """Mark the session as ended."""
        self.finish()
        if self.face is not None:
            self.loop.ended_faces.append(self.face.id)

    # Save and restore, to continue in another process.

    def save(self) -> tuple[object, ...]:
        directions = tuple(direction.save() for direction in self.directions)
        return (
            self.key,
            self.client,
            self.first,
            self.face,
            self.framing,
            dict(self.offers),
            self.failed_searches,
            directions,
        )

    def restore(self, saved: tuple[Any, ...]) -> None:
        _, self.client, self.first, self.face, self.framing, self.offers, self.failed_searches, directions = saved
        for direction, state in zip(self.directions, directions, strict=True):
            direction.restore(state)

    # The face.

    def add_face(self, protocol: str, framing: str, encrypted: bool, midway: bool) -> CapturedFace:
        if self.client is None:
            self.client = self.guess_client()
        client, server = self.ends[self.client], self.ends[1 - self.client]
        face = CapturedFace(
            len(self.loop.faces), protocol, client, server, framing, False, encrypted, midway, *self.first
        )
        self.face = face
        self.loop.faces.append(face)
        if not midway and len(self.loop.servers) < MAX_SERVERS:
            self.loop.servers.add((server, self.udp))
        return face

    def guess_client(self) -> int:
        """Return whether the other end listens: it is known to, has Zenoh's port, or has the lower port."""
        if self.group:
            return 0
        self.loop.look_ahead()
        for side in (0, 1):
            if (self.ends[1 - side], self.udp) in self.loop.servers:
                return side
        for side in (0, 1):
            if self.ends[1 - side][1] == DEFAULT_PORT:
                return side
        return 0 if self.ends[1][1] < self.ends[0][1] else 1

    def describe(self) -> None:
        if self.face is not None and self.framing > 0:
            self.face.compression = self.framing == Framing.COMPRESSED
            if self.framing == Framing.LOWLATENCY:
                self.face.framing = "lowlatency"


@cython.cclass
class FlowTable:
    """Hash table from source, destination, ports and protocol to the direction.

    It uses open addressing. Flows are removed only when it is rebuilt.

    Safety: the multiplier is random per process, as for Python's own hashes, so a capture cannot force collisions.
    """

    def __init__(self, max_flows: int) -> None:
        self.max_flows = max_flows  # flows; above it, the idle half is evicted
        self.multiplier = (hash("flows") & 0xFFFFFFFFFFFFFFFF) | 1
        self.flows: dict[tuple[int, ...], Flow] = {}
        self.resize(1024)

    def __dealloc__(self):
        if cython.compiled:
            free(self.keys)
            free(self.directions)

    def find(self, src_hi, src_lo, dst_hi, dst_lo, ports):
        """Return the slot of this key, or the empty slot where it belongs."""
        m: cython.ulonglong = self.multiplier
        h: cython.ulonglong = (src_lo * m + dst_lo) & MASK
        h = ((h ^ (h >> 29)) * m + ports) & MASK
        h = ((h ^ (h >> 31)) * m + (src_hi ^ (dst_hi >> 1))) & MASK
        i: cython.Py_ssize_t = (h >> 33) & self.mask
        k: cython.Py_ssize_t = 5 * i
        while self.keys[k + 4] != 0:
            if (
                self.keys[k + 4] == ports
                and self.keys[k + 1] == src_lo
                and self.keys[k + 3] == dst_lo
                and self.keys[k] == src_hi
                and self.keys[k + 2] == dst_hi
            ):
                break
            i = (i + 1) & self.mask
            k = 5 * i
        return i

    def resize(self, size):
        if cython.compiled:
            free(self.keys)
            free(self.directions)
            self.keys = cython.cast(cython.pointer(cython.ulonglong), calloc(5 * size, 8))
            self.directions = cython.cast(cython.pp_void, calloc(size, 8))
            if self.keys == cython.NULL or self.directions == cython.NULL:
                raise MemoryError(f"cannot allocate a table of {size} directions")
        else:
            self.keys = [0] * (5 * size)
            self.directions = [None] * size
        self.mask = size - 1
        for flow in self.flows.values():
            self.insert_flow(flow)
        return 0

    def insert_flow(self, flow):
        src_hi, src_lo, dst_hi, dst_lo, ports = flow.key
        self.insert(flow.directions[0], src_hi, src_lo, dst_hi, dst_lo, ports)
        ports = ports >> 32 << 32 | (ports & 0xFFFF) << 16 | (ports >> 16 & 0xFFFF)
        self.insert(flow.directions[1], dst_hi, dst_lo, src_hi, src_lo, ports)
        return 0

    def insert(self, direction, src_hi, src_lo, dst_hi, dst_lo, ports):
        i: cython.Py_ssize_t = self.find(src_hi, src_lo, dst_hi, dst_lo, ports)
        self.keys[5 * i] = src_hi
        self.keys[5 * i + 1] = src_lo
        self.keys[5 * i + 2] = dst_hi
        self.keys[5 * i + 3] = dst_lo
        self.keys[5 * i + 4] = ports
        if cython.compiled:
            self.directions[i] = cython.cast(cython.p_void, direction)
        else:
            self.directions[i] = direction
        return 0

    def add(self, flow):
        if len(self.flows) >= self.max_flows:
            self.evict_idle()
        self.flows[flow.key] = flow
        if 4 * len(self.flows) > self.mask:
            return self.resize(2 * (self.mask + 1))
        return self.insert_flow(flow)

    def replace(self, old, new):
        """Start a new connection between the same ends."""
        del self.flows[old.key]
        old.end()
        return self.add(new)

    def evict_idle(self):
        idle = sorted(self.flows.values(), key=idle_since)
        for flow in idle[: (len(idle) >> 1) + 1]:
            flow.note("limit", flow.directions[0].file, flow.directions[0].packet, 0)
            flow.end()
            del self.flows[flow.key]
        return self.resize(self.mask + 1)


def idle_since(flow: Flow) -> int:
    return int(max(direction.received for direction in flow.directions))
