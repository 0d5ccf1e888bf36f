# SPDX-License-Identifier: Apache-2.0
"""Consolidation: which answers to a query the asker wants to see, and when (companion routing.md).

    None        every one, at once
    Monotonic   every one that is not older than what was shown for its key, at once
    Latest      of each key the newest, at the end

An answer without a timestamp is older than any with one. Errors are shown at once in all modes.
"""

from zenlake.values import ConsolidationMode

__all__ = ["Consolidation", "resolved"]

Stamp = tuple[int, bytes]
NEVER: Stamp = (-1, b"")


def resolved(mode: ConsolidationMode, parameters: str) -> ConsolidationMode:
    """Auto is Latest, but None where a range of time is asked for: there every value counts."""
    if mode is not ConsolidationMode.AUTO:
        return mode
    if "_time" in parameters:
        from zenlake.parameters import Parameters  # few ask so

        if Parameters(parameters).get("_time") is not None:
            return ConsolidationMode.NONE
    return ConsolidationMode.LATEST


class Consolidation:
    """Of one query. `see` tells whether to show an answer now; `kept` are those to show at the end."""

    def __init__(self, mode: ConsolidationMode) -> None:
        self.mode = mode
        self._newest: dict[bytes, tuple[Stamp, bytes]] = {}

    def see(self, key: bytes, stamp: Stamp | None, message: bytes) -> bool:
        """An answer as (time, clock id), or None if it has no timestamp."""
        if self.mode is ConsolidationMode.NONE:
            return True
        stamp = stamp or NEVER
        known = self._newest.get(key)
        latest = self.mode is ConsolidationMode.LATEST
        if known is not None and stamp < known[0]:
            return False
        self._newest[key] = (stamp, message if latest else b"")
        return not latest

    def kept(self) -> list[tuple[bytes, bytes]]:
        """(key, message) of what was kept, in the order of the keys' first answers."""
        if self.mode is not ConsolidationMode.LATEST:
            return []
        kept = [(key, message) for key, (_, message) in self._newest.items()]
        self._newest.clear()
        return kept
