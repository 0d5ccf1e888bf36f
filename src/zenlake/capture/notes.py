# SPDX-License-Identifier: Apache-2.0
"""Who spoke, and what did not become a row: the two lists that travel beside the batches."""

from dataclasses import dataclass

Address = tuple[str, int]


@dataclass(slots=True)
class Face:
    """One session, as its flow of packets shows it."""

    id: int
    protocol: str  # tcp, udp, multicast, scouting, tls or quic
    client: Address  # who opened; the sender, for multicast and scouting
    server: Address  # who accepted; the group, for multicast and scouting
    framing: str  # stream, datagram or lowlatency; the last of these known
    compression: bool  # whether batches carry the compression header, once the handshake is over
    encrypted: bool  # then no batches follow
    started_midway: bool  # the handshake was not seen: client and server are then a guess from the ports
    file: int  # the first packet of the flow
    packet: int


@dataclass(slots=True, frozen=True)
class Note:
    """Something that was skipped, repaired or odd, summed over one face (or none: -1) in one file."""

    kind: str
    file: int
    packet: int  # the first packet it happened to; 0 = the file as a whole
    face: int
    count: int
    bytes: int
    why: str


WHY = {
    "retransmitted": "TCP sent these bytes again; the first copy was used",
    "duplicated": "the same packet was captured twice; the second copy was left out",
    "out-of-order": "segments arrived early and were put back in order",
    "missing": "bytes that TCP delivered are not in the capture",
    "cut": "the snap length cut these bytes off",
    "skipped": "no batch could be found in these bytes, or only its end was captured",
    "unfinished": "the rest of this batch was never captured",
    "undecodable": "not an LZ4 block although the batch header says so",
    "fragments": "some fragments of these IP packets were not captured",
    "foreign": "another protocol, or not enough to tell",
    "encrypted": "TLS or QUIC; to read it, capture before encryption",
    "malformed": "the packet's headers contradict its length",
    "not-ip": "neither IPv4 nor IPv6, or neither TCP nor UDP",
    "link-type": "this kind of link is not understood",
    "dropped": "the capturing machine says that it lost this many packets",
    "limit": "given up to bound memory",
    "unreadable": "",  # each file has its own reason
}


class Notes:
    """Sums notes by kind, file and face, so that their number does not grow with the capture's.

    Faces may be without number too: beyond MOST sums, what is new is summed for all faces together.
    """

    MOST = 1 << 16

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int, int, str], list[int]] = {}

    def add(self, kind: str, file: int, packet: int, face: int, size: int, count: int = 1, why: str = "") -> None:
        key = (kind, file, face, why or WHY[kind])
        found = self._sums.get(key)
        if found is None and len(self._sums) >= self.MOST:
            key = (kind, file, -1, why or WHY[kind])
            found = self._sums.get(key)
        if found is None:
            self._sums[key] = [packet, count, size]
        else:
            found[1] += count
            found[2] += size

    def rows(self) -> list[Note]:
        return [
            Note(kind, file, packet, face, count, size, why)
            for (kind, file, face, why), (packet, count, size) in self._sums.items()
        ]
