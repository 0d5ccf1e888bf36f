# SPDX-License-Identifier: Apache-2.0
"""Hostile or broken peers.

Each is disconnected or limited with a reason, memory stays limited, and others are not affected.
"""

import os
import queue
import random
import socket
import time
import tracemalloc
from collections.abc import Iterator

import lz4.block
import pytest

from tests.hostile.client import Raw
from tests.runtime.nodes import PATIENCE, Recorder, until
from tests.transport.ends import framed, push
from zenlake.core.enums import WhatAmI
from zenlake.errors import CloseReason
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.transport.settings import Settings
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Init, Open
from zenlake.wire.transport import Fragment, KeepAlive


@pytest.fixture
def victim() -> Iterator[tuple[ConnectionManager, Recorder, str]]:
    """A router of ours, with an honest neighbour connected to it."""
    recorder = Recorder()
    settings = Settings(
        os.urandom(15) + b"\x01",
        WhatAmI.ROUTER,
        accept_timeout=0.6,
        max_message_size=1 << 20,
        compression=True,
        lease=30.0,
    )
    runtime = ConnectionManager(settings, recorder)
    where = runtime.listen("tcp/127.0.0.1:0")
    neighbour = ConnectionManager(Settings(os.urandom(15) + b"\x01", lease=30.0), Recorder())
    face = neighbour.open(where, PATIENCE)
    recorder.opened_faces.get(timeout=PATIENCE)
    yield runtime, recorder, where
    # The neighbour is still served.
    face.send(push("still/here", b""))
    while recorder.messages.get(timeout=PATIENCE)[0] != "still/here":
        pass
    neighbour.close()
    runtime.close()


Victim = tuple[ConnectionManager, Recorder, str]


@pytest.mark.parametrize("seed", range(5))
def test_garbage_before_the_handshake(victim: Victim, seed: int) -> None:
    with Raw(victim[2]) as raw:
        raw.send(bytes([0x1D]) + random.Random(seed).randbytes(300))
        assert raw.hears_close(CloseReason.INVALID)


@pytest.mark.parametrize("seed", range(5))
def test_garbage_in_an_open_session(victim: Victim, seed: int) -> None:
    with Raw(victim[2]).open() as raw:
        raw.send(bytes([0x0A]) + random.Random(seed).randbytes(300))
        assert raw.hears_close(CloseReason.INVALID)


def test_half_open_handshakes_are_limited_and_end(victim: Victim, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest handshakes end for a new one, so that silent connections lock out no client."""
    runtime, recorder, where = victim
    most = runtime.max_pending
    crowd = [Raw(where) for _ in range(most + 20)]
    monkeypatch.setattr("zenlake.runtime.connection_manager.GRACE", 0.1)
    time.sleep(0.2)
    with Raw(where).open():
        assert runtime.refused == 21
    for _ in range(most + 20):
        recorder.failures.get(timeout=PATIENCE)
    assert runtime._pending == 0
    for raw in crowd:
        raw.socket.close()


def test_datagrams_of_strangers_are_answered_and_forgotten(victim: Victim) -> None:
    """On UDP a source address can be forged. Nothing is stored until a cookie returns."""
    runtime = victim[0]
    host, port = runtime.listen("udp/127.0.0.1:0").removeprefix("udp/").split(":")
    listener = runtime.listeners[-1]
    for number in range(2 * runtime.max_pending):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((host, int(port)))
            sock.send(Init(whatami=2, zid=b"%d" % (number + 1), patch=1).encode())
            assert isinstance(messages(sock.recv(1000))[0], Init)
            sock.send(b"garbage")
            assert messages(sock.recv(1000)) == [Close(reason=CloseReason.INVALID)]
    assert (runtime._pending, len(listener.links)) == (0, 0)


def test_a_byte_now_and_then_does_not_keep_a_handshake_alive(victim: Victim) -> None:
    """Slow-loris: the timeout applies to the whole handshake."""
    _, recorder, where = victim
    with Raw(where) as raw:
        raw.socket.sendall(b"\x20")
        with pytest.raises(queue.Empty):
            recorder.failures.get(timeout=0.3)
        raw.socket.sendall(b"\x00")
        assert "LISTENING" in str(recorder.failures.get(timeout=PATIENCE).error)


def test_a_forged_cookie(victim: Victim) -> None:
    with Raw(victim[2]) as raw:
        raw.init()
        raw.send(Open(lease=1000, initial_sn=0, cookie=os.urandom(60)).encode())
        assert raw.hears_close(CloseReason.INVALID)


def test_a_cookie_from_another_connection(victim: Victim) -> None:
    with Raw(victim[2]) as one, Raw(victim[2]) as two:
        ack = one.init()
        assert isinstance(ack, Init)
        two.send(Open(lease=1000, initial_sn=0, cookie=ack.cookie.value).encode())
        assert two.hears_close(CloseReason.INVALID)


def test_the_same_id_twice(victim: Victim) -> None:
    with Raw(victim[2]).open() as one, Raw(victim[2]) as two:
        two.send(Init(whatami=2, zid=one.zid, patch=1).encode())
        ack = two.receive()
        assert isinstance(ack, Init)
        two.send(Open(lease=1000, initial_sn=0, cookie=ack.cookie.value).encode())
        assert two.hears_close(CloseReason.MAX_LINKS)


def test_a_batch_that_claims_more_than_was_agreed_on(victim: Victim) -> None:
    with Raw(victim[2]).open(sized=True, batch_size=300) as raw:
        raw.socket.sendall(b"\xff\xff")
        assert raw.hears_close(CloseReason.INVALID)


def test_fragments_that_never_end_cost_bounded_memory(victim: Victim) -> None:
    """Sixteen lanes with partial messages, each far below the largest message, together far above it."""
    _, _, where = victim
    with Raw(where).open() as raw:
        tracemalloc.start()
        for sn in range(64):
            for priority in range(8):
                for reliable in (False, True):
                    fragment = Fragment(
                        reliable=reliable, more=True, sn=sn, priority=priority, first=sn == 0, payload=bytes(32_000)
                    )
                    raw.send(fragment.encode())
        raw.send(Close(reason=0).encode())
        assert raw.receive() is None
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 8 << 20  # 32 MB were sent; 1 MiB is the largest message


@pytest.mark.parametrize("size", [65536, 8 << 20])
def test_a_compression_bomb(victim: Victim, size: int) -> None:
    """A block that declares more bytes than a batch holds, by one byte or by a factor of a hundred."""
    with Raw(victim[2]).open(compression=True) as raw:
        raw.send(b"\x01" + lz4.block.compress(bytes(size), store_size=False))
        head = raw._exactly(2)
        # The answer is a batch too: a header byte (not compressed), CLOSE.
        assert raw._exactly(int.from_bytes(head, "little")) == b"\x00" + Close(reason=CloseReason.INVALID).encode()
        assert raw.receive() is None


def test_a_connection_with_only_keep_alives_stays_open_at_no_cost(victim: Victim) -> None:
    runtime, recorder, where = victim
    with Raw(where).open() as raw:
        raw.socket.sendall(framed(KeepAlive().encode()) * 10_000)
        raw.send(b"\x25\x00" + push("after/all", b"").encode())  # FRAME R=1, sn 0
        while recorder.messages.get(timeout=PATIENCE)[0] != "after/all":
            pass
        assert runtime.faces[raw.zid].is_open


def test_silence_after_the_handshake(victim: Victim) -> None:
    with Raw(victim[2]).open(lease=300) as raw:
        assert raw.hears_close(CloseReason.EXPIRED)


def test_a_neighbour_that_never_reads_does_not_fill_our_memory(victim: Victim) -> None:
    runtime, _, where = victim
    with Raw(where).open() as raw:
        until(lambda: raw.zid in runtime.faces)
        face = runtime.faces[raw.zid]
        message = push("k", bytes(60_000))
        results = [face.send(message) for _ in range(300)]
        assert not results[-1]
        assert face.transport.dropped == results.count(False)
        assert sum(face.transport.queue.backlog()) <= 2
