# SPDX-License-Identifier: Apache-2.0
"""A peer in a multicast group: one face that receives everything, and one for each sending member."""

from tests.network.mesh import CLIENT, PEER, ROUTER, Mesh, Wire
from zenlake.network.face import TxHandle
from zenlake.network.multicast_faces import MulticastGroupFace, MulticastMemberFace
from zenlake.wire.batch_reader import read_network
from zenlake.wire.declare import Declare, DeclareEntity, DeclareKeyExpr
from zenlake.wire.network import Push, Request
from zenlake.wire.zenoh_body import Put


class InGroup:
    """A peer in a group with two others. It also has a client and a further peer."""

    def __init__(self) -> None:
        self.mesh = Mesh()
        self.node = self.mesh.node(PEER)
        self.wire = Wire()
        self.client, self.peer = self.mesh.hand(self.node), self.mesh.hand(self.node, PEER)
        self.node.add_face(MulticastGroupFace(self.wire, PEER))
        self.one, self.two = (MulticastMemberFace(TxHandle(), self.mesh.zid(), PEER, PEER) for _ in range(2))
        self.sent_to_group()
        for hand in (self.client, self.peer):
            hand.say(Declare(qos=8, body=DeclareEntity(kind=2, id=1, key="**")))
            hand.take_sent()
        self.sent_to_group()

    def sent_to_group(self) -> list[object]:
        """Return the messages that were sent to the group."""
        self.mesh.settle()
        messages = [read_network(message) for message, _, _ in self.wire.waiting]
        self.wire.waiting.clear()
        return messages

    def say(self, member: MulticastMemberFace, *messages: object) -> None:
        for message in messages:
            self.mesh.hear(self.node, member, message.encode())


def keys(messages: list[object]) -> list[str]:
    return [message.key.suffix.text for message in messages if isinstance(message, Push)]


def test_every_sample_is_sent_to_the_group_once() -> None:
    net = InGroup()
    net.node.application.put(b"of/us", b"x")
    net.client.say(Push(key="of/the/client", body=Put(payload=b"x")))
    net.peer.say(Push(key="of/the/peer", body=Put(payload=b"x")))  # it is in the group itself, or not in a group
    assert keys(net.sent_to_group()) == ["of/us", "of/the/client"]


def test_samples_of_a_member_reach_local_subscribers_and_clients_only() -> None:
    net = InGroup()
    seen: list[bytes] = []
    net.node.application.declare_subscriber(b"a/**", lambda key, reader: seen.append(key))
    (subscribed,) = net.sent_to_group()
    assert isinstance(subscribed, Declare)  # sent to the other members of the group, as 1.10.2 does
    net.client.take_sent(), net.peer.take_sent()
    net.say(net.one, Push(key="a/1", body=Put(payload=b"x")), Push(key="b", body=Put(payload=b"x")))
    assert seen == [b"a/1"]
    assert keys(net.client.take_sent()) == ["a/1", "b"]
    assert net.peer.take_sent() == net.sent_to_group() == []


def test_each_member_has_separate_key_ids() -> None:
    net = InGroup()
    seen: list[bytes] = []
    net.node.application.declare_subscriber(b"**", lambda key, reader: seen.append(key))
    for member, key in ((net.one, "one"), (net.two, "two")):
        net.say(member, Declare(body=DeclareKeyExpr(id=7, key=key)))
    for member in (net.one, net.two):
        net.say(member, Push(key=(7, True, "/x"), body=Put(payload=b"x")))
    assert seen == [b"one/x", b"two/x"]


def test_declarations_and_queries_have_no_meaning_in_a_group() -> None:
    net = InGroup()
    asked: list[bytes] = []
    net.node.application.declare_queryable(b"q", lambda query, reader: asked.append(query.key))
    publisher = net.node.application.declare_publisher(b"a")
    net.sent_to_group()
    net.say(net.one, Declare(qos=8, body=DeclareEntity(kind=2, id=1, key="a")), Request(id=1, key="q"))
    assert asked == []
    assert net.node.counters["unsupported messages in a multicast group"] == 2
    assert publisher.has_match is True  # for the client and the peer; subscribers in the group are unknown
    for hand in (net.client, net.peer):
        hand.leave()
    assert publisher.has_match is False
    ended: list[int] = []
    net.node.application.get(b"none", lambda key, reader: None, lambda: ended.append(1))
    assert ended == [1]
    assert not [message for message in net.sent_to_group() if isinstance(message, Request)]
    assert net.node.faces == []


def test_a_client_of_a_peer_reaches_the_group_as_the_peer_does() -> None:
    mesh = Mesh()
    peer, client = mesh.node(PEER), mesh.node(CLIENT)
    wire = Wire()
    peer.add_face(MulticastGroupFace(wire, PEER))
    mesh.link(client, peer)
    wire.waiting.clear()
    client.application.put(b"x", b"1")
    mesh.settle()
    assert [read_network(message).key.suffix.text for message, _, _ in wire.waiting] == ["x"]


def test_a_router_forwards_between_a_group_and_all_its_other_faces() -> None:
    mesh = Mesh()
    node, wire = mesh.node(ROUTER), Wire()
    client, peer = mesh.hand(node, CLIENT), mesh.hand(node, PEER)
    node.add_face(MulticastGroupFace(wire, ROUTER))
    member = MulticastMemberFace(TxHandle(), mesh.zid(), ROUTER, PEER)
    for hand in (client, peer):
        hand.say(Declare(qos=8, body=DeclareEntity(kind=2, id=1, key="**")))
        hand.take_sent()
    wire.waiting.clear()
    mesh.hear(node, member, Push(key="of/a/member", body=Put(payload=b"x")).encode())
    assert [keys(hand.take_sent()) for hand in (client, peer)] == [["of/a/member"]] * 2
    client.say(Push(key="of/the/client", body=Put(payload=b"x")))
    peer.say(Push(key="of/the/peer", body=Put(payload=b"x")))
    assert keys([read_network(message) for message, _, _ in wire.waiting]) == ["of/the/client", "of/the/peer"]
