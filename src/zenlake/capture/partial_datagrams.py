# SPDX-License-Identifier: Apache-2.0
"""Lanes and sequence numbers of a datagram of which only the beginning was captured."""

from zenlake.capture.heuristics import Framing
from zenlake.errors import DecodeError
from zenlake.wire import message_ids
from zenlake.wire.batch_reader import BatchReader

FrameHeader = tuple[int, bool, int]
"""Priority, reliability and sequence number of a FRAME or FRAGMENT."""


def read_frame_headers(data: bytes, framing: int) -> list[FrameHeader]:
    """Return the frame headers in the beginning of a batch, or an empty list."""
    if framing == Framing.COMPRESSED:
        data = first_literals(data[1:]) if data and data[0] & 1 else data[1:]
    reader = BatchReader()
    reader.bind(data)
    reader.begin(0, len(data))
    found: list[FrameHeader] = []
    try:
        while (kind := reader.next()) != message_ids.END:
            if kind == message_ids.FRAME:
                found.append((reader.frame.priority, bool(reader.frame.reliable), reader.frame.sn))
            elif kind == message_ids.FRAGMENT:
                found.append((reader.fragment.priority, bool(reader.fragment.reliable), reader.fragment.sn))
    except DecodeError:  # here the captured part ends
        pass
    return found


def first_literals(block: bytes) -> bytes:
    """Return the literals with which an LZ4 block begins. They are the first uncompressed bytes."""
    if not block:
        return b""
    size, at = block[0] >> 4, 1
    while at < len(block) and (size == 15 if at == 1 else block[at - 1] == 255):
        size += block[at]
        at += 1
    return block[at : at + size]
