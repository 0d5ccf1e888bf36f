# SPDX-License-Identifier: Apache-2.0
"""Consolidation: selects the replies that a query delivers, and when (companion routing.md).

    None        all replies, immediately
    Monotonic   replies that are not older than the last delivered one of their key, immediately
    Latest      the newest reply of each key, at the end

A reply without a timestamp is older than any reply with one. Errors are delivered immediately in all modes.
"""

from zenlake.core.enums import ConsolidationMode

__all__ = ["Consolidation", "resolve_mode"]

Stamp = tuple[int, bytes]
NO_TIMESTAMP: Stamp = (-1, b"")


def resolve_mode(mode: ConsolidationMode, parameters: str) -> ConsolidationMode:
    """Resolve Auto: None with a time range, because every value counts, otherwise Latest."""
    if mode is not ConsolidationMode.AUTO:
        return mode
    if "_time" in parameters:
        from zenlake.core.selector import Parameters  # imported here because time ranges are rare

        if Parameters(parameters).get("_time") is not None:
            return ConsolidationMode.NONE
    return ConsolidationMode.LATEST


class Consolidation:
    """Consolidation state of one query. `accept` selects immediate replies, `take_replies` returns the others at the end."""

    def __init__(self, mode: ConsolidationMode) -> None:
        self.mode = mode
        self._newest: dict[bytes, tuple[Stamp, bytes]] = {}

    def accept(self, key: bytes, stamp: Stamp | None, message: bytes) -> bool:
        """Record a reply, with its timestamp as (time, clock id) or None. Return whether to deliver it immediately."""
        if self.mode is ConsolidationMode.NONE:
            return True
        stamp = stamp or NO_TIMESTAMP
        newest = self._newest.get(key)
        latest = self.mode is ConsolidationMode.LATEST
        if newest is not None and stamp < newest[0]:
            return False
        self._newest[key] = (stamp, message if latest else b"")
        return not latest

    def take_replies(self) -> list[tuple[bytes, bytes]]:
        """Remove and return (key, message) of the stored replies, in the order of the first reply of each key."""
        if self.mode is not ConsolidationMode.LATEST:
            return []
        replies = [(key, message) for key, (_, message) in self._newest.items()]
        self._newest.clear()
        return replies
