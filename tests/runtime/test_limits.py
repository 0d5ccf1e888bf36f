# SPDX-License-Identifier: Apache-2.0
"""Limits of a live router: long work is done in slices on every kind of link, and other clients are served meanwhile."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.runtime.nodes import PATIENCE, Recorder, until
from zenlake.core.enums import CongestionControl, WhatAmI
from zenlake.link import Tls
from zenlake.runtime.connection_manager import ConnectionManager
from zenlake.runtime.live_node import LiveNode, NodeConfig, open_node
from zenlake.transport.settings import Settings
from zenlake.wire.declare import Declare, DeclareEntity, Interest

LINKS = {
    "tcp": "tcp/127.0.0.1:0", "tls": "tls/127.0.0.1:0", "quic": "quic/127.0.0.1:0", "ws": "ws/127.0.0.1:0",
    "memory": "memory/limits",
}  # fmt: skip


@contextmanager
def router(where: str = "tcp/127.0.0.1:0", tls: Tls | None = None, **limits: int) -> Iterator[LiveNode]:
    node = open_node(NodeConfig(WhatAmI.ROUTER, listen=(where,), tls=tls, limits=limits))
    with node:
        yield node


def client(router: LiveNode, tls: Tls | None = None) -> LiveNode:
    return open_node(NodeConfig(WhatAmI.CLIENT, connect=(router.locators[0],), tls=tls))


def latency(one: LiveNode, other: LiveNode, seconds: float) -> float:
    """Return the longest time that a sample takes from one client to another within some seconds."""
    arrived = threading.Event()
    subscriber = other.declare_subscriber(b"victim/ping", lambda key, reader: arrived.set())
    began = time.monotonic()
    while not arrived.wait(0.05):  # the subscriber is not known yet
        one.put(b"victim/ping", b"")
        assert time.monotonic() < began + PATIENCE
    worst = max(0.0, time.monotonic() - began - 0.1)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        arrived.clear()
        began = time.monotonic()
        one.put(b"victim/ping", b"")
        assert arrived.wait(PATIENCE)
        worst = max(worst, time.monotonic() - began)
        time.sleep(0.01)
    subscriber.undeclare()
    return worst


@pytest.mark.parametrize("link", LINKS)
def test_a_large_reply_arrives_on_every_link(link: str, certificates: Path) -> None:
    listens = Tls(
        listen_certificate=str(certificates / "server.pem"), listen_private_key=str(certificates / "server.key")
    )
    connects = Tls(root_ca_certificate=str(certificates / "ca.pem"))
    found: set[bytes] = set()
    ended: list[bool] = []
    with router(LINKS[link], listens, control_backlog=100_000) as node:
        with client(node, connects) as owner, client(node, connects) as curious:
            for number in range(5000):
                owner.declare_token(b"token/%d" % number)
            until(lambda: len(node.node.declarations.tables[6]) == 5000)
            curious.liveliness_get(b"**", found.add, ended.append, timeout=60)
            until(lambda: ended)
        assert ended == [False]
        assert len(found) == 5000
        assert not node.counters()


def test_others_are_served_while_interests_are_replied_to() -> None:
    attacker = ConnectionManager(Settings(os.urandom(15) + b"\x01"), Recorder())
    with router(control_backlog=1 << 20) as node, closing(attacker), client(node) as owner, client(node) as other:
        for number in range(10_000):
            owner.declare_token(b"token/%d/" % number + bytes(100).hex().encode())
        until(lambda: len(node.node.declarations.tables[6]) == 10_000)
        face = attacker.open(node.locators[0], PATIENCE)
        attacker.engine.run(face.pause)
        for id in range(1, 1001):
            face.send(Interest(mode=1, id=id, options=8, qos=8))
        assert latency(owner, other, 2) < 1
        assert node.runtime.budget.held < 200 << 20
        until(lambda: node.counters().get("faces closed: no room for a message in time"))
        assert latency(owner, other, 0.5) < 1


def test_others_are_served_while_a_client_is_removed() -> None:
    zid = os.urandom(15) + b"\x01"
    with router() as node, client(node) as one, client(node) as other:
        for round in range(2):  # the same client comes back while it is being removed
            gone = ConnectionManager(Settings(zid), Recorder())
            face = gone.open(node.locators[0], PATIENCE)
            for id in range(1, 20_001):
                while not face.send(
                    Declare(qos=8, body=DeclareEntity(kind=2, id=id, key=f"k/{round}/{id}")), congestion=1
                ):
                    pass
            until(lambda: len(node.node.declarations.tables[2]) >= 20_000)
            gone.close()
        assert latency(one, other, 0.5) < 1
        until(lambda: len(node.node.declarations.tables[2]) == 0)
        assert not node.counters()


def test_a_client_that_does_not_read_is_closed_at_the_limit_of_its_queue() -> None:
    with router(transmit_queue=1 << 20) as node, client(node) as publisher, client(node) as slow:
        slow.declare_subscriber(b"large/**", lambda key, reader: None)
        until(lambda: any(face.declared_keys[2] for face in node.faces()))
        slow.runtime.engine.run(lambda: [face.pause() for face in slow.runtime.faces.values()])

        def is_closed() -> bool:
            publisher.put(b"large/a", bytes(4 << 20), congestion=CongestionControl.BLOCK)
            return node.counters().get("limit reached: transmit_queue", 0) > 0

        until(is_closed)
        until(lambda: len(node.faces()) == 1)
