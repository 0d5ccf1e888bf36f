# SPDX-License-Identifier: Apache-2.0
"""Create a live node from a configuration, with the services of a session: timers, pauses, connection events."""

import sys
import threading
from collections.abc import Callable
from logging import getLogger
from time import monotonic
from typing import TYPE_CHECKING, Any

from zenlake.config import Config
from zenlake.core.enums import Reliability, SampleKind, WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import ClosedError, DeadlockError
from zenlake.runtime.connection import Connection
from zenlake.runtime.live_node import DECLARE_TIMEOUT, LiveNode, NodeConfig
from zenlake.transport.unicast import Closed

if TYPE_CHECKING:
    from zenlake.api.info import Link, Transport
    from zenlake.api.scouting_service import ScoutingService
from zenlake.api.config_mapping import node_config

__all__ = ["OpenAttempt", "SessionNode", "open_node"]

log = getLogger("zenlake.node")

ALL = 0, 7  # the priorities of a link that accepts every message
CALLBACK_GRACE = 0.05  # seconds within which the system schedules the thread of a waiting callback
NO_ROOM = "messages dropped: no room in a channel"

Watcher = Callable[[SampleKind, "Transport", "Link"], None]


class SessionNode(LiveNode):
    """The node of one session."""

    def __init__(self, config: NodeConfig) -> None:
        self._watchers: dict[object, Watcher] = {}
        self._full: set[object] = set()
        self._paused: list[Connection] = []
        self.discovery: ScoutingService | None = None
        super().__init__(config)

    def settle(self) -> None:
        """Flush declarations before any later message.

        On the event loop thread they are flushed at the end of the iteration.
        """
        if not self.runtime.engine.inside and not self._closed:
            self.runtime.engine.run(self._flush)

    def call_soon(self, call: Callable[[], object]) -> None:
        """Run a function later on the event loop thread. Safe to call from the garbage collector."""
        self.runtime.engine.call_soon(call)

    def after(self, delay: float, call: Callable[[], object]) -> None:
        """Call a function once, later, on the event loop thread."""
        self.in_loop(lambda: self.runtime.engine.call_at(monotonic() + delay, call))

    def call_periodically(self, period: float, call: Callable[[], object]) -> Callable[[], None]:
        """Call a function periodically on the event loop thread. Return a function that stops it."""
        ended = False

        def turn() -> None:
            if not ended and not self._closed:
                self.runtime.engine.call_at(monotonic() + period, turn)
                call()

        def end() -> None:
            nonlocal ended
            ended = True

        self.call_soon(lambda: self.runtime.engine.call_at(monotonic() + period, turn))
        return end

    @property
    def is_connecting(self) -> bool:
        """Return whether a connection to a discovered node is in progress."""
        return bool(self._connecting)

    def find(self, timeout: float) -> Any:
        """Return the nodes that reply within this time."""
        return () if self.discovery is None else self.discovery.find(timeout)

    def abandon(self) -> None:
        """Close from the garbage collector: on another thread, without waiting."""
        threading.Thread(target=self.close, name="zenlake-close", daemon=True).start()

    def close(self) -> None:
        if self.discovery is not None:
            self.discovery.close()
        super().close()

    # For channels

    @property
    def inside(self) -> bool:
        """Return whether this is the event loop thread, which receives from the network."""
        return self.runtime.engine.inside

    def patience(self, block: bool) -> float:
        """Return how long a publisher waits for a full callback.

        The time for a droppable sample is longer than for a full connection, because the callback's thread may only need to be
        scheduled. In a running asyncio event loop both times are the same, because the wait blocks the loop.
        """
        settings = self.runtime.settings
        if block:
            return settings.wait_before_close
        asyncio = sys.modules.get("asyncio")
        in_event_loop = asyncio is not None and asyncio._get_running_loop() is not None
        return settings.wait_before_drop if in_event_loop else max(CALLBACK_GRACE, settings.wait_before_drop)

    def count_drop(self) -> None:
        """Count an item that a full channel dropped."""
        with self.node.lock:  # from any thread
            self.node.counters[NO_ROOM] += 1

    def check_wait(self) -> None:
        """Raise an error if called on the event loop thread, where waiting would block reception."""
        if self.runtime.engine.inside:
            raise DeadlockError(
                "a callback with indirect=False runs on the event loop thread and must not wait for messages: "
                "remove indirect=False, or receive with a callback here too"
            )

    # Full channels: the network is not read until they have space

    def pause(self, channel: object) -> None:
        self.in_loop(lambda: self._pause(channel))

    def resume(self, channel: object) -> None:
        self.in_loop(lambda: self._resume(channel))

    def _pause(self, channel: object) -> None:
        if not self._full:
            self._paused = list(self.runtime.faces.values())
            for face in self._paused:
                face.pause()
        self._full.add(channel)

    def _resume(self, channel: object) -> None:
        self._full.discard(channel)
        if not self._full:
            faces, self._paused = self._paused, []
            for face in faces:
                face.resume()

    # Connections

    def connections(self) -> list[tuple["Transport", "Link"]]:
        return [_describe(face) for face in list(self.runtime.faces.values())]

    def watch(self, watcher: Watcher, history: bool) -> Callable[[], None]:
        """Add a listener for connection events. Return a function that removes it."""
        key = object()

        def begin() -> None:
            self._watchers[key] = watcher
            if history:
                for transport, link in self.connections():
                    watcher(SampleKind.PUT, transport, link)

        self.runtime.engine.run(begin)
        return lambda: self._watchers.pop(key, None) and None

    def on_open(self, face: Connection) -> None:
        super().on_open(face)
        self._report(SampleKind.PUT, face)

    def on_close(self, face: Connection, event: Closed) -> None:
        super().on_close(face, event)
        self._report(SampleKind.DELETE, face)

    def _report(self, kind: SampleKind, face: Connection) -> None:
        if self._watchers:
            transport, link = _describe(face)
            for watcher in list(self._watchers.values()):
                watcher(kind, transport, link)


def _describe(face: Connection) -> tuple["Transport", "Link"]:
    from zenlake.api.info import Link, Transport  # rarely used

    zid = ZenohId.from_wire(face.zid)
    theirs = next(side for side in face.session.sides if side.zid == face.zid)
    link, is_qos, only = face.link, bool(face.session.qos), face.transport.restriction
    priorities = reliability = None
    if is_qos:
        priorities = ALL if only is None or only.priorities is None else only.priorities
        reliable = link.reliable if only is None or only.reliable is None else only.reliable
        reliability = Reliability.RELIABLE if reliable else Reliability.BEST_EFFORT
    return (
        Transport(zid, WhatAmI.from_wire(theirs.whatami), is_qos, is_shm=face.shared is not None),
        Link(
            zid,
            link.local,
            link.remote,
            mtu=link.whole_segments,
            is_streamed=link.stream,
            interfaces=list(link.interfaces),
            priorities=priorities,
            reliability=reliability,
        ),
    )


class OpenAttempt:
    """A node being opened. Another thread may abandon it at any time. The node is then closed, even if it is already open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._node: SessionNode | None = None
        self._given_up = False

    def start(self, node: SessionNode) -> None:
        with self._lock:
            if self._given_up:
                raise ClosedError("the opening of the session was cancelled")
            self._node = node

    def give_up(self) -> None:
        with self._lock:
            self._given_up = True
        if self._node is not None:
            self._node.abandon()


def open_node(
    config: Config, attempt: OpenAttempt | None = None, discovery: "ScoutingService | None" = None, **more: Any
) -> SessionNode:
    """Return the node that a configuration describes, listening and connected.

    `discovery` is the `ScoutingService` of the configuration, if scouting has started already. `more` has fields of NodeConfig
    without a configuration key.
    """

    def scout(timeout: float) -> Any:
        return node.find(timeout)

    finds = config.get("scouting/multicast/enabled") is not False
    node = SessionNode(node_config(config, scout=scout if finds else None, **more))
    try:
        if attempt is not None:
            attempt.start(node)
        if finds:
            from zenlake.api.scouting_service import ScoutingService

            node.discovery = discovery or ScoutingService(config)
        node.start()
        if node.discovery is not None:
            node.discovery.begin(node)
            if config.get("open/return_conditions/declares") is not False:
                node.wait_until_declared(DECLARE_TIMEOUT)
    except BaseException:
        node.close()
        raise
    return node
