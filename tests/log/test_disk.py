# SPDX-License-Identifier: Apache-2.0
"""A log whose files another process removes, moves, replaces or truncates, and a clock that is set."""

import errno
import os
import shutil
import time

import pytest

from tests.log.fixtures import Hasty, tables
from zenlake.errors import LogError
from zenlake.log import Log, Retention, Writer, retain
from zenlake.log.recorder import Recorder
from zenlake.log.verify_repair import repair, verify

BATCH = b"\x04"  # KEEP_ALIVE
SECOND = 1_000_000_000
DAY = 86_400 * SECOND
NOW = 1_800_000_000 * SECOND


def remove(folder):
    shutil.rmtree(folder.parent)


def rename(folder):
    folder.rename(folder.with_name("elsewhere"))


def replace(folder):
    [segment] = folder.glob("*.arrow")
    copy = segment.with_suffix(".copy")
    shutil.copy(segment, copy)
    os.replace(copy, segment)


def cut(folder):
    [segment] = folder.glob("*.arrow")
    os.truncate(segment, segment.stat().st_size - 1)


def unlink(kind):
    def remove_file(folder):
        [path] = folder.glob(f"*.{kind}")
        path.unlink()

    remove_file.__name__ = f"unlink_{kind}"
    return remove_file


CHANGES = (remove, rename, replace, cut, unlink("arrow"), unlink("index"))


@pytest.mark.parametrize("sync", ["block", "sealed"])
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_writer_ends_when_its_files_are_changed_by_another_process(tmp_path, change, sync, monkeypatch):
    monkeypatch.setattr("zenlake.log.writer.LOOK", 0.0)
    writer = Writer(tmp_path / "log", "w", sync=sync)
    face = writer.face("tcp", "a:1", "b:2")
    writer.append(face, 0, BATCH)
    writer.flush()
    change(tmp_path / "log" / "w")
    writer.append(face, 0, BATCH)
    with pytest.raises(LogError, match="another process changed the log"):
        writer.flush()
    with pytest.raises(LogError, match="another process changed the log"):
        writer.flush()
    assert writer.has_failed
    writer.close()


def test_a_sealed_writer_notices_that_its_folder_is_gone(tmp_path, monkeypatch):
    monkeypatch.setattr("zenlake.log.writer.LOOK", 0.0)
    writer = Writer(tmp_path / "log", "w")
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(LogError, match="lock is gone"):
        writer.flush()
    writer.close()


def test_a_recorder_reports_a_removed_log_counts_lost_batches_and_raises_the_error(tmp_path):
    recorder = Recorder(Writer(tmp_path / "log", "w"), linger=0.01)
    tee = recorder.face("tcp", "a:1", "b:2", opener=True)
    tee.on_send(BATCH, 3, False)
    recorder.flush(20)
    shutil.rmtree(tmp_path / "log")
    deadline = time.monotonic() + 20
    while not recorder.has_failed and time.monotonic() < deadline:
        tee.on_send(BATCH, 3, False)
        time.sleep(0.02)
    assert "another process changed the log" in str(recorder.trouble)
    before = recorder.lost
    tee.on_send(BATCH, 3, False)
    with pytest.raises(LogError, match="another process changed the log"):
        recorder.flush(20)
    assert recorder.lost > before
    with pytest.raises(LogError, match="another process changed the log"):
        recorder.close()


def test_a_temporarily_read_only_disk_loses_no_batch(tmp_path):
    class ReadOnly(Hasty):
        on = False

        def write_together(self, file, pieces, at):
            if self.on:
                raise OSError(errno.EROFS, "Read-only file system")
            super().write_together(file, pieces, at)

    disk = ReadOnly()
    recorder = Recorder(Writer(tmp_path, "w", disk=disk), linger=0.01)
    tee = recorder.face("tcp", "a:1", "b:2", opener=True)
    disk.on = True
    for _ in range(3):
        tee.on_send(BATCH, 3, False)
        time.sleep(0.05)
    assert "Read-only" in str(recorder.trouble)
    assert not recorder.has_failed
    disk.on = False
    recorder.flush(20)
    recorder.close()
    assert len(tables(Log(tmp_path), Log(tmp_path).plan(), {"messages": None})["messages"]) == 3


# The clock


def stepping(path, seconds, now=NOW):
    """Return a log with clock offsets in seconds, for ten batches each. Each list is a start of the writer."""
    count = 0
    for start in seconds:
        with Writer(path, "w", disk=Hasty()) as writer:
            face = writer.face("tcp", "a:1", "b:2")
            for off in start:
                for _ in range(10):
                    writer.append(face, 0, BATCH, received=now + count * SECOND + off * SECOND)
                    count += 1
                writer.flush()
    return Log(path)


STEPS = [[0, 400 * 86400, 0], [0, -3600, 0], [7200], [0, -60 * 365 * 86400, 0]]


def test_times_follow_a_clock_that_is_set_back_and_the_step_is_a_row(tmp_path):
    log = stepping(tmp_path, STEPS)
    found = tables(log, log.plan(), {"messages": ["received_ns"], "events": ["kind", "detail"]})
    times = found["messages"].column(0).to_pylist()
    offs = [off for start in STEPS for off in start for _ in range(10)]
    assert times == [NOW + (i + off) * SECOND for i, off in enumerate(offs)]
    steps = [row["detail"] for row in found["events"].to_pylist() if row["kind"] == "clock stepped"]
    assert len(steps) == 4
    assert "set back by 34559999.000 s" in steps[0]
    assert [each.wrong for each in verify(log) if each.wrong] == []


def test_a_reader_starts_at_a_time_also_behind_a_clock_step(tmp_path):
    """The offset is the first block with a row of that time or later. It omits no such row."""
    log = stepping(tmp_path, STEPS)
    rows = []
    for part in log.plan(size=1):
        rows.append(((part.segment, part.first), part.until))
    for time_ in sorted({until for _, until in rows} | {until + 1 for _, until in rows} | {0, NOW - DAY}):
        expected = next((list(place) for place, until in rows if until >= time_), log.latest()["w"])
        assert log.at(time_)["w"] == expected


def test_repair_finds_the_clock_steps_again(tmp_path):
    log = stepping(tmp_path, STEPS)
    before = log._clock_runs("w")
    assert len(before) == 5
    (tmp_path / "w" / "writer.json").unlink()
    list(repair(tmp_path))
    assert log._clock_runs("w") == before


def test_retention_uses_the_times_around_a_clock_step(tmp_path):
    """A segment with future times is removed in time, and one with past times is not removed too early."""
    stepping(tmp_path, STEPS)
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        segments = Log(tmp_path).segments("w")
        assert retain(writer, Retention(age=3600.0), clock=lambda: NOW + 1800 * SECOND) == []
        assert retain(writer, Retention(age=3600.0), clock=lambda: NOW + 20_000 * SECOND) == segments


def test_a_recorder_divides_blocks_at_a_clock_step_and_reports_it(tmp_path):
    times = iter([*range(NOW, NOW + 3), NOW + DAY, NOW + DAY + 1, *range(NOW + 10, NOW + 13)])
    with Recorder(Writer(tmp_path, "w", disk=Hasty(), clock=lambda: NOW), now=lambda: next(times)) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        assert recorder.clock_warning == ""
        for _ in range(8):
            tee.on_send(BATCH, 3, False)
        recorder.flush(20)
        assert recorder.clock_steps == 1
        assert recorder.clock_warning == "the clock was set back by 86400.000 s"
    log = Log(tmp_path)
    found = tables(log, log.plan(), {"messages": ["received_ns"]})["messages"].column(0).to_pylist()
    assert found == [NOW, NOW + 1, NOW + 2, NOW + DAY, NOW + DAY + 1, NOW + 10, NOW + 11, NOW + 12]
    assert log.segments("w") == [1, 2]
