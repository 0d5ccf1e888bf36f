# SPDX-License-Identifier: Apache-2.0
"""A capture as decoded tables: its batches through the one decoder, its notes as events."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from zenlake import capture
from zenlake.columns import Decoder
from zenlake.columns.schemas import chosen
from zenlake.errors import InvalidValue

ROWS = 16384


def decode(
    paths: capture.PATH | Iterable[capture.PATH],
    tables: Mapping[str, Sequence[str] | None],
    rows: int = ROWS,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The tables asked for (each with the columns wanted, or None for all), as (table, record batch) while they fill."""
    source = capture.open(paths)
    decoder = Decoder(tables, rows)
    decoder.files = list(source.files)
    names: dict[str, int] = {}
    for batches in source.batches():
        introduce(source, decoder, names)
        decoder.decode(batches)
        yield from told(decoder.take())
    introduce(source, decoder, names)  # those from whom no batch came: encrypted ones
    refuse_if_nothing_was_a_capture(source)
    yield from told(decoder.finish())
    if "events" in tables:
        yield from noted(source, decoder, tables["events"])


def introduce(source: capture.Capture, decoder: Decoder, names: dict[str, int]) -> None:
    """Tell the decoder of the faces that the capture has met since."""
    for face in source.faces[len(decoder.sessions) :]:
        session = decoder.session(face.id)
        session.name = name_of(face, names)
        session.is_scouting = face.protocol == "scouting"
        session.is_multicast = face.protocol == "multicast"


def refuse_if_nothing_was_a_capture(source: capture.Capture) -> None:
    """What ends too soon is read as far as it goes, and an event says so; a file without one readable packet is a mistake."""
    unread = {note.file: note.why for note in source.notes() if note.kind == "unreadable" and note.packet == 0}
    if unread and len(unread) == len(source.files):
        raise InvalidValue("; ".join(f"{source.files[file]} is no capture: {why}" for file, why in unread.items()))


def told(done: Mapping[str, list[pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    for table, batches in done.items():
        for batch in batches:
            yield table, batch


def name_of(face: capture.Face, names: dict[str, int]) -> str:
    """What a session is called: protocol and addresses, and a count where the same addresses met again."""
    name = f"{face.protocol}/{address(face.client)}->{address(face.server)}"
    names[name] = names.get(name, 0) + 1
    return name if names[name] == 1 else f"{name}#{names[name]}"


def address(of: tuple[str, int]) -> str:
    host, port = of
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def noted(
    source: capture.Capture, decoder: Decoder, columns: Sequence[str] | None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """What the capture skipped or repaired, as rows of `events`: nothing is dropped silently."""
    whole = chosen("events")
    rows = [
        {
            "session": decoder.sessions[note.face].name if 0 <= note.face < len(decoder.sessions) else "",
            "direction": 0,
            "file": source.files[note.file],
            "packet": note.packet,
            "index": 0,
            "kind": f"capture {note.kind}",
            "count": note.count,
            "detail": f"{note.why}; {note.bytes} bytes" if note.bytes else note.why,
        }
        for note in source.notes()
    ]
    if rows:
        batch = pa.RecordBatch.from_pylist(rows, schema=whole)
        yield "events", batch.select(chosen("events", list(columns) if columns is not None else None).names)
