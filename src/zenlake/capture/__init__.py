# SPDX-License-Identifier: Apache-2.0
"""Capture files -> the Zenoh batches of each session, as Arrow.

    capture = zenlake.capture.open("robots.pcapng")
    for batches in capture.batches():  # pyarrow.RecordBatch, see zenlake.batches
        ...
    capture.faces, capture.notes()  # who spoke; what did not become a row, and why

The path of a packet: `files` (pcap, pcapng, compressed, piped), `headers` (link layer, IP, TCP or UDP), `fragments`,
`flows` (which lane), `tcp` (order), `framing` (batches), `recognise` and `aside` (is it Zenoh?), `rows` (Arrow); `reader`
is the loop. `decoded` makes tables of it, while another thread reads (`ahead`); `ranges` and `skim` cut it up so that more
threads (`parallel`) or tasks can do so.
"""

import os
from collections.abc import Generator, Iterable, Iterator

import pyarrow as pa

from zenlake.capture.files import Packets, Source, Trouble
from zenlake.capture.known import KnownPlan
from zenlake.capture.notes import Face, Note
from zenlake.capture.ranges import SIZE, Range
from zenlake.capture.reader import Reader
from zenlake.capture.rows import Rows
from zenlake.capture.sessions import News
from zenlake.capture.walk import Walk

__all__ = ["open", "Capture", "Face", "Note", "Range"]

PATH = str | os.PathLike[str]


class Capture:
    """One or more files of the same capture; a session may go on from one file to the next."""

    def __init__(self, paths: Iterable[PATH], rows: int, bytes: int, held: int, flows: int) -> None:
        self.files = in_order([os.fspath(path) for path in paths])
        self.limits = (rows, bytes, held, flows)
        self.reader = Reader(Rows(1, 1, 1), 1)

    @property
    def faces(self) -> list[Face]:
        """The sessions met so far, by id. Complete once `batches` is exhausted; of tens of thousands, the latest."""
        return [face for face in self.reader.faces if face is not None]

    def notes(self) -> list[Note]:
        """What was skipped, repaired or odd so far. Complete once `batches` is exhausted."""
        return self.reader.notes.rows()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Every batch, in the order of capture. Reads the files anew each time (except a pipe)."""
        rows, size, held, flows = self.limits
        self.reader = Reader(Rows(rows, size, held), flows)
        yield from Walk(self.reader, self.files).to(len(self.files), 0)
        self.reader.finish()
        yield from self.reader.rows.collect()

    def steps(self) -> Generator[tuple[pa.RecordBatch | None, News], None, None]:
        """The same, each with what was learned of the sessions until then; at last only that."""
        known = 0
        for batches in self.batches():
            news = News.of(self.reader, known)
            known += len(news.met)
            yield batches, news
        yield None, News.of(self.reader, known)

    def ranges(self, size: int = SIZE) -> Iterator[Range]:
        """The capture in pieces of about `size` bytes that can be pickled and decoded anywhere, in any order."""
        return self.plan(size).ranges()

    def plan(self, size: int = SIZE, carry: bool = False) -> KnownPlan:
        """The pass that finds ranges, or what an earlier one found; it also knows the capture's notes. `carry`: a range is for
        this process and brings along what the pass has read of it."""
        return KnownPlan(self.files, self.limits, size, carry)


def open(
    paths: PATH | Iterable[PATH],
    *,
    rows: int = 1 << 16,
    bytes: int = 1 << 20,
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
        packets = Packets(Source(path))
        try:
            while packets.more():
                if packets.peek():
                    latest = packets.received
                    break
        except Trouble:
            pass
        starts.append(latest)
    return [path for _, _, path in sorted(zip(starts, range(len(paths)), paths, strict=True))]
