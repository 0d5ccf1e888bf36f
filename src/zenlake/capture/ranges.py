# SPDX-License-Identifier: Apache-2.0
"""Ranges of a capture, each to be decoded on its own, by another process or on another machine.

What a packet means depends on those before it: which session it belongs to, where a batch begins, what a key's id stands
for. One pass over the capture finds all that and fills no table, which makes it several times cheaper than decoding; at
each cut it saves where it stands. A range is such a place, the next one, and the names of the sessions that begin between.
It may begin inside a conversation, a batch or a message whose first half lies in the range before.

Whoever decodes in the process that makes the pass need not read a range again: the rows can come with it.

A file can be cut where it lies on disk as it was written; a compressed one stays whole.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from zenlake.capture.files import lies_in_place
from zenlake.capture.notes import Face, Note
from zenlake.capture.reader import Reader
from zenlake.capture.rows import Rows
from zenlake.capture.sessions import Sessions
from zenlake.capture.skim import Skim
from zenlake.capture.walk import Cut, Walk
from zenlake.columns import Decoder
from zenlake.columns.pool import Pool

# Bytes of a range, unless told: each costs the pass 0.2 ms, and larger ones leave the caches before they are decoded.
SIZE = 4 << 20
INFLATED = 4  # rows of a range that are so many times its size (they were compressed) do not come with it

Limits = tuple[int, int, int, int]  # rows and bytes of a record batch, bytes held, flows


def size_that_can_be_cut(files: list[str]) -> int:
    """Bytes of the files that lie on disk as they were written."""
    return sum(os.path.getsize(file) if lies_in_place(file) else 0 for file in files)


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
            sessions.decoded(batches.get_total_buffer_size(), reader.notes, reader.place())
            yield
        reader.release()

    def _batches(self, reader: Reader) -> Iterator[pa.RecordBatch]:
        yield from Walk(reader, self.files, self.first).to(*self.end)
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
        walk = Walk(self.reader, self.files)
        first, state = walk.place(), self._save()
        seen = at = 0  # bytes since the last cut; of the file, up to where the walk is
        while walk.file < len(self.files):
            file = walk.file
            if at == 0:
                size = os.path.getsize(self.files[file])
                in_place = lies_in_place(self.files[file])
            if not in_place:
                self.skim.gather_no_more()  # nobody knows how much it is
            stop = at + self.size - seen
            for batches in walk.to(file, stop) if in_place and stop < size else walk.to(file + 1, 0):
                self._follow(batches)
            if walk.file > file:
                seen += size - at
                at = 0
            else:
                seen = self.size
                at = walk.at
            if seen >= self.size and walk.file < len(self.files):
                yield self._range(first, (walk.file, at), state)
                first, state, seen = walk.place(), self._save(), 0
        self.reader.finish()
        yield self._range(first, (len(self.files), 0), state)

    def notes(self) -> list[Note]:
        """Those of the whole capture, behind the last range."""
        return self.reader.notes.rows()

    def name(self, face: int) -> str:
        """Of a session that a note is about."""
        return self.sessions.name(face)

    def _follow(self, batches: pa.RecordBatch) -> None:
        self.sessions.introduce(self.reader)
        self.decoder.decode(batches)
        self.sessions.decoded(batches.get_total_buffer_size(), self.reader.notes, self.reader.place())

    def _range(self, first: Cut, end: tuple[int, int], state: bytes) -> Range:
        """Follows the sessions to this very packet, and says what began and what was read since the last cut."""
        self.reader.rows.flush()
        for batches in self.reader.rows.collect():
            self._follow(batches)
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
