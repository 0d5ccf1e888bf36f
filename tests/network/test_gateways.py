# SPDX-License-Identifier: Apache-2.0
"""A peer south of a gateway (regions, since 1.9): the gateway is above it, as a router is, whatever its own role."""

import pytest

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh
from zenlake.core.enums import WhatAmI
from zenlake.network.roles import FaceRole, role_of
from zenlake.session import SessionState
from zenlake.wire.cursor import Cursor
from zenlake.wire.declare import Declare, DeclareEntity, Interest
from zenlake.wire.handshake import Init, Open
from zenlake.wire.network import Oam, Push
from zenlake.wire.zenoh_body import Put

OPENER, ACCEPTOR = 0, 1


def gateway(whatami: WhatAmI) -> Hand:
    mesh = Mesh()
    return mesh.hand(mesh.node(PEER), whatami, is_gateway=True)


def test_open_carries_the_side_of_the_other_end() -> None:
    session = SessionState()
    session.init(OPENER, Init(whatami=1, zid=b"\x01"))
    session.init(ACCEPTOR, Init(ack=True, whatami=1, zid=b"\x02"))
    session.on_open(OPENER, Open(lease=10_000))
    # OPEN, Z and A; lease 10,000 ms; initial_sn 0; RemoteBound: you are south of me
    session.on_open(ACCEPTOR, Open().decode(Cursor(bytes.fromhex("a2904e002701"))))
    assert [side.remote_bound for side in session.sides] == [-1, 1]


def test_only_a_peer_is_placed_by_it() -> None:
    assert [role_of(PEER, other, True) for other in (PEER, CLIENT, ROUTER)] == [FaceRole.NORTH] * 3
    assert role_of(ROUTER, ROUTER, True) is FaceRole.TREE
    assert role_of(CLIENT, PEER, True) is FaceRole.NORTH


def test_a_peer_lists_and_marks_its_gateway_without_a_final() -> None:
    hand = gateway(PEER)
    [message] = hand.take_sent()  # no D_FINAL of interest 0
    own, other = hand.node.zid.hex(), hand.face.zid.hex()
    # itself with a link to number 1; then number 1, marked as a gateway (0x10)
    assert message.body.value == bytes.fromhex(f"02 07 00 02 01{own} 02 00 01 01  13 01 00 01{other} 02 00")


def test_a_peer_sends_no_link_state_to_a_client_gateway() -> None:
    assert not [message for message in gateway(CLIENT).take_sent() if isinstance(message, Oam)]


@pytest.mark.parametrize("whatami", [PEER, CLIENT])
def test_a_peer_declares_to_its_gateway_queries_it_and_sends_until_declarations_arrive(whatami: WhatAmI) -> None:
    hand = gateway(whatami)
    application = hand.node.application
    hand.take_sent()
    application.declare_subscriber(b"s", None)
    [declared] = hand.take_sent()
    assert declared.body == DeclareEntity(kind=2, id=1, key="s")
    application.declare_publisher(b"p")
    [asked] = hand.take_sent()
    assert (type(asked), asked.mode) == (Interest, 3)
    application.put(b"p", b"v")
    assert [type(message) for message in hand.take_sent()] == [Push], "the interest has no reply yet"


def test_two_gateways_exchange_no_declarations() -> None:
    mesh = Mesh()
    node = mesh.node(PEER)
    one, other = (mesh.hand(node, PEER, is_gateway=True) for _ in range(2))
    other.take_sent()
    one.say(Declare(body=DeclareEntity(kind=2, id=1, key="s")), Push(key="s", body=Put(payload=b"v")))
    assert other.take_sent() == []
