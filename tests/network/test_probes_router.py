# SPDX-License-Identifier: Apache-2.0
"""Every recorded probe of a router of eclipse-zenoh, replayed to ours: the same bytes, or an intended difference.

`CHOICES` lists the differences, by the topic under which `docs/spec-notes.md` has the reason.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.network.mesh import ROUTER, Hand
from tests.network.probes import Change, Said, Stage, Transcript, and_close, assert_noted, with_cookie
from tests.vectors import rows
from zenlake.core.enums import Priority
from zenlake.core.identifiers import ZenohId
from zenlake.wire.batch_reader import messages
from zenlake.wire.declare import Declare, DeclareEntity
from zenlake.wire.network import Response, ResponseFinal
from zenlake.wire.zenoh_body import Err, Put, Reply

SUB, QBL, TOK = 2, 4, 6


def of_router() -> dict[str, tuple[list[Said], dict[str, Any]]]:
    """Return for each case the messages of the hand-made client and of the router in order, and the result."""
    cases: dict[str, tuple[list[Said], dict[str, Any]]] = {}
    said: list[Said] = []
    for row in rows("probe")[1:]:
        if "result" in row:
            cases[row["result"]["case"]] = said, row["result"]
            said = []
        else:
            said.append(("hand" if row["dir"] == "raw->router" else "node", bytes.fromhex(row["hex"])))
    return cases


PROBES = of_router()
AHEAD = messages(PROBES["put_timestamp_future_1h"][0][4][1])[1].put.timestamp.value
"""An hour ahead of when all was recorded."""


class Probe(Stage):
    """A router with a subscriber of everything, as the recorded one had, and the hand-made client."""

    def __init__(self, case: str) -> None:
        self.recorded, self.result = PROBES[case]
        acks = [batch for who, batch in self.recorded if who == "node"]
        self.zid = next(
            (init.zid.value for batch in acks for init in messages(batch)[:1] if hasattr(init, "cookie")), None
        )
        super().__init__(ROUTER, self.zid or bytes(range(1, 17)), AHEAD.ntp64 - (3600 << 32))
        self.samples: list[tuple[str, str | int, str, bool]] = []
        self.app.declare_subscriber(b"**", self._got)
        self.keeps_cookie = case == "bad_cookie"
        self.line = self.accept()
        self.said: list[Said] = []
        self._left = [batch for who, batch in self.recorded if who == "hand"]
        self._ack = acks[0] if acks else b""

    def _got(self, key: bytes, reader: Any) -> None:
        push = reader.push
        stamp = push.put.timestamp.value if push.is_put else None
        own = stamp is not None and stamp.id.to_wire() == self.node.zid
        value = push.put.payload.value if push.is_put else b""
        shown_value = value.hex() if len(value) < 40 else len(value)
        self.samples.append((key.decode(), shown_value, Priority(push.qos & 7).name, own))

    def open(self) -> None:
        self.send(2)

    def send(self, count: int = 1) -> None:
        """Replay the next recorded message."""
        for batch in self._left[:count]:
            if batch[0] & 0x3F == 0x02 and not self.keeps_cookie:
                batch = with_cookie(batch, self._ack, self.line.said[0])
            self.said.append(("hand", batch))
            self.line.hear(batch)
            self.note()
        del self._left[:count]

    def rest(self) -> None:
        self.send(len(self._left))

    def note(self) -> None:
        self.settle()
        self.said += [("node", batch) for batch in self.line.said[len([1 for who, _ in self.said if who == "node"]) :]]

    def put(self, key: str, payload: bytes) -> None:
        self.app.put(key.encode(), payload)
        self.note()

    def subscribe(self, key: str) -> Any:
        return self.app.declare_subscriber(key.encode(), lambda key, reader: None)

    def answer(self, key: str, *replies: tuple[str, bytes], complete: bool = False) -> Any:
        def deliver(query: Any, reader: Any) -> None:
            for name, payload in replies:
                query.reply(name.encode(), payload)
            query.finish()

        return self.app.declare_queryable(key.encode(), deliver, complete)

    def undeclare(self, *entities: Any) -> None:
        for entity in entities:
            self.note()
            entity.undeclare()
        self.note()

    def has(self, kind: int, key: str, info: int = 0, id: int = 1) -> Hand:
        """Add a further client with a declaration."""
        hand = self.client()
        hand.say(Declare(body=DeclareEntity(kind=kind, id=id, key=key, info=info)))
        self.note()
        return hand


# Other events of a recording, as described by its authors. Without such events, all bytes are sent one after the other.


def declare_default_qos_data_lane(p: Probe) -> None:
    p.rest()
    p.put("k/1", b"v")


def declare_keyexpr_then_use(p: Probe) -> None:
    p.open()
    p.send()
    p.put("k2/base/1", b"v")
    p.rest()
    p.put("k2/base/2", b"w")


def query_and_final(p: Probe) -> None:
    p.answer("q/1", ("q/1", b"r"))
    p.rest()


def query_budget_1_two_replies(p: Probe) -> None:
    p.answer("q/*", ("q/a", b"1"), ("q/b", b"2"))
    p.rest()


def interest_all_current_unrestricted(p: Probe) -> None:
    entities = p.app.declare_token(b"lv/t"), p.answer("qq/1", complete=True)
    p.rest()
    p.undeclare(*entities)


def interest_future_only_subs(p: Probe) -> None:
    p.open()
    p.send()
    p.undeclare(p.subscribe("i/x"))
    p.rest()
    p.undeclare(p.subscribe("i/y"))


def interest_aggregate_subs(p: Probe) -> None:
    entities = p.subscribe("ag/x"), p.subscribe("ag/y")
    p.rest()
    p.undeclare(*entities)


def router_fragments_to_300_batch(p: Probe) -> None:
    p.rest()
    p.put("big/1", b"y" * 700)


def once_more(p: Probe, zid: bytes) -> dict[str, Any]:
    """Return the refusal of a second client that claims this id."""
    line = p.accept()
    said, _ = PROBES["put_plain_sn0"]
    line.hear(said[0][1].replace(messages(said[0][1])[0].zid.value, zid))
    line.hear(with_cookie(said[2][1], said[1][1], line.said[0]))
    (close,) = messages(line.said[-1])
    return {"_": "CLOSE", "session": close.session, "reason": close.reason}


def same_zid_twice(p: Probe) -> None:
    p.rest()
    assert once_more(p, p.line.transport.peer_zid) == p.result["note"]


def zid_of_router(p: Probe) -> None:
    p.rest()
    assert once_more(p, p.node.zid) == p.result["note"]


def interest_restricted(p: Probe) -> None:
    entities = [
        p.subscribe("lv/s"), p.answer("lv/q", complete=True), p.answer("lv/*"), p.app.declare_token(b"lv/t"),
    ]  # fmt: skip
    p.rest()
    p.undeclare(*entities)


def interest_restricted_current(p: Probe) -> None:
    entities = [p.subscribe("lv/s"), p.answer("lv/q"), p.app.declare_token(b"lv/t")]
    p.rest()
    p.undeclare(*entities)


def query_raw_queryable_never_answers_timeout_1s(p: Probe) -> None:
    hand = p.has(QBL, "slow/q")
    p.rest()
    (asked,) = hand.take_sent()
    p.mesh.pass_time(0.99)
    p.note()
    assert p.line.said[2:] == []
    p.mesh.pass_time(0.02)
    p.note()
    hand.say(Response(id=asked.id, key="slow/q", body=Reply(body=Put(payload=b"late"))), ResponseFinal(id=asked.id))
    p.note()


def query_no_timeout_ext_queryable_disconnects(p: Probe) -> None:
    hand = p.has(QBL, "slow/q2")
    p.rest()
    hand.leave()
    p.note()


def best_matching_complete_vs_incomplete(p: Probe) -> None:
    hands = [p.has(QBL, "bm/**", info) for info in (0, 1, 0, 1)]
    p.open()
    got = []
    for _ in range(5):
        p.send()
        got.append(["got" if hand.take_sent() else "no" for hand in hands])
    note = p.result["note"]
    assert sorted(got[0]) == sorted("no" if asked == "(nothing)" else "got" for asked in note["best"])
    assert got[1:3] == [note["all"], note["allcomplete"]]
    assert [sorted(row) for row in got[3:]] == [sorted(note["best on bm/**"]), sorted(note["best on **"])]
    for hand in hands:
        hand.leave()
    p.note()


def best_matching_only_incomplete(p: Probe) -> None:
    hands = [p.has(QBL, "bi/**") for _ in range(3)]
    p.rest()
    assert ["got" if hand.take_sent() else "no" for hand in hands] == p.result["note"]["best"]
    for hand in hands:
        hand.leave()
    p.note()


def query_replies_two_queryables_final_once(p: Probe) -> None:
    hands = [p.has(QBL, "tw/**") for _ in range(2)]
    p.rest()
    for hand, payload in zip(hands, (b"one", b"two"), strict=True):
        (asked,) = hand.take_sent()
        hand.say(Response(id=asked.id, key="tw/x", body=Reply(body=Put(payload=payload))), ResponseFinal(id=asked.id))
        p.note()


def two_matching_subs_one_delivery(p: Probe) -> None:
    p.rest()
    p.put("dd/x", b"1")


def token_vanishes_on_disconnect(p: Probe) -> None:
    p.rest()
    p.has(TOK, "tk/1", id=7).leave()
    p.note()


def sub_undeclare_with_wire_expr_ext(p: Probe) -> None:
    p.open()
    p.send()
    p.put("un/1", b"1")
    p.rest()
    p.put("un/2", b"1")


def response_with_scope0_noname(p: Probe) -> None:
    hand = p.has(QBL, "rs/q")
    p.rest()
    (asked,) = hand.take_sent()
    hand.say(Response(id=asked.id, key="rs/q", body=Err(payload=b"errpl")), ResponseFinal(id=asked.id))
    p.note()


def query_parameters_and_reply_consolidation_byte(p: Probe) -> None:
    hand = p.has(QBL, "pc/q")
    p.rest()
    (asked,) = hand.take_sent()
    assert asked.query.parameters.text == "a=1;b=2"
    reply = Reply(consolidation=3, body=Put(payload=b"v"))
    hand.say(Response(id=asked.id, key="pc/q", body=reply), ResponseFinal(id=asked.id))
    p.note()


def two_tokens_same_key(p: Probe) -> None:
    p.open()
    p.send()
    hands = [p.has(TOK, "tk2/1", id=id) for id in (7, 9)]
    p.rest()
    for hand in hands:
        hand.leave()
        p.note()


def two_subs_same_key_from_two_clients(p: Probe) -> None:
    p.rest()
    for hand in [p.has(SUB, "ss2/x", id=id) for id in (7, 9)]:
        hand.leave()
        p.note()


def lease_500ms_expiry(p: Probe) -> None:
    p.rest()
    p.mesh.now = 0.5
    p.line.transport.on_timeout(0.5)
    p.note()


BESIDES: dict[str, Callable[[Probe], None]] = {
    **{name: found for name, found in globals().items() if name in PROBES},
    **{case: interest_all_current_unrestricted for case in PROBES if case.startswith("interest_unrestricted")},
    **{case: interest_restricted for case in PROBES if case.startswith("interest_restricted") and "future" in case},
    **{
        case: interest_restricted_current
        for case in PROBES
        if case.startswith("interest_restricted") and "future" not in case
    },
}


def answered(*declared: str) -> Change:
    bodies = [*(f"DeclareEntity({one})" for one in declared), "DeclareFinal()"]
    return lambda theirs: [*theirs, *(f"0: Declare(interest_id=3, qos=8, body={body})" for body in bodies)]


BREACH, CURRENT = "protocol violation in an open session", "INTEREST Current for subscribers, queryables, keys"
EVERYTHING = "id=0, key=**"
CHOICES: dict[str, tuple[str, Change]] = {
    "sn_out_of_range_2p28": (BREACH, and_close(2)),
    "noqos_negotiated_but_prio_frame": (BREACH, and_close(2)),
    "push_ext_qos_M1": (BREACH, and_close(2)),
    "push_unknown_mandatory_ext": (BREACH, and_close(2)),
    "put_ts_max_10byte_leb128": (BREACH, and_close(2)),
    "unknown_network_id_0x18": (BREACH, and_close(2)),
    "unknown_transport_id_0x08": (BREACH, and_close(2)),
    "batch_larger_than_negotiated": (BREACH, and_close(2)),
    "batch_body_equal_to_negotiated": (BREACH, and_close(2)),
    "lease_500ms_expiry": ("lease expiry", and_close(5)),
    "query_budget_1_two_replies": ("budget", lambda theirs: [*theirs[:-2], theirs[-1]]),
    "interest_unrestricted_S_current": (CURRENT, answered(EVERYTHING)),
    "interest_unrestricted_Q_current": (CURRENT, answered("kind=4, id=0, key=qq/1, info=1")),
    "interest_unrestricted_K_current": (CURRENT, answered()),
    "interest_restricted_S_current": (CURRENT, answered(EVERYTHING, "id=0, key=lv/s")),
    "interest_restricted_Q_current": (CURRENT, answered("kind=4, id=0, key=lv/q")),
    "interest_restricted_SQT_current": (
        CURRENT, answered(EVERYTHING, "id=0, key=lv/s", "kind=4, id=0, key=lv/q", "kind=6, id=0, key=lv/t"),
    ),
    **dict.fromkeys(
        ("interest_all_current_unrestricted", "interest_unrestricted_KSQT_current"),
        (CURRENT, answered(EVERYTHING, "kind=4, id=0, key=qq/1, info=1", "kind=6, id=0, key=lv/t")),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", PROBES)
def test_our_router_reacts_as_the_real_one(case: str) -> None:
    probe = Probe(case)
    BESIDES.get(case, Probe.rest)(probe)
    theirs, ours = Transcript(probe.zid or b"").of(probe.recorded), Transcript(probe.node.zid).of(probe.said)
    assert ours == (CHOICES[case][1](theirs) if case in CHOICES else theirs)
    assert (probe.line.end is not None) == ("closed by router" in probe.result["tail"])
    samples = probe.result["samples"]
    assert [sample[:3] for sample in probe.samples] == [
        (key, value, priority) for key, value, _, _, priority in samples
    ]
    own = str(ZenohId.from_wire(probe.zid)) if probe.zid else ""
    assert [sample[3] for sample in probe.samples] == [stamp.endswith(f"/{own}") for *_, stamp, _ in samples]


def test_each_choice_is_in_the_spec_notes() -> None:
    assert_noted(topic for topic, _ in CHOICES.values())
