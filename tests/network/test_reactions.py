# SPDX-License-Identifier: Apache-2.0
"""Reactions of our router, message by message, to the recorded probes of eclipse-zenoh (vectors/probe*.jsonl)."""

import pytest

from tests.network.mesh import CLIENT, PEER, ROUTER, Hand, Mesh
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.wire.declare import (
    Declare,
    DeclareEntity,
    DeclareFinal,
    DeclareKeyExpr,
    Interest,
    UndeclareEntity,
    UndeclareKeyExpr,
)  # fmt: skip
from zenlake.wire.network import Oam, Push, Request, Response, ResponseFinal
from zenlake.wire.raw_memory import COMPILED
from zenlake.wire.zenoh_body import Del, Err, Put, Query, Reply

SUB, QBL, TOK = 2, 4, 6
K, S, Q, T, R, A = 1, 2, 4, 8, 0x10, 0x80
CURRENT, FUTURE, BOTH = 1, 2, 3


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


@pytest.fixture
def hands(mesh: Mesh) -> list[Hand]:
    """Four clients of one router."""
    router = mesh.node(ROUTER)
    return [mesh.hand(router) for _ in range(4)]


def declare(kind: int, key: object, id: int = 1, info: int = 0) -> Declare:
    return Declare(qos=8, body=DeclareEntity(kind=kind, id=id, key=key, info=info))


def undeclare(kind: int, id: int = 1, key: object = None) -> Declare:
    return Declare(qos=8, body=UndeclareEntity(kind=kind + 1, id=id, key=key))


def put(key: object, payload: bytes = b"v") -> Push:
    return Push(key=key, body=Put(payload=payload))


def bodies(messages: list[object]) -> list[object]:
    return [message.body for message in messages]


# Samples


def test_a_sample_is_sent_once_to_each_face_and_never_back(hands: list[Hand]) -> None:
    """two_matching_subs_one_delivery, and the minimum client's rule 6."""
    a, b, c, _ = hands
    for hand in (a, b):
        hand.say(declare(SUB, "x/**"), declare(SUB, "x/*", 2))
    a.say(put("x/1"))
    assert a.take_sent() == []
    (push,) = b.take_sent()
    assert push.key.value == (0, True, "x/1")
    assert c.take_sent() == []


def test_keys_are_written_by_the_receivers_ids(hands: list[Hand]) -> None:
    """declare_keyexpr_then_use: the key has scope 5 of the receiver and a suffix. It is sent in full after the id ends."""
    a, b, *_ = hands
    a.say(Declare(qos=8, body=DeclareKeyExpr(id=5, key="k2/base")), declare(SUB, (5, True, "/**")))
    b.say(put("k2/base/1"))
    assert a.take_sent()[0].key.value == (5, False, "/1")
    a.say(Declare(qos=8, body=UndeclareKeyExpr(id=5)))
    b.say(put("k2/base/2"))
    assert a.take_sent()[0].key.value == (0, True, "k2/base/2")


def test_a_key_id_keeps_its_first_meaning(hands: list[Hand]) -> None:
    """declare_keyexpr_redefine."""
    a, b, *_ = hands
    b.say(declare(SUB, "r/**"))
    for key in ("r/one", "r/two"):
        a.say(Declare(qos=8, body=DeclareKeyExpr(id=1, key=key)))
    a.say(put((1, True, "/x")))
    assert b.take_sent()[0].key.value == (0, True, "r/one/x")


def test_an_unknown_key_id_drops_the_message_only_and_is_counted(hands: list[Hand]) -> None:
    """put_unknown_scope; a key of the wrong form goes the same way."""
    a, b, *_ = hands
    b.say(declare(SUB, "p/**"))
    a.say(put((77, True, "/x")), put((77, False, "/x")), put("p//x"), put("p/after"))
    assert [push.key.value[2] for push in b.take_sent()] == ["p/after"]
    assert a.node.counters == {"messages with an unknown key id": 2, "messages with an invalid key": 1}


def test_all_65535_key_ids_can_be_used(hands: list[Hand]) -> None:
    """express_id_16bit_max."""
    a, b, *_ = hands
    b.say(declare(SUB, "**"))
    for id in (1, *range(65535, 1, -1 if COMPILED else -257)):  # uncompiled, some of them: it takes a while
        a.mesh.hear(a.node, a.face, Declare(qos=8, body=DeclareKeyExpr(id=id, key=f"k/{id}")).encode())
    a.say(put((65535, True, None)), put((1, True, "/x")))
    assert [push.key.value[2] for push in b.take_sent()] == ["k/65535", "k/1/x"]


def test_a_router_stamps_puts_and_leaves_the_rest(hands: list[Hand]) -> None:
    """timestamps.md: a PUT without a timestamp gets one. One too far ahead is replaced. A past one stays."""
    a, b, *_ = hands
    b.say(declare(SUB, "**"))
    past, far = (Timestamp.from_wire(seconds << 32, b"\x09") for seconds in (5, 5000))
    a.say(put("k"), Push(key="k", body=Put(timestamp=past)), Push(key="k", body=Put(timestamp=far)))
    a.say(Push(key="k", body=Del()))
    first, kept, replaced, deletion = bodies(b.take_sent())
    own = ZenohId.from_wire(a.node.zid)
    assert str(first.timestamp.value.id) == str(own)
    assert kept.timestamp.value == past
    assert str(replaced.timestamp.value.id) == str(own)
    assert replaced.timestamp.value.ntp64 > first.timestamp.value.ntp64
    assert deletion.timestamp.value is None
    assert a.node.counters["timestamps replaced: too far ahead"] == 1


def test_unknown_extensions_are_passed_on_at_both_levels(hands: list[Hand]) -> None:
    """push_unknown_optional_ext; ours forwards the network level's too, as the page says (divergence C22)."""
    a, b, *_ = hands
    b.say(declare(SUB, "**"), declare(QBL, "**"))
    chain = b"\x4d\x01\x2a"  # id 0xD, ZBuf, one byte
    a.say(Push(key="k", unknown_exts=chain, qos=0x0D, body=Put(payload=b"v", unknown_exts=chain)))
    (push,) = b.take_sent()
    assert (push.unknown_exts, push.put.unknown_exts, push.qos) == (chain, chain, 0x0D)
    a.say(Request(id=1, key="k", unknown_exts=chain, body=Query(unknown_exts=chain)))
    (request,) = b.take_sent()
    assert (request.unknown_exts, request.query.unknown_exts) == (chain, chain)


def test_a_node_id_is_not_forwarded(hands: list[Hand]) -> None:
    a, b, *_ = hands
    b.say(declare(SUB, "**"))
    a.say(Push(key="k", node_id=3, body=Put(payload=b"v")))
    (push,) = b.take_sent()
    assert (push.node_id, push.put.payload.value) == (0, b"v")


# Interests


def test_an_interest_in_the_future_gets_later_declarations_and_undeclarations(hands: list[Hand]) -> None:
    """interest_future_only_subs: a D_FINAL at once, D_SUBSCRIBER 1, U_SUBSCRIBER 1; nothing after the Final."""
    a, b, *_ = hands
    a.say(Interest(mode=FUTURE, id=4, options=S, key="i/**", qos=8))
    assert a.take_sent() == [Declare(interest_id=4, qos=8, body=DeclareFinal())]
    b.say(declare(SUB, "i/x", 9), declare(SUB, "elsewhere", 10))
    assert a.take_sent() == [declare(SUB, "i/x", 1)]
    b.say(undeclare(SUB, 9))
    assert a.take_sent() == [undeclare(SUB, 1)]
    a.say(Interest(mode=0, id=4, qos=8))
    b.say(declare(SUB, "i/y", 11))
    assert a.take_sent() == []


def test_the_end_of_an_undeclared_token_is_sent_with_its_key(hands: list[Hand]) -> None:
    """For an interest in future tokens only, as 1.10.2 (its sources, and seen): id 0, the key in the extension."""
    a, b, c, d = hands
    for owner in (a, b):
        owner.say(declare(TOK, "t/1"))
    c.say(Interest(mode=FUTURE, id=4, options=T | R, key="t/*"))
    d.say(Interest(mode=FUTURE, id=4, options=T | R, key="elsewhere/*"))
    a.say(Interest(mode=FUTURE, id=4, options=T | R, key="t/*"))
    assert [type(body) for hand in (a, c, d) for body in bodies(hand.take_sent())] == [DeclareFinal] * 3
    a.say(undeclare(TOK))
    assert c.take_sent() == []  # another one exists
    b.say(undeclare(TOK))
    for hand in (a, c):
        (body,) = bodies(hand.take_sent())
        assert (body.kind, body.id, body.key) == (TOK + 1, 0, (0, True, "t/1"))
    assert d.take_sent() == []
    a.say(declare(TOK, "t/2", 2), undeclare(TOK, 2))
    for hand in (a, c):  # a client is sent its own tokens too, as 1.9.0 and 1.10.2 do
        assert [(body.kind, body.id) for body in bodies(hand.take_sent())] == [(TOK, 1), (TOK + 1, 1)]


def test_the_end_of_an_unknown_token_is_forwarded(mesh: Mesh) -> None:
    """Changes of tokens of a router reach the application and the neighbours with an interest in tokens."""
    peer = mesh.node(PEER)
    router, client = mesh.hand(peer, ROUTER), mesh.hand(peer)
    seen: list[tuple[bytes, bool]] = []
    peer.application.declare_liveliness_subscriber(b"t/*", lambda key, alive: seen.append((key, alive)))
    client.say(Interest(mode=FUTURE, id=4, options=T | R, key="t/1"))
    client.take_sent()
    router.say(undeclare(TOK, 0, (0, True, "t/1")), undeclare(TOK, 77, (0, True, "t/2")))
    assert seen == [(b"t/1", False), (b"t/2", False)]
    (body,) = bodies(client.take_sent())
    assert (body.kind, body.id, body.key) == (TOK + 1, 0, (0, True, "t/1"))


@pytest.mark.parametrize(("option", "kind"), [(S, SUB), (Q, QBL), (T, TOK)])
@pytest.mark.parametrize("mode", [CURRENT, BOTH])
@pytest.mark.parametrize("key", [None, "lv/**"])
def test_current_declarations_are_sent_and_finished(
    hands: list[Hand], option: int, kind: int, mode: int, key: str | None
) -> None:
    """interest_unrestricted_*, _restricted_*. The real router answers Current for tokens only; ours for every kind."""
    a, b, c, _ = hands
    b.say(declare(kind, "lv/t"))
    c.say(declare(kind, "lv/t", 7))
    a.say(Interest(mode=mode, id=3, options=option, key=key, qos=8))
    id = 1 if mode == BOTH else 0  # id 0: it will not be withdrawn
    declaration = Declare(interest_id=3, qos=8, body=DeclareEntity(kind=kind, id=id, key="lv/t"))
    assert a.take_sent() == [declaration, Declare(interest_id=3, qos=8, body=DeclareFinal())]
    b.say(undeclare(kind))
    assert a.take_sent() == []  # two_tokens_same_key: the other one still exists
    c.leave()
    expected = undeclare(kind, 1, None if kind == SUB else (0, False, None))
    assert a.take_sent() == ([expected] if mode == BOTH else [])


def test_an_aggregate_interest_gets_its_own_key_once(hands: list[Hand]) -> None:
    """interest_aggregate_subs."""
    a, b, *_ = hands
    b.say(declare(SUB, "ag/1"), declare(SUB, "ag/2", 2))
    a.say(Interest(mode=BOTH, id=5, options=S | A, key="ag/**", qos=8))
    first, final = a.take_sent()
    assert (first.body.key.value[2], first.interest_id) == ("ag/**", 5)
    assert isinstance(final.body, DeclareFinal)
    b.say(undeclare(SUB, 1))
    assert a.take_sent() == []
    b.say(undeclare(SUB, 2))
    assert [type(body) for body in bodies(a.take_sent())] == [UndeclareEntity]


def test_an_interest_of_an_unknown_key_is_answered_with_its_end(hands: list[Hand]) -> None:
    a, *_ = hands
    a.say(Interest(mode=BOTH, id=5, options=S, key=(9, True, "/x"), qos=8))
    assert a.take_sent() == [Declare(interest_id=5, qos=8, body=DeclareFinal())]


def test_unrequested_replies_are_ignored(hands: list[Hand]) -> None:
    """client_sends_declare_final, network_oam_unknown_id, sub_undeclare_with_wire_expr_ext."""
    a, b, *_ = hands
    a.say(Declare(interest_id=0, qos=8, body=DeclareFinal()), Oam(id=9, body=b"?"), Oam(id=1, body=b"\xff"))
    b.say(declare(SUB, "u/x"))
    b.say(undeclare(SUB, 1, (0, True, "u/x")), undeclare(SUB, 50))
    a.say(put("u/x"))
    assert b.take_sent() == []


# Queries


def test_a_query_without_queryables_completes_immediately(hands: list[Hand]) -> None:
    """query_no_match_target_all; query_own_queryable_not_looped."""
    a, *_ = hands
    a.say(declare(QBL, "q/1"), Request(id=8, key="q/1", target=1, qos=13))
    assert a.take_sent() == [ResponseFinal(id=8, qos=13)]


def test_answers_come_back_under_the_askers_id_and_one_end(hands: list[Hand]) -> None:
    """query_replies_two_queryables_final_once, query_parameters_and_reply_consolidation_byte."""
    a, b, c, _ = hands
    for hand in (b, c):
        hand.say(declare(QBL, "q/**"))
    a.say(Request(id=70, key="q/1", target=1, timeout=10000, body=Query(consolidation=3, parameters=b"p=1")))
    (to_b,), (to_c,) = b.take_sent(), c.take_sent()
    assert (to_b.key.value[2], to_b.target, to_b.timeout) == ("q/1", 1, 10000)
    assert to_b.query.parameters.value == b"p=1"
    reply = Reply(consolidation=2, body=Put(payload=b"1"))
    b.say(Response(id=to_b.id, key="q/1", body=reply), ResponseFinal(id=to_b.id))
    (answer,) = a.take_sent()
    assert (answer.id, answer.reply) == (70, reply)
    c.say(ResponseFinal(id=to_c.id), ResponseFinal(id=to_c.id))
    assert a.take_sent() == [ResponseFinal(id=70)]
    c.say(Response(id=to_c.id, key="q/1", body=reply))
    assert a.take_sent() == []
    assert a.node.counters["replies to unknown queries"] == 2


def test_best_matching_queries_the_nearest_complete_queryable_or_all(hands: list[Hand]) -> None:
    """best_matching_complete_vs_incomplete, best_matching_only_incomplete."""
    a, b, c, d = hands
    b.say(declare(QBL, "q/**", info=1 | 5 << 8))
    c.say(declare(QBL, "q/**", info=1 | 2 << 8))
    d.say(declare(QBL, "q/1"))
    a.say(Request(id=1, key="q/1"))
    assert [len(hand.take_sent()) for hand in (b, c, d)] == [0, 1, 0]
    a.say(Request(id=2, key="q/1", target=2))
    assert [len(hand.take_sent()) for hand in (b, c, d)] == [1, 1, 0]
    a.say(Request(id=3, key="q/1", target=1))
    assert [len(hand.take_sent()) for hand in (b, c, d)] == [1, 1, 1]
    b.say(undeclare(QBL))
    c.say(undeclare(QBL), declare(QBL, "q/1", info=0))
    a.say(Request(id=4, key="q/1"))
    assert [len(hand.take_sent()) for hand in (b, c, d)] == [0, 1, 1]


def test_silence_ends_with_an_error_and_an_end(hands: list[Hand], mesh: Mesh) -> None:
    """query_raw_queryable_never_answers_timeout_1s: ERR "Timeout" without a key, from entity 0, then the end."""
    a, b, *_ = hands
    b.say(declare(QBL, "q"))
    a.say(Request(id=5, key="q", timeout=1000, qos=13))
    mesh.pass_time(0.9)
    assert a.take_sent() == []
    mesh.pass_time(0.2)
    error, end = a.take_sent()
    assert (error.id, error.key.value, error.err) == (5, (0, True, None), Err(payload=b"Timeout"))
    assert (error.responder.value.eid, error.qos, end) == (0, 13, ResponseFinal(id=5, qos=13))


def test_a_lost_queryable_has_ended(hands: list[Hand]) -> None:
    """query_no_timeout_ext_queryable_disconnects."""
    a, b, *_ = hands
    b.say(declare(QBL, "q"))
    a.say(Request(id=5, key="q"))
    b.leave()
    assert a.take_sent() == [ResponseFinal(id=5)]


def test_a_lost_asker_is_not_answered(hands: list[Hand]) -> None:
    a, b, *_ = hands
    b.say(declare(QBL, "q"))
    a.say(Request(id=5, key="q"))
    (asked,) = b.take_sent()
    a.leave()
    b.say(Response(id=asked.id, key="q", body=Reply()), ResponseFinal(id=asked.id))
    assert not b.face.requests


def test_the_budget_ends_the_query(hands: list[Hand]) -> None:
    """The real router ignores it (query_budget_1_two_replies); ours stops, as the page says (divergence B3)."""
    a, b, *_ = hands
    b.say(declare(QBL, "q"))
    a.say(Request(id=9, key="q", budget=1))
    (asked,) = b.take_sent()
    for _ in range(2):
        b.say(Response(id=asked.id, key="q", body=Reply()))
    b.say(ResponseFinal(id=asked.id))
    assert [type(message) for message in a.take_sent()] == [Response, ResponseFinal]


def test_eight_bit_request_ids_past_255_with_200_open(mesh: Mesh) -> None:
    """Ids stay in the negotiated range, and none is used twice at the same time. The 256th concurrent query is refused."""
    router = mesh.node(ROUTER)
    a, b = mesh.hand(router), mesh.hand(router, request_ids=255)
    b.say(declare(QBL, "q"))
    open_ids: list[int] = []
    for id in range(1, 1001):
        a.say(Request(id=id, key="q"))
        (asked,) = b.take_sent()
        assert 1 <= asked.id <= 255
        assert asked.id not in open_ids
        open_ids.append(asked.id)
        if len(open_ids) > 200:
            b.say(ResponseFinal(id=open_ids.pop(0)))
            assert a.take_sent() == [ResponseFinal(id=id - 200)]
    for id in range(2000, 2055):
        a.say(Request(id=id, key="q"))
    assert len(b.take_sent()) == 55
    a.say(Request(id=3000, key="q"))
    assert a.take_sent() == [ResponseFinal(id=3000)]
    assert router.counters["requests dropped: no request id free"] == 1


# Peers


def test_a_peer_declares_all_entities_to_a_peer_and_sends_final(mesh: Mesh) -> None:
    """handshake_peer: OAM with ourselves and the neighbour, what we have, D_FINAL of interest 0; then changes."""
    peer = mesh.node(PEER)
    peer.gossip.locators = ("tcp/127.0.0.1:1",)
    subscriber = peer.application.declare_subscriber(b"d/**", lambda key, reader: None)
    other = mesh.hand(peer, PEER)
    oam, declaration, final = other.take_sent()
    assert oam.id == 1
    assert declaration.body.key.value == (0, True, "d/**")
    assert final == Declare(interest_id=0, qos=8, body=DeclareFinal())
    subscriber.undeclare()
    assert [type(body) for body in bodies(other.take_sent())] == [UndeclareEntity]


def test_a_peer_forwards_for_its_clients_but_not_between_peers(mesh: Mesh) -> None:
    peer = mesh.node(PEER)
    a, b, client = mesh.hand(peer, PEER), mesh.hand(peer, PEER), mesh.hand(peer, CLIENT)
    b.say(declare(SUB, "**"))
    client.say(declare(SUB, "**"))
    for hand in (a, b, client):
        hand.take_sent()
    a.say(put("x"))
    assert (b.take_sent(), len(client.take_sent())) == ([], 1)
    client.say(put("x"))
    assert (a.take_sent(), len(b.take_sent())) == ([], 1)


def test_a_client_is_quiet_once_the_router_reports_no_subscriber(mesh: Mesh) -> None:
    """probe_fake_router: without D_FINAL puts are sent; after it only what a subscriber matches."""
    client = mesh.node(CLIENT)
    router = mesh.hand(client, ROUTER)
    publisher = client.application.declare_publisher(b"k/1")
    (interest,) = router.take_sent()
    assert (interest.mode, interest.options & 0x0F, interest.key[2]) == (BOTH, S, "k/1")
    client.application.put(b"k/1", b"before")
    assert len(router.take_sent()) == 1
    router.say(Declare(interest_id=interest.id, qos=8, body=DeclareFinal()))
    client.application.put(b"k/1", b"quiet")
    client.application.put(b"other", b"not covered")
    assert [push.put.payload.value for push in router.take_sent()] == [b"not covered"]
    router.say(declare(SUB, "k/**"))
    assert publisher.has_match
    client.application.put(b"k/1", b"awake")
    assert [push.put.payload.value for push in router.take_sent()] == [b"awake"]
    router.say(undeclare(SUB))
    client.application.put(b"k/1", b"quiet")
    assert router.take_sent() == []
    publisher.undeclare()
    assert router.take_sent() == [Interest(mode=0, id=interest.id, qos=8)]
    client.application.put(b"k/1", b"again")
    assert len(router.take_sent()) == 1
