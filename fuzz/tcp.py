# SPDX-License-Identifier: Apache-2.0
# Any order, loss, copy or change of TCP segments gives valid tables. Without a missing segment, ranges give the same rows.
"""Captured TCP connections: an input is a list of changes to the packets of two sessions, each of three bytes."""

from random import Random

from tests.capture.forge import pcap
from tests.capture.test_splits import packets_of

from fuzz import capture

PACKETS = packets_of(1, 2)[:60]
SEQUENCE, FLAGS, PAYLOAD = 38, 47, 54  # offsets behind the headers of Ethernet and IPv4

CORPUS = [Random(seed).randbytes(3 * seed) for seed in range(12)]


def change(packets: list[bytes], at: int, action: int, value: int) -> None:
    """Apply one change to a list of packets."""
    packet = bytearray(packets[at])
    match action:
        case 0:
            packets.insert((at + value) % len(packets), bytes(packet))
        case 1 if len(packets) > 1:
            del packets[at]
        case 2:
            other = (at + value) % len(packets)
            packets[at], packets[other] = packets[other], packets[at]
        case 3 if len(packet) > PAYLOAD:
            packet[PAYLOAD + value % (len(packet) - PAYLOAD)] ^= 1 << (value & 7)
            packets[at] = bytes(packet)
        case 4:
            packets[at] = bytes(packet[: len(packet) - value % 64])
        case 5 | 6:  # another place in the stream, for the segment itself or for a copy
            sequence = int.from_bytes(packet[SEQUENCE : SEQUENCE + 4], "big") + value - 128
            packet[SEQUENCE : SEQUENCE + 4] = (sequence & 0xFFFFFFFF).to_bytes(4, "big")
            packets[at : at + 1] = [bytes(packet)] if action == 5 else [packets[at], bytes(packet)]
        case 7:
            packet[FLAGS] = value
            packets[at] = bytes(packet)


def check(data: bytes) -> None:
    packets = list(PACKETS)
    for at in range(0, min(len(data), 600) - 2, 3):
        change(packets, data[at] % len(packets), data[at + 1] & 7, data[at + 2])
    capture.check(pcap(packets))
