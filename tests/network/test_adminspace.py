# SPDX-License-Identifier: Apache-2.0
"""The admin space: replies are sent in slices, wait for room, and contain what the querier may see."""

import time
from typing import Any

from tests.network.mesh import CLIENT, ROUTER, Hand, Mesh
from tests.network.test_large_graphs import OWN, chain, describe, listen, run_jobs
from zenlake.core.peer_limits import Resource
from zenlake.network.adminspace import AdminSpace
from zenlake.network.node import Node
from zenlake.wire.batch_reader import read_network
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Query

KEYS = 3000


def make(mesh: Mesh) -> tuple[Node, Hand]:
    """Return a router with an admin space and a client."""
    node = Node(OWN, ROUTER, now=time.monotonic, wall=lambda: 0)
    mesh.nodes.append(node)
    AdminSpace(node, "1", True)
    return node, mesh.hand(node, CLIENT)


def ask(hand: Hand, key: str, **values: Any) -> float:
    """Send a query and return the processor time until the node handles the next message."""
    start = time.thread_time()
    hand.mesh.hear(hand.node, hand.face, bytes(Request(id=1, key=key, body=Query(), **values).encode()))
    return time.thread_time() - start


def take(hand: Hand) -> list[Any]:
    """Return what the client has received, without running jobs."""
    found = [read_network(message) for message, _, _ in hand.wire.waiting]
    hand.wire.waiting.clear()
    return found


def replies(messages: list[Any]) -> set[str]:
    """Return the keys of all replies. The last message ends the query."""
    assert isinstance(messages[-1], ResponseFinal)
    return {message.key.suffix.value.decode() for message in messages if isinstance(message, Response)}


def test_the_routes_of_many_routers_are_sent_in_slices() -> None:
    """A query of 30 bytes stopped the node for three seconds, with a link state of 400 routers."""
    mesh = Mesh()
    node, hand = make(mesh)
    node.routers.receive(listen(node), describe(chain(200)))
    run_jobs(node)
    assert ask(hand, "@/*/router/route/**") < 0.1
    assert len(take(hand)) < 10_000
    mesh.settle()
    assert len(replies(hand.take_sent())) > 200 * 190


def test_replies_wait_for_a_querier_that_does_not_read() -> None:
    mesh = Mesh()
    node, hand = make(mesh)
    other = mesh.hand(node, CLIENT)
    for number in range(KEYS):
        mesh.hear(
            node, other.face, bytes(Declare(body=DeclareEntity(kind=2, id=number + 1, key=f"a/{number}")).encode())
        )
    hand.face.account.limits[Resource.CONTROL_BACKLOG] = 64 << 10
    hand.wire.room = 0
    ask(hand, "@/**", qos=0x0D, timeout=60_000)
    mesh.settle()
    assert hand.face.is_open
    assert hand.wire.closed is None
    assert 0 < len(hand.face.backlog) < KEYS / 4
    hand.wire.room = None
    assert len(replies(hand.take_sent())) == KEYS + 1
    hand.say(Request(id=2, key="@/*/router", body=Query()))
    assert len(replies(hand.take_sent())) == 1


def test_sessions_are_visible_to_the_application_only() -> None:
    mesh = Mesh()
    node, hand = make(mesh)
    ask(hand, "@/**")
    mesh.settle()
    assert not [key for key in replies(hand.take_sent()) if "/session/" in key]
    keys, done = [], []
    node.application.get(b"@/**", lambda key, reader: keys.append(key), lambda: done.append(True))
    mesh.settle()
    assert [key for key in keys if b"/session/transport/unicast/" in key]
    assert done
