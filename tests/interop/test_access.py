# SPDX-License-Identifier: Apache-2.0
"""Access control of our router, with clients of eclipse-zenoh."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import certificates
from tests.interop.nodes import Ours, Theirs, knows, until
from zenlake.link import Tls
from zenlake.network.access_control import AccessControl

pytestmark = pytest.mark.interop

EVERY = [
    "put", "delete", "declare_subscriber", "query", "declare_queryable", "reply", "liveliness_token",
    "declare_liveliness_subscriber", "liveliness_query",
]  # fmt: skip


def allowed(*keys: str, messages: list[str] = EVERY, **who: Any) -> AccessControl:
    """Only the configured users have the permission; `boss` has all permissions."""
    rules = [
        {"id": "some", "permission": "allow", "key_exprs": list(keys), "messages": messages},
        {"id": "all", "permission": "allow", "key_exprs": ["**"], "messages": EVERY},
    ]
    subjects = [{"id": "them", **who}, {"id": "boss", "zids": ["b055"]}]
    policies = [{"rules": ["some"], "subjects": ["them"]}, {"rules": ["all"], "subjects": ["boss"]}]
    return AccessControl(
        {"default_permission": "deny", "rules": rules, "subjects": subjects, "policies": policies}
    )  # fmt: skip


@pytest.fixture
def nodes() -> Iterator[list[Any]]:
    made: list[Any] = []
    yield made
    for node in reversed(made):
        node.close()


def client(nodes: list[Any], where: str, **config: Any) -> Theirs:
    nodes.append(Theirs("client", (where,), **config))
    return nodes[-1]


def test_a_user_puts_deletes_and_queries_only_on_allowed_keys(nodes: list[Any]) -> None:
    router = Ours(
        "router", listen=("tcp/127.0.0.1:0",), transport={"users": {"alice": b"a", "boss": b"b"}},
        access=allowed("open/**", usernames=["alice"]),
    )  # fmt: skip
    nodes.append(router)
    [where] = router.locators
    user = "transport/auth/usrpwd/user", "transport/auth/usrpwd/password"
    boss = client(nodes, where, **dict(zip(user, ("boss", "b"), strict=True)), id="b055")
    alice = client(nodes, where, **dict(zip(user, ("alice", "a"), strict=True)))
    boss.do("sub", "s", "**")
    boss.do("queryable", "q", "open/x", "reply")
    knows(router, "**", "open/x")
    alice.do("sub", "own", "hidden/**")
    alice.do("put", "secret/x", "no")
    alice.do("delete", "secret/x")
    alice.do("put", "open/x", "yes")
    alice.do("delete", "open/x")
    assert [event[:3] for event in boss.events.wait("sample", "s", 2)] == [
        ["open/x", "put", "yes"],
        ["open/x", "delete", ""],
    ]
    assert alice.do("get", "secret/x") == [], "denied: completes at once without replies"
    assert alice.do("get", "open/x") == [["put", "open/x", "of q"]]
    boss.do("put", "hidden/y", "not for her")
    alice.do("put", "open/y", "seen")
    boss.events.wait("sample", "s", 4)
    assert alice.events.of("sample", "own") == []
    denied = {cause: count for cause, count in router.node.counters().items() if cause.startswith("denied")}
    assert denied == {"denied: put": 1, "denied: delete": 1, "denied: declare_subscriber": 1, "denied: query": 1}


def test_a_liveliness_token_is_seen_only_where_it_may_be_declared(nodes: list[Any]) -> None:
    router = Ours("router", listen=("tcp/127.0.0.1:0",), access=allowed("open/**"))
    nodes.append(router)
    boss = client(nodes, router.locators[0], id="b055")
    other = client(nodes, router.locators[0])
    other.do("token", "no", "secret/t")
    other.do("token", "yes", "open/t")
    until(lambda: boss.do("who", "**") == ["open/t"])
    boss.do("token", "own", "hidden/boss")
    knows(router, "hidden/boss")
    assert set(other.do("who", "open/**")) == {"open/t"}, "a client is sent its own token too, as by 1.10.2"
    assert other.do("who", "hidden/**") == []


@pytest.mark.parametrize(("interface", "may"), [("lo", True), ("eth77", False)])
def test_rules_apply_by_interface(nodes: list[Any], interface: str, may: bool) -> None:
    router = Ours("router", listen=("tcp/127.0.0.1:0",), access=allowed("**", interfaces=[interface]))
    nodes.append(router)
    other = client(nodes, router.locators[0])
    other.do("token", "t", "t/1")
    if may:
        knows(router, "t/1")
    until(lambda: router.node.counters().get("denied: liveliness_token", 0) == (0 if may else 1))


def test_rules_apply_by_certificate(nodes: list[Any], tmp_path: Path) -> None:
    certificates.make(tmp_path)
    tls = Tls(
        root_ca_certificate=str(tmp_path / "ca.pem"), listen_certificate=str(tmp_path / "server.pem"),
        listen_private_key=str(tmp_path / "server.key"), enable_mtls=True,
    )  # fmt: skip
    router = Ours(
        "router",
        listen=("tls/127.0.0.1:0", "tcp/127.0.0.1:0"),
        tls=tls,
        access=allowed("**", cert_common_names=["client"]),
    )
    nodes.append(router)
    secure, plain = router.locators
    boss = client(nodes, plain, id="b055")
    boss.do("sub", "s", "**")
    knows(router, "**")
    client(nodes, plain).do("put", "a", "without a certificate")
    known = client(
        nodes, secure.replace("127.0.0.1", "localhost"),
        **{
            "transport/link/tls/root_ca_certificate": str(tmp_path / "ca.pem"),
            "transport/link/tls/connect_certificate": str(tmp_path / "client.pem"),
            "transport/link/tls/connect_private_key": str(tmp_path / "client.key"),
            "transport/link/tls/enable_mtls": True,
        },
    )  # fmt: skip
    known.do("put", "a", "with one")
    assert [event[2] for event in boss.events.wait("sample", "s")] == ["with one"]
