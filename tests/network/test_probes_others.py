# SPDX-License-Identifier: Apache-2.0
"""Every recorded probe of peers and clients of eclipse-zenoh, replayed to ours: the same bytes, or an intended difference.

`CHOICES` lists the differences, by the topic under which `docs/spec-notes.md` has the reason.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.network.mesh import PEER
from tests.network.probes import Change, Said, Stage, Transcript, and_close, assert_noted, with_cookie
from tests.vectors import rows
from zenlake.core.enums import ConsolidationMode, Priority, WhatAmI
from zenlake.wire.batch_reader import messages

# A hand-made peer, router and client at a real peer


def conversations(file: str) -> dict[str, list[Said]]:
    cases: dict[str, list[Said]] = {}
    for row in rows(file)[1:]:
        who = "hand" if row["dir"] in ("raw->router", "fake-router->node") else "node"
        cases.setdefault(row["case"], []).append((who, bytes.fromhex(row["hex"])))
    return cases


OF_PEER, OF_OPENER = conversations("probe_peer"), conversations("probe_fake_router")


@pytest.mark.parametrize("case", OF_PEER)
def test_our_peer_reacts_as_the_real_one(case: str) -> None:
    recorded = OF_PEER[case]
    (ack,) = messages(recorded[1][1])
    stage = Stage(PEER, ack.zid.value)
    stage.node.gossip.locators = ("tcp/127.0.0.1:48141",)
    seen: list[bytes] = []
    stage.app.declare_subscriber(b"h/**", lambda key, reader: seen.append(key))
    stage.app.declare_queryable(b"hq", reply)
    line = stage.accept()
    said: list[Said] = []
    hand = [batch for who, batch in recorded if who == "hand"]
    for number, batch in enumerate(hand):
        said.append(("hand", batch))
        line.hear(batch if number != 1 else with_cookie(batch, recorded[1][1], line.said[0]))
        if b"r/**" in batch:
            stage.app.put(b"r/1", b"x")
            stage.settle()
        said += [("node", batch) for batch in line.said[sum(who == "node" for who, _ in said) :]]
    assert Transcript(ack.zid.value).of(said) == Transcript(ack.zid.value).of(recorded)
    assert seen == [b"h/1"]


def reply(query: Any, reader: Any) -> None:
    query.reply(b"hq", b"r")
    query.finish()


# Real clients and peers at a hand-made router


class Opening(Stage):
    """A client or peer that connects to the recorded router."""

    def __init__(self, case: str) -> None:
        self.recorded = OF_OPENER[case]
        (syn,) = messages(self.recorded[0][1])
        super().__init__(WhatAmI.from_wire(syn.whatami), syn.zid.value)
        self.seen: list[bytes] = []
        self._left = [batch for who, batch in self.recorded if who == "hand"]
        self.said: list[Said] = []
        self.line = self.connect()

    def hear(self, count: int) -> None:
        """Replay the next message of the router."""
        for batch in self._left[:count]:
            self.note()
            self.said.append(("hand", batch))
            self.line.hear(batch)
        del self._left[:count]
        self.note()

    def note(self) -> None:
        self.settle()
        self.said += [("node", batch) for batch in self.line.said[sum(who == "node" for who, _ in self.said) :]]

    def put(self, key: bytes, payload: bytes, **more: Any) -> None:
        self.app.put(key, payload, **more)
        self.note()

    def get(self, timeout: float) -> list[bytes]:
        answers: list[bytes] = []
        self.app.get(
            b"k/1", lambda key, reader: answers.append(reader.response.body.body.payload.value if key else b"error"),
            lambda: answers.append(b"end"), consolidation=ConsolidationMode.LATEST, timeout=timeout,
        )  # fmt: skip
        self.note()
        return answers

    def close(self) -> None:
        assert not self._left
        self.line.transport.close()
        self.note()


def minimal(o: Opening) -> None:
    o.put(b"a/b", b"1")
    o.app.declare_publisher(b"p/q")
    o.note()
    o.hear(1)
    o.put(b"p/q", b"x")
    answers = o.get(10.0)
    o.hear(1)
    assert answers == [b"fake-reply", b"end"]
    o.app.declare_subscriber(b"s/**", lambda key, reader: o.seen.append(key))
    o.note()
    o.hear(7)
    assert o.seen == [
        b"s/1",
        b"s/2",
        b"s/base/4",
        b"s/5",
        b"s/6",
    ]  # and s/3, by an id that the real client had declared


def no_final(o: Opening) -> None:
    o.app.declare_publisher(b"p/q")
    o.put(b"p/q", b"x")
    ends: list[bool] = []
    o.app.liveliness_get(b"l/**", lambda key: None, ends.append, timeout=1.5)
    o.note()
    o.mesh.pass_time(1.5)
    assert ends == [True]


def matching(o: Opening) -> None:
    publisher = o.app.declare_publisher(b"p/q")
    o.note()
    o.hear(2)
    assert publisher.has_match
    o.put(b"p/q", b"x")


def silent(o: Opening) -> None:
    answers = o.get(1.0)
    o.mesh.pass_time(1.0)
    assert answers == [b"error", b"end"]


def expires(o: Opening) -> None:
    o.mesh.now = 1.0
    o.line.transport.on_timeout(1.0)
    o.note()
    assert o.line.end is not None


THEN: dict[str, Callable[[Opening], None]] = {
    "minimal InitAck (QoS+Patch), D_FINAL answered, no subs": minimal,
    "no D_FINAL": no_final,
    "subs matching": matching,
    "no exts in InitAck": lambda o: o.put(b"a/b", b"1", priority=Priority.REAL_TIME),
    "small batch 512": lambda o: o.put(b"a/b", b"q" * 1300),
    "unrequested ext in InitAck (compression, lowlatency)": lambda o: o.put(b"a/b", b"1"),
    "never answers queries": silent,
    "lease 1s no keepalive from fake router": expires,
}


def without_keys(theirs: list[str]) -> list[str]:
    """Remove the lowest bit of the options of an interest."""
    return [re.sub(r"options=(\d+)", lambda found: f"options={int(found[1]) & ~1}", text) for text in theirs]


def refuse_version(theirs: list[str]) -> list[str]:
    """Replace the OPEN by a refusal."""
    return [theirs[0], "Close(reason=2)"]


CHOICES: dict[str, tuple[str, Change]] = {
    **dict.fromkeys(
        ("minimal InitAck (QoS+Patch), D_FINAL answered, no subs", "no D_FINAL", "subs matching"),
        ("K in an interest", without_keys),
    ),
    "lease 1s no keepalive from fake router": ("lease expiry", and_close(5)),
    "version 8 InitAck": ("InitAck version", refuse_version),
}


@pytest.mark.parametrize("case", OF_OPENER)
def test_our_opener_sends_the_bytes_of_the_eclipse_opener(case: str) -> None:
    opening = Opening(case)
    opening.hear(2)
    THEN.get(case, lambda o: None)(opening)
    if opening.line.transport.is_open:
        opening.close()
    zid = opening.node.zid
    theirs, ours = Transcript(zid).of(opening.recorded), Transcript(zid).of(opening.said)
    assert ours == (CHOICES[case][1](theirs) if case in CHOICES else theirs)


def test_each_choice_is_in_the_spec_notes() -> None:
    assert_noted(topic for topic, _ in CHOICES.values())
