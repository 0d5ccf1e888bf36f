# SPDX-License-Identifier: Apache-2.0
"""A client of a router that never reads, over real sockets: the effects on it, on its senders and on all others."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bench.blocked import measured

from tests.runtime.nodes import PATIENCE, until
from tests.runtime.test_hostile import Raw
from zenlake.core.enums import WhatAmI
from zenlake.errors import ZenlakeError
from zenlake.link import Tls
from zenlake.link.base import BaseLink
from zenlake.network import node as network
from zenlake.network.face import Face
from zenlake.runtime.connection import Connection
from zenlake.runtime.live_node import LiveNode, NodeConfig, open_node
from zenlake.transport.unicast import Closed
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.transport import Frame

DROP, BLOCK = 0, 1
SUBSCRIBER = 0x02
LARGE = bytes(20_000)
PINGS = 100


class Net:
    """A router, clients that never read, one that floods them, and two that ping each other."""

    def __init__(self, deaf: int = 1, loud: str = "tcp/127.0.0.1:0", **more: Any) -> None:
        self.router = open_node(NodeConfig(WhatAmI.ROUTER, listen=("tcp/127.0.0.1:0",), **more))
        [self.where] = self.router.locators
        self.all_deaf = [Raw(self.where).open(lease=60_000) for _ in range(deaf)]
        self.deaf = self.all_deaf[0]
        declare = Declare(qos=0x08, body=DeclareEntity(kind=SUBSCRIBER, id=1, key="deaf/**"))
        for client in self.all_deaf:
            client.send(Frame(sn=0, reliable=True).encode() + declare.encode())
        self.loud = self._client(self.router.listen(loud), more.get("tls"))
        self.one, self.two = (self._client(self.where) for _ in range(2))
        self.pinged = threading.Semaphore(0)
        self.two.declare_subscriber(b"ping", lambda key, reader: self.pinged.release())
        until(lambda: sum(len(face.declared_keys[SUBSCRIBER]) for face in self.router.faces()) == deaf + 1)
        self.stop = threading.Event()
        self.sent = 0
        self._flood: threading.Thread | None = None

    @staticmethod
    def _client(where: str, tls: Tls | None = None) -> LiveNode:
        return open_node(NodeConfig(WhatAmI.CLIENT, connect=(where,), backoff=None, tls=tls))

    def flood(self, congestion: int, payload: bytes = LARGE) -> None:
        def run() -> None:
            while not self.stop.is_set():
                self.loud.put(b"deaf/x", payload, congestion=congestion)
                self.sent += 1

        self._flood = threading.Thread(target=run, daemon=True)
        self._flood.start()

    def latency(self) -> float:
        """Return the 99th percentile of pings, in seconds."""
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
        for client in self.all_deaf:
            client.socket.close()
        if self._flood is not None:
            self._flood.join(PATIENCE)
        for node in (self.loud, self.one, self.two, self.router):
            node.close()


@pytest.fixture
def net() -> Iterator[Net]:
    net = Net()
    yield net
    net.close()


def is_blocked(face: Face) -> bool:
    """Return whether a neighbour without room pauses a face. Expensive messages pause it too, for a moment."""
    return any(isinstance(reason, Face) for reason in list(face.pause_reasons))


def test_blocking_messages_pause_their_sender_until_the_unresponsive_neighbour_is_closed(
    net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "MAX_BLOCKED", 3.0)
    quiet = net.latency()
    net.flood(BLOCK)
    [loud] = [face for face in net.router.faces() if face.zid == net.loud.zid]
    until(lambda: is_blocked(loud))
    before = net.sent
    # At most twice as long, with a minimum for slow machines.
    assert net.latency() < max(2 * quiet, 0.1)
    assert is_blocked(loud), "it is still paused"
    assert net.sent - before < 2000, "the flood is felt where it comes from"
    until(lambda: net.deaf.zid not in net.neighbours())
    assert net.router.counters()["faces closed: no room for a message in time"] == 1
    until(lambda: not is_blocked(loud))
    after = net.sent
    until(lambda: net.sent > after + 10)


@pytest.mark.parametrize("link", ["udp", "quic"])
def test_a_link_on_a_shared_socket_is_paused_alone(
    link: str, certificates: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue of the blocked client does not grow, though the socket is read for all others."""
    monkeypatch.setattr(network, "MAX_BLOCKED", 60.0)  # the flood shares the GIL: uncompiled pings take long
    tls = Tls(
        root_ca_certificate=str(certificates / "ca.pem"), listen_certificate=str(certificates / "server.pem"),
        listen_private_key=str(certificates / "server.key"), verify_name_on_connect=False,
    )  # fmt: skip
    net = Net(loud=f"{link}/127.0.0.1:0", tls=tls)
    try:
        net.flood(BLOCK)
        [loud] = [face for face in net.router.faces() if face.zid == net.loud.zid]
        until(lambda: is_blocked(loud))
        held = net.router.runtime.budget.held
        net.latency()
        assert is_blocked(loud), "it is still paused"
        assert net.router.runtime.budget.held <= held + (1 << 20)
        net.deaf.socket.close()
        until(lambda: not is_blocked(loud))
        subscriber = net.two.declare_subscriber(b"deaf/x", lambda key, reader: net.pinged.release())
        assert net.pinged.acquire(timeout=PATIENCE), "it is heard again"
        net.two.undeclare(subscriber)
    finally:
        net.close()


def test_droppable_messages_are_dropped_without_pause_or_close(net: Net) -> None:
    quiet = net.latency()
    net.flood(DROP)
    until(lambda: net.router.counters().get("messages dropped: no room", 0) > 10)
    assert net.latency() < max(2 * quiet, 0.25)
    [loud] = [face for face in net.router.faces() if face.zid == net.loud.zid]
    assert not is_blocked(loud)
    assert net.deaf.zid in net.neighbours()
    assert sum(traffic.dropped for traffic in net.router.traffic().values()) > 10


class StagedRows:
    """A recording that keeps only what was dropped."""

    def __init__(self) -> None:
        self.dropped_by: dict[bytes, list[int]] = {}

    def on_start(self, face: Connection) -> None:
        pass

    def on_stateless_reply(self, link: BaseLink, heard: bytes, said: list[bytes]) -> None:
        pass

    def on_forward(self, source: Connection, id: int, target: Connection, new: int) -> None:
        pass

    def on_drop(self, face: Connection, count: int) -> None:
        self.dropped_by.setdefault(face.zid, []).append(count)

    def on_close(self, face: Connection, event: Closed) -> None:
        pass


def test_dropped_messages_are_recorded_periodically(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenlake.runtime.live_node.DROP_CHECK_PERIOD", 0.02)
    notes = StagedRows()
    net = Net(recording=notes)
    try:
        net.flood(DROP)
        until(lambda: len(notes.dropped_by.get(net.deaf.zid, ())) > 2)
        assert net.deaf.zid in net.neighbours()
    finally:
        net.close()
    assert notes.dropped_by.keys() == {net.deaf.zid}
    assert sum(notes.dropped_by[net.deaf.zid]) == net.router.counters()["messages dropped: no room"]


MEGABYTE = bytes(1_000_000)


def test_the_memory_of_all_queues_is_bounded_and_new_neighbours_wait() -> None:
    """The queues of eight blocked clients could hold two messages each, 16 MB. The memory limit is three and a half messages."""
    net = Net(8, max_memory=3_500_000)
    try:
        budget = net.router.runtime.budget
        net.flood(DROP, MEGABYTE)
        until(lambda: net.router.counters().get("messages dropped: no memory", 0) > 10)
        assert budget.held <= 3_500_000
        net.latency()  # small samples pass, although they may be dropped
        assert len(net.neighbours()) == 8 + 3, "droppable messages must not close a face"
        net.stop.set()
    finally:
        net.close()
    assert budget.held == 0


def test_beyond_the_memory_those_are_closed_for_which_most_waits() -> None:
    """Twelve blocked clients, each with up to two queued batches of 64 KiB, and a memory limit of one megabyte."""
    net = Net(12, max_memory=1_000_000)
    try:
        net.flood(BLOCK)
        until(lambda: net.router.counters().get("faces closed: no memory", 0) > 0)
        until(lambda: len(net.neighbours()) < 12 + 3)
        assert {net.loud.zid, net.one.zid, net.two.zid} <= net.neighbours()
    finally:
        net.close()


def test_no_link_is_taken_while_the_memory_is_used_up() -> None:
    net = Net(4, max_memory=1_000_000)
    try:
        runtime = net.router.runtime
        net.flood(BLOCK, bytes(400_000))
        until(
            lambda: runtime.budget.is_full and all(runtime.faces[one.zid].flush_policy.blocked for one in net.all_deaf)
        )
        with pytest.raises(ZenlakeError, match=r"hung up|closed by the peer"):
            open_node(NodeConfig(WhatAmI.CLIENT, connect=(net.where,), backoff=None, connect_timeout=5.0))
        assert runtime.refused == 1
        for client in net.all_deaf:
            client.socket.close()
        until(lambda: not runtime.budget.is_full)
        open_node(NodeConfig(WhatAmI.CLIENT, connect=(net.where,), backoff=None)).close()
    finally:
        net.close()


@pytest.mark.slow
def test_a_blocked_neighbour_does_not_double_the_p99_of_others() -> None:
    """The router in its own process, pairs that ping each other; with a blocked client and without by turns.

    Other load on the machine may disturb one of both runs. So a second and a third run are allowed. One run must pass for
    all pairs.
    """
    looks: list[float] = []
    while not looks or (looks[-1] >= 2 and len(looks) < 3):
        looks.append(max(beside / free for beside, free in measured("ours", turns=10)))
    assert looks[-1] < 2, f"the worst pair's p99 beside a blocked client, to that without: {looks}"
