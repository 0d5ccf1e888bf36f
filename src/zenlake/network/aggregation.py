# SPDX-License-Identifier: Apache-2.0
"""Few wide keys declared for many narrow ones, so that the network has less to remember (`aggregation` of a configuration).

Of the wide keys the first that includes a subscriber's or a publisher's own stands for it, from the first of them that
is declared until the last is taken back. What comes is still shown only to those whose own keys it matches.
"""

from collections.abc import Iterable

from zenlake.keyexpr import includes

__all__ = ["Aggregation"]


class Aggregation:
    """Of what the application of one node declares. Guarded by the node's lock."""

    def __init__(self, subscribers: Iterable[bytes] = (), publishers: Iterable[bytes] = ()) -> None:
        self._subscribers = tuple(subscribers)
        self._publishers = tuple(publishers)
        self._joined: dict[bytes, tuple[int, set[int]]] = {}
        """For each wide key of publishers the id under which it was asked about, and those of all that it stands for."""

    def subscriber(self, key: bytes) -> bytes:
        """The key to declare for a subscriber's."""
        return next((wide for wide in self._subscribers if includes(wide, key)), key)

    def join(self, id: int, key: bytes) -> bytes | None:
        """The key to ask about for a publisher's; None if that was done."""
        wide = next((wide for wide in self._publishers if includes(wide, key)), None)
        if wide is None:
            return key
        asked, ids = self._joined.setdefault(wide, (id, set()))
        ids.add(id)
        return wide if asked == id else None

    def leave(self, id: int) -> int | None:
        """A publisher is gone: the id of what need not be asked any more; None if others need it."""
        for wide, (asked, ids) in self._joined.items():
            if id in ids:
                ids.remove(id)
                if ids:
                    return None
                del self._joined[wide]
                return asked
        return id
