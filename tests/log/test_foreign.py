# SPDX-License-Identifier: Apache-2.0
"""Foreign logs: damaged, or made to exhaust their readers."""

import json
import subprocess
import sys

import pyarrow as pa
import pytest

from tests.log.fixtures import Hasty, interleaved, tables, written
from zenlake.errors import InvalidValue, LogError
from zenlake.log import Log, Writer, block, decode_ranges
from zenlake.log.block import END, MAX_STATE, block_pieces, flags, head_bytes, numbers, unpack
from zenlake.log.layout import INDEX_HEAD, NOTE, ROWS, SEALED, BlockRecord, new_marker
from zenlake.log.verify_repair import verify
from zenlake.wire.network import Push
from zenlake.wire.transport import Frame
from zenlake.wire.zenoh_body import Put


def compress(plain, size=None):
    return (len(plain) if size is None else size).to_bytes(8, "little") + bytes(
        block.ZSTD.compress(plain, asbytes=True)
    )


def forge(path, state=None, rows=(), changes=None, compression=None):
    """Write a log of one segment with one block. `rows` are (direction, bytes)."""
    (path / "w").mkdir(parents=True)
    (path / "zenlake-log.json").write_bytes(new_marker())
    metadata = {"zenlake.log.format": "1", "writer": "w", "epoch": "1", "segment": "1", "batch": "1"}
    head = head_bytes({**metadata, "state": compress(b"[]") if state is None else state})
    rows = list(rows) or [(NOTE, b'{"kind": "x"}')]
    batch = pa.RecordBatch.from_arrays(
        [
            numbers(ROWS.field("received").type, [1] * len(rows)),
            numbers(pa.int32(), [-1] * len(rows)),
            numbers(pa.int8(), [direction for direction, _ in rows]),
            pa.array([data for _, data in rows], pa.binary()),
            numbers(pa.int32(), [0] * len(rows)),
            flags([False] * len(rows)),
        ],
        schema=ROWS,
    )
    options = pa.ipc.IpcWriteOptions(compression=compression)
    data = b"".join(block_pieces(batch, 0, len(rows), 0, changes, None, options))
    record = BlockRecord(len(head), len(data), 1, 1, 0, len(rows))
    end = len(head) + len(data)
    seal = BlockRecord(end, end + len(END), 0, 1, len(rows), 0, SEALED)
    (path / "w" / "0000000001.arrow").write_bytes(head + data + END)
    (path / "w" / "0000000001.index").write_bytes(INDEX_HEAD + record.pack() + seal.pack())
    (path / "w" / "writer.json").write_text(
        json.dumps({"format": 1, "writer": "w", "epoch": 1, "first": 1, "segment": 1, "removed": [0, 0]})
    )
    return Log(path)


STATES = {
    "a size": compress(b"[]", MAX_STATE + 1),
    "zeros": compress(bytes(MAX_STATE)),
    "values": compress(b"[" + b"0," * (8 << 20) + b"0]"),
    "depth": compress(b"[" * 100_000 + b"]" * 100_000),
    "another type": compress(b'{"a": 1}'),
    "too short": b"",
}


@pytest.mark.parametrize("state", STATES.values(), ids=STATES)
def test_a_head_that_would_exhaust_its_reader_is_one_error(tmp_path, state):
    log = forge(tmp_path, state)
    with pytest.raises(LogError, match=r"0000000001\.arrow"):
        list(decode_ranges(log, log.plan(), {"samples": None}))
    [checked] = verify(log)
    assert "0000000001.arrow" in checked.wrong


READ = """
import resource, sys
from zenlake.errors import LogError
from zenlake.log import Log, decode_ranges
log = Log(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    list(decode_ranges(log, log.plan(), {"samples": None}))
except LogError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize(
    "plain", [b"[" + b"[]," * (100 << 20), b"[" + b'{"a":[]},' * 10_000_000], ids=["lists", "dicts"]
)
def test_a_log_of_some_kilobytes_takes_little_memory(tmp_path, plain):
    forge(tmp_path, compress(plain))
    used = subprocess.run([sys.executable, "-c", READ, tmp_path], capture_output=True, text=True, check=True).stdout
    assert int(used) < 300_000  # KiB


def test_a_compressed_block_that_would_exhaust_its_reader_is_one_error(tmp_path, monkeypatch):
    rows = [(NOTE, b'{"kind": "x", "detail": "' + b"a" * 60_000 + b'"}')] * 100
    log = forge(tmp_path, rows=rows, compression="zstd")
    assert (tmp_path / "w" / "0000000001.arrow").stat().st_size < 10_000
    assert len(tables(log, log.plan())["events"]) == 100
    monkeypatch.setattr("zenlake.log.reader.MAX_INFLATED", 1 << 20)
    with pytest.raises(LogError, match="block 0: exceeds 1048576 bytes when decompressed"):
        tables(log, log.plan())
    with pytest.raises(InvalidValue, match="at most 256 MiB for a compressed block"):
        Writer(tmp_path / "other", "w", compression="zstd", block_size=1 << 29)


@pytest.mark.parametrize("note", [b"", b"[]", b"7", b'{"kind": 7}', b'{"count": "x"}', b"[" * 100_000, b"\xff"])
def test_a_note_that_no_writer_wrote_is_one_error(tmp_path, note):
    log = forge(tmp_path, rows=[(NOTE, note)])
    with pytest.raises(LogError, match="block 0: invalid note"):
        tables(log, log.plan())


@pytest.mark.parametrize("changes", [b"", compress(b"{}"), compress(b"[" * 100_000)])
def test_changes_that_no_writer_wrote_are_found_by_verify(tmp_path, changes):
    [checked] = verify(forge(tmp_path, changes=changes))
    assert "block 0" in checked.wrong


def test_a_state_of_a_gigabyte_is_refused_before_it_is_decompressed():
    with pytest.raises(LogError, match="1073741824 bytes; the limit is 67108864"):
        unpack(compress(b"[]", 1 << 30))


# Checksums


@pytest.mark.parametrize("size", [1 << 12, 4 << 20], ids=["small blocks", "large blocks"])
def test_readers_compare_the_checksum_of_each_block(tmp_path, size):
    with Writer(tmp_path, "w", block_size=size, disk=Hasty()) as writer:
        face = writer.face("tcp", "a:1", "b:2")
        for sn in range(60):
            put = Push(key="k", body=Put(payload=bytes(size // 10))).encode()
            writer.append(face, 0, Frame(sn=sn).encode() + put)
    log = Log(tmp_path)
    path = tmp_path / "w" / "0000000001.arrow"
    data = bytearray(path.read_bytes())
    record = log.index("w", 1)[2]
    at = record.offset + record.size // 2
    data[at] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(LogError, match=rf"w/0000000001\.arrow, block 2: .*{record.size} bytes at byte {record.offset}"):
        tables(log, log.plan(), {"samples": ["packet"]})
    damage = []
    found = {"samples": 0, "events": []}
    for name, batch in decode_ranges(log, log.plan(), {"samples": ["packet"], "events": None}, damaged=damage.append):
        if name == "samples":
            found[name] += batch.num_rows
        else:
            found[name] += batch.to_pylist()
    assert found["samples"] == 60 - record.rows
    unreadable = [row["count"] for row in found["events"] if row["kind"] == "log unreadable"]
    assert unreadable == [record.rows]
    assert len(damage) == 1


def test_a_flipped_bit_anywhere_in_a_segment_is_noticed_or_harmless(tmp_path):
    log = written(tmp_path, interleaved(5), block_size=2000)
    before = tables(log, log.plan())
    path = tmp_path / "w" / "0000000001.arrow"
    data = path.read_bytes()
    for at in range(0, len(data), 37):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
        try:
            for ranges in (log.plan(), log.plan(size=1)[-1:]):
                found = tables(log, ranges)
                expected = before if len(ranges) == len(log.plan()) and ranges == log.plan() else None
                assert expected is None or found == expected
        except LogError:
            pass
