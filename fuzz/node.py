# SPDX-License-Identifier: Apache-2.0
# Any messages, from neighbours of any role, raise nothing but a DecodeError, which ends that neighbour's connection. All
# messages that the node sends can be read. When all neighbours are gone, nothing is left of them.
"""A whole node: an input is its role, then messages, each with the number of the neighbour that sends it.

The first bit of that number moves the clock on: the other bits are eighths of a second.
"""

from random import Random
from typing import Any

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh

from fuzz.network import CORPUS as RECORDED
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import DecodeError
from zenlake.network.access_control import EGRESS, INGRESS, FaceAccess, Rule
from zenlake.network.adminspace import AdminSpace
from zenlake.wire import linkstate
from zenlake.wire.declare import (
    Declare,
    DeclareEntity,
    DeclareFinal,
    DeclareKeyExpr,
    Interest,
    UndeclareEntity,
    UndeclareKeyExpr,
)
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

OWN = (ROUTER, PEER, CLIENT)
NEIGHBOURS = {ROUTER: (CLIENT, PEER, ROUTER, ROUTER), PEER: (CLIENT, PEER, ROUTER, PEER), CLIENT: (ROUTER,) * 4}
GUARD = FaceAccess(True, [Rule(False, flow, "reply", b"a/**") for flow in (INGRESS, EGRESS)])
KEYS = ("a", "a/b", "a/**", "**", "*", "a$*/b", "@/x", "@/**", "a//b", "**/**", "ü/x", "a#b", "*/b")


def make_message(random: Random) -> bytes:
    """Make a message that means something to a node, or nearly so."""
    id, node_id = random.choice((0, 1, 2, 3, 0xFFFFFFFF)), random.choice((0, 0, 1, 2, 0xFFFF))
    key: Any = random.choice(KEYS)
    if random.random() < 0.4:
        key = random.choice((0, 1, 2, 0xFFFF)), random.random() < 0.5, random.choice((None, "/b", key))
    kind, interest_id = random.choice((2, 4, 6)), random.choice((None, None, id))
    body = random.choice((Put(payload=b"v"), Del()))
    nodes = [
        LinkState(
            random.choice((0, 1, 2, 3, 2**64 - 1)), random.choice((0, 1, 2, 2**63, 2**64 - 1)),
            random.choice((None, *(ZenohId.from_wire(bytes([n])) for n in range(1, 6)))),
            random.choice((None, *WhatAmI)), random.choice((None, (), ("tcp/x",))),
            tuple(random.randrange(4) for _ in range(random.randrange(4))), None, random.random() < 0.3,
        )
        for _ in range(random.randrange(5))
    ]  # fmt: skip
    made: Any = random.choice((
        lambda: Declare(interest_id=interest_id, node_id=node_id, body=DeclareEntity(kind=kind, id=id, key=key, info=1)),
        lambda: Declare(node_id=node_id, body=UndeclareEntity(kind=kind + 1, id=id, key=random.choice((None, key)))),
        lambda: Declare(interest_id=id, body=DeclareFinal()),
        lambda: Declare(body=DeclareKeyExpr(id=id & 0xFFFF or 1, key=key)),
        lambda: Declare(body=UndeclareKeyExpr(id=id & 0xFFFF)),
        lambda: Interest(mode=random.randrange(4), id=id, options=random.randrange(256), key=random.choice((None, key))),
        lambda: Push(key=key, node_id=node_id, body=body),
        lambda: Request(id=id, key=key, node_id=node_id, target=random.randrange(3), budget=id & 1, body=Query()),
        lambda: Response(id=id, key=key, body=random.choice((Err(payload=b"e"), Reply(body=body)))),
        lambda: ResponseFinal(id=id),
        lambda: Oam(id=1, body=linkstate.encode(nodes)),
        lambda: Oam(id=1, body=random.choice((None, 5, b"\xff"))),
    ))()  # fmt: skip
    encoded: bytes = made.encode()
    return encoded


def make_corpus() -> list[bytes]:
    random = Random("node")
    short = [message for message in RECORDED if len(message) < 256]
    found = []
    for number in range(60):
        script = bytes([number % 3])
        for _ in range(40):
            message = make_message(random) if random.random() < 0.8 else random.choice(short)
            clock = 0x80 | random.randrange(32) << 2 if random.random() < 0.1 else 0
            script += bytes([clock | random.randrange(4), len(message)]) + message
        found.append(script)
    return found


CORPUS = make_corpus()


def check(data: bytes) -> None:
    mesh = Mesh()
    node = mesh.node(OWN[data[0] % 3 if data else 0])
    AdminSpace(node, "1", True)
    application = node.application
    application.declare_subscriber(b"a/**", lambda key, reader: None)
    application.declare_queryable(b"a/**", lambda query, reader: query.finish())
    application.declare_liveliness_subscriber(b"**", lambda key, alive: None)
    application.declare_publisher(b"a/b")
    own = {key for table in node.declarations.tables.values() for key in table}
    hands = [
        mesh.hand(node, whatami, 0xFF, GUARD if number == 3 else None)
        for number, whatami in enumerate(NEIGHBOURS[node.whatami])
    ]
    at = 1
    while at + 1 < len(data):
        hand, end = hands[data[at] % 4], at + 2 + data[at + 1]
        if data[at] & 0x80:
            mesh.pass_time((data[at] & 0x7F) / 8)
        if hand.face.is_open:
            say(hand, data[at + 2 : end])
        at = end
    mesh.pass_time(11)
    for hand in hands:
        hand.take_sent()
        if hand.face.is_open:
            hand.leave()
    for kind, table in node.declarations.tables.items():
        assert set(table) <= own, (kind, list(table))
    assert len(node.routers.by_zid) == 1


def say(hand: Hand, message: bytes) -> None:
    try:
        hand.say(message)
    except DecodeError:
        hand.leave()
