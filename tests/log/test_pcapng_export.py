# SPDX-License-Identifier: Apache-2.0
"""A log as a capture, read by our own reader, by dpkt, and by tshark where there is one."""

import shutil
import subprocess

import dpkt
import pytest

import zenlake
from tests.log.fixtures import Hasty, written
from tests.tables.fixtures import PCAPS
from tests.transport.ends import Pair, push
from zenlake import capture
from zenlake.log import Log, Recorder, Writer, export

COMPARED = ["direction", "generation", "type", "body", "size", "priority", "sn", "key", "id", "payload_size", "detail"]


@pytest.fixture(params=["plain", "compression", "low latency"])
def log(request, tmp_path):
    """Write a session of each kind: handshake, large and small messages, end."""
    kind = {"plain": {}, "compression": {"compression": True}, "low latency": {"qos": False, "low_latency": True}}
    pair = Pair(**kind[request.param])
    with Recorder(Writer(tmp_path / "log", "w", disk=Hasty())) as recorder:
        tee = recorder.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447", opener=True)
        pair.opener.record(tee)
        pair.open()
        for size in (3, 3000, 60_000):
            pair.opener.send(push("a/b", bytes(range(256)) * (size // 256) + b"x"))
            pair.acceptor.send(push("c/d", bytes(size)))
            pair.pump()
        pair.opener.close()
        pair.pump()
        tee.close()
    return Log(tmp_path / "log")


def test_the_capture_gives_the_same_messages_and_times(log, tmp_path):
    out = tmp_path / "log.pcapng"
    count, left_out = export(log, out)
    assert left_out == 0
    columns = ["received_ns", *COMPARED]
    ours = zenlake.read(log.files.path, "messages", columns=columns).to_pylist()
    assert zenlake.read(out, "messages", columns=columns).to_pylist() == ours
    assert len(ours) > 10
    assert zenlake.read(out, "errors").num_rows == 0
    assert not capture.open(out).notes()
    with out.open("rb") as file:
        packets = [dpkt.ip.IP(data) for _, data in dpkt.pcapng.Reader(file)]
    assert len(packets) == count
    assert {(packet.p, packet.data.dport in (7447, 40000)) for packet in packets} == {(6, True)}


@pytest.mark.parametrize("kind", [{}, {"compression": True}, {"qos": False, "low_latency": True}])
def test_a_value_that_was_not_kept_is_left_out_and_its_hash_never_passes_for_it(tmp_path, kind):
    pair = Pair(**kind)
    with Recorder(Writer(tmp_path / "log", "w", metadata_only=["camera/**"], disk=Hasty())) as recorder:
        tee = recorder.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447", opener=True)
        pair.opener.record(tee)
        pair.open()
        for size in (3, 3000, 60_000 if "low_latency" in kind else 200_000):  # the last in fragments
            pair.opener.send(push("camera/1", bytes(size)))
            pair.opener.send(push("pose", b"kept"))
            pair.pump()
        tee.note("seen", detail="a note among the batches")
        tee.close()
    samples = zenlake.read(tmp_path / "log", columns=["key", "payload", "payload_sha256"])
    hashes = [bytes.fromhex(row) for row in samples["payload_sha256"].to_pylist() if row]
    assert len(hashes) == 3
    out = tmp_path / "log.pcapng"
    assert export(Log(tmp_path / "log"), out).left_out == 3
    assert not any(each in out.read_bytes() for each in hashes)
    assert zenlake.read(out, columns=["key", "payload"]).to_pylist() == 3 * [{"key": "pose", "payload": b"kept"}]
    assert zenlake.read(out, "errors").num_rows == 0


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reports_no_error(log, tmp_path):
    out = tmp_path / "log.pcapng"
    count, _ = export(log, out)
    fields = ["-T", "fields", "-e", "frame.number", "-e", "tcp.analysis.flags", "-e", "_ws.malformed"]
    done = subprocess.run(["tshark", "-r", str(out), *fields], capture_output=True, text=True, timeout=60, check=True)
    assert [line.split() for line in done.stdout.splitlines()] == [[str(i)] for i in range(1, count + 1)]


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.stem)
def test_a_capture_exported_from_a_log_has_the_same_messages(path, tmp_path):
    """Real traffic: capture -> log -> tables, and -> capture -> tables."""
    source = capture.open(path)
    rows = [
        row
        for batches in source.batches()
        for row in zip(*(batches.column(i).to_pylist() for i in (1, 2, 3)), strict=True)
    ]
    streams = {face.id for face in source.faces if face.protocol == "tcp" and not face.started_midway}
    batches = [row for row in rows if row[0] in streams]
    if not batches:
        pytest.skip("no whole TCP session in it")
    log = written(tmp_path / "log", batches, block_size=5000)
    columns = ["direction", "key", "kind", "payload", "ntp64", "sn", "fragments"]
    ours = zenlake.read(tmp_path / "log", columns=columns).to_pylist()
    export(log, tmp_path / "out.pcapng")
    assert sorted(map(str, zenlake.read(tmp_path / "out.pcapng", columns=columns).to_pylist())) == sorted(
        map(str, ours)
    )
    sessions = zenlake.read(path, "sessions", columns=["session"]).column("session").to_pylist()
    direct = zenlake.read(path, columns=[*columns, "session"]).to_pylist()
    whole = [row for row in direct if row.pop("session").startswith("tcp")]
    if len(streams) == len(sessions):
        assert sorted(map(str, ours)) == sorted(map(str, whole))
