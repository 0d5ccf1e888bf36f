# SPDX-License-Identifier: Apache-2.0
"""Several routers in graphs of any shape, compared with a model that knows only the connections."""

import threading
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh
from zenlake.core.enums import ConsolidationMode, WhatAmI
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.network.linkstate import CONVERGENCE_SECONDS
from zenlake.network.node import Node
from zenlake.transport.queue_handle import QueueHandle
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire import linkstate
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareEntity, UndeclareEntity
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam, Push
from zenlake.wire.raw_memory import COMPILED
from zenlake.wire.zenoh_body import Del, Put

pairs = st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda pair: pair[0] < pair[1])
graphs = st.lists(pairs, max_size=10, unique=True)
KEY = b"s/x"
GRAPHS = 20 if COMPILED else 5  # the modules about graphs are the same in both


class World:
    """Routers with a client each. Every node has a subscriber, a queryable and a token."""

    def __init__(self, count: int = 5) -> None:
        self.mesh = Mesh()
        self.routers = [self.mesh.node(ROUTER) for _ in range(count)]
        self.clients = [self.mesh.node(CLIENT) for _ in range(count)]
        self.seen: list[tuple[int, bytes]] = []
        self.links: set[tuple[int, int]] = set()
        self.extras: dict[int, Any] = {}
        for number, node in enumerate(self.all_nodes()):
            if node.whatami is CLIENT:
                self.mesh.link(node, self.routers[number - count])
            node.application.declare_subscriber(b"s/**", lambda key, reader, number=number: self.got(number, reader))
            node.application.declare_queryable(b"q", self.answer(number))
            node.application.declare_token(b"t/%d" % number)
        self.mesh.settle()

    def all_nodes(self) -> list[Node]:
        return self.routers + self.clients

    def got(self, number: int, reader: Any) -> None:
        self.seen.append((number, reader.push.put.payload.value))

    @staticmethod
    def answer(number: int) -> Any:
        def reply(query: Any, reader: Any) -> None:
            query.reply(b"q", b"%d" % number)
            query.finish()

        return reply

    def toggle(self, one: int, other: int, settle: bool) -> None:
        """Connect two routers, or disconnect them."""
        change = self.mesh.cut if (one, other) in self.links else self.mesh.link
        change(self.routers[one], self.routers[other], settle)
        self.links ^= {(one, other)}

    def toggle_extra(self, number: int) -> None:
        """Add or withdraw one declaration of a node."""
        extra = self.extras.pop(number, None)
        if extra is None:
            self.extras[number] = self.all_nodes()[number].application.declare_token(b"extra/%d" % number)
        else:
            extra.undeclare()

    def check_extras(self) -> None:
        """Check that all nodes know current declarations, and none that were withdrawn."""
        for number, node in enumerate(self.all_nodes()):
            alive: list[bytes] = []
            node.application.liveliness_get(b"extra/*", alive.append, lambda late: None)
            self.mesh.settle()
            assert sorted(alive) == sorted(b"extra/%d" % other for other in self.reach(number) if other in self.extras)

    def reach(self, number: int) -> list[int]:
        """Return the nodes that a node can reach."""
        count = len(self.routers)
        found = {number % count}
        for _ in self.routers:
            found |= {end for link in self.links for end in link if found & set(link)}
        return sorted(found | {router + count for router in found})

    def check(self) -> None:
        """Check that every node receives everything exactly once."""
        for number, node in enumerate(self.all_nodes()):
            self.seen.clear()
            reach = self.reach(number)
            node.application.put(KEY, b"x")
            self.mesh.settle()
            assert sorted(who for who, _ in self.seen) == reach
            answers: list[int] = []
            ends: list[int] = []
            node.application.get(
                b"q", lambda key, reader, to=answers: to.append(int(reader.response.reply.put.payload.value)),
                lambda to=ends: to.append(1), target=1, consolidation=ConsolidationMode.NONE,
            )  # fmt: skip
            self.mesh.settle()
            assert ends == [1]
            assert sorted(answers) == reach
            alive: list[bytes] = []
            node.application.liveliness_get(b"t/*", alive.append, lambda late: None)
            self.mesh.settle()
            assert sorted(alive) == sorted(b"t/%d" % other for other in reach)
        for router in self.routers:
            assert {node.zid for node in self.routers} >= router.routers.by_zid.keys()
            assert len(router.routers.by_zid) == len(self.reach(self.routers.index(router))) // 2


@settings(max_examples=GRAPHS)
@given(graphs, st.lists(pairs, max_size=4))
def test_every_sample_arrives_once_in_any_graph(graph: list[tuple[int, int]], changes: list[tuple[int, int]]) -> None:
    world = World()
    for pair in graph:
        world.toggle(*pair, settle=False)
    world.mesh.settle()
    world.check()
    for pair in changes:
        world.toggle(*pair, settle=True)
    world.check()


events = st.one_of(pairs, st.integers(0, 9))


@settings(max_examples=2 * GRAPHS)
@given(graphs, st.lists(events, min_size=1, max_size=8), st.lists(st.integers(0, 1000), max_size=200))
# One router loses a router that its neighbour can reach all the time.
@example([(0, 2), (0, 4), (0, 3)], [(1, 3), (0, 3), (2, 3)], [0, 0, 0, 0, 0, 5, 1, 32, 0, 5, 5])
def test_all_know_the_same_after_any_order_of_changes(
    graph: list[tuple[int, int]], changes: list[tuple[int, int] | int], choices: list[int]
) -> None:
    """Links and declarations change while messages are queued, in any order between connections. No message loops,
    every declaration becomes known, and every withdrawn declaration is forgotten."""
    world = World()
    for pair in graph:
        world.toggle(*pair, settle=False)
    left = iter(choices)
    for number, change in enumerate(changes):
        if isinstance(change, int):
            world.toggle_extra(change)
        else:
            world.toggle(*change, settle=False)
        for which, router in enumerate(world.routers):
            router.application.put(KEY, b"%d of %d" % (number, which))
        for choice, _ in zip(left, range(30), strict=False):
            world.mesh.move(choice)
    moves = 0
    while world.mesh.move(0):
        moves += 1
        assert moves < 20_000
    assert all(count <= len(world.routers) for count in Counter(world.seen).values())  # two ways at most of each length
    world.check()  # immediately, before the graph settles
    world.mesh.pass_time(CONVERGENCE_SECONDS)
    world.check()
    world.check_extras()


def chain(mesh: Mesh, count: int = 3) -> list[Node]:
    routers = [mesh.node(ROUTER) for _ in range(count)]
    for one, other in pairwise(routers):
        mesh.link(one, other)
    return routers


def test_the_nearest_complete_queryable_is_asked() -> None:
    mesh = Mesh()
    routers = chain(mesh, 4)
    for name in (0, 3):
        routers[name].application.declare_queryable(b"q", World.answer(name), complete=True)
    mesh.settle()
    for asker, nearest in enumerate([0, 0, 3, 3]):
        answers: list[bytes] = []
        client = mesh.node(CLIENT)
        mesh.link(client, routers[asker])
        client.application.get(
            b"q", lambda key, reader, to=answers: to.append(reader.response.reply.put.payload.value), lambda: None
        )  # fmt: skip
        mesh.settle()
        assert answers == [b"%d" % nearest]


def test_declarations_of_a_lost_router_are_removed_and_restored() -> None:
    mesh = Mesh()
    a, b, c = chain(mesh)
    seen: list[tuple[bytes, bool]] = []
    a.application.declare_liveliness_subscriber(b"t/*", lambda key, alive: seen.append((key, alive)))
    c.application.declare_token(b"t/c")
    publisher = a.application.declare_publisher(b"s")
    c.application.declare_subscriber(b"s", lambda key, reader: None)
    mesh.settle()
    assert publisher.has_match
    mesh.cut(b, c)
    assert not publisher.has_match
    mesh.link(b, c)
    assert publisher.has_match
    assert seen == [(b"t/c", True), (b"t/c", False), (b"t/c", True)]


def linkstates(message: Any) -> tuple[LinkState, ...]:
    return linkstate.decode(message.body.value)


def test_messages_between_routers_are_as_real_ones_write_them() -> None:
    """A hand-made router in a chain x - node - hand: numbers of its own, NodeId both ways, no ids in declarations."""
    mesh = Mesh()
    node, far = chain(mesh, 2)
    hand = mesh.hand(node, ROUTER)
    (entries,) = (linkstates(message) for message in hand.take_sent())
    numbers = {entry.zid.to_wire(): entry.psid for entry in entries if entry.zid}
    assert numbers[node.zid] == 0
    own, other, beyond = (ZenohId.from_wire(zid) for zid in (hand.face.zid, node.zid, bytes([99])))
    graph = [
        LinkState(0, 5, own, ROUTER, None, (7, 9)), LinkState(7, 0, other, ROUTER), LinkState(9, 3, beyond, ROUTER, None, (0,)),
    ]  # fmt: skip
    hand.say(Oam(id=1, qos=8, body=linkstate.encode(graph)))
    assert len(node.routers.by_zid) == 4
    hand.take_sent()
    seen: list[bytes] = []
    far.application.declare_subscriber(b"s/**", lambda key, reader: seen.append(key))
    mesh.settle()
    (declared,) = hand.take_sent()
    assert (declared.node_id, declared.body.id, declared.body.key.suffix.text) == (numbers[far.zid], 0, "s/**")
    far.application.put(b"from/far", b"")
    hand.say(Declare(qos=8, node_id=9, body=DeclareEntity(kind=2, id=0, key="from/*")))  # of the router behind it
    far.application.put(b"from/far", b"x")
    (push,) = hand.take_sent()
    assert (push.node_id, push.key.suffix.text) == (numbers[far.zid], "from/far")
    hand.say(Push(key="s/1", node_id=9), Push(key="s/2"), Push(key="s/3", node_id=7), Push(key="s/4", node_id=55))
    assert seen == [b"s/1", b"s/2"]  # 7 is the node itself, 55 is unknown: these samples followed no tree
    assert node.counters["messages outside their tree"] == 2
    hand.say(Declare(qos=8, node_id=9, body=UndeclareEntity(kind=3, id=0, key="from/*")))
    far.application.put(b"from/far", b"x")
    assert hand.take_sent() == []
    hand.say(Oam(id=1, qos=8, body=linkstate.encode([LinkState(0, 6, None, None, None, (7,))])))
    assert len(node.routers.by_zid) == 3


def between(mesh: Mesh, node: Node) -> tuple[Hand, Hand, Hand, int]:
    """Connect two hand-made routers and a client to a router between them. Both subscribe to `s/*`. A message on tree 300 of the
    first is forwarded along the tree with the returned number."""
    source, target, client = mesh.hand(node, ROUTER), mesh.hand(node, ROUTER), mesh.hand(node)
    own, other, beyond = (ZenohId.from_wire(zid) for zid in (source.face.zid, node.zid, bytes([99])))
    graph = [
        LinkState(0, 5, own, ROUTER, None, (1, 300)),
        LinkState(1, 0, other),
        LinkState(300, 3, beyond, ROUTER, None, (0,)),
    ]
    source.say(Oam(id=1, qos=8, body=linkstate.encode(graph)))
    graph = [LinkState(0, 5, ZenohId.from_wire(target.face.zid), ROUTER, None, (1,)), LinkState(1, 0, other)]
    target.say(Oam(id=1, qos=8, body=linkstate.encode(graph)))
    target.say(Declare(qos=8, body=DeclareEntity(kind=2, id=0, key="s/*")))
    client.say(Declare(qos=8, body=DeclareEntity(kind=2, id=1, key="s/*")))
    target.take_sent(), client.take_sent()
    number = node.routers.by_zid[bytes([99])].psid
    assert number != 300
    return source, target, client, number


def test_a_sample_in_transit_keeps_all_but_the_number_of_its_tree() -> None:
    """A sample passes unchanged from one hand-made router to another and to a client. A timestamp too far ahead is replaced."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    source, target, client, number = between(mesh, node)
    near, ahead = (Timestamp.from_wire(int((1000 + seconds) * 2**32), b"\x09") for seconds in (0, 100))
    unknown = bytes([0x2A, 7])  # an unknown optional extension: id 10, a number
    for stamp in (near, ahead, None):
        body = Put(payload=b"x", timestamp=stamp)
        source.say(Push(key="s/1", qos=0x1D, node_id=300, unknown_exts=unknown, body=body))
        for hand, node_id in ((target, number), (client, 0)):
            (push,) = hand.take_sent()
            assert (push.node_id, push.qos, push.unknown_exts, push.put.payload.value) == (node_id, 0x1D, unknown, b"x")
            assert (push.put.timestamp.value == stamp) == (stamp is near)
            assert push.put.timestamp.id.size >= 0


UNKNOWN = (
    b"",
    bytes([0x0A]),  # id 10, alone
    bytes([0x2A, 0x87, 0x01]),  # a number
    bytes([0x4A, 3]) + b"abc",  # bytes
    bytes([0x8A, 0xAB, 7, 0x4C, 0]),  # three of them
)


@pytest.mark.parametrize("node_id", [0, 300])
@pytest.mark.parametrize("stamps", [True, False])
def test_samples_in_transit_are_written_straight_into_the_queues(node_id: int, stamps: bool) -> None:
    """No object is made: the message is not rewritten, and the transmit handle, which takes whole messages, is not called."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    node.adds_timestamps = stamps
    source, target, client, number = between(mesh, node)
    if node_id == 0:  # along its own tree
        number = node.routers.by_zid[source.face.zid].psid
    queues = []
    for hand in (target, client):
        queue = TxQueue(0)
        queue.start(65535, (1 << 28) - 1, 0, True, False, 200, 0.05)
        hand.face.queue_handle = QueueHandle(queue, threading.Lock(), lambda: None)
        queues.append(queue)

    def refuse(*_: object) -> None:
        raise AssertionError("the long way")

    node.routes.rewrite = target.wire.send = client.wire.send = refuse
    stamp = Timestamp.from_wire(1000 << 32, b"\x09")
    sent = [
        Push(key="s/1", qos=qos, node_id=node_id, unknown_exts=unknown, timestamp_stack=stack, body=body)
        for qos in (5, 0x1D) for unknown in UNKNOWN for stack in (None, b"\x00") for body in
        (Put(payload=b"x" * 200, timestamp=stamp), Put(payload=b"", unknown_exts=unknown), Del(timestamp=stamp), Del())
    ]  # fmt: skip
    source.say(*sent)
    if node_id == 0:  # stated explicitly
        source.say(b"\xbd\x00\x03s/1\x33\x00" + Put(timestamp=stamp).encode())
        sent.append(Push(key="s/1", body=Put(timestamp=stamp)))
    for queue, follows in zip(queues, (number, 0), strict=True):
        got = []
        while (view := queue.data(0.0)) is not None:
            got += [message for message in messages(bytes(view)) if isinstance(message, Push)]
            queue.advance(len(view))
        assert len(got) == len(sent)
        for before, after in zip(sent, got, strict=True):
            assert after.key.suffix.text == "s/1"
            expected = before.fields() | {"node_id": follows, "key": after.key.value}
            if stamps and before.is_put and before.put.timestamp.id.size < 0:
                assert after.put.timestamp.value.ntp64 >= 1000 << 32
                expected["body"].timestamp.set(after.put.timestamp.value)
            assert after.fields() == expected


def test_an_old_link_state_is_ignored() -> None:
    mesh = Mesh()
    node = mesh.node(ROUTER)
    hand = mesh.hand(node, ROUTER)
    zids = [ZenohId.from_wire(zid) for zid in (hand.face.zid, node.zid)]
    for sn, links, known in ((5, (1,), 1), (4, (), 1), (5, (), 1), (6, (), 0)):
        hand.say(
            Oam(
                id=1,
                qos=8,
                body=linkstate.encode([LinkState(0, sn, zids[0], ROUTER, None, links), LinkState(1, 0, zids[1])]),
            )
        )
        assert len(node.routers.own.next_hops) == known, sn


def test_a_restarted_router_supersedes_its_earlier_link_state() -> None:
    mesh = Mesh()
    node = mesh.node(ROUTER)
    hand = mesh.hand(node, ROUTER)
    hand.take_sent()
    hand.say(Oam(id=1, qos=8, body=linkstate.encode([LinkState(1, 50, ZenohId.from_wire(node.zid), ROUTER, None, ())])))
    (message,) = hand.take_sent()
    (entry,) = linkstates(message)
    assert (entry.psid, entry.sn, len(entry.links)) == (0, 51, 1)


def test_peers_connected_to_several_routers_send_and_receive_once() -> None:
    """Two routers are connected to both peers. A third is connected to the forwarding router: the one with the greater id."""
    mesh = Mesh()
    less, greater, third = (mesh.node(ROUTER) for _ in range(3))
    mesh.link(less, greater)
    mesh.link(greater, third)
    peers = [mesh.node(PEER) for _ in range(2)]
    mesh.link(*peers)
    for peer in peers:
        mesh.link(peer, less)
        mesh.link(peer, greater)
    for router in (less, greater, third):
        mesh.link(mesh.node(CLIENT), router)
    seen: list[int] = []
    for number, node in enumerate(mesh.nodes):
        node.application.declare_subscriber(b"s", lambda key, reader, number=number: seen.append(number))
        node.application.declare_queryable(b"q", World.answer(number))
    mesh.settle()

    def check() -> None:
        there = [number for number, node in enumerate(mesh.nodes) if node.faces]
        for number in there:
            seen.clear()
            answers: list[int] = []
            application = mesh.nodes[number].application
            application.put(b"s", b"")
            application.get(
                b"q", lambda key, reader, to=answers: to.append(int(reader.response.reply.put.payload.value)),
                lambda: None, target=1, consolidation=ConsolidationMode.NONE,
            )  # fmt: skip
            mesh.settle()
            assert sorted(seen) == there
            assert sorted(answers) == there

    check()
    mesh.cut(peers[0], greater)  # it informs the other router, which forwards from now on
    check()


def test_the_marks_of_a_link_state_are_kept_when_it_is_passed_on() -> None:
    """Two gateways above one router find each other by option 0x10. Without it each put loops."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    gateway, other = mesh.hand(node, ROUTER), mesh.hand(node, ROUTER)
    other.take_sent()
    zid = gateway.face.zid.hex()
    itself = f"37 00 02 01{zid} 01 01 05 7463702f78 01 01"  # zid, whatami, locators, gateway, and 0x20, unknown
    us = f"03 01 00 01{node.zid.hex()} 01 00"
    gateway.say(Oam(id=1, qos=8, body=bytes.fromhex(f"02 {itself} {us}")))
    [content] = [m.body.value for m in other.take_sent()]
    assert content == bytes.fromhex(f"01 37 01 02 01{zid} 01 01 05 7463702f78 01 00")  # our number 1 for it
    gateway.say(Oam(id=1, qos=8, body=bytes.fromhex(f"01 03 00 03 01{zid} 01 01 01")))
    [content] = [m.body.value for m in other.take_sent()]
    assert content[1] & 0x30 == 0, "a mark that the router takes back"


def test_the_marks_of_a_returning_router_are_restored() -> None:
    """A neighbour that never lost a router has no newer link state of it."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    between, far = mesh.hand(node, ROUTER), b"\x63"
    own, ours, other = (ZenohId.from_wire(zid) for zid in (between.face.zid, node.zid, far))
    us = LinkState(1, 0, ours)
    with_far = LinkState(0, 2, own, ROUTER, None, (1, 2))
    between.say(
        Oam(id=1, body=linkstate.encode([with_far, us, LinkState(2, 9, other, ROUTER, None, (0,), None, True, 0x40)]))
    )
    between.say(Oam(id=1, body=linkstate.encode([LinkState(0, 3, own, ROUTER, None, (1,)), us])))
    assert far not in node.routers.by_zid
    between.say(Oam(id=1, body=linkstate.encode([LinkState(0, 4, own, ROUTER, None, (1, 2)), us])))
    assert node.routers.by_zid[far].marks == (True, 0x40)


def test_the_marks_of_a_gossip_entry_are_kept_when_it_is_passed_on() -> None:
    mesh = Mesh()
    node = mesh.node(PEER)
    one, other = mesh.hand(node, PEER), mesh.hand(node, PEER)
    other.take_sent()
    entry = LinkState(0, 5, ZenohId.from_wire(one.face.zid), PEER, ("tcp/x",), (), None, True, 0x20)
    one.say(Oam(id=1, body=linkstate.encode([entry])))
    [passed] = [found for message in other.take_sent() if isinstance(message, Oam) for found in linkstates(message)]
    assert (passed.zid, passed.marks) == (entry.zid, (True, 0x20))


@pytest.mark.parametrize("sn", [2**63 + 1, 2**64 - 1])
def test_a_version_of_ours_that_leaves_no_room_for_the_next_is_ignored(sn: int) -> None:
    """Ours would be one above it, and beyond 64 bits after some changes."""
    mesh = Mesh()
    node = mesh.node(ROUTER)
    hand = mesh.hand(node, ROUTER)
    hand.take_sent()
    before = node.routers.own.sn
    hand.say(Oam(id=1, body=linkstate.encode([LinkState(1, sn, ZenohId.from_wire(node.zid), ROUTER)])))
    assert hand.take_sent() == []
    assert node.routers.own.sn == before
    assert node.counters["invalid link states"] == 1


@pytest.mark.parametrize("body", [None, 5])
@pytest.mark.parametrize("whatami", [PEER, ROUTER])
def test_a_link_state_that_is_not_bytes_is_counted(whatami: WhatAmI, body: int | None) -> None:
    mesh = Mesh()
    hand = mesh.hand(mesh.node(ROUTER), whatami)
    hand.say(Oam(id=1, body=body))
    assert hand.node.counters["invalid link states"] == 1
