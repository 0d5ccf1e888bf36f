# SPDX-License-Identifier: Apache-2.0
"""`qos/publication` of a configuration: QoS overrides for publications on some keys."""

from collections.abc import Callable
from typing import Any

from zenlake.core.enums import CongestionControl, Locality, Priority
from zenlake.core.keyexpr import includes

__all__ = ["QosOverwrites"]

CONGESTION = {
    "drop": CongestionControl.DROP,
    "block": CongestionControl.BLOCK,
    "blockfirst": CongestionControl.BLOCK_FIRST,
    "block_first": CongestionControl.BLOCK_FIRST,
}


class QosOverwrites:
    """The rules. If two match a key, the later one applies."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self._rules = [
            (key.encode(), _parse_changes(each["config"])) for each in reversed(entries) for key in each["key_exprs"]
        ]

    def __bool__(self) -> bool:
        return bool(self._rules)

    def of(self, key: bytes, qos: dict[str, Any]) -> dict[str, Any]:
        """Return the QoS of a publication after the overrides."""
        for rule, changes in self._rules:
            if includes(rule, key):
                return {**qos, **changes}
        return qos


def _parse_changes(config: dict[str, Any]) -> dict[str, Any]:
    """Return the overrides with the names of the node's `put`."""
    read: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "priority": ("priority", lambda name: Priority[name.upper()]),
        "congestion_control": ("congestion", CONGESTION.__getitem__),
        "express": ("express", bool),
        "reliability": ("reliable", lambda name: name == "reliable"),
        "allowed_destination": ("destination", lambda name: Locality[name.upper()]),
    }
    return {ours: make(config[name]) for name, (ours, make) in read.items() if config.get(name) is not None}
