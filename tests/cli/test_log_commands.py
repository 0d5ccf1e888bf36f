# SPDX-License-Identifier: Apache-2.0
"""`zenlake log`, and the other commands on a log."""

import json

import pytest

import zenlake
from tests.cli.test_tables_commands import run  # noqa: F401
from tests.log.fixtures import interleaved, written
from zenlake.errors import LogError
from zenlake.log import Log, writer
from zenlake.log.reader import Segment
from zenlake.tables import DERIVED


@pytest.fixture
def log(tmp_path):
    return written(tmp_path / "log", interleaved(5), block_size=500)


def test_info_lists_the_writers(run, log):  # noqa: F811
    code, out, _ = run("log", "info", log.files.path)
    [row] = [line.split() for line in out.decode().splitlines() if line.split()[:1] == ["w"]]
    assert code == 0
    assert row[:3] == ["w", "1", str(log.latest()["w"][1])]


def test_repair_cuts_a_damaged_block_out_and_keeps_those_behind_it(run, log, tmp_path):  # noqa: F811
    [path] = (tmp_path / "log" / "w").glob("*.arrow")
    for cut in (4, 9):  # a second repair keeps what the first has cut
        data = bytearray(path.read_bytes())
        record = log.index("w", 1)[cut]
        data[record.offset + record.size - 20] ^= 1
        path.write_bytes(data)
        damaged = bytes(data[record.offset : record.offset + record.size])
        assert run("log", "verify", log.files.path)[0] == 1
        readable = zenlake.read(log.files.path, "messages", damaged=lambda error: None)
        end = log.latest()
        code, out, _ = run("log", "repair", log.files.path)
        assert (code, out.decode().splitlines()[-1]) == (0, "1 repaired")
        assert f"1 damaged block removed: {record.rows} rows lost; later blocks are kept" in out.decode()
        assert path.with_suffix(".cut" if cut == 4 else ".2.cut").read_bytes() == damaged
        assert log.latest() == end
        assert run("log", "verify", log.files.path)[0] == 0
        assert run("log", "repair", log.files.path)[1] == b"nothing to repair\n"
        assert zenlake.read(log.files.path, "messages") == readable
        assert [row["count"] for row in cuts(log)][-1] == record.rows
    assert len(cuts(log)) == 2


def test_verify_finds_a_flipped_bit_and_repair_keeps_the_blocks_before_it(run, log, tmp_path):  # noqa: F811
    assert run("log", "verify", log.files.path)[0] == 0
    before = zenlake.read(log.files.path, "messages").num_rows
    [path] = (tmp_path / "log" / "w").glob("*.arrow")
    data = bytearray(path.read_bytes())
    record = log.index("w", 1)[4]
    data[record.offset + 40] ^= 1  # in its metadata, so its changes are unreadable
    for name in (b"changes_crc", b"block"):
        data[data.index(name, record.offset)] ^= 1
    path.write_bytes(data)
    code, out, _ = run("log", "verify", log.files.path)
    assert code == 1
    index = log.index("w", 1)
    blocks, rows = len(index) - 4, sum(each.rows for each in index) - record.row
    assert "block 4: incomplete or damaged block" in out.decode()
    assert f"; {blocks} blocks, {rows} rows from there on\n" in out.decode()
    code, out, _ = run("log", "repair", log.files.path)
    assert code == 0
    why = f"block 4 is damaged and was removed with the {blocks - 1} after it, which depend on it: {rows} rows lost"
    assert f"w segment 1: 4 blocks, {record.row} rows: {why}; the removed bytes are in 0000000001.cut\n" in out.decode()
    assert path.with_suffix(".cut").stat().st_size == len(data) - record.offset
    assert run("log", "verify", log.files.path)[0] == 0
    assert 0 < zenlake.read(log.files.path, "messages").num_rows < before
    assert cuts(log) == [{"kind": "log cut", "count": rows, "detail": f"segment 1: {why}"}]
    assert run("log", "repair", log.files.path)[1] == b"nothing to repair\n"
    assert len(cuts(log)) == 1


@pytest.mark.parametrize("damage", ["cut short", "a block's rows", "what a block says of itself"])
def test_the_readable_part_of_a_damaged_log_is_decoded_and_the_rest_reported(run, tmp_path, monkeypatch, damage):  # noqa: F811
    monkeypatch.setattr(writer, "LARGE_HEAD", 0)
    monkeypatch.chdir(tmp_path)
    log = written(tmp_path / "log", interleaved(5), block_size=500, segment_size=9000)
    assert len(log.segments("w")) > 2
    columns = ["packet", "index", "type", "key", "sn", "fragments"]
    whole = zenlake.read(log.files.path, "messages", columns=columns).to_pylist()
    segment = Segment(log.files, "w", 2)
    record, first_batch = segment.index[2], segment.first_batch
    gone = range(2, len(segment.index))
    path = tmp_path / "log" / "w" / "0000000002.arrow"
    data = bytearray(path.read_bytes())
    if damage == "cut short":
        data = data[: record.offset + record.size - 100]
    elif damage == "a block's rows":
        directions = segment.rows(2).column("direction").buffers()[1]
        data[directions.address - segment.source.read(0, 1).address] = 99
        gone = range(2, 3)  # its change is known, so later blocks can be read
    else:
        data[record.offset : record.offset + 4] = b"none"
    lost = {first_batch + segment.index[i].row + row for i in gone for row in range(segment.index[i].rows)}
    del segment  # it maps the file
    path.write_bytes(data)

    with pytest.raises(
        LogError, match=r"w/0000000002.arrow, block 2: .*; run `zenlake log repair` to recover the other blocks"
    ):
        zenlake.read(log.files.path, "messages")
    damage_reports = []
    found = zenlake.read(log.files.path, "messages", columns=columns, damaged=damage_reports.append).to_pylist()
    left = [row for row in whole if row["packet"] not in lost and row["fragments"] is None]
    assert [row for row in found if row["fragments"] is None] == left
    assert len(left) > 50
    [error] = damage_reports
    assert str(error).endswith(f"run `zenlake log repair` to recover the other blocks; {len(lost)} batches skipped")
    events = zenlake.read(log.files.path, "events", damaged=damage_reports.append).to_pylist()
    [event] = [row for row in events if row["kind"] == "log unreadable"]
    assert (event["count"], event["packet"], event["detail"]) == (len(lost), min(lost), str(error))
    for words in (["decode"], ["decode", "-t", "sessions"], ["sql", "from messages"], ["report", "--no-open"]):
        code, _, err = run(*words, log.files.path)
        assert (code, err.splitlines()[0]) == (1, f"zenlake: {error}")


def cuts(log):
    rows = zenlake.read(log.files.path, "events", columns=["kind", "count", "detail"]).to_pylist()
    return [row for row in rows if row["kind"].startswith("log ")]


def test_a_tail_that_repair_cuts_is_reported_as_by_a_writer(run, log, tmp_path):  # noqa: F811
    [path] = (tmp_path / "log" / "w").glob("*.arrow")
    whole = zenlake.read(log.files.path, "messages")
    path.write_bytes(path.read_bytes() + b"never acknowledged")
    run("log", "repair", log.files.path)
    [cut] = cuts(log)
    assert (cut["kind"], cut["count"] > 0) == ("log torn", True)
    assert zenlake.read(log.files.path, "messages") == whole


@pytest.mark.parametrize("lost", ["the first", "one between", "all"])
def test_a_segment_without_its_index_is_reported_to_readers_and_indexed_by_repair(
    run,  # noqa: F811
    tmp_path,
    caplog,
    monkeypatch,
    lost,
):
    monkeypatch.setattr(writer, "LARGE_HEAD", 0)
    log = written(tmp_path / "log", interleaved(5), block_size=500, segment_size=4000)
    whole = zenlake.read(log.files.path, "messages")
    indices = sorted((tmp_path / "log" / "w").glob("*.index"))
    assert len(indices) > 2
    gone = {"the first": indices[:1], "one between": indices[1:2], "all": indices}[lost]
    for index in gone:
        index.unlink()
    code, out, _ = run("log", "verify", log.files.path)
    assert code == 1
    for index in gone:
        assert (
            f"w/{index.stem}.arrow has no index, so its blocks are invisible; run `zenlake log repair`" in out.decode()
        )
    assert out.decode().endswith(f"{len(gone)} damaged; `zenlake log repair` recovers the readable blocks\n")
    for words in (("decode", log.files.path), ("log", "info", log.files.path)):
        caplog.clear()
        assert run(*words)[0] == 0
        assert sum("has no index" in message for message in caplog.messages) == len(gone)
        assert not any("removed by another process" in message for message in caplog.messages)
    with pytest.raises(LogError, match="has no index"):
        log.plan(whole=True)
    run("log", "repair", log.files.path)
    assert run("log", "verify", log.files.path)[0] == 0
    assert zenlake.read(log.files.path, "messages") == whole
    assert cuts(log) == []


@pytest.mark.parametrize("left", ["an empty file", "half a head", "a head"])
def test_a_segment_without_blocks_after_a_crash_has_no_loss(run, log, tmp_path, left):  # noqa: F811
    segment = Segment(log.files, "w", 1)
    head = (tmp_path / "log" / "w" / "0000000001.arrow").read_bytes()[: segment.index[0].offset]
    size = {"an empty file": 0, "half a head": len(head) // 2, "a head": len(head)}[left]
    (tmp_path / "log" / "w" / "0000000002.arrow").write_bytes(head[:size])
    code, out, _ = run("log", "verify", log.files.path)
    assert (code, out.decode().splitlines()[-1]) == (0, "no damage found")


@pytest.mark.parametrize("where", ["schema", "state"])
def test_a_damaged_head_is_reported_and_its_segment_moved_aside(run, tmp_path, where):  # noqa: F811
    log = written(tmp_path / "log", interleaved(5), block_size=500, segment_size=4000)
    _, *others = sorted((tmp_path / "log" / "w").glob("*.arrow"))
    assert others
    path = others[0]
    data = bytearray(path.read_bytes())
    at = 12 if where == "schema" else data.index(Segment(log.files, "w", 2)._head) + 20
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)
    code, _, err = run("decode", log.files.path)
    assert (code, "run `zenlake log repair` to set it aside" in err) == (1, True), err
    assert run("log", "verify", log.files.path)[0] == 1
    rows = sum(part.rows for part in log.plan() if part.segment == 2)
    code, out, _ = run("log", "repair", log.files.path)
    assert (code, "set aside" in out.decode()) == (0, True)
    assert path.with_suffix(".cut").read_bytes() == data
    [cut] = cuts(log)
    assert (cut["kind"], cut["count"]) == ("log cut", rows)
    assert run("decode", log.files.path)[0] == 0
    assert run("log", "verify", log.files.path)[0] == 0


def test_an_index_and_a_description_that_were_lost_are_made_again(run, log, tmp_path):  # noqa: F811
    before = zenlake.read(log.files.path, "messages")
    for name in ("w/0000000001.index", "w/writer.json", "zenlake-log.json"):
        (tmp_path / "log" / name).unlink()
    with pytest.raises(LogError, match=r"is not a log: zenlake-log\.json is missing, but .* log repair` to rebuild"):
        Log(log.files.path)
    with pytest.raises(
        FileNotFoundError, match=r"is a log, but its file `zenlake-log.json` is missing; run `zenlake log repair`"
    ):
        zenlake.read(log.files.path)
    _, out, _ = run("log", "repair", log.files.path)
    assert out.decode().splitlines() == [
        "zenlake-log.json was rebuilt",
        "w: writer.json was rebuilt",
        f"w segment 1: {log.latest()['w'][1]} blocks, {log.plan()[0].rows} rows: sealed, and its index rebuilt",
        "3 repaired",
    ]
    after = zenlake.read(log.files.path, "messages")
    assert after.drop_columns("log") == before.drop_columns("log")  # the log has a new identity


def test_decode_and_sql_take_a_log(run, log):  # noqa: F811
    whole = zenlake.read(log.files.path)
    code, out, _ = run("decode", log.files.path, "--columns", "key,received_ns", "--format", "jsonl")
    assert code == 0
    assert [json.loads(line)["key"] for line in out.splitlines()] == whole.column("key").to_pylist()
    _, out, _ = run("sql", "select count(*) as n from samples", log.files.path, "--format", "jsonl")
    assert json.loads(out) == {"n": whole.num_rows}
    for name in DERIVED:
        zenlake.read(log.files.path, name)
    assert zenlake.read(log.files.path, "sessions").num_rows == 3


def test_since_and_until_choose_rows(log):
    whole = zenlake.read(log.files.path, columns=["received", "key"]).to_pylist()
    since, until = whole[len(whole) // 3]["received"], whole[2 * len(whole) // 3]["received"]
    chosen = zenlake.read(log.files.path, columns=["received", "key"], since=since, until=until).to_pylist()
    assert chosen == [row for row in whole if since <= row["received"] < until]
    assert 0 < len(chosen) < len(whole)


def test_export_writes_a_capture(run, log, tmp_path):  # noqa: F811
    code, _, err = run("log", "export", log.files.path, "--pcapng", str(tmp_path / "out.pcapng"))
    assert code == 0
    assert "packets in" in err
