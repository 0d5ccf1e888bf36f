# SPDX-License-Identifier: Apache-2.0
"""The writer: exclusive access, visibility for readers, a full disk, and sizes."""

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pyarrow as pa
import pytest

from tests.log.fixtures import Hasty, OneByOne, directly, interleaved, tables, written
from zenlake.errors import InvalidValue, LogError, LogFull, LogRemoved
from zenlake.log import Log, Writer, block, decode_ranges, offsets_text
from zenlake.log import writer as write
from zenlake.log.disk import Disk
from zenlake.log.layout import MARKER, segment_name
from zenlake.log.marker import STEP
from zenlake.log.verify_repair import verify
from zenlake.wire.declare import Declare, DeclareKeyExpr
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Push
from zenlake.wire.raw_memory import COMPILED
from zenlake.wire.transport import Fragment, Frame, KeepAlive
from zenlake.wire.zenoh_body import Put

BATCH = KeepAlive().encode()
FACES = 100 if COMPILED else 3  # half a million declarations take minutes uncompiled


def test_one_writer_a_name_and_each_start_is_an_epoch(tmp_path):
    with Writer(tmp_path, "tap-1") as writer, Writer(tmp_path, "tap-2"):
        assert writer.epoch == 1
        with pytest.raises(LogError, match=r"tap-1 is in use by another process; give this writer a unique name"):
            Writer(tmp_path, "tap-1")
    with Writer(tmp_path, "tap-1") as writer:
        assert writer.epoch == 2
        first = writer.face("tcp", "a:1", "b:2")
        assert first.name == "tcp/a:1->b:2#tap-1.2.1"
    for name in ("", "a/b", "../x", "readers"):
        with pytest.raises(InvalidValue, match="use letters"):
            Writer(tmp_path, name)
    with pytest.raises(LogError, match="is closed"):
        writer.append(first, 0, BATCH)


def test_writers_that_start_together_in_a_new_folder_agree_on_its_marker(tmp_path):
    class Late(Disk):
        """A disk that replaces the marker when the other writer is at the same point, or after 0.3 s."""

        def replace(self, path, data):
            if path.name == MARKER:
                with suppress(threading.BrokenBarrierError):
                    both.wait(0.3)
                replaced.append(data)
            super().replace(path, data)

    both, replaced = threading.Barrier(2), []
    with ThreadPoolExecutor(2) as pool:
        writers = list(pool.map(lambda name: Writer(tmp_path, name, disk=Late()), ["tap-1", "tap-2"]))
    for writer in writers:
        writer.close()
    first, *_, last = map(json.loads, replaced)
    assert json.loads((tmp_path / MARKER).read_bytes()) == last == {**first, "writers": {"tap-1": STEP, "tap-2": STEP}}


def write_three_segments(root):
    with Writer(root, "w", disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for _ in range(3):
            writer.append(face, 0, BATCH)
            writer.flush()
            writer.seal()
    return face.name


def test_a_writer_with_an_emptied_folder_does_not_reuse_numbers(tmp_path):
    def begun():
        return write_three_segments(tmp_path), [part.segment for part in Log(tmp_path).plan()]

    assert begun() == ("tcp/a:1->b:2#w.1.1", [1, 2, 3])
    read = Log(tmp_path).latest()
    shutil.rmtree(tmp_path / "w")
    assert begun() == (f"tcp/a:1->b:2#w.{STEP + 1}.1", [STEP + 1, STEP + 2, STEP + 3])
    with pytest.raises(
        LogRemoved, match=rf"w: the segment of block \[3, 1\] was removed .* next existing block is \[{STEP + 1}, 0\]"
    ):
        Log(tmp_path).plan(read)
    for name in os.listdir(tmp_path / "w"):
        os.remove(tmp_path / "w" / name)
    assert begun()[1][0] == 2 * STEP + 1


def test_a_reader_in_a_removed_segment_raises(tmp_path):
    write_three_segments(tmp_path)
    for kind in ("arrow", "index"):
        (tmp_path / "w" / segment_name(2, kind)).unlink()
    log = Log(tmp_path)
    with pytest.raises(
        LogRemoved, match=r"the segment of block \[2, 1\] was removed .* next existing block is \[3, 0\]"
    ):
        log.plan({"w": [2, 1]})
    assert log.next("w", [2, 1]) == [3, 0]
    assert [part.segment for part in log.plan({"w": [1, 1]})] == [3]


def test_segments_removed_from_the_middle_are_reported(tmp_path, caplog):
    write_three_segments(tmp_path)
    log = Log(tmp_path)
    log.plan()
    assert log.gaps("w") == []
    assert caplog.messages == []
    for kind in ("arrow", "index"):
        (tmp_path / "w" / segment_name(2, kind)).unlink()
    for _ in range(2):
        log.plan()
        log.plan({"w": [3, 0]})
    message = "w: segments between 1 and 3 were removed by another process; missing batches: 1"
    assert caplog.messages == [message]  # once
    assert [each.wrong for each in verify(log)] == [message, "", ""]
    with pytest.raises(LogRemoved, match=message):
        log.plan(whole=True)
    gap = log.gaps("w")[0]
    behind, before = log.plan(whole=True, since=gap.until), log.plan(whole=True, until=gap.since)
    assert [part.segment for part in behind] == [3]
    assert {part.segment for part in before} <= {1}


def test_a_number_that_a_crash_used_is_not_a_gap(tmp_path):
    write_three_segments(tmp_path)
    (tmp_path / "w" / segment_name(4)).touch()  # a segment whose head was not written
    with Writer(tmp_path, "w") as writer:
        writer.append(writer.face("tcp", "a", "b"), 0, BATCH)
    log = Log(tmp_path)
    assert log.segments("w") == [1, 2, 3, 5]
    assert log.gaps("w") == []


@pytest.mark.parametrize(("sync", "seen"), [("block", True), (0.0, True), (1000.0, False), ("sealed", False)])
def test_readers_see_only_synced_blocks(tmp_path, sync, seen):
    with Writer(tmp_path, "w", sync=sync) as writer:
        writer.append(writer.face("tcp", "a:1", "b:2"), 0, BATCH)
        log = Log(tmp_path)
        assert log.latest() == {"w": [0, 0]}
        assert writer.flush() == ((1, 1) if seen else (0, 0))
        assert log.latest() == {"w": [1, 1] if seen else [0, 0]}
        assert log.earliest() == {"w": [1, 0] if seen else [0, 0]}  # a stream that begins there is not after the end
        assert len(log.plan()) == seen
    assert log.latest() == {"w": [1, 1]}


def test_a_block_that_the_index_lost_is_reported_in_one_line(tmp_path):
    written(tmp_path, interleaved(1))
    log = Log(tmp_path)
    parts = log.plan()
    index = tmp_path / "w" / "0000000001.index"
    index.write_bytes(index.read_bytes()[:40])  # as a power cut may leave it
    with pytest.raises(LogError, match=r"block 0 is not in the index; run `zenlake log repair` to rebuild it"):
        list(decode_ranges(log, parts, {"samples": None}))


def test_any_arrow_tool_reads_a_segment(tmp_path):
    batches = interleaved(1)
    written(tmp_path, batches)
    [path] = (tmp_path / "w").glob("*.arrow")
    table = pa.ipc.open_stream(path).read_all()
    assert table.column("batch").to_pylist() == [data for _, _, data in batches]
    assert table.schema.metadata[b"zenlake.log.format"] == b"1"


def test_times_never_decrease_and_numbers_continue(tmp_path):
    for times in ([50, 40, 60], [10, 70]):
        with Writer(tmp_path, "w", disk=Hasty()) as writer:
            face = writer.face("tcp", "a:1", "b:2")
            for time in times:
                writer.append(face, 0, BATCH, received=time)
    log = Log(tmp_path)
    rows = tables(log, log.plan(), {"messages": ["received_ns", "packet", "type"]})["messages"].to_pylist()
    assert [(row["received_ns"], row["packet"]) for row in rows] == [(50, 1), (50, 2), (60, 3), (60, 4), (70, 5)]


def test_offsets_are_the_same_text_until_there_is_more(tmp_path):
    log = written(tmp_path, interleaved(2))
    written(tmp_path, interleaved(3), name="a")
    text = offsets_text(log.latest())
    assert text == offsets_text(dict(reversed(json.loads(text).items())))
    with Writer(tmp_path, "w", disk=Hasty()):
        assert offsets_text(log.latest()) == text
    assert offsets_text(log.latest()) == text


class Small(OneByOne):
    """A disk with limited space, in bytes."""

    room = 1 << 40

    def write(self, file, data, at):
        size = len(memoryview(data).cast("B"))
        if size > self.room:
            super().write(file, memoryview(data).cast("B")[: self.room], at)
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= size
        super().write(file, data, at)


@pytest.mark.parametrize("room", [0, 100, 2000, 5000, 9000])
def test_a_full_disk_raises_an_error_loses_no_row_and_writing_continues(tmp_path, room):
    batches = interleaved(4)
    disk = Small()
    writer = Writer(tmp_path, "w", block_size=500, segment_size=4000, disk=disk)
    faces = [writer.face("tcp", f"10.0.0.{i}:40000", "10.0.0.99:7447") for i in range(3)]
    order = list(dict.fromkeys(face for face, _, _ in batches))
    disk.room = room
    full = 0
    reasons = set()
    for place, (i, direction, data) in enumerate(batches):
        try:
            writer.append(faces[order.index(i)], direction, data, received=1_000_000 + 1000 * place)
        except LogFull as error:
            full += 1
            reasons.add(str(error).partition(": ")[2])
            before = Log(tmp_path).latest()["w"]
            assert tuple(before) == writer.acknowledged
            if full == 3:
                disk.room = 1 << 40
    assert full >= 3
    assert all(why.startswith("the disk is full; acknowledged data is safe") for why in reasons)
    writer.close()
    log = Log(tmp_path)
    assert [one.wrong for one in verify(log) if one.wrong] == []
    expected = directly(batches, [face.name for face in faces], log)
    assert tables(log, log.plan()) == expected


def declarations_of_robot():
    """Return 5,000 key ids in five batches. The robot is 000."""
    for first in range(1, 5000, 1000):
        keys = {id: f"fleet/robot000/sensor{id}/{id * 7919 % 104729:x}" for id in range(first, first + 1000)}
        yield b"".join(Declare(qos=8, body=DeclareKeyExpr(id=id, key=key)).encode() for id, key in keys.items())


def test_many_ids_and_a_big_message_take_a_tenth_more_than_the_traffic(tmp_path):
    """100 faces with 5,000 ids each; then 64 MB in fragments: pointers and changes, not copies."""
    traffic = 0
    with Writer(tmp_path, "w", sync="sealed", block_size=1 << 18, disk=Hasty()) as writer:
        faces = [writer.face("tcp", f"10.0.0.{i}:4000", "10.0.1.1:7447") for i in range(FACES)]

        def append(face, direction, data):
            nonlocal traffic
            traffic += len(data) + 2
            writer.append(face, direction, data)

        batches = list(declarations_of_robot())
        for i, face in enumerate(faces):
            append(face, 0, Init(zid=b"%d" % i, qos=True, patch=1).encode())
            append(face, 1, Init(ack=True, zid=b"r", cookie=b"c", qos=True, patch=1).encode())
            append(face, 0, Open(cookie=b"c").encode())
            append(face, 1, Open(ack=True).encode())
            for sn, declared in enumerate(batches):
                append(face, 0, Frame(sn=sn).encode() + declared.replace(b"robot000", b"robot%03d" % i))
        writer.flush()
        declarations = writer.bytes_written / traffic
        for sn in range(1000):
            part = Fragment(sn=5 + sn, first=sn == 0, more=True, payload=bytes(64000))
            append(faces[0], 0, part.encode())
    log = Log(tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "w").iterdir())
    assert size <= 1.1 * traffic
    assert declarations <= 1.2
    last = log.plan(size=1)[-1]
    state = log.segment(last).state(last.first)
    assert [len(session.sides[0].keys) for session in state.sessions] == [5000] * FACES
    assert state.waiting.keys() == {(0, 0, 11)}


@pytest.mark.slow
def test_a_message_of_500_mb_in_small_blocks_costs_a_tenth_more_and_is_reassembled(tmp_path):
    size, piece = 500_000_000, 60_000
    head = Push(key=(0, True, "big"), body=Put(payload=b"")).encode()[:-1]
    message = head + b"\x80\xca\xb5\xee\x01"  # 500,000,000 as VLE
    pattern = bytes(range(256)) * 256
    with Writer(tmp_path, "w", sync="sealed", block_size=1 << 18, disk=Hasty()) as writer:
        face = writer.face("tcp", "10.0.0.1:4000", "10.0.1.1:7447")
        count = -(-size // piece)
        for sn in range(count):
            data = (message if sn == 0 else b"") + pattern[: min(piece, size - sn * piece)]
            writer.append(face, 0, Fragment(sn=sn, first=sn == 0, more=sn + 1 < count, payload=data).encode())
    log = Log(tmp_path)
    assert len(log.plan(size=1)) > 1500
    assert len(log.segments("w")) > 5
    assert sum(path.stat().st_size for path in (tmp_path / "w").iterdir()) <= 1.1 * size
    for ranges in (log.plan(), log.plan()[-1:]):  # the end alone reads all earlier fragments again
        [batch] = [
            batch for _, batch in decode_ranges(log, ranges, {"samples": ["payload", "payload_size", "fragments"]})
        ]
        assert (batch["payload_size"].to_pylist(), batch["fragments"].to_pylist()) == ([size], [count])
        value = memoryview(batch["payload"].buffers()[2]).cast("B")[:size]
        assert all(value[at : at + piece] == pattern[:piece] for at in range(0, size - piece, 7 * piece))


def test_a_note_that_the_table_could_not_hold_is_refused_when_it_is_made(tmp_path):
    with Writer(tmp_path, "w", disk=Hasty()) as writer:
        writer.note("drop", count=3, detail="the queue was full")
        for wrong in ({"count": "3"}, {"colour": 1}):
            with pytest.raises(InvalidValue, match="expected direction, priority"):
                writer.note("drop", **wrong)
    log = Log(tmp_path)
    [row] = tables(log, log.plan(), {"events": ["session", "kind", "count", "detail"]})["events"].to_pylist()
    assert row == {"session": "", "kind": "drop", "count": 3, "detail": "the queue was full"}


def test_pieces_reach_the_disk_whole_however_little_it_takes_at_a_time(tmp_path, monkeypatch):
    """A system call may write only a part of the bytes, and may end inside a piece."""
    pieces = [memoryview(bytes([i]) * size) for i, size in enumerate([1, 0, 7, 300, 2, 0, 64, *[1] * 100])]
    real = os.pwritev
    calls = []

    def little(file, some, at):
        calls.append(sum(map(len, some)))
        return real(file, [b"".join(some)[:23]], at)

    monkeypatch.setattr(os, "pwritev", little)
    disk = Disk()
    file = disk.create(tmp_path / "file")
    disk.write(file, b"before", 0)
    disk.write_together(file, pieces, 6)
    assert (tmp_path / "file").read_bytes() == b"before" + b"".join(pieces)
    assert len(calls) > 20
    monkeypatch.delattr(os, "pwritev")
    disk.write_together(file, pieces, 3)
    disk.close(file)
    assert (tmp_path / "file").read_bytes()[3:-3] == b"".join(pieces)


class Direct(Hasty):
    """A disk that counts bytes of direct writes. It can refuse direct writes, or be full."""

    fault = 0
    passed = 0

    def write_directly(self, file, direct, pieces, at):
        real = os.pwrite

        def pwrite(to, data, at):
            if to == direct:
                if self.fault:
                    raise OSError(self.fault, os.strerror(self.fault))
                self.passed += len(data)
                assert at % 4096 == len(data) % 4096 == 0
            return real(to, data, at)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "pwrite", pwrite)
            super().write_directly(file, direct, pieces, at)


def direct_disk(path):
    disk = Direct()
    disk.close(disk.create(path / "probe"))
    file = disk.open_directly(path / "probe")
    if file is None:
        pytest.skip("this file system cannot be written directly")
    disk.close(file)
    return disk


def large(path, disk, **options):
    """Write a log of 40 batches of 1,000 bytes, in blocks of 10,000."""
    batches = [
        (0, 0, Frame(sn=sn).encode() + Push(key="k", body=Put(payload=bytes(1000))).encode()) for sn in range(40)
    ]
    return written(path, batches, block_size=10_000, segment_size=30_000, disk=disk, **options)


def test_full_blocks_that_pass_the_systems_memory_are_the_same_log(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "MIN_DIRECT", 0)
    monkeypatch.setattr(write, "LARGE_HEAD", 0)
    monkeypatch.setattr(block, "LARGE", 4096)
    disk = direct_disk(tmp_path)
    one, other = large(tmp_path / "direct", disk, direct=True), large(tmp_path / "not", Hasty())
    assert disk.passed == 4 * 8192
    rows_of_both = [tables(log, log.plan()) for log in (one, other)]
    found, expected = ({name: rows.drop_columns("log") for name, rows in each.items()} for each in rows_of_both)
    assert found == expected
    assert [each.wrong for each in verify(one)] == [each.wrong for each in verify(other)]
    rows = 0
    for segment in sorted((tmp_path / "direct" / "w").glob("*.arrow")):
        with pa.ipc.open_stream(segment) as stream:  # as any Arrow tool reads it
            rows += stream.read_all().num_rows
    assert rows == 40


@pytest.mark.parametrize("fault", [errno.EINVAL, None], ids=["it wants it otherwise", "it knows no such way"])
def test_a_disk_that_cannot_be_written_directly_is_written_as_others_are(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(write, "MIN_DIRECT", 0)
    monkeypatch.setattr(block, "LARGE", 4096)
    disk = Direct()
    if fault is None:
        disk.open_directly = lambda path: None
    else:
        disk.fault = fault
    log = large(tmp_path, disk, direct=True)
    assert disk.passed == 0
    assert tables(log, log.plan())["samples"].num_rows == 40
    assert not any(each.wrong for each in verify(log))


def test_a_disk_that_is_full_of_direct_writes_takes_the_block_when_there_is_room(tmp_path, monkeypatch):
    monkeypatch.setattr(write, "MIN_DIRECT", 0)
    monkeypatch.setattr(block, "LARGE", 4096)
    disk = direct_disk(tmp_path)
    with Writer(tmp_path, "w", block_size=10_000, disk=disk, direct=True) as writer:
        face = writer.face("tcp", "a", "b")
        disk.fault = errno.ENOSPC
        with pytest.raises(LogFull):
            writer.append(face, 0, b"\x04" * 20_000)
        writer.append(face, 0, b"\x04" * 100)
        disk.fault = 0
        assert writer.flush() == (1, 2)
        assert disk.passed == 16384
    log = Log(tmp_path)
    assert tables(log, log.plan())["messages"].num_rows == 20_100
    assert not any(each.wrong for each in verify(log))


def test_only_the_last_sealed_segments_stay_in_the_systems_memory(tmp_path):
    gone = []

    class Watched(Hasty):
        def release_held(self, path):
            gone.append(path.name)
            super().release_held(path)

    with Writer(tmp_path, "w", cached=3 * len(BATCH), segment_size=1, disk=Watched()) as writer:
        face = writer.face("tcp", "a", "b")
        for _ in range(4):
            writer.append(face, 0, BATCH)
            writer.flush()
            writer.seal()
    assert gone == [segment_name(1), segment_name(2), segment_name(3)]  # a segment is larger: the last one stays
    assert [each.wrong for each in verify(Log(tmp_path))] == [""] * 4


def test_a_writer_does_not_import_pandas(tmp_path):
    write = f"""
import sys
from zenlake.log import Writer
with Writer({str(tmp_path)!r}, "w") as writer:
    writer.append(writer.face("tcp", "a", "b"), 0, {BATCH!r})
    writer.append(writer.face("tcp", "c", "d"), 0, {BATCH!r}, compressed=True)
    writer.note("log lost", count=1)
sys.exit("pandas" in sys.modules)
"""
    subprocess.run([sys.executable, "-c", write], check=True, timeout=60)
    log = Log(tmp_path)
    [part] = log.plan()
    rows = log.segment(part).rows(0)
    assert rows.column("compressed").to_pylist() == [False, True, False]
