# SPDX-License-Identifier: Apache-2.0
"""Kind of a session: from the handshake if captured, otherwise from the bytes; and other protocols."""

import json
import os
import random
from pathlib import Path

import lz4.block
import pytest

from tests.capture import forge
from tests.capture.forge import (
    CLOSE,
    COMPRESSION,
    HANDSHAKE,
    KEEP_ALIVE,
    LOWLATENCY,
    Connection,
    add_prefix,
    datagram,
    fragment,
    frame,
    init_ack,
    init_syn,
    list_batches,
    open_ack,
    open_syn,
    push,
    read_packets,
    sum_notes,
)

VECTORS = Path(__file__).parent.parent / "vectors"
CHATTER = [(0, frame(0)), (1, frame(0, b"answer" * 100)), (0, KEEP_ALIVE), (0, frame(1, b"b" * 3000)), (1, CLOSE)]


def handshake(syn=b"", ack=b""):
    return [(0, init_syn(syn)), (1, init_ack(ack)), (0, open_syn()), (1, open_ack())]


def squeezed(batch):
    packed = lz4.block.compress(batch, store_size=False)
    return b"\x01" + packed if len(packed) < len(batch) else b"\x00" + batch


def test_compression_negotiated(tmp_path):
    connection = Connection()
    opening = handshake(COMPRESSION, COMPRESSION)
    packets = connection.open() + connection.say(opening) + connection.say([(s, squeezed(b)) for s, b in CHATTER])
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == opening + CHATTER
    assert table["compressed"].to_pylist() == [False] * 5 + [True, False, True, False]
    assert table["wire_size"].to_pylist()[5] == len(squeezed(CHATTER[1][1])) + 2
    assert found.faces[0].compression
    assert sum_notes(found) == {}


@pytest.mark.parametrize(("syn", "ack"), [(COMPRESSION, b""), (b"", COMPRESSION), (LOWLATENCY, b""), (b"", LOWLATENCY)])
def test_a_feature_offered_by_one_side_stays_off(tmp_path, syn, ack):
    connection = Connection()
    packets = connection.open() + connection.say(handshake(syn, ack) + CHATTER)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == handshake(syn, ack) + CHATTER
    assert (found.faces[0].compression, found.faces[0].framing) == (False, "stream")


def test_offers_among_other_extensions(tmp_path):
    exts = b"\x81" + b"\xc3\x03abc" + b"\xa7\x01" + b"\x86" + b"\x48\x02no"  # QoS, Auth, Patch, Compression, RegionName
    connection = Connection()
    packets = connection.open() + connection.say(handshake(exts, exts)) + connection.say([(0, squeezed(frame(0)))])
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table)[4:] == [(0, frame(0))]
    assert found.faces[0].compression


BARE = [(0, push(b"hello")), (1, KEEP_ALIVE), (1, push(b"w" * 2000)), (0, CLOSE)]


def test_low_latency_negotiated(tmp_path):
    connection = Connection()
    packets = connection.open() + connection.say(handshake(LOWLATENCY, LOWLATENCY)) + connection.say(BARE, width=4)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table)[4:] == BARE
    assert found.faces[0].framing == "lowlatency"
    assert table["wire_size"].to_pylist()[4] == len(BARE[0][1]) + 4


def test_a_recorded_low_latency_session(tmp_path):
    rows = [json.loads(line) for line in (VECTORS / "lowlatency.jsonl").read_text().splitlines()[1:]]
    talk = [(int(row["dir"].startswith("router")), bytes.fromhex(row["hex"])) for row in rows if row["link"] == "A"]
    connection = Connection()
    packets = connection.open() + connection.say(talk[:4]) + connection.say(talk[4:], width=4)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == talk
    assert sum_notes(found) == {}


@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_the_framing_changes_inside_a_segment(tmp_path, size):
    """The first message of the opener directly follows its OpenSyn, and segments begin at any byte."""
    connection = Connection()
    packets = connection.open() + connection.say(handshake(LOWLATENCY, LOWLATENCY)[:2])
    data = add_prefix(open_syn()) + b"".join(add_prefix(batch, 4) for side, batch in BARE if side == 0)
    packets += [connection.send(0, data[i : i + size]) for i in range(0, len(data), size)]
    _, table = read_packets(tmp_path, packets)
    assert list_batches(table)[2:] == [(0, open_syn()), (0, BARE[0][1]), (0, CLOSE)]


@pytest.mark.parametrize(
    ("kind", "width", "wrap"), [("plain", 2, bytes), ("compressed", 2, squeezed), ("lowlatency", 4, bytes)]
)
def test_a_session_from_its_middle_is_known_by_evidence(tmp_path, kind, width, wrap):
    talk = BARE if kind == "lowlatency" else CHATTER
    connection = Connection()
    packets = connection.say([(side, wrap(batch)) for side, batch in talk], width)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == talk
    (face,) = found.faces
    assert face.started_midway
    assert face.compression == (kind == "compressed")
    assert face.framing == ("lowlatency" if kind == "lowlatency" else "stream")
    assert sum_notes(found) == {}


def test_a_capture_that_starts_inside_a_batch_reports_skipped_bytes(tmp_path):
    noise = random.Random(7).randbytes(60_000)
    batches = [fragment(0, noise[:30_000]), fragment(1, noise[30_000:]), frame(2), frame(3), KEEP_ALIVE, frame(4)]
    data = b"".join(add_prefix(batch) for batch in batches)[11_111:]
    connection = Connection()
    packets = [connection.send(0, data[i : i + 1448]) for i in range(0, len(data), 1448)]
    found, table = read_packets(tmp_path, packets)
    got = [batch for _, batch in list_batches(table)]
    assert got == batches[-len(got) :]
    assert len(got) >= 4
    assert sum(table["wire_size"].to_pylist()) + sum_notes(found)["skipped", 0][1] == len(data)


def test_keep_alives_alone_are_recognised(tmp_path):
    connection = Connection()
    found, table = read_packets(tmp_path, connection.say([(0, KEEP_ALIVE), (1, KEEP_ALIVE)] * 3))
    assert list_batches(table) == [(0, KEEP_ALIVE), (1, KEEP_ALIVE)] * 3
    assert found.faces[0].server == connection.server  # by its port


def test_the_lower_port_listens_without_other_evidence(tmp_path):
    connection = Connection(client=("10.0.0.2", 50123), server=("10.0.0.1", 12345))
    found, _ = read_packets(tmp_path, connection.say([(1, frame(0)), (0, frame(0))]))
    assert (found.faces[0].client, found.faces[0].server) == (connection.client, connection.server)


def test_after_half_a_handshake_the_batches_decide(tmp_path):
    connection = Connection()
    opening = handshake(COMPRESSION, COMPRESSION)
    packets = connection.open() + connection.say(opening) + connection.say([(s, squeezed(b)) for s, b in CHATTER])
    del packets[4]  # InitAck
    times = [forge.START + i * 10**9 for i in range(len(packets))]
    found, table = read_packets(tmp_path, packets, times=times)
    assert list_batches(table)[:1] == opening[:1]
    assert [b for s, b in list_batches(table) if s == 0] == [b for s, b in opening + CHATTER if s == 0]
    assert found.faces[0].compression
    assert sum_notes(found)["missing", 0] == (1, len(add_prefix(opening[1][1])))


# Datagrams.


def on_udp(talk, src=("10.0.0.2", 40000), dst=("10.0.0.1", 7447)):
    return [datagram(b, src, dst, id=i) if s == 0 else datagram(b, dst, src, id=i) for i, (s, b) in enumerate(talk, 1)]


def test_udp_with_its_handshake(tmp_path):
    found, table = read_packets(tmp_path, on_udp(HANDSHAKE + CHATTER))
    assert list_batches(table) == HANDSHAKE + CHATTER
    assert (found.faces[0].protocol, found.faces[0].framing) == ("udp", "datagram")
    assert table["wire_size"].to_pylist() == [len(batch) for _, batch in HANDSHAKE + CHATTER]


def test_udp_compressed(tmp_path):
    opening = handshake(COMPRESSION, COMPRESSION)
    _, table = read_packets(tmp_path, on_udp(opening + [(s, squeezed(b)) for s, b in CHATTER]))
    assert list_batches(table) == opening + CHATTER


def test_udp_from_the_middle(tmp_path):
    found, table = read_packets(tmp_path, on_udp(CHATTER))
    assert list_batches(table) == CHATTER
    assert found.faces[0].started_midway


def test_udp_weak_evidence_adds_up_and_keeps_its_packets(tmp_path):
    talk = [(0, KEEP_ALIVE), (0, KEEP_ALIVE), (0, frame(0)), (0, KEEP_ALIVE)]
    _, table = read_packets(tmp_path, on_udp(talk), times=[forge.START + i * 10**9 for i in range(4)])
    assert list_batches(table) == talk
    assert table["packet"].to_pylist() == [1, 2, 3, 4]


def test_a_second_udp_session_between_the_same_ports_is_a_new_face(tmp_path):
    found, table = read_packets(tmp_path, on_udp(HANDSHAKE + CHATTER + HANDSHAKE + CHATTER))
    assert list_batches(table) == (HANDSHAKE + CHATTER) * 2
    assert table["face"].to_pylist() == [0] * 9 + [1] * 9
    assert len(found.faces) == 2


def test_a_datagram_captured_twice(tmp_path):
    packets = [packet for packet in on_udp(HANDSHAKE + CHATTER) for _ in range(2)]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == HANDSHAKE + CHATTER
    assert [(kind, count) for (kind, _), (count, _) in sum_notes(found).items() if kind == "duplicated"]
    assert sum(count for (kind, _), (count, _) in sum_notes(found).items() if kind == "duplicated") == 9


def test_a_datagram_cut_by_the_snap_length(tmp_path):
    found, table = read_packets(tmp_path, on_udp([*HANDSHAKE, (0, frame(0, b"x" * 500))]), snaplen=150)
    assert list_batches(table) == HANDSHAKE
    assert {kind for kind, _ in sum_notes(found)} == {"cut", "incomplete", "unfinished"}


def test_recorded_scouting(tmp_path):
    rows = [json.loads(line) for line in (VECTORS / "scouting.jsonl").read_text().splitlines()[1:]]
    packets, batches = [], []
    for i, row in enumerate(row for row in rows if row.get("hex")):
        scouter, node = ("10.0.0.9", 50000 + i), ("224.0.0.224", 7446)
        sent = row["dir"].startswith("scouter") or row["dir"].endswith("group")
        packets.append(datagram(bytes.fromhex(row["hex"]), scouter, node if sent else ("10.0.0.3", 7446), id=i))
        batches.append((0, bytes.fromhex(row["hex"])))
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == batches
    assert {face.protocol for face in found.faces} == {"scouting"}
    assert sum_notes(found) == {}


# Other protocols, and encrypted sessions.


def test_tls_is_a_face_without_batches(tmp_path):
    hello = (
        bytes.fromhex("16030100310100002d0303")
        + bytes(32)
        + b"\x00"
        + b"\x00\x02\x13\x01"
        + b"\x01\x00"
        + b"\x00\x02\x00\x00"
    )
    connection = Connection()
    packets = [*connection.open(), connection.send(0, hello), connection.send(1, b"\x16\x03\x03" + bytes(50))]
    found, table = read_packets(tmp_path, packets)
    assert len(table) == 0
    assert [(face.protocol, face.encrypted) for face in found.faces] == [("tls", True)]
    assert sum_notes(found) == {("encrypted", 0): (2, len(hello) + 53)}


def test_tls_for_another_protocol_is_foreign(tmp_path):
    alpn = b"\x00\x10\x00\x05\x00\x03\x02h2"
    hello = (
        bytes.fromhex("16030100380100003403 03".replace(" ", ""))
        + bytes(32)
        + b"\x00"
        + b"\x00\x02\x13\x01"
        + b"\x01\x00"
    )
    hello += b"\x00\x09" + alpn
    connection = Connection()
    found, _ = read_packets(tmp_path, [*connection.open(), connection.send(0, hello)])
    assert not found.faces
    assert sum_notes(found) == {("foreign", -1): (1, len(hello))}


def test_quic_is_a_face_without_batches(tmp_path):
    initial = b"\xc3\x00\x00\x00\x01\x08" + bytes(1194)
    found, table = read_packets(tmp_path, [datagram(initial), datagram(b"\x40" + bytes(100))])
    assert len(table) == 0
    assert [(face.protocol, face.encrypted) for face in found.faces] == [("quic", True)]


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", bytes(100), b"\x02\x00\x04\x00" * 30]
)
def test_other_protocols_are_counted(tmp_path, data):
    connection = Connection()
    packets = [*connection.open(), connection.send(0, data), connection.send(1, data)]
    found, table = read_packets(tmp_path, packets)
    assert len(table) == 0
    assert not found.faces
    assert sum_notes(found) == {("foreign", -1): (2, 2 * len(data))}


def test_noise_is_not_taken_for_zenoh(tmp_path):
    noise = random.Random(1)
    packets = []
    for i in range(1 if os.environ.get("ZENLAKE_PURE") else 20):
        connection = Connection(client=("10.0.0.2", 40000 + i))
        packets += [
            connection.send(side, noise.randbytes(noise.choice([3, 20, 500]))) for _ in range(150) for side in (0, 1)
        ]
    for i in range(200):
        packets += [datagram(noise.randbytes(noise.randint(1, 300)), ("10.0.0.3", 1000 + i)) for _ in range(3)]
    found, table = read_packets(tmp_path, packets)
    assert len(table) == 0
    assert not found.faces
    assert {kind for kind, _ in sum_notes(found)} == {"foreign"}


def test_little_memory_for_many_conversations(tmp_path):
    packets = []
    for i in range(3000):
        connection = Connection(client=(f"10.1.{i >> 8}.{i & 255}", 40000))
        packets += [connection.send(0, add_prefix(frame(0, b"x" * 900))[:800])]
    path = tmp_path / "many.pcap"
    path.write_bytes(forge.pcap(packets))
    found, table = forge.read(path, flows=100, held=1 << 16)
    assert len(table) == 0
    assert sum_notes(found)["foreign", -1][1] == 3000 * 800


def test_conversations_beyond_the_limit_make_room(tmp_path):
    packets = []
    talk = [*HANDSHAKE, (0, frame(0))]
    for i in range(500):
        connection = Connection(client=(f"10.1.{i >> 8}.{i & 255}", 40000))
        packets += connection.open() + connection.say(talk)
    path = tmp_path / "many.pcap"
    path.write_bytes(forge.pcap(packets))
    found, table = forge.read(path, flows=16)
    assert list_batches(table) == talk * 500
    assert len(found.faces) == 500
    assert {kind for kind, _ in sum_notes(found)} == {"limit"}
