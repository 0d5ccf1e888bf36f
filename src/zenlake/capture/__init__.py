# SPDX-License-Identifier: Apache-2.0
"""Convert capture files into the Zenoh batches of each session, as Arrow record batches.

    capture = zenlake.capture.open("robots.pcapng")
    for batches in capture.batches():  # pyarrow.RecordBatch, see zenlake.core.batch_schema
        ...
    capture.faces, capture.notes()  # the sessions; the skipped or repaired bytes, with the reason

A packet passes through these modules: `pcap` (pcap, pcapng, compressed, piped), `headers` (link layer, IP, TCP or UDP),
`ip_reassembly`, `flows` (flow table), `tcp_reassembly`, `batch_framing` (batches), `heuristics` and `resync_buffer` (protocol
detection), `batch_builder` (Arrow). `packet_loop` is the main loop. `decode` produces tables; a thread reads ahead
(`prefetch`). `splits` and `state_filter` divide a capture for several threads (`parallel`) or Spark tasks.
"""

import os
from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

from zenlake.capture.batch_builder import BatchBuilder
from zenlake.capture.diagnostics import CapturedFace, Diagnostic
from zenlake.capture.file_cursor import FileCursor
from zenlake.capture.packet_loop import PacketLoop
from zenlake.capture.pcap import CaptureFile, FileError, Packets
from zenlake.capture.plan_cache import CachedPlan
from zenlake.capture.session_registry import SessionEvents
from zenlake.capture.splits import SIZE, Split

__all__ = ["open", "Capture", "CapturedFace", "Diagnostic", "Split"]

PATH = str | os.PathLike[str]


class Capture:
    """One or more files of the same capture. A session may continue from one file to the next."""

    def __init__(self, paths: Iterable[PATH], rows: int, bytes: int, held: int, flows: int) -> None:
        self.files = in_order([os.fspath(path) for path in paths])
        self.limits = (rows, bytes, held, flows)
        self.reader = PacketLoop(BatchBuilder(1, 1, 1), 1)

    @property
    def faces(self) -> list[CapturedFace]:
        """The sessions found so far, by id.

        Complete once `batches` is exhausted. Only the latest are kept if a capture has tens of thousands.
        """
        return [face for face in self.reader.faces if face is not None]

    def notes(self) -> list[Diagnostic]:
        """Return the skipped, repaired or unusual items found so far.

        Complete once `batches` is exhausted.
        """
        return self.reader.notes.rows()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Iterate over all batches in capture order.

        Each call reads the files again from the start (except a pipe).
        """
        rows, size, held, flows = self.limits
        self.reader = PacketLoop(BatchBuilder(rows, size, held), flows)
        yield from FileCursor(self.reader, self.files).read_to(len(self.files), 0)
        self.reader.finish()
        yield from self.reader.rows.collect()

    def steps(self) -> Generator[tuple[pa.RecordBatch | None, SessionEvents], None, None]:
        """Iterate over the same batches, each with the session changes up to it.

        The last item has changes only.
        """
        known = 0
        for batches in self.batches():
            events = SessionEvents.of(self.reader, known)
            known += len(events.new_faces)
            yield batches, events
        yield None, SessionEvents.of(self.reader, known)

    def ranges(self, size: int = SIZE) -> Iterator[Split]:
        """Split the capture into ranges of about `size` bytes that can be pickled and decoded anywhere, in any order."""
        return self.plan(size).ranges()

    def plan(self, size: int = SIZE, carry: bool = False) -> CachedPlan:
        """Return the planning pass that finds ranges, or the cached result of an earlier pass.

        The plan also holds the capture's notes.

        Args:
            size: Target size of a range, in bytes.
            carry: Attach the rows that the pass has read to each range. For use in this process only.
        """
        return CachedPlan(self.files, self.limits, size, carry)


def open(
    paths: PATH | Iterable[PATH],
    *,
    rows: int = 1 << 16,
    bytes: int = 1 << 20,
    held: int = 1 << 28,
    flows: int = 1 << 16,
) -> Capture:
    """Open a capture file, or the files of a rotated capture in any order.

    Args:
        paths: One path or several. `-` is the standard input.
        rows: Maximum number of rows of a record batch.
        bytes: Maximum number of batch bytes of a record batch.
        held: Limit of the bytes that are buffered for an incomplete batch or a missing earlier segment.
        flows: Maximum number of flows in memory. Idle flows are evicted first.

    Returns:
        The capture. The files are read when it is iterated.
    """
    return Capture([paths] if isinstance(paths, str | os.PathLike) else paths, rows, bytes, held, flows)


def in_order(paths: list[str]) -> list[str]:
    """Sort files by the time of their first packet.

    A file without packets stays behind the file that precedes it in `paths`.
    """
    if len(paths) < 2:
        return paths
    starts = []
    latest = 0
    for path in paths:
        packets = Packets(CaptureFile(path))
        try:
            while packets.read_window():
                if packets.peek():
                    latest = packets.received
                    break
        except FileError:
            pass
        starts.append(latest)
    return [path for _, _, path in sorted(zip(starts, range(len(paths)), paths, strict=True))]
