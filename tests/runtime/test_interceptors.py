# SPDX-License-Identifier: Apache-2.0
"""The rules of `downsampling`, `low_pass_filter` and `qos/network`, without a network. (`tests/interop/test_filters.py` has
them beside the real ones.)"""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

import zenlake
from zenlake.core.enums import WhatAmI
from zenlake.errors import ConfigError
from zenlake.network.access_control import Subject
from zenlake.network.face import Face
from zenlake.runtime.connection_adapter import ConnectionAdapter, InterceptedAdapter
from zenlake.runtime.interceptors import Interceptors, MessageView, OutgoingInterceptor
from zenlake.wire.network import Push
from zenlake.wire.zenoh_body import Put

ALICE = Subject("tcp", "a11ce", interfaces=("lo",))


def seen(key: str = "a", message: str = "put", payload: int = 0, attachment: int = 0, qos: int = 5) -> MessageView:
    return MessageView(message, key.encode(), payload, attachment, qos, True)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_each_connection_and_direction_counts_its_own_time() -> None:
    clock = Clock()
    filters = Interceptors(clock, [{"messages": ["put"], "rules": [{"key_expr": "a/**", "freq": 4}]}])
    first, second = (filters.of(ALICE, flow) for flow in ("ingress", "egress"))
    assert first is not None
    assert second is not None
    assert [first.refuses(seen("a/b")), first.refuses(seen("a/c")), second.refuses(seen("a/b"))] == [
        None, "downsampling", None,
    ]  # fmt: skip
    clock.now = 0.25
    assert first.refuses(seen("a/c")) is None
    assert first.refuses(seen("b")) is None
    assert first.refuses(seen("a/c", "delete")) is None


@pytest.mark.parametrize(
    ("who", "is_about"),
    [({}, True), ({"link_protocols": ["udp"]}, False), ({"interfaces": ["lo", "x"]}, True), ({"interfaces": ["x"]}, False),
     ({"flows": ["egress"]}, False), ({"link_protocols": ["tcp"], "flows": ["ingress"]}, True)],
)  # fmt: skip
def test_a_rule_is_about_those_it_names(who: dict[str, Any], is_about: bool) -> None:
    filters = Interceptors(Clock(), low_pass=[{"messages": ["put"], "key_exprs": ["**"], "size_limit": 3, **who}])
    filter = filters.of(ALICE, "ingress")
    assert (filter is not None) == is_about
    assert filter is None or filter.refuses(seen(payload=2, attachment=2)) == "low_pass_filter"


@pytest.mark.parametrize(
    ("overwrite", "before", "after"),
    [({"priority": "background"}, 0x1D, 0x1F), ({"priority": 1}, 5, 6), ({"priority": -3}, 5, 2), ({"priority": -7}, 5, 1),
     ({"priority": 7}, 5, 7), ({"express": False}, 0x1D, 0x0D), ({"congestion_control": "block_first"}, 0x0D, 0x25),
     ({"congestion_control": "drop"}, 0x25, 5), ({}, 5, 5)],
)  # fmt: skip
def test_quality_after_a_rule(overwrite: dict[str, Any], before: int, after: int) -> None:
    filter = Interceptors(Clock(), quality=[{"messages": ["put"], "overwrite": overwrite}]).of(ALICE, "egress")
    assert filter is not None
    assert filter.quality(seen(qos=before)) == after
    assert filter.quality(seen(qos=before, message="reply")) == before


@pytest.mark.parametrize(
    ("item", "message"),
    [({"overwrite": {"priority": "high"}}, "priority"), ({"overwrite": {"reliability": "reliable"}}, "reliability"),
     ({"overwrite": {}, "payload_size": "8"}, "8..64"), ({"overwrite": {"priority": 8}}, "8"),
     ({"overwrite": {}, "qos": {"express": "yes"}}, "express"), ({"overwrite": {"speed": 1}}, "speed")],
)  # fmt: skip
def test_a_wrong_word_is_refused(item: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Interceptors(Clock(), quality=[{"messages": ["put"], **item}])


def test_an_id_is_there_once() -> None:
    item = {"id": "x", "messages": ["put"], "key_exprs": ["**"], "size_limit": 3}
    with pytest.raises(ConfigError, match="duplicate ids among x"):
        Interceptors(Clock(), low_pass=[item, item])


def test_a_session_without_rules_has_its_short_ways() -> None:
    config = zenlake.Config()
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("mode", '"client"')
    for rules in ("[]", '[{messages: ["put"], key_exprs: ["**"], size_limit: 3, flows: ["egress"]}]'):
        other = zenlake.Config()
        other.insert_json5("scouting/multicast/enabled", "false")
        other.insert_json5("listen/endpoints", '["tcp/127.0.0.1:0"]')
        with zenlake.open(other) as peer:
            [where] = peer._live().locators
            config.insert_json5("connect/endpoints", f'["{where}"]')
            config.insert_json5("low_pass_filter", rules)
            with zenlake.open(config) as session:
                [face] = session._live().faces()
                assert (face.queue_handle is None) == (rules != "[]")


def push(qos: int) -> bytes:
    message: bytes = Push(key=(0, True, "a"), qos=qos, body=Put(payload=b"x")).encode()
    return message


@pytest.mark.parametrize(
    ("qos", "overwrite", "is_kept"),
    [(0x0D, {}, True), (0x05, {}, False), (0x05, {"congestion_control": "block"}, True),
     (0x0D, {"congestion_control": "drop"}, False)],
)  # fmt: skip
def test_a_message_retried_after_a_full_queue_is_filtered_once(
    monkeypatch: pytest.MonkeyPatch, qos: int, overwrite: dict[str, Any], is_kept: bool
) -> None:
    """A message that must not be dropped is tried again, and no rule sees it twice."""
    sampled = [{"messages": ["put"], "rules": [{"key_expr": "a", "freq": 1}]}]
    changed = [{"messages": ["put"], "overwrite": overwrite}] if overwrite else []
    filter = Interceptors(Clock(), sampled, (), changed).of(ALICE, "egress")
    assert filter is not None
    node: Any = SimpleNamespace(counters=Counter())
    live: Any = SimpleNamespace(_wake=lambda: None, runtime=SimpleNamespace(engine=SimpleNamespace(inside=True)))
    tx = InterceptedAdapter(None, live, OutgoingInterceptor(node, filter, lambda id: None))
    face = tx.joined = Face(tx, b"a", WhatAmI.ROUTER, WhatAmI.CLIENT)
    has_room = False
    tried: list[bytes] = []
    monkeypatch.setattr(ConnectionAdapter, "send", lambda self, message, *_: tried.append(message) or has_room)
    face.send(push(qos), qos, True)
    assert not face.drain() if is_kept else face.drain()
    has_room = True
    assert face.drain()
    assert len(tried) == (3 if is_kept else 1)
    assert len(set(tried)) == 1
    assert (face.dropped == 0) == is_kept
    assert not node.counters
    face.send(push(qos), qos, True)
    assert node.counters == {"downsampling: put": 1}
