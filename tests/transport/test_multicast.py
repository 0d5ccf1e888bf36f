# SPDX-License-Identifier: Apache-2.0
"""A multicast group in memory: JOIN, the table of members, and datagrams of non-members."""

import pytest

from tests.transport.ends import Collector, push
from tests.vectors import batches
from zenlake.core.enums import WhatAmI
from zenlake.core.peer_limits import Resource
from zenlake.errors import CloseReason, LocalError
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.multicast import MEMBER_SIZE, Multicast, Peer, PeerJoined, PeerLeft
from zenlake.transport.settings import Settings
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Join
from zenlake.wire.transport import Fragment, Frame


class Node:
    """A member, its address, and its received messages by sender."""

    def __init__(self, name: str, **settings: object) -> None:
        self.name = name
        self.heard: dict[bytes, Collector] = {}
        values = {"zid": name.encode(), "whatami": WhatAmI.PEER, "lease": 1.0, "join_interval": 0.25}
        values |= {"queue_size": 4, **settings}
        self.group = Multicast(Settings(**values), initial_sn=7, now=0.0, sink=self.sink)

    def sink(self, peer: Peer) -> Collector:
        return self.heard.setdefault(peer.zid, Collector())

    def says(self, now: float) -> list[bytes]:
        said = []
        while (view := self.group.data(now)) is not None:
            said.append(bytes(view))
            self.group.mark_sent(len(view), now)
        return said


def meet(nodes: list[Node], now: float) -> None:
    """Exchange the datagrams of all members until there are no more."""
    while spoken := [(node, datagram) for node in nodes for datagram in node.says(now)]:
        for speaker, datagram in spoken:
            for node in nodes:
                if node is not speaker:
                    node.group.receive(datagram, speaker.name, now)


@pytest.mark.parametrize("qos", [False, True])
def test_members_discover_and_receive_each_other(qos: bool) -> None:
    nodes = [Node(name, multicast_qos=qos) for name in ("ann", "bob", "cid")]
    meet(nodes, 0.0)
    for node in nodes:
        assert {event.peer.zid for event in node.group.events() if isinstance(event, PeerJoined)} == {
            other.name.encode() for other in nodes if other is not node
        }
    ann, bob, cid = nodes
    ann.group.send(push("small", b"1"))
    ann.group.send(push("large", bytes(30_000)))
    ann.group.send(push("light", b"2"), 2, reliable=False)
    meet(nodes, 0.1)
    for node in (bob, cid):
        assert sorted(node.heard[b"ann"].got) == [("large", bytes(30_000)), ("light", b"2"), ("small", b"1")]
        assert ((2 if qos else 5), False) in node.heard[b"ann"].lanes
    assert bob.group.peers["ann"].rx.missing == 0


def test_a_late_member_begins_at_the_current_numbers() -> None:
    ann, bob = Node("ann"), Node("bob")
    meet([ann, bob], 0.0)
    for number in range(5):
        ann.group.send(push(f"k/{number}", b""), express=True)
    meet([ann, bob], 0.1)
    cid = Node("cid")
    meet([ann, bob, cid], 0.3)
    ann.group.send(push("news", b""))
    meet([ann, bob, cid], 0.31)
    assert cid.heard[b"ann"].got == [("news", b"")]
    assert cid.group.peers["ann"].rx.missing == 0


def test_join_is_repeated_and_silence_is_the_end() -> None:
    ann, bob = Node("ann"), Node("bob")
    meet([ann, bob], 0.0)
    for step in range(1, 5):
        (join,) = ann.says(0.25 * step)
        assert isinstance(messages(join)[0], Join)
        assert ann.says(0.25 * step) == []
        bob.group.receive(join, "ann", 0.25 * step)
    assert [*map(type, bob.group.events())] == [PeerJoined]
    bob.group.on_timeout(1.99)
    assert bob.group.peers
    assert bob.group.next_timeout() is not None
    bob.group.on_timeout(2.0)
    (left,) = bob.group.events()
    assert isinstance(left, PeerLeft)
    assert (left.peer.zid, left.reason) == (b"ann", CloseReason.EXPIRED)


def test_leaving_is_sent_to_all() -> None:
    ann, bob = Node("ann"), Node("bob")
    meet([ann, bob], 0.0)
    ann.group.close()
    assert [messages(datagram)[0] for datagram in ann.says(0.1)] == [Close(reason=0)]
    bob.group.receive(Close(reason=0).encode(), "ann", 0.1)
    assert [event.reason for event in bob.group.events() if isinstance(event, PeerLeft)] == [CloseReason.GENERIC]
    with pytest.raises(LocalError):
        ann.group.send(push("k", b""))


@pytest.mark.parametrize(
    "different", [{"resolution": 16}, {"multicast_batch_size": 9000}, {"multicast_qos": True}], ids=str
)
def test_those_with_other_parameters_are_ignored(different: dict[str, object]) -> None:
    ann, bob = Node("ann"), Node("bob", **different)
    ann.group.receive(bob.says(0.0)[0], "bob", 0.0)
    assert ann.group.peers == {}
    assert ann.group.counters.incompatible == 1


def test_a_member_that_changes_its_parameters_is_removed() -> None:
    ann = Node("ann")
    ann.group.receive(Node("bob").says(0.0)[0], "bob", 0.0)
    ann.group.receive(Node("eve").says(0.0)[0], "bob", 0.0)
    assert [*map(type, ann.group.events())] == [PeerJoined, PeerLeft]


def test_strangers_and_garbage_are_ignored() -> None:
    ann, bob = Node("ann"), Node("bob")
    meet([ann, bob], 0.0)
    ann.group.receive(Frame(sn=3).encode() + push("k", b"").encode(), "eve", 0.0)
    ann.group.receive(b"\x0a\xff", "eve", 0.0)
    ann.group.receive(b"\x0a\xff", "bob", 0.0)
    assert (ann.group.counters.not_joined, ann.group.counters.undecodable) == (1, 2)
    assert [*ann.group.peers] == ["bob"]


def flood(node: Node, count: int, lease: int = 1) -> None:
    """Return JOIN messages of members that do not exist."""
    join = messages(Node("bob").says(0.0)[0])[0]
    join.lease = lease
    for number in range(count):
        join.zid.set(b"z%d" % number)
        node.group.receive(join.encode(), number, 0.0)


def test_the_table_of_peers_is_bounded() -> None:
    ann = Node("ann", multicast_max_sessions=20)
    flood(ann, 50)
    assert len(ann.group.peers) == 20
    assert ann.group.counters.refused == 30
    assert ann.group.account.used[Resource.MULTICAST_MEMBERS] == 20 * MEMBER_SIZE
    ann.group.on_timeout(1.1)
    assert ann.group.account.total == 0


def test_the_memory_of_members_is_bounded() -> None:
    ann = Node("ann")
    ann.group.account.limits = {Resource.MULTICAST_MEMBERS: 3 * MEMBER_SIZE + 1}
    flood(ann, 50)
    assert len(ann.group.peers) == 3


def test_a_member_cannot_stay_silent_without_a_limit() -> None:
    """Invented members would keep their places for the lease that they announce."""
    ann = Node("ann")
    flood(ann, 3, lease=1 << 40)
    ann.group.on_timeout(400.0)
    assert not ann.group.peers


def test_messages_of_members_that_come_in_part_are_charged_to_the_node() -> None:
    ann = Node("ann")
    budget = ann.group.budget = MemoryBudget(1 << 20)
    flood(ann, 1)
    for sn in range(7, 207):  # members of this test begin with 7
        fragment = Fragment(reliable=True, more=True, sn=sn, first=sn == 7, payload=bytes(8000))
        ann.group.receive(fragment.encode(), 0, 0.0)
        assert budget.held <= 1 << 19
        if sn == 30:
            assert budget.held >= 23 * 8000
    ann.group.on_timeout(2.0)
    assert budget.held == 0


@pytest.mark.parametrize("file", ["multicast", "multicast_qos"])
def test_a_recorded_group_is_understood(file: str) -> None:
    """Recorded datagrams of two members of eclipse-zenoh: both join, every message is decoded, both leave."""
    ours = Node("ours", multicast_qos=file == "multicast_qos")
    events = []
    for batch in batches(file):
        ours.group.receive(batch.data, batch.flow[1:], 0.0)
        events += [*ours.group.events()]
    assert [type(event) for event in events].count(PeerJoined) == 2
    assert ours.group.counters.undecodable == ours.group.counters.incompatible == 0
    assert sum(len(collector.got) for collector in ours.heard.values()) > 0


def test_our_join_is_the_wheels() -> None:
    recorded = next(m for batch in batches("multicast") for m in batch.messages() if isinstance(m, Join))
    ours = Multicast(Settings(recorded.zid.value, WhatAmI.PEER), initial_sn=recorded.reliable_sn, now=0.0)
    view = ours.data(0.0)
    assert view is not None
    (join,) = messages(bytes(view))
    join.best_effort_sn = recorded.best_effort_sn  # ours begins all lanes alike
    assert join == recorded
