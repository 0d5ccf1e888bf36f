# SPDX-License-Identifier: Apache-2.0
"""Ranges of a capture that can be decoded independently, in another process or on another machine.

The meaning of a packet depends on earlier packets: its session, the start of its batch, the key of an id. One pass over
the capture collects this state and fills no table, which makes it several times cheaper than decoding. At each split
point the pass saves its state. A range consists of a saved state, the next split point, and the names of the sessions
that begin between them. It may begin inside a flow, a batch or a message whose first half lies in the previous range.

A consumer in the same process need not read a range again: the rows can be attached to it.

A file with random access can be split. A compressed file is one range.
"""

import os
import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from zenlake.capture.batch_builder import BatchBuilder
from zenlake.capture.diagnostics import CapturedFace, Diagnostic
from zenlake.capture.file_cursor import FileCursor, FilePosition
from zenlake.capture.packet_loop import PacketLoop
from zenlake.capture.pcap import is_contiguous
from zenlake.capture.session_registry import SessionRegistry
from zenlake.capture.state_filter import StateFilter
from zenlake.columns import Decoder
from zenlake.columns.buffer_pool import Pool

# Default size of a range, in bytes: each range costs the pass 0.2 ms, and larger ones leave the CPU caches before decoding.
SIZE = 4 << 20
MAX_INFLATION = 4  # rows that exceed the range's size by this factor (they were compressed) are not attached

Limits = tuple[int, int, int, int]  # rows and bytes of a record batch, bytes held, flows


def splittable_size(files: list[str]) -> int:
    """Return the total size in bytes of the files with random access."""
    return sum(os.path.getsize(file) if is_contiguous(file) else 0 for file in files)


class DecodedSplit(NamedTuple):
    """The rows and faces that the pass has read for a range. The first `first_face` faces belong to earlier ranges."""

    rows: list[pa.RecordBatch]
    faces: list[CapturedFace | None]
    first_face: int


@dataclass(frozen=True, slots=True)
class Split:
    """A part of a capture. It can be pickled; the files must stay at the same path."""

    files: list[str]
    first: FilePosition
    end: tuple[int, int]
    limits: Limits
    state: bytes  # of the reader and the sessions, pickled at the start of the range
    names: dict[int, str]  # of the faces that begin in it
    carried: DecodedSplit | None = None

    def decode(self, decoder: Decoder, pool: Pool | None = None) -> Iterator[None]:
        """Decode the range, one record batch per step. The filled tables may be taken at each step.

        `pool` is the pool of an earlier range, whose memory is reused.
        """
        saved, sessions_state = pickle.loads(self.state)
        decoder.files = list(self.files)
        sessions = SessionRegistry(decoder, self.names)
        if self.carried is not None:
            sessions.restore(sessions_state, self.carried.first_face)
            sessions.add_faces(self.carried.faces)
            while self.carried.rows:
                decoder.decode(self.carried.rows.pop(0))
                yield
            return
        rows, size, held, flows = self.limits
        reader = PacketLoop(BatchBuilder(rows, size, held, pool), flows)
        reader.restore(saved)
        sessions.restore(sessions_state, len(reader.faces))
        for batches in self._batches(reader):
            sessions.update_faces(reader)
            decoder.decode(batches)
            sessions.enforce_limit(batches.get_total_buffer_size(), reader.notes, reader.position())
            yield
        reader.release()

    def _batches(self, reader: PacketLoop) -> Iterator[pa.RecordBatch]:
        yield from FileCursor(reader, self.files, self.first).read_to(*self.end)
        if self.end[0] == len(self.files):
            reader.finish()
        reader.rows.flush()
        yield from reader.rows.collect()


class SplitPlan:
    """The planning pass. After it, the sessions and notes are those of the whole capture."""

    def __init__(self, files: list[str], limits: Limits, size: int = SIZE, carry: bool = False) -> None:
        rows, bytes, held, flows = limits
        self.files = files
        self.limits = limits
        self.size = max(1, size)
        self.state_filter = StateFilter(rows, bytes, held)
        self.reader = PacketLoop(self.state_filter, flows)
        self.decoder = Decoder({})
        self.decoder.files = list(files)
        self.sessions = SessionRegistry(self.decoder)
        self._all_rows = BatchBuilder(rows, bytes, held) if carry else None

    def ranges(self) -> Iterator[Split]:
        """Yield each range as soon as the pass reaches its end. Decoding may start before the pass is complete."""
        cursor = FileCursor(self.reader, self.files)
        first, state = cursor.position(), self._save()
        seen = at = 0  # bytes since the last split; offset in the current file
        while cursor.file < len(self.files):
            file = cursor.file
            if at == 0:
                size = os.path.getsize(self.files[file])
                in_place = is_contiguous(self.files[file])
            if not in_place:
                self.state_filter.stop_collecting()  # of unknown size
            stop = at + self.size - seen
            for batches in cursor.read_to(file, stop) if in_place and stop < size else cursor.read_to(file + 1, 0):
                self._follow(batches)
            if cursor.file > file:
                seen += size - at
                at = 0
            else:
                seen = self.size
                at = cursor.at
            if seen >= self.size and cursor.file < len(self.files):
                yield self._range(first, (cursor.file, at), state)
                first, state, seen = cursor.position(), self._save(), 0
        self.reader.finish()
        yield self._range(first, (len(self.files), 0), state)

    def notes(self) -> list[Diagnostic]:
        """Return the notes of the whole capture. Valid after the last range."""
        return self.reader.notes.rows()

    def name(self, face: int) -> str:
        """Return the session name of a note's face."""
        return self.sessions.name(face)

    def _follow(self, batches: pa.RecordBatch) -> None:
        self.sessions.update_faces(self.reader)
        self.decoder.decode(batches)
        self.sessions.enforce_limit(batches.get_total_buffer_size(), self.reader.notes, self.reader.position())

    def _range(self, first: FilePosition, end: tuple[int, int], state: bytes) -> Split:
        """Return the range from `first` to `end`, with its new sessions and, if they are collected, its rows."""
        self.reader.rows.flush()
        for batches in self.reader.rows.collect():
            self._follow(batches)
        self.sessions.update_faces(self.reader, all_decoded=True)
        rows = self.state_filter.collect_rows()
        carried = None if rows is None else DecodedSplit(rows, self.reader.faces[self._first_face :], self._first_face)
        return Split(self.files, first, end, self.limits, state, self.sessions.new_names, carried)

    def _save(self) -> bytes:
        """Save the state at the start of a range. It is pickled immediately, because the objects continue to change."""
        self._first_face = len(self.reader.faces)
        if self._all_rows is not None:
            self.state_filter.start_collecting(self._all_rows, MAX_INFLATION * self.size // self.limits[1] + 1)
        return pickle.dumps((self.reader.save(), self.sessions.save()), protocol=5)
