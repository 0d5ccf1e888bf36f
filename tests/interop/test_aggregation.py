# SPDX-License-Identifier: Apache-2.0
"""`aggregation` of a configuration: our session sends the same declarations as eclipse-zenoh."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import zenlake
from tests.interop.nodes import Ours, Theirs, until
from zenlake.network.face import SUBSCRIBER

RULES = {"aggregation/subscribers": ["a/**", "b/*", "**/deep"], "aggregation/publishers": ["p/**"]}
# Each step, and the keys that the other end then knows: subscriptions, and interests of publishers.
STEPS = [
    ("sub", "a/x", {"a/**"}, set()),
    ("sub", "a/y", {"a/**"}, set()),
    ("sub", "a/**", {"a/**"}, set()),
    ("sub", "b/**", {"a/**", "b/**"}, set()),  # it is wider than the key that would replace it
    ("sub", "b/1", {"a/**", "b/**", "b/*"}, set()),
    ("sub", "x/deep", {"a/**", "b/**", "b/*", "**/deep"}, set()),
    ("pub", "p/1", {"a/**", "b/**", "b/*", "**/deep"}, {"p/**"}),
    ("pub", "p/2", {"a/**", "b/**", "b/*", "**/deep"}, {"p/**"}),
    ("pub", "q", {"a/**", "b/**", "b/*", "**/deep"}, {"p/**", "q"}),
    ("undeclare", "a/x", {"a/**", "b/**", "b/*", "**/deep"}, {"p/**", "q"}),
    ("undeclare", "a/**", {"a/**", "b/**", "b/*", "**/deep"}, {"p/**", "q"}),
    ("undeclare", "b/1", {"a/**", "b/**", "**/deep"}, {"p/**", "q"}),
    ("undeclare", "p/1", {"a/**", "b/**", "**/deep"}, {"p/**", "q"}),
    ("undeclare", "p/2", {"a/**", "b/**", "**/deep"}, {"q"}),
    ("undeclare", "x/deep", {"a/**", "b/**"}, {"q"}),
]


class OurSession:
    """A session of ours with the interface of `Theirs`."""

    def __init__(self, mode: str, connect: tuple[str, ...], **config: Any) -> None:
        made = zenlake.Config()
        quiet = {
            "mode": mode,
            "connect/endpoints": connect,
            "listen/endpoints": [],
            "scouting/multicast/enabled": False,
        }
        for key, value in (quiet | config).items():
            made.insert_json5(key, json.dumps(value))
        self.session = zenlake.open(made)
        self.things: dict[str, Any] = {}
        self.heard: list[str] = []
        self.close = self.session.close

    def do(self, word: str, name: str, *key: str) -> None:
        if word == "sub":
            got = self.session.declare_subscriber(*key, lambda sample: self.heard.append(str(sample.key_expr)))
            self.things[name] = got
        elif word == "pub":
            self.things[name] = self.session.declare_publisher(*key)
        else:
            self.things.pop(name).undeclare()


@pytest.fixture(params=[OurSession, Theirs])
def begin(request: pytest.FixtureRequest) -> Iterator[Callable[..., tuple[Ours, Any]]]:
    """A node of ours that stores declarations, and a session of either implementation that declares."""
    made: list[Any] = []

    def begin(mode: str, other: str, **config: Any) -> tuple[Ours, Any]:
        node = Ours(other, listen=("tcp/127.0.0.1:0",))
        made.append(node)
        made.append(request.param(mode, node.locators, **RULES, **config))
        assert node.node.wait_for_face()
        return node, made[1]

    yield begin
    for each in reversed(made):
        each.close()


def declared_keys(node: Ours) -> tuple[list[bytes], list[bytes]]:
    """Return the keys of all subscriptions, and of all interests in subscribers."""
    (face,) = node.node.faces()
    asked = [interest.key for interest in list(face.interests.values()) if interest.wants(SUBSCRIBER)]
    return sorted(face.declared_keys[SUBSCRIBER].values()), sorted(key for key in asked if key is not None)


@pytest.mark.parametrize(("mode", "other"), [("client", "router"), ("peer", "peer")])
@pytest.mark.parametrize("namespace", ["", "in/here"])
def test_wide_keys_are_declared_for_narrow_ones(
    begin: Callable[..., tuple[Ours, Any]], mode: str, other: str, namespace: str
) -> None:
    node, session = begin(mode, other, **({"namespace": namespace} if namespace else {}))

    def whole(keys: set[str]) -> list[bytes]:
        return sorted((f"{namespace}/{key}" if namespace else key).encode() for key in keys)

    for word, key, subscribed, asked in STEPS:
        session.do(*((word, key) if word == "undeclare" else (word, key, key)))
        wanted = whole(subscribed), whole(asked) if other == "router" else []  # peers declare everything to each other
        until(
            lambda wanted=wanted: declared_keys(node) == wanted,
            f"{word} {key}: {declared_keys(node)} instead of {wanted}",
        )


def test_a_sample_of_the_aggregate_without_a_subscriber_is_dropped() -> None:
    node = Ours("router", listen=("tcp/127.0.0.1:0",))
    session = OurSession("client", node.locators, **RULES)
    try:
        for key in ("a/x", "a/y"):
            session.do("sub", key, key)
        until(lambda: declared_keys(node)[0] == [b"a/**"])
        for key in ("a/z", "a/y", "a/x"):
            node.do("put", key, "1")
        until(lambda: {"a/x", "a/y"} <= {*session.heard})
        assert sorted(session.heard) == ["a/x", "a/y"]
    finally:
        session.close()
        node.close()
