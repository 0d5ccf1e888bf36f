# SPDX-License-Identifier: Apache-2.0
"""Traffic of a node, by role of the neighbours."""

from dataclasses import dataclass

from zenlake.network.face import Face as Neighbour
from zenlake.runtime.connection import Connection

__all__ = ["TrafficStats"]


@dataclass(frozen=True, slots=True)
class TrafficStats:
    """Totals since the start, except `sessions`, which is the current number."""

    sessions: int = 0
    messages_in: int = 0
    messages_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    dropped: int = 0
    """Messages dropped because a queue had no room."""

    def __add__(self, other: "TrafficStats") -> "TrafficStats":
        from dataclasses import astuple

        return TrafficStats(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @classmethod
    def of(cls, face: Connection, neighbour: Neighbour, sessions: int = 1) -> "TrafficStats":
        rx, queue = face.transport.rx, face.transport.queue
        return cls(
            sessions, rx.messages, queue.messages, rx.bytes_in, face.bytes_out, neighbour.dropped + queue.dropped
        )
