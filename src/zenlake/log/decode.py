# SPDX-License-Identifier: Apache-2.0
"""Decoded tables of a log: batches are decoded by the shared decoder, notes become rows of `events`.

Any range of blocks gives the rows that the whole log gives for these blocks, independent of the reader and the order.
"""

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.columns import Decoder
from zenlake.columns.schemas import select_schema
from zenlake.errors import LogError
from zenlake.log.block import DAMAGE, BlockInfo, numbers, unpack
from zenlake.log.layout import NOTE
from zenlake.log.reader import BlockRange, Log, Segment
from zenlake.log.redaction import RedactedView
from zenlake.log.session_state import Pointer, SegmentState
from zenlake.log.session_tracker import SessionTracker
from zenlake.session.state import SessionState

__all__ = ["Damaged", "decode", "decode_ranges"]

ROWS = 16384
MAX_REDACTED = 1 << 16
Found = Iterator[tuple[str, pa.RecordBatch]]
Damaged = Callable[[LogError], object]
"""Callback for each unreadable part of a log. Reading then continues after it."""


def count_rows(first: int, count: int) -> pa.Array:
    """Return consecutive numbers."""
    return numbers(pa.int64(), range(first, first + count))


NUMBERS = count_rows(0, 4096)  # sufficient for the rows of most blocks


def decode(
    paths: Iterable[str],
    tables: Mapping[str, Sequence[str] | None],
    rows: int = ROWS,
    since: int | None = None,
    until: int | None = None,
    damaged: Damaged | None = None,
) -> Found:
    """Decode the selected tables of whole logs. Yield (table, record batch) pairs as record batches fill.

    `since` and `until` (ns) skip blocks without rows in that time. The other blocks are decoded completely.
    """
    for path in paths:
        log = Log(path)
        yield from decode_ranges(log, log.plan(since=since, until=until), tables, rows, damaged)


def decode_ranges(
    log: Log, ranges: Iterable[BlockRange], tables: Mapping[str, Sequence[str] | None], rows: int = ROWS,
    damaged: Damaged | None = None,
) -> Found:  # fmt: skip
    """Decode the rows of these blocks.

    Memory holds one block, the state of the faces, and partly received messages.

    An unreadable block is an error. With `damaged`, that callback gets the error instead, and a row of `events` says
    `log unreadable`. Reading continues with the next block, or with the next segment if the changes of the block are lost.
    """
    decoding = LogDecoder(log, tables, rows, damaged)
    for part in ranges:
        yield from decoding.run(part) if damaged is None else decoding.run_readable(part, damaged)
    yield from decoding.finish()


class LogDecoder:
    """One decoder for a sequence of ranges. Consecutive ranges read nothing twice."""

    def __init__(
        self, log: Log, tables: Mapping[str, Sequence[str] | None], rows: int, damaged: Damaged | None = None
    ) -> None:
        self.log = log
        self.tables = tables
        self._forgiving = damaged is not None
        self._rows = rows
        self.decoder = self._decoder({"events": ["packet"]})
        self._shown: RedactedView | None = None
        self._before: tuple[str, int, int] | None = None
        self._state = SegmentState()
        self._writer = ""
        self._segment = 0
        self._block: int | None = None  # of the current segment
        self._constants: dict[
            str, pa.Array
        ] = {}  # columns with one value for a writer, as long as the longest record batch

    def run_readable(self, part: BlockRange, damaged: Damaged) -> Found:
        """Decode the readable part of a range. The rest becomes a row of `events` and a call of `damaged`."""
        wrong: LogError | OSError | None = None
        records = list(self.log.index(part.writer, part.segment))[part.first : part.last]
        left_out, rest = [], part
        while rest.first < rest.last:
            try:
                yield from self.run(rest)
                break
            except (LogError, OSError) as error:
                wrong = wrong or error
                after = rest.last if self._block is None else self._block + 1
                first = rest.first if self._block is None else self._block
                left_out += records[first - part.first : after - part.first]
                rest = replace(rest, first=after)
        if wrong is not None:
            count = sum(record.rows for record in left_out)
            reason = f"{wrong}; {count} batches skipped"
            damaged(LogError(reason))
            values = {"kind": "log unreadable", "count": count, "detail": reason}
            place = self._place(part.first + records.index(left_out[0]), left_out[0].row)
            yield from self._with_redaction([event(left_out[0].first, None, place, values)])

    def run(self, part: BlockRange) -> Found:
        self._block = None
        self._first_batch = 0
        if self._writer != part.writer:
            yield from self.finish()  # each writer numbers its own batches
            self._writer = part.writer
            self._constants.clear()
        self._segment = part.segment
        segment = self.log.segment(part)
        self._first_batch = segment.first_batch
        if segment.withholds and self._shown is None:
            yield from self._expect_redacted()
        if self._before != (part.writer, part.segment, part.first):
            state = segment.state(part.first)
            removed = self._partial_messages(part, self._state, state)
            self._state = state
            self.decoder.sessions[:] = state.sessions
            if removed and part.first == 0:
                yield from self._with_redaction([self._removed_event(segment, lane, state) for lane in removed])
        state = self._state
        with closing(segment.blocks(part.first, part.last)) as blocks:
            yield from self._decode(part, segment, state, blocks)
        self._before = (part.writer, part.segment, part.last)

    def _decode(
        self,
        part: BlockRange,
        segment: Segment,
        state: SegmentState,
        blocks: Iterator[tuple[pa.RecordBatch, BlockInfo]],
    ) -> Found:
        """Decode the blocks of a range. `state` is the state of the faces before it."""
        for block in range(part.first, part.last):
            self._block = block
            rows, about = next(blocks)
            for face in segment.new_faces(block, about):
                state.introduce(face)
                self.decoder.sessions.append(state.sessions[-1])
            segment.validate_rows(rows, block, len(state.faces))
            first = segment.first_batch + about.facts["row"]
            rows = number_rows(rows, first)
            self.decoder.position.segment = part.segment
            self.decoder.position.block = block
            self.decoder.position.first_batch = first
            if self._shown is not None and about.withheld is not None:
                self._shown.add(unpack(about.withheld), first)
            notes = None
            if about.facts["notes"]:
                is_note = pc.equal(rows.column("direction"), NOTE)
                notes = rows.filter(is_note)
                rows = rows.filter(pc.invert(is_note))
            self.decoder.decode(rows)
            if "cut" in about.facts and about.changes is not None:
                segment.apply(about.changes, block, state)
                self.decoder.sessions[:] = state.sessions
            if notes is not None and "events" in self.tables:
                notes = notes.set_column(0, "received", notes.column("received").cast(pa.int64()))
                try:
                    place = self._place(block, about.facts["row"])
                    events = [self._note(row, place) for row in notes.to_pylist()]
                    pa.RecordBatch.from_pylist(events, schema=select_schema("events"))
                except (RecursionError, *DAMAGE) as error:
                    raise LogError(f"{segment.where}, block {block}: invalid note: {error}") from None
                yield from self._with_redaction(events)
            yield from self._select_columns(self.decoder.take())
            if self._shown is not None and len(self._shown) > MAX_REDACTED:
                yield from self.finish()

    def finish(self) -> Found:
        """Return the rows of the incomplete record batches."""
        yield from self._select_columns(self.decoder.finish())
        if self._shown is not None:
            self._shown.clear()

    # Redacted values: only size and hash are stored

    def _expect_redacted(self) -> Found:
        """Decode from now on also the columns that locate redacted values."""
        yield from self.finish()
        self._shown = RedactedView()
        sessions = self.decoder.sessions
        self.decoder = self._decoder({"events": ["packet"], **RedactedView.NEEDS})
        self.decoder.sessions[:] = sessions

    def _decoder(self, besides: Mapping[str, Sequence[str]]) -> Decoder:
        """Return a decoder for the selected columns and for these."""
        tables = {
            name: None if columns is None else list(dict.fromkeys([*columns, *besides.get(name, ())]))
            for name, columns in self.tables.items()
        }
        return Decoder(tables, self._rows)

    def _select_columns(self, done: Mapping[str, list[pa.RecordBatch]]) -> Found:
        """Yield record batches reduced to the selected columns, with the identity of the log and writer."""
        for table, batch in iterate_tables(done):
            columns = self.tables[table]
            if self._shown is not None:
                batch = self._shown.rows(table, batch)
            for name, value in (("log", self.log.id or None), ("writer", self._writer)):
                if columns is None or name in columns:
                    i = batch.schema.get_field_index(name)
                    batch = batch.set_column(i, batch.schema.field(i), self._repeat(name, value, batch.num_rows))
            yield table, batch if columns is None else batch.select(list(columns))

    def _repeat(self, name: str, value: str | None, count: int) -> pa.Array:
        """Return a constant column. Performance: it is built once for a writer and sliced, not built for each record batch."""
        known = self._constants.get(name)
        if known is None or len(known) < count:
            known = self._constants[name] = repeat_text(value, max(count, self._rows))
        return known[:count]

    # Messages that began before the range

    def _partial_messages(
        self, part: BlockRange, before: SegmentState, state: SegmentState
    ) -> list[tuple[int, int, int]]:
        """Restore the received parts of the messages of all lanes. Return the lanes whose parts are gone."""
        carried: dict[str, SessionState] = {}
        if self._follows(part):
            carried = dict(zip((face.name for face in before.faces), self.decoder.sessions, strict=True))
        removed = []
        for (i, direction, lane), pointer in state.waiting.items():
            name = state.faces[i].name
            if name in carried:
                held = carried[name].sides[direction].lanes.save()["parts"].get(lane)
            else:
                try:
                    held = self._reread(part, name, state.sessions[i], direction, lane, pointer)
                except LogError:  # the error is reported when that part is read
                    if not self._forgiving:
                        raise
                    held = None
            if held is None:
                removed.append((i, direction, lane))
                continue
            lanes = state.sessions[i].sides[direction].lanes
            saved = lanes.save()
            saved["parts"][lane] = held
            lanes.restore(saved)
        return removed

    def _follows(self, part: BlockRange) -> bool:
        """Return whether the previous range ended at the end of the segment before this range."""
        if self._before is None or self._before[0] != part.writer or self._before[1] >= part.segment:
            return False
        _, segment, last = self._before
        between = [s for s in self.log.segments(part.writer) if segment < s < part.segment]
        return part.first == 0 and not between and last == len(self.log.index(part.writer, segment))

    def _reread(
        self, part: BlockRange, name: str, session: SessionState, direction: int, lane: int, pointer: Pointer
    ) -> list[Any] | None:
        """Read again the fragments from the first one to the beginning of the range."""
        first_segment, first_block, first_row, skip = pointer
        there = [s for s in self.log.segments(part.writer) if first_segment <= s <= part.segment]
        if not there or there[0] != first_segment:
            return None
        tracker = SessionTracker()
        terms = session.terms()
        bare = [{**side, "keys": {}, "lanes": {"last": [-1] * 16, "parts": {}}} for side in terms["sides"]]
        tracker.sessions.append(SessionState.restore({**terms, "sides": bare}))
        for number in there:
            segment = Segment(self.log.files, part.writer, number)
            start = first_block if number == first_segment else 0
            stop = part.first if number == part.segment else len(segment.index)
            faces = [face.name for face in segment.state(stop).faces]
            if name not in faces:
                continue
            for block in range(start, stop):
                rows = segment.validate_rows(segment.rows(block), block, len(faces))
                rows = rows.slice(first_row)
                mine = pc.and_(
                    pc.equal(rows.column("face"), faces.index(name)), pc.equal(rows.column("direction"), direction)
                )
                rows = rows.filter(mine)
                zeros = numbers(pa.int32(), [0] * rows.num_rows)
                tracker.follow(rows.set_column(1, rows.schema.field(1), zeros), skip)
                first_row = skip = 0
        found: list[Any] | None = tracker.sessions[0].sides[direction].lanes.save()["parts"].get(lane)
        return found

    # Rows of `events`

    def _note(self, row: dict[str, Any], place: dict[str, int]) -> dict[str, Any]:
        session = self.decoder.sessions[row["face"]] if row["face"] >= 0 else None
        here = {**place, "row": row["packet"] - place["packet"], "packet": row["packet"]}
        return event(row["received"], session, here, json.loads(row["batch"]))

    def _place(self, block: int, row: int) -> dict[str, int]:
        """Return the position of the first batch of a block, which is this row of its segment."""
        return {"segment": self._segment, "block": block, "row": 0, "packet": self._first_batch + row}

    def _removed_event(self, segment: Segment, lane: tuple[int, int, int], state: SegmentState) -> dict[str, Any]:
        i, direction, number = lane
        how = "was removed by retention" + (", or cannot be read" if self._forgiving else "")
        why = f"the first fragment {how}; the message cannot be reassembled"
        values = {
            "kind": "log removed", "direction": direction, "priority": number >> 1, "reliable": number & 1 == 1, "count": 1,
            "detail": why,
        }  # fmt: skip
        return event(segment.index[0].first, state.sessions[i], self._place(0, 0), values)

    def _with_redaction(self, rows: list[dict[str, Any]]) -> Found:
        """Yield these rows merged with the events of the decoder, ordered by batch."""
        if "events" not in self.tables:
            return
        done = self.decoder.finish(["events"])
        columns = self.tables["events"]
        schema = select_schema("events", None if columns is None else list(dict.fromkeys([*columns, "packet"])))
        noted = pa.RecordBatch.from_pylist(rows, schema=select_schema("events")).select(schema.names)
        events = pa.Table.from_batches([*done["events"], noted], schema=schema)
        order = pc.array_sort_indices(events.column("packet").combine_chunks())  # stable order
        done["events"] = events.take(order).combine_chunks().to_batches()
        yield from self._select_columns(done)


def event(received: int, session: SessionState | None, place: dict[str, int], values: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `events`. Arrow ignores values that are not columns."""
    row = {
        "received": received // 1000, "received_ns": received, "session": session.name if session is not None else "",
        "generation": session.generation if session is not None else None, "direction": 0, "index": 0, **place,
    }  # fmt: skip
    return {**row, **values}


def number_rows(rows: pa.RecordBatch, first: int) -> pa.RecordBatch:
    """Return the rows with a column of batch numbers, for the decoder."""
    count = rows.num_rows
    if count > len(NUMBERS):
        return rows.append_column("packet", count_rows(first, count))
    return rows.append_column("packet", pc.add(NUMBERS[:count], count_rows(first, 1)[0]))


def iterate_tables(done: Mapping[str, list[pa.RecordBatch]]) -> Found:
    for table, batches in done.items():
        for batch in batches:
            yield table, batch


def repeat_text(value: str | None, count: int) -> pa.Array:
    """Return a constant column. It is built from buffers: from Python values, pyarrow would import pandas first."""
    if value is None:
        return pa.nulls(count, pa.string())
    text = value.encode()
    one = pa.StringArray.from_buffers(1, pa.py_buffer(struct.pack("=2i", 0, len(text))), pa.py_buffer(text))
    return pa.repeat(one[0], count)
