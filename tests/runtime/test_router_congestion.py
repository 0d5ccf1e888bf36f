# SPDX-License-Identifier: Apache-2.0
"""A client of a router that never reads, over real sockets: what it costs it, whoever sends to it, and everybody else."""

import threading
import time
from collections.abc import Iterator

import pytest

from tests.runtime.nodes import PATIENCE, until
from tests.runtime.test_hostile import Raw
from zenlake.network import node as network
from zenlake.runtime.node import LiveNode, NodeConfig, open_node
from zenlake.values import WhatAmI
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.transport import Frame

DROP, BLOCK = 0, 1
SUBSCRIBER = 0x02
LARGE = bytes(20_000)
PINGS = 100


class Net:
    """A router; a deaf client; one that floods it; two that ping each other."""

    def __init__(self) -> None:
        self.router = open_node(NodeConfig(WhatAmI.ROUTER, listen=("tcp/127.0.0.1:0",)))
        [self.where] = self.router.locators
        self.deaf = Raw(self.where).open(lease=60_000)
        declare = Declare(qos=0x08, body=DeclareEntity(kind=SUBSCRIBER, id=1, key="deaf/**"))
        self.deaf.send(Frame(sn=0, reliable=True).encode() + declare.encode())
        self.loud, self.one, self.two = (self._client() for _ in range(3))
        self.pinged = threading.Semaphore(0)
        self.two.declare_subscriber(b"ping", lambda key, reader: self.pinged.release())
        until(lambda: sum(len(face.declared[SUBSCRIBER]) for face in self.router.faces()) == 2)
        self.stop = threading.Event()
        self.sent = 0
        self._flood: threading.Thread | None = None

    def _client(self) -> LiveNode:
        return open_node(NodeConfig(WhatAmI.CLIENT, connect=(self.where,), backoff=None))

    def flood(self, congestion: int) -> None:
        def run() -> None:
            while not self.stop.is_set():
                self.loud.put(b"deaf/x", LARGE, congestion=congestion)
                self.sent += 1

        self._flood = threading.Thread(target=run, daemon=True)
        self._flood.start()

    def latency(self) -> float:
        """The 99th percentile of pings, in seconds."""
        took = []
        for _ in range(PINGS):
            began = time.perf_counter()
            self.one.put(b"ping", b"", congestion=BLOCK)
            assert self.pinged.acquire(timeout=PATIENCE), "a ping was lost"
            took.append(time.perf_counter() - began)
            time.sleep(0.001)
        return sorted(took)[PINGS * 99 // 100 - 1]

    def neighbours(self) -> set[bytes]:
        return {face.zid for face in self.router.faces()}

    def close(self) -> None:
        self.stop.set()
        self.deaf.socket.close()
        if self._flood is not None:
            self._flood.join(PATIENCE)
        for node in (self.loud, self.one, self.two, self.router):
            node.close()


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net()
    yield net
    net.close()


def test_what_may_not_be_dropped_pauses_its_sender_only_until_the_deaf_one_is_closed(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "STUCK", 3.0)
    quiet = net.latency()
    net.flood(BLOCK)
    [loud] = [face for face in net.router.faces() if face.zid == net.loud.zid]
    until(lambda: bool(loud.held_by))
    before = net.sent
    # Twice as long at the most; and on a machine where everything takes a moment, a moment.
    assert net.latency() < max(2 * quiet, 0.1)
    assert loud.held_by, "it is still paused"
    assert net.sent - before < 2000, "the flood is felt where it comes from"
    until(lambda: net.deaf.zid not in net.neighbours())
    assert net.router.counters()["faces closed: no room for a message in time"] == 1
    until(lambda: not loud.held_by)
    after = net.sent
    until(lambda: net.sent > after + 10)


def test_what_may_be_dropped_is_and_nobody_is_paused_or_closed(net: Net) -> None:
    quiet = net.latency()
    net.flood(DROP)
    until(lambda: net.router.counters().get("messages dropped: no room", 0) > 10)
    assert net.latency() < max(2 * quiet, 0.25)
    [loud] = [face for face in net.router.faces() if face.zid == net.loud.zid]
    assert not loud.held_by
    assert net.deaf.zid in net.neighbours()
    assert sum(traffic.dropped for traffic in net.router.traffic().values()) > 10
