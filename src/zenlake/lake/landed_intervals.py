# SPDX-License-Identifier: Apache-2.0
"""Landed parts of logs: intervals of offsets, merged where they are adjacent.

An offset is [segment, block]. A piece is an interval of offsets. A piece that ends with its segment ends at the start of the
next segment, so consecutive pieces of a log are adjacent. A query that lands a log from its start therefore has one interval
per writer, however long it runs.

A table stores them as numbers of its commit log: `landed/LOG/WRITER` is the number of intervals of a writer, and
`landed/LOG/WRITER/0/start` and `.../stop` are offsets, as `segment << 32 | block`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zenlake.log.reader import BlockRange, Log

__all__ = ["LandedIntervals", "Piece", "pieces", "replan"]

Offset = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of blocks to read, and the interval that is landed with it."""

    start: Offset
    stop: Offset
    range: BlockRange

    @property
    def writer(self) -> str:
        return self.range.writer

    def plain(self) -> list[Any]:
        return [self.writer, *self.start, *self.stop]


def pieces(
    ranges: Sequence[BlockRange], start: Mapping[str, Sequence[int]], end: Mapping[str, Sequence[int]]
) -> list[Piece]:
    """Convert the planned ranges between two offsets into pieces without gaps between them."""
    found: list[Piece] = []
    for i, part in enumerate(ranges):
        follows = i > 0 and ranges[i - 1].writer == part.writer
        ends = i + 1 == len(ranges) or ranges[i + 1].writer != part.writer
        begin = found[-1].stop if follows else _offset(start.get(part.writer, (0, 0)))
        stop = _offset(end[part.writer]) if ends else (ranges[i + 1].segment, ranges[i + 1].first)
        found.append(Piece(begin, stop, part))
    return found


class LandedIntervals:
    """Landed intervals of one table: {log: {writer: [[segment, block, segment, block], ...]}}."""

    def __init__(self, plain: Mapping[str, Mapping[str, Sequence[Sequence[int]]]] | None = None) -> None:
        self._logs: dict[str, dict[str, list[tuple[Offset, Offset]]]] = {
            log: {writer: [(_offset(each[:2]), _offset(each[2:])) for each in held] for writer, held in writers.items()}
            for log, writers in (plain or {}).items()
        }

    def plain(self) -> dict[str, dict[str, list[list[int]]]]:
        return {
            log: {writer: [[*start, *stop] for start, stop in held] for writer, held in sorted(writers.items())}
            for log, writers in sorted(self._logs.items())
        }

    @classmethod
    def from_numbers(cls, number: Callable[[str], int | None], log: str, writers: Iterable[str]) -> "LandedIntervals":
        """Read the intervals of some writers of a log from the numbers of a table."""
        found = cls()
        for writer in writers:
            name = f"landed/{log}/{writer}"
            for i in range(number(name) or 0):
                start, stop = number(f"{name}/{i}/start"), number(f"{name}/{i}/stop")
                if start is not None and stop is not None:
                    found.add(log, writer, _unpack(start), _unpack(stop))
        return found

    def numbers(self) -> dict[str, int]:
        """Return the intervals as numbers of a table."""
        found = {}
        for log, writers in self._logs.items():
            for writer, held in writers.items():
                name = f"landed/{log}/{writer}"
                found[name] = len(held)
                for i, (start, stop) in enumerate(held):
                    found |= {f"{name}/{i}/start": _pack(start), f"{name}/{i}/stop": _pack(stop)}
        return found

    def add(self, log: str, writer: str, start: Offset, stop: Offset) -> None:
        held = self._logs.setdefault(log, {}).setdefault(writer, [])
        joined: list[tuple[Offset, Offset]] = []
        for begin, end in sorted([*held, (start, stop)]):
            if joined and begin <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], end))
            else:
                joined.append((begin, end))
        held[:] = joined

    def remove(self, log: str, writer: str, start: Offset, stop: Offset) -> None:
        held = self._logs.get(log, {}).get(writer, [])
        held[:] = [part for old in held for part in _subtract(old, start, stop)]

    def overlaps(self, log: str, piece: Sequence[Any]) -> bool:
        """Return whether any part of a piece (in the form of `Piece.plain`) is landed."""
        writer, start, stop = piece[0], _offset(piece[1:3]), _offset(piece[3:5])
        return any(max(begin, start) < min(end, stop) for begin, end in self._intervals(log, writer))

    def find_missing(self, log: str, wanted: Iterable[Piece]) -> Iterator[Piece]:
        """Return the parts of these pieces that are not landed."""
        for piece in wanted:
            left = [(piece.start, piece.stop)]
            for begin, end in self._intervals(log, piece.writer):
                left = [part for old in left for part in _subtract(old, begin, end)]
            for start, stop in left:
                yield _cut(piece, start, stop)

    def _intervals(self, log: str, writer: str) -> list[tuple[Offset, Offset]]:
        return self._logs.get(log, {}).get(writer, [])


def _subtract(old: tuple[Offset, Offset], begin: Offset, end: Offset) -> Iterator[tuple[Offset, Offset]]:
    start, stop = old
    if begin >= stop or end <= start:
        yield old
        return
    if start < begin:
        yield start, begin
    if end < stop:
        yield end, stop


def _cut(piece: Piece, start: Offset, stop: Offset) -> Piece:
    """Return the part of a piece between two offsets. Its range is in one segment."""
    part = piece.range
    first = min(max(start, (part.segment, part.first)), (part.segment, part.last))[1]
    last = max(min(stop, (part.segment, part.last)), (part.segment, part.first))[1]
    return Piece(start, stop, replace(part, first=first, last=max(first, last)))


def _pack(offset: Offset) -> int:
    return offset[0] << 32 | offset[1]


def _unpack(number: int) -> Offset:
    return number >> 32, number & 0xFFFFFFFF


def _offset(values: Sequence[int]) -> Offset:
    segment, block = values
    return int(segment), int(block)


def replan(log: Log, plain: Iterable[Sequence[Any]], whole: bool = True) -> list[Piece]:
    """Restore pieces from `Piece.plain`. Unless `whole`, blocks that were removed since are skipped."""
    found: list[Piece] = []
    for writer, *interval in plain:
        start, end = {writer: interval[:2]}, {writer: interval[2:]}
        begin = start if whole else {writer: log.next(writer, interval[:2])}
        if begin[writer] < end[writer]:
            found += pieces(log.plan(begin, end), start, end)
    return found
