# SPDX-License-Identifier: Apache-2.0
"""Decisions of a guard, and configurations that are refused."""

import pytest

from zenlake.errors import ConfigError
from zenlake.network.access_control import EGRESS, INGRESS, AccessControl, FaceAccess, Subject

ALICE = Subject("tls", "a1", "alice", "robot-1", ("eth0", "eth1"))
ANYBODY = Subject("tcp", "b2")


def rule(
    id: str, permission: str, *keys: str, messages: tuple[str, ...] = ("put",), **more: object
) -> dict[str, object]:
    return {"id": id, "permission": permission, "key_exprs": list(keys), "messages": list(messages), **more}


def section(
    default: str, rules: list[dict[str, object]], subject: dict[str, object] | None = None
) -> dict[str, object]:
    return {
        "default_permission": default,
        "rules": rules,
        "subjects": [{"id": "them", **(subject or {})}],
        "policies": [{"rules": [each["id"] for each in rules], "subjects": ["them"]}],
    }


def guard(default: str, *rules: dict[str, object], who: Subject = ANYBODY, **subject: object) -> FaceAccess:
    found = AccessControl(section(default, list(rules), subject)).guard(who)
    assert found is not None
    return found


def test_a_rule_is_about_keys_that_its_expression_includes() -> None:
    found = guard("deny", rule("r", "allow", "a/*"))
    assert found.allows(INGRESS, "put", b"a/b")
    assert not found.allows(INGRESS, "put", b"a/b/c")
    assert not found.allows(INGRESS, "put", b"a/**"), "a key that is wider than what is allowed"
    assert not found.allows(INGRESS, "delete", b"a/b"), "another message"


def test_a_deny_beats_every_allow() -> None:
    found = guard("deny", rule("r", "allow", "**"), rule("s", "deny", "a/secret/**"))
    assert found.allows(INGRESS, "put", b"a/open")
    assert not found.allows(INGRESS, "put", b"a/secret/x")


def test_a_rule_may_be_about_one_direction() -> None:
    found = guard("allow", rule("r", "deny", "**", flows=["egress"]))
    assert found.allows(INGRESS, "put", b"a")
    assert not found.allows(EGRESS, "put", b"a")


@pytest.mark.parametrize(
    ("subject", "fits"),
    [
        ({}, True),
        ({"usernames": ["alice", "bob"]}, True),
        ({"usernames": ["bob"]}, False),
        ({"cert_common_names": ["robot-1"]}, True),
        ({"cert_common_names": ["robot-1"], "usernames": ["bob"]}, False),
        ({"link_protocols": ["tls"]}, True),
        ({"zids": ["b2"]}, False),
        ({"interfaces": ["lo", "eth1"]}, True),
        ({"interfaces": ["lo"], "usernames": ["alice"]}, False),
    ],
)
def test_a_subject_matches_on_all_its_properties(subject: dict[str, object], fits: bool) -> None:
    found = guard("deny", rule("r", "allow", "**"), who=ALICE, **subject)
    assert found.allows(INGRESS, "put", b"a") is fits


def test_no_rule_is_evaluated_when_all_keys_are_allowed() -> None:
    control = AccessControl(section("allow", [rule("r", "deny", "**")], {"usernames": ["bob"]}))
    assert control.guard(ALICE) is None


def test_a_decision_is_remembered_and_the_memory_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zenlake.network.access_control.MAX_DECISIONS", 3)
    found = guard("deny", rule("r", "allow", "a/*"))
    assert all(found.allows(INGRESS, "put", b"a/%d" % n) for n in range(10))
    assert len(found._decisions) <= 3


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"policies": [{"rules": ["x"], "subjects": ["them"]}]}, "unknown rule `x`"),
        ({"policies": [{"rules": ["r"], "subjects": ["x"]}]}, "unknown subject `x`"),
        ({"rules": [rule("r", "deny", "a"), rule("r", "allow", "a")]}, "duplicate id `r`"),
    ],
)
def test_unsupported_rules_are_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        AccessControl(section("deny", [rule("r", "deny", "a")]) | change)
