# SPDX-License-Identifier: Apache-2.0
"""Capture files as decoded tables: batches go through the common decoder, notes become events."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from zenlake.capture import Capture
from zenlake.capture.diagnostics import Diagnostic, Diagnostics
from zenlake.capture.plan_cache import CachedPlan
from zenlake.capture.prefetch import Prefetcher
from zenlake.capture.session_registry import SessionRegistry
from zenlake.capture.splits import Split
from zenlake.columns import Decoder
from zenlake.columns.buffer_pool import Pool
from zenlake.columns.schemas import select_schema
from zenlake.errors import InvalidValue

logger = logging.getLogger("zenlake.capture")

ROWS = 8192  # per record batch: small enough that the columns are still in the CPU cache when they are read

Tables = Mapping[str, Sequence[str] | None]  # table name -> columns, or None for all
Decoded = Iterator[tuple[str, pa.RecordBatch]]


def decode(source: Capture, tables: Tables, rows: int = ROWS, ahead: bool = False) -> Decoded:
    """Decode the selected tables. Yield (table, record batch) as they fill.

    With `ahead`, another thread reads the capture and this one decodes. The rows of a pipe are complete after each read.
    """
    decoder = Decoder(tables, rows)
    decoder.files = list(source.files)
    sessions = SessionRegistry(decoder)
    given_up = Diagnostics()
    is_pipe = not all(map(os.path.isfile, source.files))
    steps = source.steps()
    with closing(Prefetcher(steps) if ahead else steps) as made:
        for batches, events in made:
            sessions.apply_events(events, source.reader)
            if batches is not None:  # otherwise there are only sessions without batches: encrypted ones
                decoder.decode(batches)
                sessions.enforce_limit(batches.get_total_buffer_size(), given_up, position_of(batches))
                del batches
            # The next rows of a pipe may come much later.
            yield from iterate_tables(decoder.finish(list(tables)) if is_pipe else decoder.take())
    notes = source.notes() + given_up.rows()
    log_unreadable(source.files, notes)
    yield from iterate_tables(decoder.finish())
    yield from make_error_rows(source.files, notes, sessions.name, tables)


def position_of(batches: pa.RecordBatch) -> tuple[int, int]:
    """Return the file and packet of the last row."""
    return batches["file"][-1].as_py(), batches["packet"][-1].as_py()


def decode_range(
    of: Split, tables: Tables, rows: int = ROWS, decoder: Decoder | None = None, pool: Pool | None = None
) -> Decoded:
    """Decode the selected tables of one range.

    All ranges in order give the same rows as `decode`, except the capture's notes. A decoder of the same tables that has
    finished another range may be reused, and so may the pool with the memory of that range's rows.
    """
    decoder = decoder or Decoder(tables, rows)
    for _ in of.decode(decoder, pool):
        yield from iterate_tables(decoder.take())
    yield from iterate_tables(decoder.finish())


def select_diagnostics(plan: CachedPlan, tables: Tables) -> Decoded:
    """Return the capture's notes as events. The plan must be complete."""
    notes = plan.notes()
    log_unreadable(plan.files, notes)
    return make_error_rows(plan.files, notes, plan.name, tables)


def log_unreadable(files: list[str], notes: list[Diagnostic]) -> None:
    """Log a warning for each truncated or damaged file, and raise if no file has a readable packet.

    A truncated file is decoded up to the damage, and an event records it. The log line is for users who do not query events.
    """
    unread = [note for note in notes if note.kind == "unreadable"]
    if len({note.file for note in unread if note.packet == 0}) == len(files):
        raise InvalidValue("; ".join(f"{files[note.file]} is not a capture: {note.why}" for note in unread))
    for note in unread:
        logger.warning("%s: read up to packet %d: %s", files[note.file], note.packet, note.why)


def iterate_tables(done: Mapping[str, list[pa.RecordBatch]]) -> Decoded:
    for table, batches in done.items():
        for batch in batches:
            yield table, batch


def make_error_rows(files: list[str], notes: list[Diagnostic], name: Callable[[int], str], tables: Tables) -> Decoded:
    """Yield the capture's notes as rows of `events`, so that no bytes are dropped silently."""
    if "events" not in tables or not notes:
        return
    columns = tables["events"]
    rows = [
        {
            "session": name(note.face),
            "direction": note.direction,
            "file": files[note.file],
            "packet": note.packet,
            "index": 0,
            "kind": f"capture {note.kind}",
            "priority": note.priority,
            "reliable": note.reliable,
            "sn": note.sn,
            "count": note.count,
            "detail": f"{note.why}; {note.bytes} bytes" if note.bytes else note.why,
        }
        for note in notes
    ]
    batch = pa.RecordBatch.from_pylist(rows, schema=select_schema("events"))
    yield "events", batch.select(select_schema("events", list(columns) if columns is not None else None).names)
