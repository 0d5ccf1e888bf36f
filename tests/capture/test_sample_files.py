# SPDX-License-Identifier: Apache-2.0
"""Compare the recorded captures with a reference that sorts segments by number and shares nothing with the reader."""

import struct
from pathlib import Path

import dpkt
import lz4.block
import pytest

from tests.capture.forge import read, sum_notes
from zenlake import capture

PCAPS = Path(__file__).parent.parent / "vectors" / "pcap"
NAMES = sorted(path.stem for path in PCAPS.glob("*.pcap"))


def packets(path):
    with path.open("rb") as file:
        reader = dpkt.pcap.Reader(file)
        for number, (_, data) in enumerate(reader, 1):
            ip = dpkt.ip.IP(data[20:]) if reader.datalink() == 276 else dpkt.ethernet.Ethernet(data).data
            yield number, ip


def oracle(path):
    """{(source port, destination port): [(packet of the last byte, batch on the wire without its prefix)]}, bytes."""
    lanes, size = {}, 0
    for number, ip in packets(path):
        payload = bytes(ip.data.data)
        if not payload:
            continue
        size += len(payload)
        seq = getattr(ip.data, "seq", None)
        lanes.setdefault((ip.data.sport, ip.data.dport), []).append((seq, number, payload))
    batches = {}
    for ports, segments in lanes.items():
        out = batches[ports] = []
        if segments[0][0] is None:
            out += [(number, payload) for _, number, payload in segments]
            continue
        stream, owner = b"", []
        for _, number, payload in sorted(segments):
            stream += payload
            owner += [number] * len(payload)
        at = 0
        while at < len(stream):
            (n,) = struct.unpack_from("<H", stream, at)
            out.append((owner[at + 1 + n], stream[at + 2 : at + 2 + n]))
            at += 2 + n
    return batches, size


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_becomes_a_batch(name):
    found, table = read(PCAPS / f"{name}.pcap")
    expected, size = oracle(PCAPS / f"{name}.pcap")
    assert sum_notes(found) == {}
    assert sum(table["wire_size"].to_pylist()) == size
    got = {}
    for row in table.to_pylist():
        face = found.faces[row["face"]]
        ends = (face.client[1], face.server[1])
        ports = ends if row["direction"] == 0 else ends[::-1]
        got.setdefault(ports, []).append(row)
    assert got.keys() == expected.keys()
    for ports, rows in got.items():
        assert [row["packet"] for row in rows] == [number for number, _ in expected[ports]]
        for row, (_, wire) in zip(rows, expected[ports], strict=True):
            face = found.faces[row["face"]]
            if face.compression and row["batch"][0] & 0x1F not in (1, 2):
                assert row["compressed"] == (wire[0] == 1)
                wire = lz4.block.decompress(wire[1:], uncompressed_size=65535) if wire[0] else wire[1:]
            assert row["batch"] == wire


@pytest.mark.parametrize("name", NAMES)
def test_rows_are_in_the_order_of_capture(name):
    _, table = read(PCAPS / f"{name}.pcap")
    numbers = table["packet"].to_pylist()
    assert numbers == sorted(numbers)
    times = table["received"].cast("int64").to_pylist()
    assert times == sorted(times)


def test_a_session_captured_from_its_start_has_both_zids():
    found, _ = read(PCAPS / "clean_full_sessions.pcap")
    assert [(face.protocol, face.framing, face.started_midway) for face in found.faces] == [
        ("tcp", "stream", False)
    ] * 2
    assert {face.server for face in found.faces} == {("127.0.0.1", 42273)}


def test_a_face_names_its_first_packet():
    found, _ = read(PCAPS / "two_clients_queries.pcap")
    first = {}
    for number, ip in packets(PCAPS / "two_clients_queries.pcap"):
        first.setdefault(frozenset((ip.data.sport, ip.data.dport)), number)
    assert {frozenset((face.client[1], face.server[1])): face.packet for face in found.faces} == first


def test_a_session_seen_from_its_middle_takes_the_common_port_for_the_server():
    found, _ = read(PCAPS / "started_mid_session.pcap")
    assert [face.started_midway for face in found.faces] == [True, True]
    assert {face.server for face in found.faces} == {("127.0.0.1", 58681)}


def test_compression_is_known_from_the_handshake():
    found, table = read(PCAPS / "compression_session.pcap")
    assert all(face.compression for face in found.faces)
    assert True in table["compressed"].to_pylist()


def test_a_multicast_sender_is_a_face():
    found, table = read(PCAPS / "multicast_cooked.pcap")
    assert [(face.protocol, face.server) for face in found.faces] == [("multicast", ("224.0.0.225", 7448))] * 2
    assert set(table["direction"].to_pylist()) == {0}


@pytest.mark.parametrize("rows", [1, 7])
def test_record_batches_are_bounded_by_rows(rows):
    path = PCAPS / "peer_peer.pcap"
    small = list(capture.open(path, rows=rows).batches())
    assert max(len(batch) for batch in small) == rows
    assert [r for batch in small for r in batch.to_pylist()] == read(path)[1].to_pylist()


def test_record_batches_are_bounded_by_bytes():
    small = list(capture.open(PCAPS / "udp_session.pcap", bytes=1 << 16).batches())
    assert len(small) > 3
    assert all(sum(len(b) for b in batch["batch"].to_pylist()) <= 1 << 16 for batch in small)
