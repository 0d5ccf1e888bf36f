# SPDX-License-Identifier: Apache-2.0
"""Captures of eclipse-zenoh by tcpdump and dumpcap: the decoded samples are the published ones, for every way of recording.

Several programs record one conversation over IPv4 and one over IPv6 at the same time. The files are then damaged, split and
compressed, as captures often are. tshark describes the packets independently.
"""

import gzip
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

import zenlake
from tests.interop.wheel_talk import published
from tests.programs import CAPTURERS

TALK = Path(__file__).with_name("wheel_talk.py")
BOTH = published(0) + published(1)
BUSY = {
    "capture retransmitted",
    "capture duplicated",
    "capture out-of-order",
}  # events of TCP on a busy machine, also on loopback

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, CAPTURERS)), reason=f"needs root and {', '.join(CAPTURERS)}"
)


@contextmanager
def recording(*command, ready):
    """Run a capture program, from its ready line until all packets are written."""
    process = subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        for line in process.stderr:
            if ready in line:
                break
        yield
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, ports):
    """Return a folder with the files of all programs for the same conversation."""
    folder = tmp_path_factory.mktemp("captures")
    for name in ("by_size", "dumpcap"):
        (folder / name).mkdir()
    four, six = next(ports), next(ports)
    only = f"tcp port {four} or tcp port {six}"
    tcpdump = ("tcpdump", "-B", "32768", "-Z", "root", "-s", "0", "--immediate-mode")
    commands = [
        (*tcpdump, "-i", "lo", "-w", folder / "lo.pcap", only),
        (*tcpdump, "-i", "any", "--nano", "-w", folder / "any.pcap", only),
        (*tcpdump, "-i", "lo", "-C", "1", "-w", folder / "by_size" / "talk.pcap", only),
    ]
    dumpcap = ("dumpcap", "-B", "32", "-i", "lo", "-f", only, "-i", "any", "-f", only, "-b", "filesize:900")
    with ExitStack() as stack:
        for command in commands:
            stack.enter_context(recording(*command, ready=b"listening on"))
        stack.enter_context(recording(*dumpcap, "-w", folder / "dumpcap" / "talk.pcapng", ready=b"File:"))
        endpoints = [f"tcp/127.0.0.1:{four}", f"tcp/[::1]:{six}"]
        talk = subprocess.run([sys.executable, TALK, *endpoints], capture_output=True, text=True, timeout=150)
        assert talk.stdout.split() == ["DONE"], talk.stderr
        give_up = time.monotonic() + 30
        while sum(ends_of(path, six) for path in (folder / "dumpcap").iterdir()) < 4:  # each way, on both interfaces
            assert time.monotonic() < give_up, "dumpcap does not write the end of the talk"
    return folder


def ends_of(path, port):
    """Return the number of packets so far that end a connection. A file that is being written may end inside a packet."""
    command = ["tshark", "-r", str(path), "-Y", f"tcp.flags.fin == 1 && tcp.port == {port}"]
    return len(subprocess.run(command, capture_output=True, timeout=60).stdout.splitlines())


def samples(path, **options):
    table = zenlake.read(path, columns=["key", "payload"], keys="talk/**", **options)
    return list(zip(table["key"].to_pylist(), table["payload"].to_pylist(), strict=True))


def by_talk(samples):
    """Return the samples of the first conversation, then those of the second, each in order. The input may interleave them."""
    return sorted(samples, key=lambda sample: sample[0].split("/")[1])


def events(path):
    table = zenlake.read(path, "events", columns=["kind", "count", "detail"])
    sums = {}
    for row in table.to_pylist():
        sums[row["kind"]] = sums.get(row["kind"], 0) + row["count"] if row["count"] else sums.get(row["kind"], 0)
    return sums


def fields(path, *names):
    """Return the fields of each packet that tshark reports."""
    command = ["tshark", "-r", str(path), "-n", "-T", "fields", *(word for name in names for word in ("-e", name))]
    output = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True).stdout
    return [line.split("\t") for line in output.splitlines()]


def packets_of(path):
    """Return the file header and (record header, bytes) of each packet of a little-endian pcap."""
    data = path.read_bytes()
    found, at = [], 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        found.append((data[at : at + 16], data[at + 16 : at + 16 + size]))
        at += 16 + size
    return data[:24], found


def write(path, head, packets):
    path.write_bytes(head + b"".join(header + data for header, data in packets))
    return path


def test_a_loopback_capture_has_the_published_samples(recorded):
    assert samples(recorded / "lo.pcap") == BOTH
    kinds = {kind for kind in events(recorded / "lo.pcap") if kind.startswith("capture")}
    assert kinds <= BUSY


def test_a_cooked_capture_has_each_packet_once(recorded):
    assert samples(recorded / "any.pcap") == BOTH
    kinds = {kind for kind in events(recorded / "any.pcap") if kind.startswith("capture")}
    assert kinds <= BUSY


@pytest.mark.parametrize("name", ["by_size", "dumpcap"])
def test_a_rotation_is_one_capture_given_as_a_folder_a_pattern_or_in_any_order(recorded, name):
    files = sorted((recorded / name).iterdir())
    assert len(files) > 2
    shuffled = random.Random(1).sample(files, len(files))
    for path in (recorded / name, f"{recorded / name}/talk*", shuffled):
        assert by_talk(samples(path)) == BOTH  # dumpcap keeps the order of its interfaces


@pytest.mark.parametrize("name", ["lo.pcap", "by_size", "dumpcap"])
def test_every_row_names_its_packet_as_tshark_does(recorded, name):
    path = recorded / name
    rows = zenlake.read(path, "messages", columns=["file", "packet", "session", "direction", "received"]).to_pylist()
    seen = {}
    for file in {row["file"] for row in rows}:
        names = ("frame.number", "ip.src", "ipv6.src", "tcp.srcport", "ip.dst", "ipv6.dst", "tcp.dstport", "tcp.len")
        for number, src4, src6, sport, dst4, dst6, dport, size in fields(file, *names):
            ends = [
                f"[{src6}]:{sport}" if src6 else f"{src4}:{sport}",
                f"[{dst6}]:{dport}" if dst6 else f"{dst4}:{dport}",
            ]
            seen[file, int(number)] = (ends, int(size))
    assert len(rows) > 6000
    for row in rows:
        ends, size = seen[row["file"], row["packet"]]
        assert size > 0
        assert row["session"] == "tcp/" + "->".join(ends if row["direction"] == 0 else ends[::-1])
    times = [row["received"] for row in rows]
    assert times == sorted(times) or BUSY & events(path).keys()


def test_interfaces_have_their_own_clocks_and_links(recorded, tmp_path):
    """Microseconds on Ethernet and nanoseconds on a cooked link, merged by a tool of Wireshark."""
    merged = tmp_path / "merged.pcapng"
    subprocess.run(["mergecap", "-w", merged, recorded / "lo.pcap", recorded / "any.pcap"], check=True, timeout=60)
    assert samples(merged) == BOTH
    assert events(merged)["capture duplicated"] > 0


def test_packed_files_and_a_pipe(recorded, tmp_path):
    plain = (recorded / "lo.pcap").read_bytes()
    (tmp_path / "talk.pcap.gz").write_bytes(gzip.compress(plain, 1))
    (tmp_path / "talk.pcap.zst").write_bytes(pa.compress(plain, "zstd", asbytes=True))
    assert samples(tmp_path / "talk.pcap.gz") == BOTH
    assert samples(tmp_path / "talk.pcap.zst") == BOTH
    command = [
        Path(sys.executable).with_name("zenlake"),
        "decode",
        "-",
        "--columns",
        "key",
        "--key",
        "talk/**",
        "-f",
        "csv",
    ]
    for data in (plain, (tmp_path / "talk.pcap.zst").read_bytes()):
        output = subprocess.run(command, input=data, capture_output=True, timeout=100, check=True).stdout
        assert output.decode().replace('"', "").split() == ["key", *(key for key, _ in BOTH)]


def test_reordered_packets_are_put_back(recorded, tmp_path):
    head, packets = packets_of(recorded / "lo.pcap")
    r = random.Random(2)
    for _ in range(len(packets) // 10):
        i = r.randrange(20, len(packets) - 20)
        packets.insert(i + r.randrange(1, 8), packets.pop(i))
    path = write(tmp_path / "reordered.pcap", head, packets)
    assert samples(path) == BOTH
    assert events(path)["capture out-of-order"] > 0


def test_lost_packets_are_missing_and_reported(recorded, tmp_path):
    head, packets = packets_of(recorded / "lo.pcap")
    sizes = [int(size) for (size,) in fields(recorded / "lo.pcap", "tcp.len")]
    heavy = [i for i, size in enumerate(sizes) if size > 100]
    lost = set(random.Random(3).sample(heavy[20:], 12))
    path = write(tmp_path / "lossy.pcap", head, [packet for i, packet in enumerate(packets) if i not in lost])
    found = by_talk(samples(path))  # rows after a gap are delivered when nothing can fill it
    kept = set(found)
    missing = {sample for sample in BOTH if sample not in kept}
    assert missing
    assert found == [sample for sample in BOTH if sample in kept]
    event_rows = zenlake.read(path, "events").to_pylist()
    gone = sum(int(e["detail"].split("; ")[1].split()[0]) for e in event_rows if e["kind"] == "capture missing")
    assert gone == sum(sizes[i] for i in lost) or BUSY & events(recorded / "lo.pcap").keys()
    gaps = {
        (e["session"], sn) for e in event_rows if e["kind"] == "gap" for sn in range(e["sn"], e["sn"] + e["count"])
    }  # a missing sample was in a frame or fragment that a gap names, or at the end
    last = {}
    for row in zenlake.read(path, "messages", columns=["session", "direction", "sn"]).to_pylist():
        if row["direction"] == 0 and row["sn"] is not None:
            last[row["session"]] = row["sn"]
    lanes = zenlake.read(recorded / "lo.pcap", columns=["session", "sn", "fragments", "key", "payload"]).to_pylist()
    for row in lanes:
        if (row["key"], row["payload"]) in missing:
            pieces = range(row["sn"] - (row["fragments"] or 1) + 1, row["sn"] + 1)
            assert any((row["session"], sn) in gaps or sn > last[row["session"]] for sn in pieces)


def test_a_capture_that_begins_midway_reports_unknown_keys(recorded, tmp_path):
    head, packets = packets_of(recorded / "lo.pcap")
    path = write(tmp_path / "midway.pcap", head, packets[len(packets) // 4 :])
    rows = zenlake.read(path, columns=["key", "unresolved_key", "payload"]).to_pylist()
    payloads = {payload for _, payload in BOTH}
    assert len(rows) > len(BOTH) // 2
    assert {row["payload"] for row in rows} <= payloads
    assert all((row["key"] is None) == (row["unresolved_key"] is not None) for row in rows)


def test_several_threads_read_the_same(recorded, monkeypatch):
    from zenlake.capture import parallel

    monkeypatch.setattr(parallel, "LARGE", 1)
    for table in ("samples", "messages", "events"):
        one = zenlake.read(recorded / "by_size", table, threads=1)
        found = [
            batch for _, batch in parallel.decode(_files(recorded / "by_size"), {table: None}, threads=3, size=1 << 19)
        ]
        decoded = pa.Table.from_batches(found)
        assert decoded.equals(one.select(decoded.column_names))
    assert samples(recorded / "by_size", threads=2) == BOTH


def _files(folder):
    return sorted(folder.iterdir())
