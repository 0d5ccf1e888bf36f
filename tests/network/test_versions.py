# SPDX-License-Identifier: Apache-2.0
"""The bytes that nodes of Zenoh 1.0 to 1.10 need. Each case names the rule, the versions, and the bytes of 1.10.2."""

import pytest

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh
from zenlake.wire.declare import Declare, DeclareEntity, DeclareFinal, DeclareKeyExpr, Interest, UndeclareEntity
from zenlake.wire.network import Request, Response
from zenlake.wire.zenoh_body import Put, Query, Reply

SUB, QBL, TOK = 2, 4, 6
RESTRICTED, AGGREGATE = 0x10, 0x80
OPTION = {SUB: 0x02, QBL: 0x04, TOK: 0x08}
FINAL = "be{:02x}21081a"  # DECLARE with an interest id, QoS control, D_FINAL


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


def sent(hand: Hand) -> list[str]:
    """Return the bytes that the node sent since the last time, as hex."""
    hand.mesh.settle()
    messages = [message.hex() for message, _, _ in hand.wire.waiting]
    hand.wire.waiting.clear()
    return messages


def declare(kind: int, id: int, key: str, info: int = 0) -> Declare:
    return Declare(body=DeclareEntity(kind=kind, id=id, key=key, info=info))


def undeclare(kind: int, id: int) -> Declare:
    return Declare(body=UndeclareEntity(kind=kind + 1, id=id))


def aggregate(id: int, kind: int, key: str, mode: int = 3) -> Interest:
    return Interest(mode=mode, id=id, options=OPTION[kind] | AGGREGATE | RESTRICTED, key=key)


# The key of a RESPONSE (cases A and B): versions up to 1.7.2 look an id up in the wrong table.


@pytest.mark.parametrize("role", [CLIENT, PEER, ROUTER])
def test_the_key_of_a_response_is_written_in_full(mesh: Mesh, role: object) -> None:
    node = mesh.node(ROUTER if role is not ROUTER else PEER)
    asker, queryable = mesh.hand(node, role), mesh.hand(node)
    queryable.say(declare(QBL, 1, "k/x"))
    asker.say(Declare(body=DeclareKeyExpr(id=1, key="k/x")), Declare(body=DeclareKeyExpr(id=2, key="k")))
    asker.say(Request(id=7, key=(1, True, None), body=Query()))
    sent(asker)
    [request] = queryable.take_sent()
    queryable.say(Response(id=request.id, key="k/x", body=Reply(body=Put(payload=b"1"))))
    # RESPONSE with M and N, id 7, scope 0, 3 bytes of suffix "k/x"; REPLY, PUT, 1 byte of payload
    assert sent(asker) == ["7b0700036b2f7804010131"]


# Aggregate interests (case C): the rule since 1.7.0.


def test_an_aggregate_exists_while_a_declaration_intersects_it(mesh: Mesh) -> None:
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    b.say(declare(SUB, 1, "k/a"), declare(SUB, 2, "k/**"))
    a.say(aggregate(1, SUB, "k/a"))
    assert sent(a) == ["be012108620100036b2f61", FINAL.format(1)]  # D_SUBSCRIBER 1, "k/a"
    b.say(undeclare(SUB, 1))
    assert sent(a) == []
    b.say(undeclare(SUB, 2))
    assert sent(a) == ["9e21080301"]  # U_SUBSCRIBER 1


def test_an_aggregate_of_queryables_is_complete_if_one_that_includes_it_is(mesh: Mesh) -> None:
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    b.say(declare(QBL, 1, "k/a", 1), declare(QBL, 2, "k/b", 1))
    a.say(aggregate(1, QBL, "k/*"))
    assert sent(a) == ["be012108640100036b2f2a", FINAL.format(1)]  # D_QUERYABLE 1, "k/*", no info
    b.say(declare(QBL, 3, "k/*", 1))
    assert sent(a) == ["9e2108e40100036b2f2a2101"]  # the same id, complete
    b.say(undeclare(QBL, 3))
    assert sent(a) == ["9e2108640100036b2f2a"]  # the same id, no longer complete
    b.say(undeclare(QBL, 1), undeclare(QBL, 2))
    assert sent(a) == ["9e210885015f020000"]  # U_QUERYABLE 1, with an empty key


@pytest.mark.parametrize("mode", [1, 3])
def test_a_current_aggregate_of_queryables_has_the_complete_flag(mesh: Mesh, mode: int) -> None:
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    b.say(declare(QBL, 1, "k/a", 1), declare(QBL, 2, "k/**", 1))
    a.say(aggregate(1, QBL, "k/a", mode))
    id = "00" if mode == 1 else "01"
    assert sent(a) == ["be012108e4" + id + "00036b2f612101", FINAL.format(1)]


def test_an_aggregate_that_ended_is_withdrawn_if_a_plain_interest_intersects_it(mesh: Mesh) -> None:
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    b.say(declare(SUB, 1, "k/a"))
    a.say(aggregate(1, SUB, "k/*"), Interest(mode=3, id=2, options=OPTION[SUB] | RESTRICTED, key="k/**"))
    a.say(Interest(mode=0, id=1))
    sent(a)
    b.say(undeclare(SUB, 1))
    assert sent(a) == ["9e21080301", "9e21080302"]
    b.say(declare(SUB, 3, "k/a"))
    assert sent(a) == ["9e2108620300036b2f61"]  # the plain interest only
    assert len(a.face.aggregates) == 0


def test_an_aggregate_that_ended_alone_is_forgotten(mesh: Mesh) -> None:
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    for id, key in ((1, "k/*"), (2, "k/*"), (3, "none/*")):
        a.say(aggregate(id, SUB, key))
    b.say(declare(SUB, 1, "k/a"))
    sent(a)
    a.say(Interest(mode=0, id=1))
    b.say(undeclare(SUB, 1), declare(SUB, 1, "k/a"))
    assert len(sent(a)) == 2, "the second interest has the same key"
    a.say(Interest(mode=0, id=2), Interest(mode=0, id=3))
    b.say(undeclare(SUB, 1), declare(SUB, 2, "none/a"))
    assert sent(a) == []
    assert len(a.face.aggregates) == 0
    assert a.face.sent_declarations[SUB] == {}


def test_a_plain_interest_beside_an_aggregate_on_one_key_receives_the_aggregate(mesh: Mesh) -> None:
    """One id has one meaning. 1.10.2 withdraws it at the first end and again at the last; the first one is wrong."""
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router)
    b.say(declare(QBL, 1, "k/a"), declare(QBL, 2, "k/**", 1))
    a.say(aggregate(1, QBL, "k/a"), Interest(mode=3, id=2, options=OPTION[QBL] | RESTRICTED, key="k/a"))
    complete = "2108e40100036b2f612101"
    whole = "be022108e40200046b2f2a2a2101"
    assert sent(a) == ["be01" + complete, FINAL.format(1), "be02" + complete, whole, FINAL.format(2)]
    b.say(undeclare(QBL, 1))
    assert sent(a) == []
    b.say(undeclare(QBL, 2))
    assert sorted(sent(a)) == ["9e210885015f020000", "9e210885025f020000"]


# A client's own tokens (case E): the rule since 1.9.0.


def test_a_client_is_sent_its_own_tokens(mesh: Mesh) -> None:
    client = mesh.hand(mesh.node(ROUTER))

    def ask(id: int, mode: int) -> Interest:
        return Interest(mode=mode, id=id, options=OPTION[TOK] | RESTRICTED, key="t/*")

    client.say(declare(TOK, 1, "t/1"), ask(2, 1))
    assert sent(client) == ["be02210866000003742f31", FINAL.format(2)]  # D_TOKEN 0, "t/1"
    client.say(ask(3, 2), undeclare(TOK, 1))
    assert sent(client) == [FINAL.format(3), "9e210887005f050300742f31"]  # U_TOKEN 0, "t/1"
    client.say(declare(TOK, 4, "t/2"), undeclare(TOK, 4))
    assert sent(client) == ["9e210866010003742f32", "9e210887015f020000"]
    client.say(declare(TOK, 5, "t/3"), ask(6, 3))
    assert sent(client)[1:] == ["be06210866020003742f33", FINAL.format(6)]


def test_a_peer_is_not_sent_its_own_tokens(mesh: Mesh) -> None:
    peer = mesh.hand(mesh.node(ROUTER), PEER)
    sent(peer)
    peer.say(declare(TOK, 1, "t/1"), Interest(mode=1, id=2, options=OPTION[TOK] | RESTRICTED, key="t/*"))
    assert sent(peer) == [FINAL.format(2)]


@pytest.mark.parametrize("kind", [SUB, QBL])
def test_a_client_is_not_sent_its_own_subscribers_and_queryables(mesh: Mesh, kind: int) -> None:
    client = mesh.hand(mesh.node(ROUTER))
    client.say(declare(kind, 1, "s/1"), Interest(mode=3, id=2, options=OPTION[kind] | RESTRICTED, key="s/*"))
    assert sent(client) == [FINAL.format(2)]


# The first id of 1.0 routers is 0. Since 1.1, 0 is used only in replies that are not withdrawn.


def test_id_0_in_the_reply_to_an_interest_in_future_declarations_is_an_id(mesh: Mesh) -> None:
    router = mesh.hand(mesh.node(CLIENT), ROUTER)
    router.node.application.declare_publisher(b"k/x")
    [interest] = router.take_sent()
    router.say(Declare(interest_id=interest.id, body=DeclareEntity(kind=SUB, id=0, key="k/x")))
    router.say(Declare(interest_id=interest.id, body=DeclareFinal()))
    router.node.application.put(b"k/x", b"1")
    assert [message.body.payload.value for message in router.take_sent()] == [b"1"]
    router.say(undeclare(SUB, 0))
    router.node.application.put(b"k/x", b"2")
    assert router.take_sent() == []
