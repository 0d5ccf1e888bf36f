# SPDX-License-Identifier: Apache-2.0
"""The part of the key space that an application calls its own: a prefix that it never sees, on all its keys.

`put("pose")` in the namespace `fleet/7` is a sample on `fleet/7/pose`; what others put there comes as `pose`, what they put
elsewhere does not come. Keys of the admin space (`@/...`) are the same for all.
"""

from zenlake.keyexpr import intersects

__all__ = ["Namespace"]


class Namespace:
    """An empty name: the whole key space, as it is."""

    def __init__(self, name: bytes = b"") -> None:
        self._prefix = name + b"/" if name else b""
        self._chunks = name.split(b"/") if name else []

    def whole(self, key: bytes) -> bytes:
        """The application's key as the network knows it."""
        return key if not self._prefix or key.startswith(b"@/") else self._prefix + key

    def own(self, key: bytes) -> bytes | None:
        """The network's key as the application knows it; None if it is not in the namespace.

        Of an expression, what is left when its first chunks have stood for the prefix: `**`, which may stand for more,
        stays.
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
