# SPDX-License-Identifier: Apache-2.0
"""Hostile content in a recording: heads, changes and key ids stay within the limits of readers."""

import pytest

from tests.log.fixtures import Hasty
from zenlake.log import Log, Writer, block, decode_ranges, session_state
from zenlake.log.verify_repair import verify
from zenlake.session.key_table import KeyMemory
from zenlake.session.state import SessionState
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put

PIECE = 60_000


def declare(sn, ids, key):
    """Return a FRAME with declarations of key ids. `key` returns (scope, mapping, suffix) for each id."""
    return Frame(sn=sn).encode() + b"".join(Declare(body=DeclareKeyExpr(id=id, key=key(id))).encode() for id in ids)


def put(sn, key):
    return Frame(sn=sn).encode() + Push(key=key, body=Put(payload=b"v")).encode()


def read(log, ranges=None, **tables):
    found = {name: [] for name in tables}
    for name, batch in decode_ranges(log, log.plan() if ranges is None else ranges, tables):
        found[name] += batch.to_pylist()
    return found


@pytest.fixture
def small(monkeypatch):
    """Limits of a thousandth of the real ones."""
    from zenlake.log import writer as write

    monkeypatch.setattr(block, "MAX_STATE", 64 << 10)
    monkeypatch.setattr(write, "MAX_KEYS", 48 << 10)
    monkeypatch.setattr(session_state, "MAX_KEYS", 48 << 10)


def test_a_face_with_too_many_key_bytes_leaves_the_samples_of_others_readable(tmp_path, small):
    with Writer(tmp_path, "w", sync="sealed", block_size=4000, disk=Hasty()) as writer:
        good, bad, late = (writer.face("tcp", f"10.0.0.{i}:1", "10.0.0.9:2") for i in range(3))
        writer.append(good, 0, declare(0, [1], lambda id: (0, True, "good/k")))
        for sn in range(1, 100):
            writer.append(bad, 0, declare(sn, [sn], lambda id: (0, True, f"{id}/" + "\u00e9" * 400)))
            writer.append(good, 0, put(sn, (1, True, "")))
        writer.append(late, 0, declare(0, [1], lambda id: (0, True, "late/k")))
        writer.flush()
        writer.seal()
        writer.append(bad, 0, put(100, (1, True, "")))
        writer.append(late, 0, put(1, (1, True, "")))
    log = Log(tmp_path)
    assert [each.wrong for each in verify(log) if each.wrong] == []
    found = read(log, samples=["key", "unresolved_key", "session"], events=["kind", "session", "count", "detail"])
    keys = [row["key"] for row in found["samples"]]
    assert keys.count("good/k") == 99
    assert keys.count("late/k") == 1
    [dropped] = [row for row in found["events"] if row["kind"] == "key ids dropped"]
    assert dropped["session"] == bad.name
    assert dropped["count"] > 20
    assert [row["unresolved_key"] for row in found["samples"] if row["session"] == bad.name] == ["1:"]
    for part in log.plan(size=1):
        read(log, [part], samples=None)
        assert log.segment(part).state(part.first).memory.used <= session_state.MAX_KEYS + 16  # the last id itself


def test_short_declarations_through_a_long_prefix_take_bounded_memory(tmp_path):
    """Declarations of 10 bytes for keys of 60 kB: 16 MB of 60,000 are accepted, and any range of blocks gives the same rows."""
    with Writer(tmp_path, "w", sync="sealed", block_size=1 << 16, disk=Hasty()) as writer:
        face = writer.face("tcp", "10.0.0.1:1", "10.0.0.9:2")
        writer.append(face, 1, declare(0, [1], lambda id: (0, True, "a" * PIECE)))
        for sn in range(1, 13):  # an id in a declaration is one of the other side
            ids = range(5000 * (sn - 1) + 2, 5000 * sn + 2)
            writer.append(face, 0, declare(sn, ids, lambda id: (1, False, f"/{id}")))
        writer.append(face, 0, put(13, (2, True, "")))
        writer.append(face, 0, put(14, (60_001, True, "")))
    log = Log(tmp_path)
    assert [each.wrong for each in verify(log) if each.wrong] == []
    for ranges in (log.plan(), log.plan(size=1)[-1:]):
        rows = read(log, ranges, samples=["key", "unresolved_key"])["samples"][-2:]
        assert [(row["key"] or "")[-3:] for row in rows] == ["a/2", ""]
    [session] = log.segment(log.plan()[-1]).state(0).sessions or [SessionState()]
    assert session.key_cost() <= 16 << 20


def test_changes_too_large_for_a_block_seal_its_segment(tmp_path, monkeypatch):
    """Control characters take six bytes of JSON each."""
    monkeypatch.setattr(block, "MAX_STATE", 64 << 10)
    with Writer(tmp_path, "w", sync="sealed", disk=Hasty()) as writer:
        face, other = (writer.face("tcp", f"10.0.0.{i}:1", "10.0.0.9:2") for i in range(2))
        writer.append(other, 0, declare(0, [1], lambda id: (0, True, "good/k")))
        writer.append(face, 0, declare(0, range(1, 21), lambda id: (0, True, f"{id}/" + "\x01" * 1000)))
        writer.append(face, 0, put(1, (7, True, "")))
        writer.flush()
        writer.append(face, 0, put(2, (7, True, "")))
        writer.append(other, 0, put(1, (1, True, "")))
    log = Log(tmp_path)
    assert log.segments("w") == [1, 2]
    assert [each.wrong for each in verify(log) if each.wrong] == []
    keys = [row["key"] for row in read(log, samples=["key"])["samples"]]
    assert [key and key[:2] for key in keys] == ["7/", None, "go"]


def test_too_many_faces_for_a_head_begin_again(tmp_path, monkeypatch):
    monkeypatch.setattr(block, "MAX_STATE", 64 << 10)
    with Writer(tmp_path, "w", sync="sealed", disk=Hasty()) as writer:
        faces = [writer.face("tcp", f"10.0.0.{i}:1", "10.0.0.9:2") for i in range(300)]
        for sn in range(3):
            for face in faces:
                writer.append(face, 0, put(sn, (0, True, "good/k")))
            writer.flush()
            writer.seal()
    log = Log(tmp_path)
    assert [each.wrong for each in verify(log) if each.wrong] == []
    found = read(log, samples=["key"], events=["kind", "count"])
    assert len(found["samples"]) == 900
    assert {row["kind"] for row in found["events"]} == {"faces dropped"}


def test_a_block_has_a_limited_number_of_faces(tmp_path):
    with Writer(tmp_path, "w", sync="sealed", disk=Hasty()) as writer:
        for i in range(10_000):
            writer.append(writer.face("tcp", f"10.0.0.1:{i}", "10.0.0.9:2"), 0, put(0, (0, True, "k")))
    log = Log(tmp_path)
    assert [record.rows for record in log.index("w", 1)] == [8192, 1808]


def test_the_memory_of_key_ids_is_released():
    memory = KeyMemory(1 << 20)
    sessions = [SessionState(f"{i}", memory) for i in range(3)]
    for session in sessions:
        session.set_key(0, 1, b"a" * 100)
        session.set_key(0, 1, b"b" * 50)
        session.set_key(1, 2, b"c" * 10)
    assert memory.used == sum(session.key_cost() for session in sessions) == 3 * (60 + 32)
    sessions[0].forget()
    sessions[1].forget_key(0, 1)
    sessions[2].drop_keys()
    assert memory.used == 26
    other = KeyMemory()
    sessions[1].charge_to(other)
    assert (memory.used, other.used) == (0, 26)
