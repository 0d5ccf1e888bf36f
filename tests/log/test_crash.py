# SPDX-License-Identifier: Apache-2.0
"""A kill or power cut at every point of the work: acknowledged batches exist once, and the loss is a row."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.log.fixtures import tables
from zenlake.errors import LogError
from zenlake.log import Log, Writer
from zenlake.log.layout import INDEX_HEAD, RECORD
from zenlake.log.verify_repair import repair, verify
from zenlake.spark.offsets import continue_from

ROOT = Path(__file__).parent.parent.parent
SYNCS = ["block", "0.02", "sealed"]
POINTS = ["create", "write", "written", "sync", "synced", "ended", "sealed"]


def run(path, sync, point, after, power, first, *mirror):
    """Return the last acknowledged number, or the previous one."""
    command = [sys.executable, "-m", "tests.log.storm", str(path), sync, point, str(after), str(int(power)), *mirror]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ, "FIRST": str(first)}
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    lines = done.stdout.split()
    return int(lines[-1]) if lines else first - 1


def numbers(log):
    rows = tables(log, log.plan(), {"samples": ["payload"]})["samples"].column("payload").to_pylist()
    return [int(row.rstrip(b"x")) for row in rows]


@pytest.mark.parametrize("power", [False, True], ids=["killed", "power cut"])
@pytest.mark.parametrize("sync", SYNCS)
def test_acknowledged_batches_exist_once_and_the_tail_is_truncated(tmp_path, sync, power):
    r = random.Random(f"{sync}{power}")
    offsets = []
    acknowledged = []
    first = 0
    for round, point in enumerate(POINTS):
        last = run(tmp_path, sync, point, r.randrange(1, 4) + 2 * (point in ("write", "sync")), power, first)
        acknowledged += range(first, last + 1)
        if (tmp_path / "w").exists() and round:
            log = Log(tmp_path)
            offsets.append(tuple(log.latest()["w"]))
        first = 10_000 * (round + 1)
    before = set(numbers(Log(tmp_path))) if power is False else set()
    with Writer(tmp_path, "w") as writer:  # repairs the state of the previous one
        assert 2 < writer.epoch <= len(POINTS) + 1  # a writer that was killed during its start may count
        end = writer.acknowledged
    log = Log(tmp_path)
    found = numbers(log)
    assert len(found) == len(set(found))
    assert set(acknowledged) | before <= set(found)
    assert offsets == sorted(offsets)
    assert end >= offsets[-1]
    assert [one.wrong for one in verify(log) if one.wrong] == []
    assert list(repair(tmp_path)) == []
    torn = tables(log, log.plan(), {"events": ["kind", "count", "detail"]})["events"].to_pylist()
    cut = [row for row in torn if row["kind"] == "log torn"]
    assert all(row["count"] > 0 and "segment" in row["detail"] for row in cut)
    assert power or cut  # a kill inside a write leaves a part of the block


@pytest.mark.parametrize("point", ["uploading", "uploaded"])
def test_a_copy_that_was_interrupted_is_made_again_and_never_seen_half(tmp_path, point):
    log, copy = tmp_path / "log", tmp_path / "copy"
    run(log, "sealed", point, 2, False, 0, str(copy))
    assert numbers(Log(copy)) == numbers(Log(log))[: len(numbers(Log(copy)))]
    seen = len(numbers(Log(copy)))
    run(log, "sealed", "sealed", 9, False, 10_000, str(copy))
    found = numbers(Log(copy))
    assert len(found) == len(set(found)) > seen


def test_a_reader_of_a_killed_writer_reads_all_published_batches(tmp_path):
    last = run(tmp_path, "block", "written", 5, False, 0)
    log = Log(tmp_path)
    assert numbers(log) == list(range(last + 1))
    [done] = repair(tmp_path)  # without starting the writer again
    assert "index rebuilt" in done.wrong
    assert len(numbers(log)) > last + 1  # the block that was written but not yet synced


def test_repair_keeps_out_of_a_running_writers_way(tmp_path):
    with Writer(tmp_path, "w"), pytest.raises(LogError, match="is in use; stop its writer first"):
        list(repair(tmp_path))


@pytest.mark.parametrize("lost", ["records", "all records", "the file"])
def test_a_reader_ahead_of_a_truncated_index_waits_and_reads_no_block_twice(tmp_path, lost):
    """Blocks are synced before they become visible, but the index is not. After a power cut it may be shorter than before."""
    run(tmp_path, "block", "written", 6, False, 0)
    log = Log(tmp_path)
    start, read = {"w": [1, 2]}, log.latest()
    [segment, count] = read["w"]
    assert (segment, count) == (1, 5)
    blocks = log.plan(start, read)
    [index] = (tmp_path / "w").glob("*.index")
    if lost == "the file":
        index.unlink()
    else:
        index.write_bytes(index.read_bytes()[: len(INDEX_HEAD) + (3 if lost == "records" else 0) * RECORD.size])
    assert log.latest()["w"] < read["w"]
    assert continue_from(log, read, log.latest(), fail_on_data_loss=True) == read
    assert log.plan(read, read, whole=True) == []
    with pytest.raises(LogError, match=r"\[1, 5\].*a power cut truncated its index: start the writer, or run"):
        log.plan(start, read)
    with Writer(tmp_path, "w"):
        pass
    assert continue_from(log, read, log.latest(), fail_on_data_loss=True) == read
    assert log.plan(start, read) == blocks
    assert log.latest()["w"] > read["w"]
    for beyond in ([1, 999], [99, 1]):
        with pytest.raises(LogError, match="this is the log that was read before"):
            log.plan(start, {"w": beyond})
        with pytest.raises(LogError, match="it was emptied or replaced"):
            continue_from(log, {"w": beyond}, log.latest() if beyond[0] > 1 else {"w": [1, 5]}, fail_on_data_loss=True)
