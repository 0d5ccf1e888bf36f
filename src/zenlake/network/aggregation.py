# SPDX-License-Identifier: Apache-2.0
"""Aggregation: declare few wide keys in place of many narrow ones (`aggregation` of a configuration).

This reduces the state of the network. The first wide key that includes the key of a subscriber or publisher replaces it. The
wide key is declared with its first narrow key and undeclared with its last. Samples are still delivered only to subscribers
whose own keys match.
"""

from collections.abc import Iterable

from zenlake.core.keyexpr import includes

__all__ = ["Aggregation"]


class Aggregation:
    """Aggregated declarations of the application of one node. Guarded by the node's lock."""

    def __init__(self, subscribers: Iterable[bytes] = (), publishers: Iterable[bytes] = ()) -> None:
        self._subscribers = tuple(subscribers)
        self._publishers = tuple(publishers)
        self._interests: dict[bytes, tuple[int, set[int]]] = {}
        """For each wide key of publishers: the id of its interest, and the ids of all its publishers."""

    def widen_subscriber_key(self, key: bytes) -> bytes:
        """Return the key to declare for a subscriber's key."""
        return next((wide_key for wide_key in self._subscribers if includes(wide_key, key)), key)

    def add_publisher(self, id: int, key: bytes) -> bytes | None:
        """Return the key of the interest to send for a publisher, or None if it was sent already."""
        wide_key = next((wide_key for wide_key in self._publishers if includes(wide_key, key)), None)
        if wide_key is None:
            return key
        interest_id, ids = self._interests.setdefault(wide_key, (id, set()))
        ids.add(id)
        return wide_key if interest_id == id else None

    def remove_publisher(self, id: int) -> int | None:
        """Remove a publisher. Return the id of the interest to end, or None if other publishers need it."""
        for wide_key, (interest_id, ids) in self._interests.items():
            if id in ids:
                ids.remove(id)
                if ids:
                    return None
                del self._interests[wide_key]
                return interest_id
        return id
