# SPDX-License-Identifier: Apache-2.0
"""Main loop: pass each packet to its direction of a flow. The common case runs without the GIL."""

from array import array

import cython
from cython.cimports.zenlake.capture.batch_builder import BatchBuilder
from cython.cimports.zenlake.capture.batch_framing import copy_bytes
from cython.cimports.zenlake.capture.flows import FlowTable
from cython.cimports.zenlake.capture.headers import Headers, u64
from cython.cimports.zenlake.capture.heuristics import ProtocolDetector
from cython.cimports.zenlake.capture.pcap import Packets
from cython.cimports.zenlake.capture.tcp_reassembly import TcpDirection

from zenlake.capture.diagnostics import FILTER, SNAP_LENGTH, Address, CapturedFace, Diagnostics
from zenlake.capture.flows import MAX_SERVERS, Flow, ends_of
from zenlake.capture.heuristics import Framing
from zenlake.capture.ip_reassembly import IpReassembly
from zenlake.capture.partial_datagrams import read_frame_headers
from zenlake.capture.pcap import FileError

if cython.compiled:
    from cython.cimports.cpython.bytes import PyBytes_AS_STRING, PyBytes_FromStringAndSize
    from cython.cimports.libc.stdlib import calloc, free
    from cython.cimports.libc.string import memcpy

MORE = cython.declare(cython.int, 0)  # as in pcap
PACKET = cython.declare(cython.int, 1)
PAUSED = cython.declare(cython.int, 3)
STOPPED = cython.declare(cython.int, 4)
NO_STOP = cython.declare(cython.longlong, (1 << 62))

FRAGMENT = cython.declare(cython.int, 1)  # as in headers
TCP = cython.declare(cython.int, 6)
UDP = 17
UDP_HEADER = 8  # bytes

FIN = cython.declare(cython.int, 0x01)
SYN = cython.declare(cython.int, 0x02)
RST = cython.declare(cython.int, 0x04)
ACK = cython.declare(cython.int, 0x10)

RECENT = cython.declare(cython.Py_ssize_t, 4096)  # packets among which a duplicate is searched
MAX_DUPLICATE_NS = cython.declare(cython.longlong, 50_000_000)  # maximum ns between duplicates
HASH_MULTIPLIER = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
LOOKAHEAD_PACKETS = 20_000  # packets
INTERRUPT_INTERVAL = cython.declare(cython.Py_ssize_t, 100_000)  # packets between checks for interrupts

NOTE_KINDS = {-1: "not-ip", -2: "malformed", -3: "link-type"}


@cython.cclass
class PacketLoop:
    """State of a capture reader. Flows use it as `loop`: rows, faces, notes, servers, departed."""

    def __init__(self, rows: BatchBuilder, max_flows: int) -> None:
        self.rows = rows
        self.faces: list[CapturedFace | None] = []  # None: ended long ago
        self.ended_faces: list[int] = []  # faces whose flow has ended
        self.notes = Diagnostics()
        self.servers: set[tuple[Address, bool]] = set()  # ends that are known to listen
        self.fragments = IpReassembly(self.on_reassembly_drop)
        self.detector = ProtocolDetector()
        self.table = FlowTable(max_flows)
        self.headers = Headers()
        self.packets = Packets()
        self.file = 0
        self.lookahead_file = -1
        self.stop = NO_STOP
        if cython.compiled:
            self.recent = cython.cast(cython.pointer(cython.ulonglong), calloc(RECENT, 8))
            self.recent_times = cython.cast(cython.p_longlong, calloc(RECENT, 8))
            if self.recent == cython.NULL or self.recent_times == cython.NULL:
                raise MemoryError
        else:
            self.recent = [0] * RECENT
            self.recent_times = [0] * RECENT

    def __dealloc__(self):
        if cython.compiled:
            free(self.recent)
            free(self.recent_times)

    def begin(self, packets, file, stop=-1):
        """Start the next file. With `stop`, read only packets that begin before this offset."""
        self.packets = packets
        self.file = file
        self.stop = NO_STOP if stop < 0 else stop
        return 0

    def run(self):
        """Read until record batches are ready, an interrupt check is due, more input is needed, or the packets end."""
        found: cython.int
        with cython.nogil:
            found = self.step()
        return found

    def step(self):
        p: cython.p_const_uchar
        found: cython.int
        n: cython.Py_ssize_t = INTERRUPT_INTERVAL
        while n > 0 and self.rows.ready_count == 0:
            n -= 1
            if self.packets.first + self.packets.at >= self.stop:
                return STOPPED
            found = self.packets.next()
            if found == MORE and self.packets.refill():
                found = self.packets.next()
            if found != PACKET:
                return found
            p = self.packets.p
            found = self.headers.read(
                p, self.packets.data, self.packets.data_end, self.packets.missing, self.packets.link
            )
            if found == FRAGMENT:
                with cython.gil:
                    self.fragment(p)
            elif found > 0:
                self.packet(self.headers, p)
            else:
                with cython.gil:
                    self.add_note(found)
        return PAUSED

    def packet(self, h, p):
        """Process a whole TCP or UDP packet with parsed headers."""
        slot: cython.Py_ssize_t = self.table.find(h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.ports)
        if self.table.keys[5 * slot + 4] == 0:
            with cython.gil:
                self.new_flow()
            slot = self.table.find(h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.ports)
        if cython.compiled:
            return self.dispatch(cython.cast(TcpDirection, self.table.directions[slot]), h, p)
        else:
            return self.dispatch(self.table.directions[slot], h, p)

    def dispatch(self, direction, h, p):
        direction.received = self.packets.received
        direction.packet = self.packets.number
        direction.file = self.file
        duplicate: cython.bint = h.end > h.at and self.is_duplicate(h, p)
        if h.protocol != TCP:
            if h.end + h.missing == h.at:
                return 0
            if duplicate or h.missing > 0:
                with cython.gil:
                    direction.note("duplicated" if duplicate else "unfinished", h.end - h.at)
                    if h.missing > 0:
                        direction.note("cut", h.missing)
                        if not duplicate:
                            self.report_incomplete(direction, copy_bytes(p, h.at, h.end), SNAP_LENGTH)
                return 0
            return direction.datagram(p, h.at, h.end)
        seq: cython.uint = h.seq
        if h.flags & SYN:
            with cython.gil:
                if self.connect(direction) != 0:  # a new connection: a new direction
                    return self.packet(h, p)
            seq = direction.expected
        if h.flags & ACK:
            direction.acknowledged = h.ack
            direction.has_acknowledged = True
        if h.end + h.missing > h.at:
            direction.segment(seq, p, h.at, h.end, h.missing, duplicate)
        if h.flags & RST:
            with cython.gil:
                direction.flow.finish()
        return 0

    def is_duplicate(self, h, p):
        """Return whether the same packet was captured just before: on another interface, or both outgoing and incoming."""
        f: cython.ulonglong = ((h.src_lo ^ h.dst_lo ^ h.ports) + h.id) & MASK
        f = ((f ^ (f >> 29)) * HASH_MULTIPLIER + h.seq) & MASK
        f = ((f ^ (f >> 31)) * HASH_MULTIPLIER + h.ack + (h.end - h.at)) & MASK
        if h.protocol != TCP or h.offset != 0 or h.more != 0:
            if h.end - h.at >= 8:
                f = ((f ^ (f >> 30)) * HASH_MULTIPLIER + u64(p, h.at)) & MASK
                f = ((f ^ (f >> 28)) * HASH_MULTIPLIER + u64(p, h.end - 8) + h.offset) & MASK
            else:
                f = ((f ^ (f >> 30)) * HASH_MULTIPLIER + p[h.at] + h.offset) & MASK
        f = (f ^ (f >> 32)) & MASK
        i: cython.Py_ssize_t = f & (RECENT - 1)
        is_repeat: cython.bint = self.recent[i] == f and self.packets.received - self.recent_times[i] < MAX_DUPLICATE_NS
        self.recent[i] = f
        self.recent_times[i] = self.packets.received
        return is_repeat

    # Uncommon packets.

    def new_flow(self):
        h = self.headers
        client = None
        if h.protocol == TCP and h.flags & SYN:
            client = 1 if h.flags & ACK else 0
        self.table.add(Flow(self, (h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.ports), client))
        return 0

    def connect(self, direction):
        """Process a SYN. Return 1 if it begins a new connection, which then replaces the known one."""
        h = self.headers
        first: cython.uint = (h.seq + 1) & 0xFFFFFFFF
        if not direction.is_started:
            direction.begin(first)
        elif direction.first != first:
            old = direction.flow
            client = 1 if h.flags & ACK else 0
            self.table.replace(old, Flow(self, (h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.ports), client))
            return 1
        return 0

    def position(self):
        return self.file, self.packets.number

    def fragment(self, p):
        h = self.headers
        size: cython.Py_ssize_t = h.end - h.at
        number = self.packets.number
        h.ports = h.protocol
        h.seq = h.ack = 0
        if self.is_duplicate(h, p):
            self.notes.add("duplicated", self.file, number, -1, size)
        else:
            if h.missing > 0:
                self.notes.add("cut", self.file, number, -1, h.missing)
            if h.offset > 0:
                self.notes.fragmented.add(self.file)
            key = (h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.id, h.protocol)
            payload: bytes = self.fragments.add(
                key,
                h.offset,
                h.more,
                copy_bytes(p, h.at, h.end),
                self.packets.received,
                self.file,
                number,
                h.missing > 0,
            )
            if payload is not None:
                q: cython.p_const_uchar = payload
                h.offset = 0
                h.more = False
                found: cython.int = h.transport(q, 0, len(payload), 0)
                if found > 0:
                    self.packet(h, q)
                else:
                    self.add_note(found)
        return 0

    def on_reassembly_drop(self, key, partial):
        """Report an IP packet with missing fragments. Its first fragment shows the frames that are incomplete."""
        if not partial.cut:
            self.notes.add("fragments", partial.file, partial.packet, -1, partial.received_bytes)
        first: bytes = partial.parts.get(0, b"")
        src_hi, src_lo, dst_hi, dst_lo, _, protocol = key
        if protocol != UDP or len(first) < UDP_HEADER:
            return
        ports = UDP << 32 | int.from_bytes(first[:4], "big")
        slot: cython.Py_ssize_t = self.table.find(src_hi, src_lo, dst_hi, dst_lo, ports)
        if self.table.keys[5 * slot + 4] == 0:
            return
        if cython.compiled:
            direction = cython.cast(TcpDirection, self.table.directions[slot])
        else:
            direction = self.table.directions[slot]
        self.report_incomplete(
            direction, first[UDP_HEADER:], SNAP_LENGTH if partial.cut else FILTER, (partial.file, partial.packet)
        )

    def report_incomplete(self, direction, data, why, place=None):
        """Report the frames of a datagram of which only the beginning was captured."""
        s = direction.stream
        if s.face < 0 or s.framing == Framing.LOWLATENCY:  # not Zenoh, or without sequence numbers
            return
        file, packet = place or self.position()
        for header in read_frame_headers(data, s.framing) or [None]:
            self.notes.add_incomplete(why, file, packet, s.face, s.direction, header)

    def look_ahead(self):
        """Find the listening ends: those that answer a SYN, or have two or more partners.

        Runs once per file, on the available bytes.
        """
        if self.lookahead_file == self.file:
            return
        self.lookahead_file = self.file
        partners = {}
        pairs = [(flow.ends, flow.udp) for flow in self.table.flows.values()]
        packets = self.packets.open_lookahead()
        h = Headers()
        found: cython.int
        for _ in range(LOOKAHEAD_PACKETS):
            found = packets.next()
            while found == MORE and self.read_more(packets):
                found = packets.next()
            if found != PACKET:
                break
            found = h.read(packets.p, packets.data, packets.data_end, packets.missing, packets.link)
            if found > FRAGMENT:
                ends = ends_of(h.src_hi, h.src_lo, h.dst_hi, h.dst_lo, h.ports)
                pairs.append((ends, found != TCP))
                if h.flags & SYN and len(self.servers) < MAX_SERVERS:
                    self.servers.add((ends[0 if h.flags & ACK else 1], False))
        for (one, other), udp in pairs:
            for end, partner in ((one, other), (other, one)):
                if partners.setdefault((end, udp), partner) != partner and len(self.servers) < MAX_SERVERS:
                    self.servers.add((end, udp))

    def read_more(self, packets):
        try:
            return packets.read_window()
        except FileError:  # reported when the loop reaches it
            return False

    def add_note(self, found):
        self.notes.add(NOTE_KINDS[found], self.file, self.packets.number, -1, self.packets.data_end - self.packets.data)
        return 0

    def finish(self):
        self.fragments.finish()
        for flow in self.table.flows.values():
            flow.finish()
        self.rows.flush()
        return 0

    def release(self):
        """Release the memory after the last read.

        Flows and reader reference each other, so large objects would otherwise wait for the garbage collector.
        """
        self.packets = Packets()
        self.rows.release()
        return 0

    # Save and restore, to continue in another process.

    def save(self):
        """Return the state that later packets depend on. Rows and notes are not included."""
        flows = [flow.save() for flow in self.table.flows.values()]
        if cython.compiled:
            recent = PyBytes_FromStringAndSize(cython.cast(cython.p_char, self.recent), 8 * RECENT)
            times = PyBytes_FromStringAndSize(cython.cast(cython.p_char, self.recent_times), 8 * RECENT)
        else:
            recent, times = array("Q", self.recent).tobytes(), array("q", self.recent_times).tobytes()
        return flows, len(self.faces), set(self.servers), self.fragments.save(), self.lookahead_file, recent, times

    def restore(self, saved):
        flows, faces, self.servers, fragments, self.lookahead_file, recent, times = saved
        self.faces = [None] * faces
        self.fragments.restore(fragments)
        for state in flows:
            flow = Flow(self, state[0], None)
            flow.restore(state)
            self.table.add(flow)
            if flow.face is not None:
                self.faces[flow.face.id] = flow.face
        if cython.compiled:
            memcpy(self.recent, PyBytes_AS_STRING(recent), 8 * RECENT)
            memcpy(self.recent_times, PyBytes_AS_STRING(times), 8 * RECENT)
        else:
            self.recent, self.recent_times = list(array("Q", recent)), list(array("q", times))
        return 0
