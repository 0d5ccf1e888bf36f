# SPDX-License-Identifier: Apache-2.0
"""Capture files -> the Zenoh batches of each session, as Arrow.

    capture = zenlake.capture.open("robots.pcapng")
    for batches in capture.batches():  # pyarrow.RecordBatch, see zenlake.batches
        ...
    capture.faces, capture.notes()  # who spoke; what did not become a row, and why

The path of a packet: `files` (pcap, pcapng, compressed, piped), `headers` (link layer, IP, TCP or UDP), `fragments`,
`flows` (which lane), `tcp` (order), `framing` (batches), `recognise` (is it Zenoh?), `rows` (Arrow); `reader` is the
loop.
"""

import os
from collections.abc import Iterable, Iterator

import pyarrow as pa

from zenlake.capture.files import Packets, Trouble, windows
from zenlake.capture.notes import Face, Note
from zenlake.capture.reader import Reader

__all__ = ["open", "Capture", "Face", "Note"]

PATH = str | os.PathLike[str]


class Capture:
    """One or more files of the same capture; a session may go on from one file to the next."""

    def __init__(self, paths: Iterable[PATH], rows: int, bytes: int, held: int, flows: int) -> None:
        self.files = in_order([os.fspath(path) for path in paths])
        self._limits = (rows, bytes, held, flows)
        self._reader = Reader(1, 1, 1, 1)

    @property
    def faces(self) -> list[Face]:
        """The sessions met so far, by id. Complete once `batches` is exhausted."""
        return list(self._reader.faces)

    def notes(self) -> list[Note]:
        """What was skipped, repaired or odd so far. Complete once `batches` is exhausted."""
        return self._reader.notes.rows()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch, in the order of capture. Reads the files anew each time (except a pipe)."""
        reader = self._reader = Reader(*self._limits)
        for i, path in enumerate(self.files):
            packets = Packets()
            reader.begin(packets, i)
            trouble = ""
            try:
                for window in windows(path):
                    packets.feed(window)
                    while reader.run() == 3:
                        yield from reader.rows.collect()
                    if packets.trouble:
                        break
            except Trouble as error:
                trouble = str(error)
            lost = packets.finish()
            if lost:
                reader.notes.add("dropped", i, packets.number, -1, 0, lost)
            if packets.trouble or trouble:
                reader.notes.add("unreadable", i, packets.number, -1, 0, why=trouble or packets.trouble)
        reader.finish()
        yield from reader.rows.collect()


def open(
    paths: PATH | Iterable[PATH],
    *,
    rows: int = 1 << 16,
    bytes: int = 1 << 24,
    held: int = 1 << 28,
    flows: int = 1 << 16,
) -> Capture:
    """A capture file, or the files of a rotation in any order; '-' is the standard input.

    A record batch has at most `rows` rows and `bytes` bytes of batches. While they are read, at most `held` bytes wait
    for the rest of a batch or an earlier segment, and `flows` conversations are remembered: the silent make room.
    """
    return Capture([paths] if isinstance(paths, str | os.PathLike) else paths, rows, bytes, held, flows)


def in_order(paths: list[str]) -> list[str]:
    """Files by the time of their first packet; one that has none stays behind the file it was given after."""
    if len(paths) < 2:
        return paths
    starts = []
    latest = 0
    for path in paths:
        packets = Packets()
        try:
            for window in windows(path):
                packets.feed(window)
                if packets.peek():
                    latest = packets.received
                    break
        except Trouble:
            pass
        starts.append(latest)
    return [path for _, _, path in sorted(zip(starts, range(len(paths)), paths, strict=True))]
