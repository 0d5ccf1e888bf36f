# SPDX-License-Identifier: Apache-2.0
"""Interface between a node and its recorder."""

from typing import Protocol

from zenlake.link.base import Link
from zenlake.runtime.connection import Face
from zenlake.transport.unicast import Closed

__all__ = ["Recording"]


class Recording(Protocol):
    """Recorder of the traffic on the connections of a node. Called on the event loop thread."""

    def begins(self, face: Face) -> None:
        """Handle a ready link, before the first message."""

    def answered(self, link: Link, heard: bytes, said: list[bytes]) -> None:
        """Handle a datagram of an unknown peer, with the messages sent in reply. No face was created for it."""

    def forwarded(self, source: Face, id: int, target: Face, new: int) -> None:
        """Handle a request received with `id` and passed on with `new`. Called before it is sent, on any thread."""

    def dropped(self, face: Face, count: int) -> None:
        """Handle the number of messages that were dropped for this face since the last call."""

    def ended(self, face: Face, event: Closed) -> None:
        """Handle the end of a connection. No further calls follow for it."""
