# SPDX-License-Identifier: Apache-2.0
"""Membership of a multicast group as the node sees it. The threading rules are those of `connection`."""

import os
import threading
from time import monotonic

from zenlake.core.enums import CongestionControl
from zenlake.core.peer_limits import Account
from zenlake.link.multicast import GroupLink
from zenlake.runtime.event_loop import EventLoop, Timer
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.multicast import Multicast, Peer, PeerJoined, PeerLeft
from zenlake.transport.rx import RxArena, Sink
from zenlake.transport.settings import Settings
from zenlake.wire.message_base import Message

__all__ = ["MulticastConnection", "MulticastListener"]


class MulticastListener:
    """Callbacks for the members of a group. Called on the event loop thread."""

    def sink(self, peer: Peer) -> Sink:
        """Return the receiver of the messages of a member."""
        return Sink()

    def on_join(self, peer: Peer) -> None: ...

    def on_leave(self, event: PeerLeft) -> None: ...


class MulticastConnection:
    """One membership, created by the runtime."""

    def __init__(
        self, engine: EventLoop, link: GroupLink, settings: Settings, members: MulticastListener, arena: RxArena,
        budget: MemoryBudget | None = None, account: Account | None = None,
    ) -> None:  # fmt: skip
        self.link = link
        self.members = members
        self._engine = engine
        self._lock = threading.RLock()
        self._timer: Timer | None = None
        self.transport = Multicast(
            settings,
            initial_sn=int.from_bytes(os.urandom(4)),
            now=monotonic(),
            sink=members.sink,
            arena=arena,
            mtu=link.mtu,
            budget=budget,
            account=account,
        )
        link.on_member = self._receive
        link.owner = self

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = CongestionControl.DROP,
        express: bool = False,
    ) -> bool:
        """Send to all members. Datagrams are not queued, so there is always room."""
        with self._lock:
            sent = self.transport.send(message, priority, reliable, congestion, express)
            self._flush()
            return sent

    def begin(self) -> None:
        """Begin the membership. Its link is being polled. Called on the event loop thread."""
        self._on_timer()

    def close(self) -> None:
        """Leave the group. Called on the event loop thread."""
        if not self.transport.is_closed:
            with self._lock:
                self.transport.close()
                self._flush()
            if self._timer is not None:
                self._timer.cancel()
            self.link.close()
            self._engine.remove(self.link)

    def _receive(self, data: memoryview, source: tuple[object, ...]) -> None:
        refused = self.transport.counters.refused
        self.transport.receive(data, source, monotonic())
        if self.transport.counters.refused > refused:
            self._engine.peer_errors.report(
                f"udp/{source[0]}:{source[1]}", f"no room for a member of {self.link.remote}", "members refused: limit"
            )
        events = list(self.transport.events())
        for event in events:
            self._notify_listener(event)
        if events or self.transport.is_join_due(
            monotonic()
        ):  # otherwise no timeout is earlier: skip the search over all members
            self._on_timer()

    def _notify_listener(self, event: PeerJoined | PeerLeft) -> None:
        if isinstance(event, PeerJoined):
            self.members.on_join(event.peer)
        else:
            self.members.on_leave(event)

    def _flush(self) -> None:
        now = monotonic()
        while (view := self.transport.data(now)) is not None:
            self.transport.mark_sent(self.link.write(view), now)

    def _on_timer(self) -> None:
        now = monotonic()
        with self._lock:
            self.transport.on_timeout(now)
            self._flush()
        for event in list(self.transport.events()):
            self._notify_listener(event)
        when = self.transport.next_timeout()
        if when is not None and (self._timer is None or self._timer.when != when):
            if self._timer is not None:
                self._timer.cancel()
            self._timer = self._engine.call_at(when, self._on_timer)

    # `Owner` methods; a group has no handshake, and a datagram socket is not lost

    def on_ready(self) -> None: ...

    def get_buffer(self) -> memoryview:
        raise NotImplementedError

    def on_buffer_filled(self, size: int) -> None: ...

    def on_data(self, data: bytes | memoryview) -> None: ...

    def on_writable(self) -> None: ...

    def on_drain(self) -> None: ...

    def on_close(self, error: object) -> None: ...
