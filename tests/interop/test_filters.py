# SPDX-License-Identifier: Apache-2.0
"""`downsampling`, `low_pass_filter` and `qos/network` of a router's configuration: our router and
eclipse-zenoh treat clients of eclipse-zenoh alike."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zenlake
from tests.interop.nodes import Theirs, until

pytestmark = pytest.mark.interop

NEVER = 0.001  # times a second: once within a test


def ours(where: str, rules: dict[str, Any]) -> zenlake.Session:
    config = zenlake.Config()
    quiet = {"mode": "router", "listen/endpoints": [where], "scouting/multicast/enabled": False}
    for name, value in (quiet | rules).items():
        config.insert_json5(name, json.dumps(value))
    return zenlake.open(config)


def theirs(where: str, rules: dict[str, Any]) -> Theirs:
    return Theirs("router", (), (where,), **rules)


@pytest.fixture(params=[ours, theirs])
def network(request: pytest.FixtureRequest, ports: Iterator[int]) -> Iterator[Callable[..., tuple[Theirs, Theirs]]]:
    """Two clients of a router with these rules. The first receives every message of the second that passes the rules."""
    made: list[Any] = []

    def begin(**rules: Any) -> tuple[Theirs, Theirs]:
        where = f"tcp/127.0.0.1:{next(ports)}"
        made.append(request.param(where, {name.replace("__", "/"): items for name, items in rules.items()}))
        made.extend(Theirs("client", (where,)) for _ in range(2))
        made[1].do("queryable", "q", "t/q", "reply")
        made[1].do("sub", "s", "t/**")
        made[2].do("pub", "p", "t/last")
        until(lambda: made[2].do("matching", "p"))
        return made[1], made[2]

    yield begin
    for each in reversed(made):
        each.close()


def arrived(client: Theirs) -> list[list[Any]]:
    """Return the samples before the last one, which matches no rule."""
    until(lambda: any(event[0] == "t/last" for event in client.events.of("sample", "s")))
    return [event[:3] for event in client.events.of("sample", "s") if event[0] != "t/last"]


def test_one_message_passes_in_its_time(network: Callable[..., tuple[Theirs, Theirs]]) -> None:
    rules = [{"key_expr": "t/slow/**", "freq": NEVER}, {"key_expr": "t/none", "freq": 0}]
    listener, talker = network(downsampling=[{"messages": ["put"], "flows": ["ingress"], "rules": rules}])
    for number in range(3):
        talker.do("put", "t/slow/a", f"a{number}")
        talker.do("put", "t/slow/b", f"b{number}")
        talker.do("put", "t/none", "never")
        talker.do("put", "t/free", f"{number}")
    talker.do("delete", "t/slow/a")
    talker.do("publish", "p", "last")
    assert sorted(arrived(listener)) == [
        ["t/free", "put", "0"],
        ["t/free", "put", "1"],
        ["t/free", "put", "2"],
        ["t/slow/a", "delete", ""],
        ["t/slow/a", "put", "a0"],  # one for the rule, not one for each of its keys
    ]


def test_a_rule_lets_the_next_pass_when_its_time_has_come(network: Callable[..., tuple[Theirs, Theirs]]) -> None:
    item = {"messages": ["put"], "flows": ["egress"], "rules": [{"key_expr": "t/x", "freq": 5}]}
    listener, talker = network(downsampling=[item])
    end = time.monotonic() + 10
    while len(listener.events.of("sample", "s")) < 3 and time.monotonic() < end:
        talker.do("put", "t/x", str(time.monotonic()))
    times = [float(event[2]) for event in listener.events.of("sample", "s")[:3]]
    assert times[1] - times[0] > 0.15
    assert times[2] - times[1] > 0.15


def test_messages_above_the_size_limit_are_dropped(network: Callable[..., tuple[Theirs, Theirs]]) -> None:
    limits = [
        {"messages": ["put", "reply"], "key_exprs": ["t/**"], "size_limit": 8, "flows": ["egress"]},
        {"messages": ["put"], "key_exprs": ["t/small"], "size_limit": 2, "flows": ["ingress"]},
    ]
    listener, talker = network(low_pass_filter=limits)
    talker.do("put", "t/x", "12345678")
    talker.do("put", "t/x", "123456789")
    talker.do("put", "t/x", "1234", attachment="12345")
    talker.do("put", "t/small", "12")
    talker.do("put", "t/small", "123")
    talker.do("publish", "p", "last")
    assert sorted(arrived(listener)) == [["t/small", "put", "12"], ["t/x", "put", "12345678"]]
    assert talker.do("get", "t/q") == [["put", "t/q", "of q"]]


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_a_dropped_query_completes_immediately(network: Callable[..., tuple[Theirs, Theirs]], flow: str) -> None:
    item = {"messages": ["query"], "flows": [flow], "rules": [{"key_expr": "t/q", "freq": NEVER}]}
    listener, talker = network(downsampling=[item])
    assert talker.do("get", "t/q") == [["put", "t/q", "of q"]]
    start = time.monotonic()
    assert talker.do("get", "t/q", timeout=10.0) == []
    assert time.monotonic() - start < 8
    assert len(listener.events.wait("query", "q")) == 1


@pytest.mark.parametrize("flow", ["ingress", "egress"])
def test_quality_is_overwritten(network: Callable[..., tuple[Theirs, Theirs]], flow: str) -> None:
    item = {
        "messages": ["put"], "flows": [flow], "key_exprs": ["t/x/**"], "payload_size": "2..4",
        "qos": {"priority": "data"},
        "overwrite": {"priority": "real_time", "express": True, "congestion_control": "block"},
    }  # fmt: skip
    listener, talker = network(qos__network=[item])
    for key, payload in (("t/x/a", "123"), ("t/x/a", "12345"), ("t/y", "123")):
        talker.do("put", key, payload)
    talker.do("put", "t/x/b", "123", priority="DATA_LOW")
    talker.do("publish", "p", "last")
    arrived(listener)
    seen = {
        (key, payload): (about["priority"].rpartition(".")[2], about["express"], about["congestion"].rpartition(".")[2])
        for key, _, payload, about in listener.events.of("sample", "s")
    }
    plain = ("DATA", False, "DROP")
    assert seen["t/x/a", "123"] == ("REAL_TIME", True, "BLOCK")
    assert seen["t/x/a", "12345"] == seen["t/y", "123"] == plain
    assert seen["t/x/b", "123"] == ("DATA_LOW", False, "DROP")
