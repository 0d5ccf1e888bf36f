# SPDX-License-Identifier: Apache-2.0
"""Recording of a live connection: every batch of both directions, without waiting for the disk. Lost batches are counted."""

import errno
import threading

import pytest

from tests.log.fixtures import Hasty, OneByOne, tables
from tests.transport.ends import Pair, push
from zenlake.errors import LogFull
from zenlake.log import Log, Recorder, Retention, Writer
from zenlake.log import recorder as record
from zenlake.log import writer as write


def rows(path, table, *columns):
    log = Log(path)
    return [tuple(row.values()) for row in tables(log, log.plan(), {table: list(columns)})[table].to_pylist()]


def test_both_ends_of_a_connection_record_the_same_messages(tmp_path):
    pair = Pair(compression=True, batch_size=400)
    with (
        Recorder(Writer(tmp_path, "one", disk=Hasty())) as one,
        Recorder(Writer(tmp_path, "two", disk=Hasty())) as two,
    ):
        ours = one.face("tcp", "10.0.0.1:4000", "10.0.0.2:7447", opener=True)
        theirs = two.face("tcp", "10.0.0.1:4000", "10.0.0.2:7447", opener=False)
        pair.opener.record(ours)
        pair.acceptor.record(theirs)
        pair.open()
        for size in (3, 30, 3000):
            pair.opener.send(push("a", bytes(size)))
            pair.acceptor.send(push("b", bytes(size)))
            pair.pump()
        ours.note("forwarded", count=7, detail='{"as": 8}')
        pair.opener.close()
        pair.pump()
        ours.close()
        theirs.close("the link broke")
        assert one.flush(20) > (0, 0)
    log = Log(tmp_path)
    columns = ["direction", "generation", "type", "body", "size", "sn", "key", "payload_size", "detail", "fragments"]
    parts = {name: [part for part in log.plan() if part.writer == name] for name in ("one", "two")}
    found = [tables(log, part, {"messages": columns})["messages"].to_pylist() for part in parts.values()]
    for direction in (0, 1):  # each end sees its own batches a little earlier
        first, second = ([row for row in of if row["direction"] == direction] for of in found)
        assert first == second
        assert len(first) > 10
    kinds = [row[0] for row in rows(tmp_path, "events", "kind")]
    assert kinds.count("opened") == kinds.count("closed") == 2
    assert kinds.count("forwarded") == kinds.count("disconnected") == 1
    samples = rows(tmp_path, "samples", "key", "payload_size")
    assert sorted(samples) == sorted([(key, size) for key in "ab" for size in (3, 30, 3000)] * 2)


class Stuck(Hasty):
    """A disk that accepts no block until it is released."""

    def __init__(self):
        self.go = threading.Event()
        self.busy = threading.Event()

    def sync(self, file):
        self.busy.set()
        assert self.go.wait(30)


def test_batches_without_room_are_counted_in_an_event(tmp_path):
    disk = Stuck()
    disk.go.set()
    writer = Writer(tmp_path, "w", block_size=100, disk=disk)
    disk.go.clear()
    with Recorder(writer, buffer=1000, linger=0.001) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        tee.on_send(bytes(100), 102, False)
        assert disk.busy.wait(10)
        for _ in range(30):
            tee.on_send(b"\x04" * 100, 102, False)
        lost = recorder.lost
        assert 30 - 10 <= lost < 30
        disk.go.set()
    losses = [row for row in rows(tmp_path, "events", "kind", "count", "detail") if row[0] == "log lost"]
    assert sum(count for _, count, _ in losses) == lost
    assert losses[0][2] == f"{100 * lost} bytes: the disk was slower than the network"
    assert recorder.batches + lost == 31


def test_or_the_caller_waits(tmp_path):
    disk = Stuck()
    disk.go.set()
    writer = Writer(tmp_path, "w", block_size=100, disk=disk)
    disk.go.clear()
    with Recorder(writer, buffer=1000, linger=0.001, when_full="block") as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)

        def send():
            for _ in range(31):
                tee.on_receive(b"\x04" * 100, 102, False)

        sender = threading.Thread(target=send)
        sender.start()
        assert disk.busy.wait(10)
        disk.go.set()
        sender.join(30)
    assert recorder.lost == 0
    assert recorder.batches == 31


def test_a_full_disk_is_reported_and_retried(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "AGAIN", 0.01)

    class Full(OneByOne):
        full = False
        met = threading.Event()

        def write(self, file, data, at):
            if self.full:
                self.met.set()
                raise OSError(errno.ENOSPC, "No space left on device")
            super().write(file, data, at)

    disk = Full()
    with Recorder(Writer(tmp_path, "w", block_size=100, disk=disk), linger=0.001) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        disk.full = True
        for _ in range(10):
            tee.on_send(b"\x04" * 50, 52, False)
        assert disk.met.wait(10)
        with pytest.raises(LogFull, match="the disk is full"):
            recorder.flush(0.1)
        disk.full = False
        recorder.flush(20)
        assert recorder.trouble is None
    assert len(rows(tmp_path, "messages", "type")) == 500


def test_times_never_go_back_within_a_block_and_between_blocks(tmp_path):
    times = iter([5000, 4000, 6000, 3000, 7000])
    with Recorder(Writer(tmp_path, "w", disk=Hasty()), now=lambda: next(times)) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        for _ in range(3):
            tee.on_send(b"\x04", 3, False)
        recorder.flush(20)
        for _ in range(2):
            tee.on_send(b"\x04", 3, False)
    log = Log(tmp_path)
    found = tables(log, log.plan(), {"messages": ["received"]})["messages"].column("received")
    assert found.cast("int64").to_pylist() == [5, 5, 6, 6, 7]  # microseconds


def test_received_batches_are_copied_and_the_memory_of_written_blocks_is_reused(tmp_path):
    writer = Writer(tmp_path, "w", block_size=1000, disk=Hasty())
    with Recorder(writer) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        arena = bytearray(1000)
        for byte in range(1, 60):
            arena[:] = bytes([byte]) * 1000
            tee.on_receive(memoryview(arena), 1002, False)
            recorder.flush(20)
        assert len(writer._spare) <= 3
    log = Log(tmp_path)
    [part] = log.plan()
    rows = [log.segment(part).rows(block).column("batch").to_pylist() for block in range(part.last - part.first)]
    assert rows == [[bytes([byte]) * 1000] for byte in range(1, 60)]


def test_retention_runs_along(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "LARGE_HEAD", 0)
    writer = Writer(tmp_path, "w", block_size=2000, segment_size=3000, disk=Hasty())
    with Recorder(writer, linger=0.001, retention=Retention(size=20_000)) as recorder:
        tee = recorder.face("tcp", "a:1", "b:2", opener=True)
        for _ in range(60):
            tee.on_send(b"\x04" * 2000, 2002, False)
            recorder.flush(20)
    size = sum(path.stat().st_size for path in (tmp_path / "w").glob("*.arrow"))
    assert size < 30_000
    assert Log(tmp_path).earliest()["w"][0] > 5
