# SPDX-License-Identifier: Apache-2.0
"""Interface between a node and its recorder."""

from typing import Protocol

from zenlake.link.base import BaseLink
from zenlake.runtime.connection import Connection
from zenlake.transport.unicast import Closed

__all__ = ["RecordingHooks"]


class RecordingHooks(Protocol):
    """Recorder of the traffic on the connections of a node. Called on the event loop thread."""

    def on_start(self, face: Connection) -> None:
        """Handle a ready link, before the first message."""

    def on_stateless_reply(self, link: BaseLink, init: bytes, replies: list[bytes]) -> None:
        """Handle a datagram of an unknown peer, with the messages sent in reply. No face was created for it."""

    def on_forward(self, source: Connection, id: int, target: Connection, new: int) -> None:
        """Handle a request received with `id` and passed on with `new`. Called before it is sent, on any thread."""

    def on_drop(self, face: Connection, count: int) -> None:
        """Handle the number of messages that were dropped for this face since the last call."""

    def on_close(self, face: Connection, event: Closed) -> None:
        """Handle the end of a connection. No further calls follow for it."""
