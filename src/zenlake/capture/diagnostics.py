# SPDX-License-Identifier: Apache-2.0
"""Faces and notes: the sessions of a capture, and the bytes that did not become rows."""

from dataclasses import dataclass
from typing import Any

from zenlake.capture.partial_datagrams import FrameHeader

Address = tuple[str, int]


@dataclass(slots=True)
class CapturedFace:
    """One session, as seen from its packets."""

    id: int
    protocol: str  # tcp, udp, multicast, scouting, tls or quic
    client: Address  # the opener; the sender, for multicast and scouting
    server: Address  # the accepting end; the group, for multicast and scouting
    framing: str  # stream, datagram or lowlatency; the last known
    compression: bool  # whether batches have the compression header after the handshake
    encrypted: bool  # then there are no batches
    started_midway: bool  # the handshake was not captured: client and server are guessed from the ports
    file: int  # the first packet of the flow
    packet: int


@dataclass(slots=True, frozen=True)
class Diagnostic:
    """Skipped, repaired or unusual bytes, summed over one face (-1: without a face) in one file, or a run of incomplete frames."""

    kind: str
    file: int
    packet: int  # the first affected packet; 0 = the whole file
    face: int
    count: int
    bytes: int
    why: str
    direction: int = 0
    priority: int | None = None  # for incomplete frames: the lane and the first sequence number of a run
    reliable: bool | None = None
    sn: int | None = None


FILTER = "the filter of the capture dropped the further IP fragments of these frames"
SNAP_LENGTH = "the snap length cut off the rest of these frames"
WHY = {
    "retransmitted": "TCP retransmitted these bytes; the first copy was used",
    "duplicated": "the same packet was captured twice; the second copy was dropped",
    "out-of-order": "segments arrived early and were reordered",
    "missing": "bytes that TCP delivered are not in the capture",
    "cut": "the snap length cut these bytes off",
    "skipped": "no batch was found in these bytes, or only the end of one was captured",
    "unfinished": "the rest of this batch was not captured",
    "undecodable": "not an LZ4 block although the batch header says so",
    "fragments": "some fragments of these IP packets were not captured",
    "foreign": "another protocol, or too few bytes to identify Zenoh",
    "encrypted": "TLS or QUIC; to read it, capture before encryption",
    "malformed": "the packet's headers contradict its length",
    "not-ip": "neither IPv4 nor IPv6, or neither TCP nor UDP",
    "link-type": "this link type is not supported",
    "dropped": "the capturing machine reports this many lost packets",
    "limit": "dropped to limit memory",
    "unreadable": "",  # each file has its own reason
}


class Diagnostics:
    """Sums of notes by kind, file and face, and runs of incomplete frames.

    Both are limited. Beyond MAX_ENTRIES sums, new notes are summed over all faces. Beyond MAX_ENTRIES runs, frames are counted
    without their numbers.
    """

    MAX_ENTRIES = 1 << 16

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int, int, str], list[int]] = {}
        self.fragmented: set[int] = set()  # files that contain IP fragments other than the first
        self._runs: list[list[Any]] = []  # [why, file, face, direction, header of the first frame, packet, count]
        self._last: dict[tuple[Any, ...], list[Any]] = {}  # the last run of each lane

    def add(self, kind: str, file: int, packet: int, face: int, size: int, count: int = 1, why: str = "") -> None:
        key = (kind, file, face, why or WHY[kind])
        found = self._sums.get(key)
        if found is None and len(self._sums) >= self.MAX_ENTRIES:
            key = (kind, file, -1, why or WHY[kind])
            found = self._sums.get(key)
        if found is None:
            self._sums[key] = [packet, count, size]
        else:
            found[1] += count
            found[2] += size

    def add_incomplete(
        self, why: str, file: int, packet: int, face: int, direction: int, header: FrameHeader | None
    ) -> None:
        """Add a frame of which only the beginning was captured. Consecutive frames of a lane are one run.

        `header` is None if the captured part does not show it.
        """
        if header is not None and len(self._runs) >= self.MAX_ENTRIES:
            header = None
        lane = (why, file, face, direction, header and header[:2])
        run = self._last.get(lane)
        if run is not None and (header is None or header[2] == run[4][2] + run[6]):
            run[6] += 1
        else:
            self._last[lane] = run = [why, file, face, direction, header, packet, 1]
            self._runs.append(run)

    def rows(self) -> list[Diagnostic]:
        sums = [
            Diagnostic(kind, file, packet, face, count, size, why)
            for (kind, file, face, why), (packet, count, size) in self._sums.items()
        ]
        # In a file with further fragments, the filter matches them. Those that are missing were lost before the capture.
        runs = [
            Diagnostic("incomplete", file, packet, face, count, 0, why, direction, *(header or (None, None, None)))
            for why, file, face, direction, header, packet, count in self._runs
            if why != FILTER or file not in self.fragmented
        ]
        return sums + runs
