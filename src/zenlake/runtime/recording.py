# SPDX-License-Identifier: Apache-2.0
"""What a node tells whoever records it."""

from typing import Protocol

from zenlake.link.base import Link
from zenlake.runtime.face import Face
from zenlake.transport.unicast import Closed

__all__ = ["Recording"]


class Recording(Protocol):
    """Who writes down what goes over a node's connections. Called in the loop's thread."""

    def begins(self, face: Face) -> None:
        """The link is ready; nothing has been said yet."""

    def answered(self, link: Link, heard: bytes, said: list[bytes]) -> None:
        """A datagram of somebody unknown, and what it was answered: no face was made for it."""

    def forwarded(self, source: Face, id: int, target: Face, new: int) -> None:
        """A request that came as `id` goes on as `new`. (Called before it leaves, by whatever thread.)"""

    def dropped(self, face: Face, count: int) -> None:
        """So many messages found no room on their way to this face, since it was last told."""

    def ended(self, face: Face, event: Closed) -> None:
        """Nothing follows."""
