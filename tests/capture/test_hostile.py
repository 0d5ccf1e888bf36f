# SPDX-License-Identifier: Apache-2.0
"""Captures made to exhaust memory: every buffer is limited, and dropped bytes are noted."""

import tracemalloc

from tests.capture import forge
from tests.capture.forge import Connection, add_prefix, fragment, init_syn, interface, section, sum_notes
from zenlake import capture
from zenlake.capture import session_registry
from zenlake.capture.decode import decode
from zenlake.capture.diagnostics import Diagnostics
from zenlake.capture.session_registry import SessionRegistry
from zenlake.columns import Decoder


def openers(count):
    """Return connections that send an InitSyn and nothing more."""
    for i in range(count):
        connection = Connection(client=(f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}", 40000))
        yield from connection.open()
        yield connection.send(0, add_prefix(init_syn()))


def test_sessions_that_are_over_are_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(session_registry, "MAX_CLOSED_FACES", 100)
    path = tmp_path / "openers.pcap"
    path.write_bytes(forge.pcap(openers(1000)))
    source = capture.open(path, flows=50, rows=20)
    decoder = Decoder({"events": None, "messages": None})
    decoder.files = source.files
    known = SessionRegistry(decoder)
    rows = 0
    for batches in source.batches():
        known.update_faces(source.reader)
        decoder.decode(batches)
        rows += len(batches)
        assert sum(session is not None for session in decoder.sessions) <= 50 + 3 * 20
        assert len(source.faces) <= 50 + 100 + 3 * 20
    assert rows == len(decoder.sessions) == 1000


def test_names_of_sessions_stay_apart_when_no_more_are_remembered(tmp_path, monkeypatch):
    monkeypatch.setattr(session_registry, "MAX_NAMES", 10)
    path = tmp_path / "openers.pcap"
    path.write_bytes(forge.pcap([*openers(30), *openers(30)]))
    found = [batch for _, batch in decode(capture.open(path, flows=8), {"messages": ["session"]})]
    names = [name for batch in found for name in batch["session"].to_pylist()]
    assert len(names) == len(set(names)) == 60


def test_notes_are_summed_when_there_are_too_many(monkeypatch):
    monkeypatch.setattr(Diagnostics, "MAX_ENTRIES", 10)
    notes = Diagnostics()
    for face in range(100):
        notes.add("cut", 0, face + 1, face, 5)
    rows = notes.rows()
    assert len(rows) == 11
    assert sum(note.count for note in rows) == 100
    assert sum(note.bytes for note in rows) == 500


def test_segments_behind_a_hole_are_bounded_over_all_connections(tmp_path):
    packets = []
    for i in range(12):
        connection = Connection(client=(f"10.0.1.{i}", 40000))
        packets += connection.open()
        packets += [connection.segment(0, connection.seq[0] + 10 + 1500 * n, b"x" * 1400) for n in range(150)]
    path = tmp_path / "early.pcap"
    path.write_bytes(forge.pcap(packets))
    tracemalloc.start()
    try:
        found, table = forge.read(path, held=1 << 17, rows=100, bytes=1 << 16)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(table) == 0
    assert sum_notes(found)["missing", -1][0] > 12
    assert peak < 1 << 20  # of the 2.5 MB that were sent


def test_messages_that_never_end_are_dropped_and_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(session_registry, "MAX_PARTIAL_BYTES", 50_000)
    monkeypatch.setattr(session_registry, "CHECK_INTERVAL", 1)
    packets = []
    for i in range(20):
        connection = Connection(client=(f"10.0.1.{i}", 40000))
        packets += connection.open() + connection.say(forge.HANDSHAKE)
        packets += connection.say([(0, fragment(sn, b"y" * 5000)) for sn in range(3)])
    path = tmp_path / "halves.pcap"
    path.write_bytes(forge.pcap(packets))
    source = capture.open(path, rows=10)
    decoder = Decoder({"events": None})
    decoder.files = source.files
    known = SessionRegistry(decoder)
    for batches in source.batches():
        known.update_faces(source.reader)
        decoder.decode(batches)
        known.enforce_limit(batches.nbytes, source.reader.notes, source.reader.position())
        held = sum(side.lanes.held_bytes() for session in decoder.sessions for side in session.sides)
        assert held <= 50_000
    given_up = [size for (kind, _), (_, size) in sum_notes(source).items() if kind == "limit"]
    assert sum(given_up) + held == 20 * 3 * 5000


def test_interfaces_without_end_are_taken_for_damage(tmp_path):
    path = tmp_path / "interfaces.pcapng"
    path.write_bytes(section() + interface() * 70_000)
    found, _ = forge.read(path)
    [note] = found.notes()
    assert note.kind == "unreadable"
    assert "more than 65536 interfaces" in note.why


def test_options_without_end_are_not_gathered(tmp_path):
    path = tmp_path / "options.pcapng"
    endless = forge.option(2, b"") * 1_000_000
    path.write_bytes(section() + interface(options=endless) + forge.pcapng([])[len(section() + interface()) :])
    tracemalloc.start()
    try:
        forge.read(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20
