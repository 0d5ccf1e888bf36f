# SPDX-License-Identifier: Apache-2.0
"""Ranges of a capture, each to be decoded on its own, by another process or on another machine.

What a packet means depends on those before it: which session it belongs to, where a batch begins, what a key's id stands
for. One pass over the capture finds all that and fills no table, which makes it several times cheaper than decoding; at
each cut it saves where it stands. A range is such a place, the next one, and the names of the sessions that begin between.
It may begin inside a conversation, a batch or a message whose first half lies in the range before.

Whoever decodes in the process that makes the pass need not read a range again: the rows can come with it.

A file can be cut where it can be mapped; a compressed one stays whole.
"""

import ctypes
import mmap
import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from zenlake.capture.files import Packets, Trouble, can_be_mapped, windows
from zenlake.capture.notes import Face, Note
from zenlake.capture.reader import Reader
from zenlake.capture.rows import Rows
from zenlake.capture.sessions import Sessions
from zenlake.capture.skim import Skim
from zenlake.columns import Decoder
from zenlake.columns.pool import Pool

PAUSED = 3  # as in reader
STOPPED = 4

SIZE = 8 << 20  # bytes of a range, unless told: in smaller ones threads take turns more often, larger ones take memory
INFLATED = 4  # rows of a range that are so many times its size (they were compressed) do not come with it

if hasattr(mmap, "MADV_DONTNEED"):
    MADVISE = ctypes.CDLL(None).madvise
    MADVISE.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)

Limits = tuple[int, int, int, int]  # rows and bytes of a record batch, bytes held, flows
Place = tuple[Any, ...]  # of Packets, in a file that is mapped
Cut = tuple[int, Place | None]  # a file, and a place inside it


def size_that_can_be_cut(files: list[str]) -> int:
    """Bytes of the files that lie on disk as they were written."""
    return sum(os.path.getsize(file) if can_be_mapped(file) else 0 for file in files)


def read(reader: Reader, files: list[str], first: Cut, end: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    """The record batches of the packets from `first` up to `end`, a file and a byte of it."""
    file, place = first
    while file < len(files) and (file, 0) < end:
        packets = Packets()
        reader.begin(packets, file, end[1] if file == end[0] else -1)
        trouble = ""
        found = read_to = 0
        try:
            for window in windows(files[file]):
                packets.feed(window)
                if place is not None:
                    packets.resume(place)
                while (found := reader.run()) == PAUSED:
                    yield from reader.rows.collect()
                    read_to = let_go(window, read_to, packets.place()[0])
                if packets.trouble or found == STOPPED:
                    break
        except Trouble as error:
            trouble = str(error)
        if found == STOPPED:
            return
        lost = packets.finish()
        if lost:
            reader.notes.add("dropped", file, packets.number, -1, 0, lost)
        if packets.trouble or trouble:
            reader.notes.add("unreadable", file, packets.number, -1, 0, why=trouble or packets.trouble)
        file, place = file + 1, None


def let_go(window: object, since: int, until: int) -> int:
    """What was read of a mapped file need not stay in this process's memory. Returns up to where it was let go.

    As `mmap.madvise`, which would keep the other threads waiting meanwhile.
    """
    until = until // mmap.PAGESIZE * mmap.PAGESIZE
    if until > since and isinstance(window, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        start = pa.py_buffer(window).address
        MADVISE(start + since, until - since, mmap.MADV_DONTNEED)
        return until
    return since


class Carried(NamedTuple):
    """What the pass has read of a range: its rows, and the faces, of which the first so many were known before."""

    rows: list[pa.RecordBatch]
    faces: list[Face | None]
    before: int


@dataclass(frozen=True, slots=True)
class Range:
    """Part of a capture. It can be pickled; the files must lie where they lay."""

    files: list[str]
    first: Cut
    end: tuple[int, int]
    limits: Limits
    state: bytes  # of the reader and of the sessions, pickled where the range begins
    names: dict[int, str]  # of the faces that begin in it
    carried: Carried | None = None

    def decode(self, decoder: Decoder, pool: Pool | None = None) -> Iterator[None]:
        """Decodes the range, a record batch a step; what the decoder has filled may be taken at each. `pool`: an
        earlier range's, whose memory is used again."""
        saved, going_on = pickle.loads(self.state)
        decoder.files = list(self.files)
        sessions = Sessions(decoder, self.names)
        if self.carried is not None:
            sessions.restore(going_on, self.carried.before)
            sessions.meet(self.carried.faces)
            while self.carried.rows:
                decoder.decode(self.carried.rows.pop(0))
                yield
            return
        rows, size, held, flows = self.limits
        reader = Reader(Rows(rows, size, held, pool), flows)
        reader.restore(saved)
        sessions.restore(going_on, len(reader.faces))
        for batches in self._batches(reader):
            sessions.introduce(reader)
            decoder.decode(batches)
            sessions.decoded(reader, batches.nbytes)
            yield
        reader.release()

    def _batches(self, reader: Reader) -> Iterator[pa.RecordBatch]:
        yield from read(reader, self.files, self.first, self.end)
        if self.end[0] == len(self.files):
            reader.finish()
        reader.rows.flush()
        yield from reader.rows.collect()


class Plan:
    """The pass. After it, the sessions and notes are those of the whole capture."""

    def __init__(self, files: list[str], limits: Limits, size: int = SIZE, carry: bool = False) -> None:
        rows, bytes, held, flows = limits
        self.files = files
        self.limits = limits
        self.size = max(1, size)
        self.skim = Skim(rows, bytes, held)
        self.reader = Reader(self.skim, flows)
        self.decoder = Decoder({})
        self.decoder.files = list(files)
        self.sessions = Sessions(self.decoder)
        self._beside = Rows(rows, bytes, held) if carry else None

    def ranges(self) -> Iterator[Range]:
        """Each range as soon as the pass has come to its end: decoding may begin before the pass is over."""
        first: Cut = (0, None)
        state = self._save()
        seen = file = at = 0  # bytes since the last cut; where the pass is
        place: Place | None = None
        while file < len(self.files):
            stop = at + self.size - seen
            in_place = can_be_mapped(self.files[file])
            whole = not in_place or os.path.getsize(self.files[file]) <= stop
            end = (file + 1, 0) if whole else (file, stop)
            if not in_place:
                self.skim.gather_no_more()  # nobody knows how much it is
            for batches in read(self.reader, self.files, (file, place), end):
                self._walk(batches)
            place = None if whole else self.reader.packets.place()
            if place is None or place[0] < stop:  # the file is over
                seen += os.path.getsize(self.files[file]) - at
                file, at, place = file + 1, 0, None
            else:
                at, seen = place[0], self.size
            if seen >= self.size and file < len(self.files):
                yield self._range(first, (file, at), state)
                first, state, seen = (file, place), self._save(), 0
        self.reader.finish()
        yield self._range(first, (len(self.files), 0), state)

    def notes(self) -> list[Note]:
        """Those of the whole capture, behind the last range."""
        return self.reader.notes.rows()

    def name(self, face: int) -> str:
        """Of a session that a note is about."""
        return self.sessions.name(face)

    def _walk(self, batches: pa.RecordBatch) -> None:
        self.sessions.introduce(self.reader)
        self.decoder.decode(batches)
        self.sessions.decoded(self.reader, batches.nbytes)

    def _range(self, first: Cut, end: tuple[int, int], state: bytes) -> Range:
        """Follows the sessions to this very packet, and says what began and what was read since the last cut."""
        self.reader.rows.flush()
        for batches in self.reader.rows.collect():
            self._walk(batches)
        self.sessions.introduce(self.reader, all_decoded=True)
        rows = self.skim.gathered()
        carried = None if rows is None else Carried(rows, self.reader.faces[self._before :], self._before)
        return Range(self.files, first, end, self.limits, state, self.sessions.born, carried)

    def _save(self) -> bytes:
        """What is known where a range begins. Pickled at once, for what is saved goes on changing."""
        self._before = len(self.reader.faces)
        if self._beside is not None:
            self.skim.gather(self._beside, INFLATED * self.size // self.limits[1] + 1)
        return pickle.dumps((self.reader.save(), self.sessions.save()), protocol=5)
