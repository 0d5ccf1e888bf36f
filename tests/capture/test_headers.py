# SPDX-License-Identifier: Apache-2.0
"""Link layers, IP and IP fragments: the batches are the same in every encapsulation."""

import struct

import pytest

from tests.capture import forge
from tests.capture.forge import (
    HANDSHAKE,
    LINKS,
    Connection,
    frame,
    ipv4,
    ipv6,
    list_batches,
    on_link,
    read_packets,
    sum_notes,
    udp,
)

TALK = [*HANDSHAKE, (0, frame(0)), (1, frame(7, b"world"))]
V6 = {"client": ("fd00::2", 40000), "server": ("fd00::1", 7447)}


@pytest.mark.parametrize("ends", [{}, V6], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("link", LINKS)
def test_every_link_layer(tmp_path, link, ends):
    connection = Connection(link=link, **ends)
    found, table = read_packets(tmp_path, connection.open() + connection.say(TALK), link=LINKS[link][0])
    assert list_batches(table) == TALK
    assert sum_notes(found) == {}
    assert found.faces[0].client == connection.client
    assert found.faces[0].server == connection.server


def test_an_unknown_link_type_is_counted(tmp_path):
    found, table = read_packets(tmp_path, [b"x" * 50, b"y" * 50], link=147)
    assert len(table) == 0
    assert sum_notes(found) == {("link-type", -1): (2, 100)}


def test_non_ip_packets_are_counted(tmp_path):
    arp = b"\xff" * 6 + b"\x02\0\0\0\0\1\x08\x06" + bytes(46)
    icmp = on_link("ethernet", ipv4("10.0.0.1", "10.0.0.2", 1, bytes(20)))
    found, _ = read_packets(tmp_path, [arp, icmp])
    assert sum_notes(found) == {("not-ip", -1): (2, 60 + 54)}


def test_ethernet_padding_is_not_payload(tmp_path):
    connection = Connection()
    packets = connection.open() + connection.say([*TALK, (0, b"\x04")])
    found, table = read_packets(tmp_path, [packet + bytes(max(0, 60 - len(packet))) for packet in packets])
    assert list_batches(table) == [*TALK, (0, b"\x04")]
    assert sum_notes(found) == {}


def test_ipv4_and_tcp_options(tmp_path):
    connection = Connection()
    packets = connection.open()
    for side, batch in TALK:
        plain = connection.send(side, forge.add_prefix(batch), options=b"\x01\x01\x08\x0a" + bytes(8))
        packets.append(
            plain[:14] + bytes([0x46]) + plain[15:16] + struct.pack(">H", len(plain) - 14 + 4) + plain[18:34]
        )
        packets[-1] += bytes(4) + plain[34:]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == TALK
    assert sum_notes(found) == {}


def test_ipv6_extension_headers(tmp_path):
    hop = (0, bytes([0]) + bytes(6))  # one unit of eight bytes
    routing = (43, bytes([2]) + bytes(22))
    destination = (60, bytes([0]) + bytes(6))
    authentication = (51, bytes([4]) + bytes(22))  # length in units of four bytes, minus two
    atomic = (44, bytes(7))  # a fragment header on a whole packet
    chain = [hop, destination, routing, authentication, atomic]
    packets = []
    for i, (side, batch) in enumerate(HANDSHAKE):
        ends = [("fd00::2", 40000), ("fd00::1", 7447)]
        (src, sport), (dst, dport) = ends if side == 0 else ends[::-1]
        packets.append(on_link("ethernet", ipv6(src, dst, 17, udp(sport, dport, batch), chain[: i + 2])))
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == HANDSHAKE
    assert sum_notes(found) == {}


def fragments4(body, size, id, src="10.0.0.2", dst="224.0.0.225"):
    parts = [(at, body[at : at + size]) for at in range(0, len(body), size)]
    return [
        on_link("ethernet", ipv4(src, dst, 17, part, id=id, offset=at, more=at + size < len(body)))
        for at, part in parts
    ]


def fragments6(body, size, id, src="fd00::2", dst="ff02::225"):
    out = []
    for at in range(0, len(body), size):
        more = at + size < len(body)
        header = bytes([0]) + struct.pack(">HI", at | more, id)
        out.append(on_link("ethernet", ipv6(src, dst, 17, body[at : at + size], [(44, header)])))
    return out


JOIN = bytes([0x27, 9, 0xF1]) + forge.ZID + bytes([10, 1, 2])


@pytest.mark.parametrize("cut", [fragments4, fragments6])
@pytest.mark.parametrize("order", ["forward", "backward", "twice"])
def test_ip_fragments_are_put_together(tmp_path, cut, order):
    batches = [JOIN, frame(1, b"a" * 20_000), frame(2, b"b" * 30_000), b"\x03\x00"]
    packets = []
    for id, batch in enumerate(batches, 1):
        parts = cut(udp(5000, 7447, batch), 1480, id)
        if order == "backward":
            parts.reverse()
        packets += [part for part in parts for _ in range(2 if order == "twice" else 1)]
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [(0, batch) for batch in batches]
    assert {kind for kind, _ in sum_notes(found)} == ({"duplicated"} if order == "twice" else set())
    assert table["packet"].to_pylist()[0] == 1


def test_a_lost_fragment_loses_its_packet_only(tmp_path):
    lost = fragments4(udp(5000, 7447, frame(1, b"a" * 4000)), 1480, 2)
    del lost[1]
    packets = fragments4(udp(5000, 7447, JOIN), 1480, 1) + lost + fragments4(udp(5000, 7447, frame(2)), 1480, 3)
    found, table = read_packets(tmp_path, packets)
    assert list_batches(table) == [(0, JOIN), (0, frame(2))]
    assert sum_notes(found) == {("fragments", -1): (1, 4000 + len(frame(1, b"a" * 4000)) - 4000 + 8 - 1480)}


def test_an_identifier_used_again_is_another_packet(tmp_path):
    first = fragments4(udp(5000, 7447, frame(1, b"a" * 2000)), 1480, 7)
    second = fragments4(udp(5000, 7447, frame(2, b"b" * 2000)), 1480, 7)
    packets = fragments4(udp(5000, 7447, JOIN), 1480, 1) + first[:1] + second
    times = [forge.START, forge.START, forge.START + 60 * 10**9, forge.START + 60 * 10**9]
    _, table = read_packets(tmp_path, packets, times=times)
    assert list_batches(table) == [(0, JOIN), (0, frame(2, b"b" * 2000))]


@pytest.mark.parametrize("size", [13, 20, 33, 40, 53])
def test_a_header_cut_short_is_counted(tmp_path, size):
    connection = Connection()
    found, table = read_packets(tmp_path, [connection.send(0, forge.add_prefix(frame(1)))[:size]])
    assert len(table) == 0
    assert sum_notes(found) == {("malformed", -1): (1, size)}
