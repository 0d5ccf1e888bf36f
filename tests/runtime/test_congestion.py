# SPDX-License-Identifier: Apache-2.0
"""A peer that does not read, on every kind of link: the guarantees of Drop, Block and BlockFirst, and the order of priorities.

The peer is a runtime of ours whose sink blocks its event loop until the test releases it. So first the buffers of the kernel
fill, then our queues.
"""

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.runtime.nodes import PATIENCE, Recorder, until
from tests.transport.ends import push
from zenlake.core.enums import CongestionControl, WhatAmI
from zenlake.errors import CloseReason
from zenlake.link import Tls
from zenlake.runtime.connection import Connection
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings

DROP, BLOCK, BLOCK_FIRST = CongestionControl.DROP, CongestionControl.BLOCK, CongestionControl.BLOCK_FIRST
LINKS = ("tcp", "tls", "quic", "unixsock-stream", "ws", "memory")
each_link = pytest.mark.parametrize("link", LINKS)
LARGE = bytes(50_000)


class Deaf(Sink):
    """A sink that blocks until it is released. It then stores the keys."""

    def __init__(self, may: threading.Event, keys: list[str]) -> None:
        self.may = may
        self.keys = keys

    def on_message(self, kind: int, reader: object) -> int:
        self.may.wait(PATIENCE)
        self.keys.append(reader.push.key.suffix.text)
        return 0


class Peer(Recorder):
    def __init__(self) -> None:
        super().__init__()
        self.may = threading.Event()
        self.keys: list[str] = []

    def sink(self, face: Connection) -> Sink:
        return Deaf(self.may, self.keys)


class Bench:
    """Connect to a peer that does not read yet, and fill every buffer on the path.

    No room for a tenth of a second.
    """

    def __init__(self, link: str, tls: Tls, folder: Path, **settings: object) -> None:
        where = {"unixsock-stream": f"{link}/{folder}/z.sock", "memory": f"{link}/{folder}"}.get(
            link, f"{link}/localhost:0"
        )
        self.peer = Peer()
        self.theirs = ConnectionManager(Settings(os.urandom(15) + b"\x01", WhatAmI.ROUTER, lease=60.0), self.peer, tls)
        where = self.theirs.listen(where).replace("127.0.0.1", "localhost")
        values = {
            "zid": os.urandom(15) + b"\x01",
            "lease": 60.0,
            "wait_before_close": PATIENCE,
            "wait_before_drop": 0.1,
            **settings,
        }
        self.node = Recorder()
        self.ours = ConnectionManager(Settings(**values), self.node, tls)
        self.face = self.ours.open(where, PATIENCE)
        self.count = 0
        while self.face.send(push(f"5/{self.count}", LARGE)):
            self.count += 1
            assert self.count < 5000

    def close(self) -> None:
        self.peer.may.set()
        self.ours.close()
        self.theirs.close()


@pytest.fixture
def full(link: str, tls: Tls, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(link, tls, tmp_path)
    yield bench
    bench.close()


@each_link
def test_drop_drops_soon_and_counts(full: Bench) -> None:
    before = full.face.transport.dropped
    began = time.monotonic()
    assert not full.face.send(push("lost", LARGE))
    assert time.monotonic() - began < PATIENCE / 5
    assert full.face.transport.dropped == before + 1
    assert full.face.is_open


@each_link
def test_block_waits_for_room_and_loses_no_message(full: Bench) -> None:
    with ThreadPoolExecutor(1) as pool:
        sending = pool.submit(full.face.send, push("patient", LARGE), 5, True, BLOCK)
        until(lambda: full.face._waiters)
        full.peer.may.set()
        assert sending.result(PATIENCE)
    until(lambda: full.peer.keys[-1:] == ["patient"])
    assert full.peer.keys == [f"5/{number}" for number in range(full.count)] + ["patient"]


@each_link
def test_block_without_end_is_unresponsive(link: str, tls: Tls, tmp_path: Path) -> None:
    with closing(Bench(link, tls, tmp_path, wait_before_close=0.3)) as impatient:
        assert not impatient.face.send(push("in vain", LARGE), congestion=BLOCK)
        _, end = impatient.node.closings.get(timeout=PATIENCE)
        assert end.reason == CloseReason.UNRESPONSIVE


@each_link
def test_of_block_first_one_waits_and_the_others_are_dropped(full: Bench) -> None:
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(full.face.send, push("first", LARGE), 5, True, BLOCK_FIRST)
        until(lambda: full.face._waiters)
        assert not full.face.send(push("second", LARGE), congestion=BLOCK_FIRST)
        full.peer.may.set()
        assert first.result(PATIENCE)
    until(lambda: full.peer.keys[-1:] == ["first"])
    assert "second" not in full.peer.keys


@each_link
def test_urgent_messages_overtake_queued_ones(full: Bench) -> None:
    assert full.face.send(push("urgent", b""), 1, congestion=BLOCK)
    assert full.face.send(push("late", b""), 7, congestion=BLOCK)
    full.peer.may.set()
    until(lambda: full.peer.keys[-1:] == ["late"])
    place = full.peer.keys.index("urgent")
    # Everything in our queue arrived after it: two batches, and at most one was already sent.
    assert 1 <= len(full.peer.keys) - 2 - place <= 3


@each_link
def test_closing_loses_no_sent_message(link: str, tls: Tls, tmp_path: Path) -> None:
    where = {"unixsock-stream": f"{link}/{tmp_path}/z.sock", "memory": f"{link}/{tmp_path}"}.get(
        link, f"{link}/localhost:0"
    )
    peer = Peer()
    peer.may.set()
    theirs = ConnectionManager(Settings(os.urandom(15) + b"\x01", WhatAmI.ROUTER, lease=60.0), peer, tls)
    ours = ConnectionManager(Settings(os.urandom(15) + b"\x01", lease=60.0), Recorder(), tls)
    face = ours.open(theirs.listen(where).replace("127.0.0.1", "localhost"), PATIENCE)
    for number in range(40):
        assert face.send(push(f"{number}", LARGE), congestion=BLOCK)
    ours.close()
    until(lambda: len(peer.keys) == 40)
    _, end = peer.closings.get(timeout=PATIENCE)
    assert (end.reason, end.by_peer, end.error) == (CloseReason.GENERIC, True, None)
    theirs.close()


def test_udp_never_waits(tls: Tls) -> None:
    """Datagrams are dropped instead of stored, so Block never waits."""
    peer, node = Peer(), Recorder()
    theirs = ConnectionManager(Settings(os.urandom(15) + b"\x01", WhatAmI.ROUTER, lease=60.0), peer)
    ours = ConnectionManager(Settings(os.urandom(15) + b"\x01", lease=60.0), node)
    face = ours.open(theirs.listen("udp/127.0.0.1:0"), PATIENCE)
    for number in range(500):
        assert face.send(push(f"{number}", LARGE), congestion=BLOCK)
    peer.may.set()
    assert face.is_open
    ours.close()
    theirs.close()
