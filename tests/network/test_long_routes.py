# SPDX-License-Identifier: Apache-2.0
"""A route that takes long to compute suspends its sender, not the node."""

import threading
import time
from collections.abc import Iterator

from tests.network.mesh import ROUTER, Hand
from tests.network.test_limits import Ticking, router, subscribe, unsubscribe
from zenlake.network.face import QUERYABLE, SUBSCRIBER
from zenlake.network.keyexpr_tree import Walk
from zenlake.network.local_entities import MatchingEntity
from zenlake.network.node import Node
from zenlake.transport.rx import RETRY
from zenlake.wire.message_base import Message
from zenlake.wire.network import Push, Request
from zenlake.wire.zenoh_body import Put, Query

COUNT = 3000


class Retrying:
    """A sender whose message is handled again after its suspension, as the receive path does."""

    def __init__(self, mesh: Ticking, hand: Hand) -> None:
        self.mesh, self.hand = mesh, hand
        self.suspensions = 0

    def say(self, message: Message) -> Iterator[None]:
        """Have a message handled, and yield between the slices."""
        face = self.hand.face
        data = message.encode()
        self.mesh.hear(self.hand.node, face, data)
        while face.sink is not None and face.sink.suspended:
            assert face.sink.suspended == RETRY
            self.suspensions += 1
            while face.pause_reasons:
                yield
                self.hand.node.jobs.run()
            face.sink.suspended = 0
            self.mesh.hear(self.hand.node, face, data)
        self.hand.node.flush()


def count(hand: Hand, kind: type[Message]) -> int:
    found = [message for message in hand.take_sent() if isinstance(message, kind)]
    return len(found)


def test_a_long_route_of_a_put_suspends_its_sender_only() -> None:
    mesh = Ticking()
    node = router(mesh)
    receiver, victim, attacker = mesh.hand(node), mesh.hand(node), mesh.hand(node)
    for id in range(COUNT):
        receiver.say(subscribe(f"k/{id}", id))
    sender = Retrying(mesh, attacker)
    slices = 0
    for _ in sender.say(Push(key="k/**", body=Put(payload=b"x"))):
        slices += 1
        victim.face.backlog.clear()
        change = subscribe(f"other/{slices}", slices)  # the route is outdated before it is complete
        mesh.hear(node, victim.face, change.encode())
        mesh.hear(node, victim.face, Push(key="k/7", body=Put(payload=b"y")).encode())
        assert len(receiver.wire.waiting) == slices  # the receiver is served
    assert slices > 1
    assert sender.suspensions == 1  # and the message is not delayed again
    assert count(receiver, Push) == slices + 1
    assert not any(sender.say(Push(key="k/8", body=Put(payload=b"x"))))  # a short one is not delayed at all


def test_a_long_route_of_a_query_suspends_its_sender_only() -> None:
    mesh = Ticking()
    node = router(mesh)
    server, asker = mesh.hand(node), mesh.hand(node)
    for id in range(COUNT):
        server.say(subscribe(f"k/{id}", id, QUERYABLE))
    sender = Retrying(mesh, asker)
    slices = 0
    for _ in sender.say(Request(id=1, key="k/**", body=Query())):
        slices += 1
        mesh.hear(node, server.face, subscribe(f"other/{slices}", COUNT + slices, QUERYABLE).encode())
    assert slices > 1
    assert sender.suspensions == 1
    assert count(server, Request) == 1


def test_the_application_frees_the_lock_while_it_computes_a_route() -> None:
    """The longest time that another thread waits for the lock is a slice, not the whole search."""
    waits: list[float] = []
    ended = threading.Event()
    node = Node(b"n" * 16, ROUTER, now=time.monotonic, wall=lambda: 0, lock=threading.RLock)
    for id in range(60_000):
        node.declarations.declare(node.application, SUBSCRIBER, id + 1, b"k/%d" % id, 0)

    def other() -> None:
        while not ended.is_set():
            start = time.perf_counter()
            with node.lock:
                waits.append(time.perf_counter() - start)
            time.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    start = time.perf_counter()
    assert node.routes.find_local_route(b"k/**") is not None
    whole = time.perf_counter() - start
    ended.set()
    thread.join()
    assert len(waits) > 3
    assert max(waits) < whole * 0.7


def test_matching_is_searched_once_for_many_declarations_that_end() -> None:
    mesh = Ticking()
    node = router(mesh)
    client = mesh.hand(node)
    states: list[bool] = []
    publisher = node.application.declare_publisher(b"k/**")
    publisher.on_matching = states.append
    for id in range(1, COUNT):
        client.say(subscribe(f"k/{id}", id))
    assert publisher.has_match
    searches = 0
    match = node.application.match

    def counted(watcher: MatchingEntity) -> Walk[bytes | None]:
        nonlocal searches
        searches += 1
        return match(watcher)

    node.application.match = counted
    for id in range(1, COUNT):
        mesh.hear(node, client.face, unsubscribe(id).encode())
    mesh.settle()
    assert not publisher.has_match
    assert states == [True, False]
    assert searches < COUNT / 2
