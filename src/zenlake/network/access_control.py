# SPDX-License-Identifier: Apache-2.0
"""Access control: permissions to put, delete, subscribe, query, reply and declare tokens, by key.

The section `access_control` of the configuration has the names and meaning of 1.10.2. Rules have keys, messages, directions
and a permission (allow or deny). Subjects have users, certificate names, protocols, interfaces and ids. Policies combine
rules and subjects. A rule applies to a message if one of its key expressions includes the whole key of the message. A deny
rule overrides every allow rule. Without an applicable rule, the default permission decides.

Each neighbour has a `FaceAccess` that caches its decisions. A neighbour with all permissions has no guard and costs no checks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zenlake.core.keyexpr import includes
from zenlake.errors import ConfigError

__all__ = ["EGRESS", "INGRESS", "AccessControl", "FaceAccess", "Subject"]

INGRESS, EGRESS = "ingress", "egress"
MAX_DECISIONS = 1024  # in the cache of one neighbour
MAX_CACHED_KEY = 256  # bytes; decisions on longer keys are not cached


@dataclass(frozen=True, slots=True)
class Subject:
    """Properties of a neighbour that subjects can select."""

    protocol: str
    zid: str
    user: str | None = None
    common_name: str | None = None
    interfaces: tuple[str, ...] = ()
    """Local interfaces of its connection."""


@dataclass(frozen=True, slots=True)
class Rule:
    allow: bool
    flow: str
    message: str
    key: bytes


class FaceAccess:
    """Permissions of one neighbour."""

    def __init__(self, default: bool, rules: Sequence[Rule]) -> None:
        self._default = default
        self._rules: dict[tuple[str, str], list[Rule]] = {}
        for rule in rules:
            self._rules.setdefault((rule.flow, rule.message), []).append(rule)
        self._decisions: dict[tuple[str, str, bytes], bool | None] = {}

    def allows(self, flow: str, message: str, key: bytes | None) -> bool:
        """Return whether a message may pass. A message without a key never may, as in 1.10.2."""
        if key is None:
            return False
        decision = self._decide(flow, message, key)
        return self._default if decision is None else decision

    def denies(self, flow: str, message: str, key: bytes) -> bool:
        """Return whether a deny rule applies. False also where only the default permission denies."""
        return self._decide(flow, message, key) is False

    def _decide(self, flow: str, message: str, key: bytes) -> bool | None:
        """Return the decision of the rules, or None if no rule applies."""
        name = (flow, message, key)
        if name in self._decisions:
            return self._decisions[name]
        applicable = {rule.allow for rule in self._rules.get((flow, message), ()) if includes(rule.key, key)}
        decision = min(applicable, default=None)
        if len(key) <= MAX_CACHED_KEY:
            if len(self._decisions) >= MAX_DECISIONS:
                self._decisions.clear()
            self._decisions[name] = decision
        return decision


class AccessControl:
    """The parsed section `access_control`."""

    def __init__(self, section: Mapping[str, Any]) -> None:
        self._default = section.get("default_permission") == "allow"
        rules = _index_by_id(section, "rules")
        self._subjects = _index_by_id(section, "subjects")
        self._policies: list[tuple[str, list[Rule]]] = []
        for policy in section.get("policies") or ():
            policy_rules = [rule for id in policy["rules"] for rule in _expand_rule(_find_item(rules, id, "rule"))]
            for id in policy["subjects"]:
                _find_item(self._subjects, id, "subject")
                self._policies.append((id, policy_rules))

    @property
    def needs_interfaces(self) -> bool:
        return any(subject.get("interfaces") for subject in self._subjects.values())

    def guard(self, neighbour: Subject) -> FaceAccess | None:
        """Return the guard of a neighbour, or None if everything is allowed."""
        rules = [
            rule
            for id, policy_rules in self._policies
            if _selects(self._subjects[id], neighbour)
            for rule in policy_rules
        ]
        if self._default and all(rule.allow for rule in rules):
            return None
        return FaceAccess(self._default, rules)


def _index_by_id(section: Mapping[str, Any], name: str) -> dict[str, dict[str, Any]]:
    by_id: dict[str, dict[str, Any]] = {}
    for item in section.get(name) or ():
        if item["id"] in by_id:
            raise ConfigError(f"access_control/{name}: duplicate id `{item['id']}`; each id must be unique")
        by_id[item["id"]] = item
    return by_id


def _find_item(items: dict[str, dict[str, Any]], id: str, item_kind: str) -> dict[str, Any]:
    if id not in items:
        raise ConfigError(f"access_control/policies: unknown {item_kind} `{id}`; define it, or correct the id")
    return items[id]


def _expand_rule(rule: dict[str, Any]) -> list[Rule]:
    return [
        Rule(rule["permission"] == "allow", flow, message, key.encode())
        for flow in rule.get("flows") or (INGRESS, EGRESS)
        for message in rule["messages"]
        for key in rule["key_exprs"]
    ]


def _selects(subject: dict[str, Any], neighbour: Subject) -> bool:
    """Return whether a subject selects a neighbour: every property that the subject names must match."""
    properties = (
        ("usernames", [neighbour.user]), ("cert_common_names", [neighbour.common_name]), ("link_protocols", [neighbour.protocol]),
        ("zids", [neighbour.zid]), ("interfaces", neighbour.interfaces),
    )  # fmt: skip
    return all(not subject.get(name) or any(value in subject[name] for value in values) for name, values in properties)
