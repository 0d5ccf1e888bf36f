# SPDX-License-Identifier: Apache-2.0
"""Landed parts of logs: intervals of offsets, merged where they are adjacent.

An offset is [segment, block]. A piece is an interval of offsets. A piece that ends with its segment ends at the start of the
next segment, so consecutive pieces of a log are adjacent. A query that lands a log from its start therefore has one interval
per writer, however long it runs.

A table stores the intervals as numbers of its commit log. `landed/LOG/WRITER` is the number of intervals of a writer.
`landed/LOG/WRITER/0/start` and `.../stop` are offsets, as `segment << 32 | block`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zenlake.log.reader import BlockRange, Log

__all__ = ["LandedIntervals", "Piece", "pieces", "replan"]

Offset = tuple[int, int]
Interval = tuple[Offset, Offset]


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
    """Landed intervals of a log in one table. A part is an interval in the form of `Piece.plain`."""

    def __init__(self, log: str, parts: Iterable[Sequence[Any]] = ()) -> None:
        self.log = log
        self._held: dict[str, list[Interval]] = {}
        for part in parts:
            self.add(part)

    @classmethod
    def from_numbers(cls, number: Callable[[str], int | None], log: str, writers: Iterable[str]) -> "LandedIntervals":
        """Read the intervals of some writers from the numbers of a table."""
        found = cls(log)
        for writer in writers:
            name = f"landed/{log}/{writer}"
            for i in range(number(name) or 0):
                start, stop = number(f"{name}/{i}/start"), number(f"{name}/{i}/stop")
                if start is not None and stop is not None:
                    found.add([writer, *_unpack(start), *_unpack(stop)])
        return found

    def numbers(self) -> dict[str, int]:
        """Return the intervals as numbers of a table."""
        found = {}
        for writer, held in self._held.items():
            name = f"landed/{self.log}/{writer}"
            found[name] = len(held)
            for i, (start, stop) in enumerate(held):
                found |= {f"{name}/{i}/start": _pack(start), f"{name}/{i}/stop": _pack(stop)}
        return found

    def of(self, writer: str) -> list[Interval]:
        """Return the intervals of a writer, in order."""
        return self._held.get(writer, [])

    def add(self, part: Sequence[Any]) -> None:
        writer, new = _interval(part)
        joined: list[Interval] = []
        for start, stop in sorted([*self.of(writer), new]):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(joined[-1][1], stop))
            else:
                joined.append((start, stop))
        self._held[writer] = joined

    def remove(self, part: Sequence[Any]) -> None:
        writer, gone = _interval(part)
        self._held[writer] = [rest for old in self.of(writer) for rest in _subtract(old, gone)]

    def overlaps(self, part: Sequence[Any]) -> bool:
        writer, (start, stop) = _interval(part)
        return any(max(begin, start) < min(end, stop) for begin, end in self.of(writer))

    def find_missing(self, wanted: Iterable[Piece]) -> Iterator[Piece]:
        """Return the parts of these pieces that are not landed."""
        for piece in wanted:
            left = [(piece.start, piece.stop)]
            for landed in self.of(piece.writer):
                left = [rest for old in left for rest in _subtract(old, landed)]
            yield from (_cut(piece, start, stop) for start, stop in left)


def _interval(part: Sequence[Any]) -> tuple[str, Interval]:
    return part[0], (_offset(part[1:3]), _offset(part[3:5]))


def _subtract(old: Interval, gone: Interval) -> Iterator[Interval]:
    (start, stop), (begin, end) = old, gone
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
