# SPDX-License-Identifier: Apache-2.0
"""Retention: removed segments, segments kept for readers, and the errors of readers after removal."""

import logging

import pytest

from tests.log.fixtures import Hasty, tables
from zenlake.errors import InvalidValue, LogRemoved
from zenlake.log import Log, Retention, Writer, readers, register, retain, unregister
from zenlake.wire.handshake import Init, Open
from zenlake.wire.transport import Fragment, KeepAlive

HOUR = 3600 * 10**9


@pytest.fixture
def writer(tmp_path):
    """Write six segments, one for each hour."""
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for hour in range(6):
            for _ in range(3):
                writer.append(face, 0, KeepAlive().encode(), received=hour * HOUR)
                writer.flush()
            writer.seal()
        yield writer


def test_segments_go_by_age_and_by_size(tmp_path, writer):
    assert retain(writer, Retention(age=3 * 3600), clock=lambda: 6 * HOUR) == [1, 2, 3]
    log = Log(tmp_path)
    assert log.earliest() == {"w": [4, 0]}
    size = sum(path.stat().st_size for path in (tmp_path / "w").glob("0*"))
    assert retain(writer, Retention(size=size - 1)) == [4]
    assert retain(writer, Retention(size=size)) == []
    with pytest.raises(
        LogRemoved, match=r"w: retention has removed blocks after \[3, 1\]; the first block is now \[5, 0\]"
    ):
        log.plan({"w": [3, 1]})
    assert len(log.plan({"w": [4, 3]})) == len(log.plan()) == 2  # all of segment 4 had been read


def test_a_log_of_which_all_was_removed_ends_where_it_ended(tmp_path, writer):
    log = Log(tmp_path)
    end = log.latest()
    assert retain(writer, Retention(age=1), clock=lambda: 100 * HOUR) == [1, 2, 3, 4, 5, 6]
    assert log.latest() == log.earliest() == end == {"w": [6, 3]}
    assert log.plan() == log.plan(end) == log.plan(end, end) == []
    writer.append(writer.face("tcp", "a:1", "b:2"), 0, KeepAlive().encode())
    writer.flush()
    assert log.earliest() == {"w": [7, 0]}
    assert log.plan(end) == log.plan()
    assert len(log.plan()) == 1


def test_a_registered_reader_is_waited_for_with_a_warning_until_the_hard_limit(tmp_path, writer, caplog):
    register(tmp_path, "lake", {"w": [2, 3]})
    register(tmp_path, "report", {"w": [5, 0]})
    assert readers(tmp_path) == {"lake": {"w": [2, 3]}, "report": {"w": [5, 0]}}
    limits = Retention(age=1 * 3600, hard_age=3 * 3600)
    with caplog.at_level(logging.WARNING, logger="zenlake.log"):
        assert retain(writer, limits, clock=lambda: 5 * HOUR) == [1, 2]
    assert "segment 3 is kept beyond the limit, because it was not read by lake" in caplog.text
    with caplog.at_level(logging.ERROR):
        assert retain(writer, limits, clock=lambda: 6 * HOUR) == [3]
    unregister(tmp_path, "lake")
    assert retain(writer, limits, clock=lambda: 6 * HOUR) == [4]
    writer.flush()
    log = Log(tmp_path)
    [row] = tables(log, log.plan(), {"events": ["kind", "count", "detail"]})["events"].to_pylist()
    detail = "segment 3 reached the hard limit before it was read by lake"
    assert row == {"kind": "log retired", "count": 3, "detail": detail}


def test_a_message_with_a_removed_first_fragment_is_reported(tmp_path):
    parts = [Fragment(sn=i, first=i == 0, more=i < 3, payload=b"x").encode() for i in range(4)]
    hello = [(0, Init(zid=b"1", patch=1)), (1, Init(ack=True, zid=b"2", cookie=b"c", patch=1))]
    hello += [(0, Open(cookie=b"c")), (1, Open(ack=True))]
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for direction, message in hello:
            writer.append(face, direction, message.encode())
        for part in parts:
            writer.append(face, 0, part)
            writer.flush()
            if part != parts[-1]:
                writer.seal()
        assert retain(writer, Retention(age=1), clock=lambda: 1 << 62) == [1, 2, 3]
        log = Log(tmp_path)
        events = tables(log, log.plan(), {"events": ["kind", "session", "detail"]})["events"].to_pylist()
    [removed, lost] = sorted(events, key=lambda row: row["kind"])
    assert removed["kind"] == "log removed"
    assert removed["session"] == face.name
    assert "removed by retention; the message cannot be reassembled" in removed["detail"]
    assert lost["kind"] == "lost"


def test_a_hard_limit_must_exceed_the_limit():
    with pytest.raises(InvalidValue, match="hard_age must be at least age"):
        Retention(age=10, hard_age=5)
