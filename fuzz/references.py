# SPDX-License-Identifier: Apache-2.0
# Any slot and any sliced payload gives bytes of the segment or a refusal, and the handle can be given back. Any
# handshake is declined, refused or agreed on.
"""References to shared memory: an input is the slot of a buffer (32 bytes), then a payload of slices, or a handshake."""

import struct

from zenlake.errors import DecodeError, RemoteError
from zenlake.shared_memory.node import SharedMemory
from zenlake.shared_memory.provider import BufferPool
from zenlake.shared_memory.segment import SegmentError, is_available
from zenlake.shared_memory.settings import SharedMemorySettings
from zenlake.shared_memory.shared_buffers import SLOT_SIZE, mount
from zenlake.transport.references import Reference, read_slices, write_slices

SIZE = 4096
SLOT = struct.Struct("<IIIIIIQ")
HERE = is_available()
if HERE:
    POOL = BufferPool(SIZE)
    FOUND = POOL.allocate(1000)
    assert FOUND is not None
    BUFFER = FOUND
    BYTES = bytes(range(256)) * (SIZE // 256)
    BUFFER.data.segment.write(BYTES, 0)
    TABLE, PLACE = BUFFER.metadata.table, SLOT_SIZE * BUFFER.index
    NODE = SharedMemory(SharedMemorySettings(), 1 << 20)


def make_corpus() -> list[bytes]:
    if not HERE:
        return [b"\0"]
    slots = [
        SLOT.pack(2, 0, 0, 0, BUFFER.data.segment.id, at, size)
        for at, size in ((0, 1000), (96, 4000), (4095, 1), (0, 0))
    ]
    payloads = [write_slices((BUFFER.reference,)), write_slices((b"raw", BUFFER.reference, BUFFER.reference))]
    payloads += [write_slices((BUFFER.reference._replace(size=size),)) for size in (1, 4000, 4097, 2**40)]
    opener, acceptor = (NODE.negotiate(True, lambda: True, lambda why: None) for _ in range(2))
    assert opener is not None
    assert acceptor is not None
    syn = opener.init_syn()
    assert syn is not None
    ack = acceptor.init_ack(syn)
    last = opener.open_syn(ack)
    assert ack is not None
    assert last is not None
    opener.close()
    acceptor.close()
    return [slot + payload for slot in slots for payload in payloads] + [bytes(32) + each for each in (syn, ack, last)]


CORPUS = make_corpus()


def check(data: bytes) -> None:
    if not HERE:
        return
    words = data[: SLOT.size].ljust(SLOT.size, b"\0")
    for at in range(0, SLOT.size, 4):
        TABLE.store32(PLACE + at, int.from_bytes(words[at : at + 4], "little"))
    _check_payload(data[SLOT.size :])
    _check_handshake(data[SLOT.size :])


def _check_payload(data: bytes) -> None:
    try:
        slices = read_slices(data)
    except DecodeError:
        return
    for part in slices:
        # References to other slots of this process would end the mappings of other tests.
        if not isinstance(part, Reference) or part.metadata != BUFFER.metadata.id:
            continue
        try:
            mounted = mount(part)
        except SegmentError:
            continue
        assert mounted.at + mounted.size <= SIZE
        found = mounted.copy()
        assert found is None or found == BYTES[mounted.at : mounted.at + mounted.size]
        mounted.release()


def _check_handshake(data: bytes) -> None:
    each = NODE.negotiate(True, lambda: True, lambda why: None)
    assert each is not None
    first = each.init_syn()
    assert first is not None
    try:
        each.init_ack(data)
        each.close()
        each.open_syn(data)
        each.close()
        each.open_ack(first, data)
        each.finish(data)
    except RemoteError:
        each.close()
        return
    link = each.agree()
    if link is not None:
        link.close()
