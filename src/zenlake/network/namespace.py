# SPDX-License-Identifier: Apache-2.0
"""Namespace of an application: a prefix of all its keys that it does not see.

`put("pose")` in the namespace `fleet/7` is a sample on `fleet/7/pose`. Samples on that key are delivered as `pose`. Samples
outside the prefix are not delivered. Keys of the admin space (`@/...`) have no prefix.
"""

from zenlake.core.keyexpr import intersects

__all__ = ["Namespace"]


class Namespace:
    """A key prefix. An empty prefix is the whole key space."""

    def __init__(self, name: bytes = b"") -> None:
        self._prefix = name + b"/" if name else b""
        self._chunks = name.split(b"/") if name else []

    def add_prefix(self, key: bytes) -> bytes:
        """Return the network key of an application key."""
        return key if not self._prefix or key.startswith(b"@/") else self._prefix + key

    def strip_prefix(self, key: bytes) -> bytes | None:
        """Return the application key of a network key, or None if it is outside the namespace.

        For a key expression, the chunks that match the prefix are removed. A `**`, which can match more chunks, remains.
        """
        if not self._prefix or key.startswith(b"@/"):
            return key
        if key.startswith(self._prefix):
            return key[len(self._prefix) :]
        chunks = key.split(b"/")
        for number, chunk in enumerate(self._chunks):
            if number == len(chunks):
                return None
            if chunks[number] == b"**":
                return b"/".join(chunks[number:])
            if not intersects(chunks[number], chunk):
                return None
        return b"/".join(chunks[len(self._chunks) :]) or None
