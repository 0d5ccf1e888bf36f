# SPDX-License-Identifier: Apache-2.0
"""Nodes of Zenlake over real sockets: errors that need threads, time and an event loop."""

import math
import os
import queue
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.runtime.nodes import until
from zenlake.core.enums import WhatAmI
from zenlake.errors import ConfigError, LinkError, LocalError
from zenlake.runtime.connection_manager import Backoff
from zenlake.runtime.live_node import LiveNode, NodeConfig, open_node

ROUTER, PEER, CLIENT = WhatAmI.ROUTER, WhatAmI.PEER, WhatAmI.CLIENT
LOOPBACK = ("tcp/127.0.0.1:0",)


@pytest.fixture
def nodes() -> Iterator[Any]:
    made: list[LiveNode] = []

    def make(mode: WhatAmI, *connect: str, **options: Any) -> LiveNode:
        listen = () if mode is CLIENT else LOOPBACK
        made.append(open_node(NodeConfig(mode, connect, listen, backoff=Backoff(0.02, 2, 0.2), **options)))
        return made[-1]

    yield make
    for node in reversed(made):
        node.close()
        assert not node.runtime.engine._thread.is_alive()


def test_concurrent_publishers_lose_no_blocking_message(nodes: Any) -> None:
    """Four threads send blocking samples through a router to a subscriber. The samples of each thread arrive in order."""
    router = nodes(ROUTER)
    a, b = nodes(CLIENT, *router.locators), nodes(CLIENT, *router.locators)
    got: queue.Queue[tuple[bytes, bytes]] = queue.Queue()
    b.declare_subscriber(b"t/*", lambda key, reader: got.put((key, reader.push.put.payload.value)))
    publisher = a.declare_publisher(b"t/*")
    until(lambda: publisher.has_match)

    def publish(name: bytes) -> None:
        for n in range(2000):
            a.put(b"t/" + name, b"%d" % n, congestion=1)

    threads = [threading.Thread(target=publish, args=(name,)) for name in (b"0", b"1", b"2", b"3")]
    for thread in threads:
        thread.start()
    seen: dict[bytes, list[int]] = {}
    for _ in range(8000):
        key, payload = got.get(timeout=20)
        seen.setdefault(key, []).append(int(payload))
    for thread in threads:
        thread.join()
    assert all(numbers == list(range(2000)) for numbers in seen.values())
    assert len(seen) == 4


def test_callbacks_may_declare_publish_and_ask(nodes: Any) -> None:
    """The callback runs on the event loop thread, without a lock."""
    router = nodes(ROUTER)
    a, b = nodes(CLIENT, *router.locators), nodes(CLIENT, *router.locators)
    done = threading.Event()

    def answer(query: Any, reader: Any) -> None:
        query.reply(query.key, b"yes")
        query.finish()

    def heard(key: bytes, reader: Any) -> None:
        a.declare_queryable(b"late", answer)
        a.put(b"back", b"heard", congestion=1)

    a.declare_subscriber(b"go", heard)
    b.declare_subscriber(b"back", lambda key, reader: b.get(b"late", lambda key, reader: done.set(), lambda: None))
    publisher = b.declare_publisher(b"go")
    until(lambda: publisher.has_match)
    b.put(b"go", b"")
    assert done.wait(10)


def test_a_failing_callback_does_not_stop_the_node(nodes: Any, caplog: pytest.LogCaptureFixture) -> None:
    router = nodes(ROUTER)
    got = threading.Event()
    router.declare_subscriber(b"x", lambda key, reader: 1 / 0)
    router.declare_subscriber(b"x", lambda key, reader: got.set())
    nodes(CLIENT, *router.locators).put(b"x", b"")
    assert got.wait(10)
    until(lambda: "a callback failed" in caplog.text)


def test_a_closed_node_raises_and_ends_its_entities(nodes: Any) -> None:
    router = nodes(ROUTER)
    client = nodes(CLIENT, *router.locators)
    router.declare_queryable(b"silent", lambda query, reader: None)
    ended = threading.Event()
    client.get(b"silent", lambda key, reader: None, ended.set)
    client.close()
    assert ended.is_set()
    with pytest.raises(LocalError, match="closed"):
        client.put(b"x", b"")
    until(lambda: not router.faces())


def test_open_node_retries_until_its_timeout(nodes: Any) -> None:
    """A client fails unless one endpoint takes it, in any order; others fail only with `must_connect`."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        where = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    began = time.monotonic()
    for mode, more in ((CLIENT, {}), (PEER, {"must_connect": True})):
        with pytest.raises(LinkError, match="refused"):
            open_node(NodeConfig(mode, (where,), retry_for=0.3, backoff=Backoff(0.1), **more))
    assert 0.6 <= time.monotonic() - began < 5
    router = nodes(ROUTER)
    late = threading.Timer(0.3, router.listen, (where,))
    late.start()
    nodes(CLIENT, "tcp/127.0.0.1:1", where, retry_for=math.inf)
    nodes(PEER, where, retry_for=10.0, must_connect=True)
    assert len(router.faces()) == 2
    late.join()


def test_a_client_without_endpoints_gets_a_remedy() -> None:
    with pytest.raises(ConfigError, match="endpoint"):
        open_node(NodeConfig(CLIENT))
    with pytest.raises(LinkError):
        open_node(NodeConfig(CLIENT, ("tcp/127.0.0.1:1",), connect_timeout=5))


def test_a_client_finds_a_router_by_scouting(nodes: Any) -> None:
    """The node calls the configured scouting function."""
    router = nodes(ROUTER)
    client = open_node(NodeConfig(CLIENT, scout=lambda timeout: [(router.zid, ROUTER, router.locators)]))
    with client:
        assert [face.zid for face in client.faces()] == [router.zid]


def test_peers_have_each_others_declarations_when_open(nodes: Any) -> None:
    zid = os.urandom(15) + b"\x02"
    hub = nodes(PEER, zid=zid)
    hub.declare_subscriber(b"k/**", lambda key, reader: None)
    peer = nodes(PEER, *hub.locators)
    assert peer.declare_publisher(b"k/1").has_match
