# SPDX-License-Identifier: Apache-2.0
"""A multicast group: every member announces itself periodically (JOIN) and receives all datagrams.

There is no handshake, so nothing is negotiated: a JOIN with other parameters than ours is ignored. A peer is identified by the
source address of its datagrams and has its own lanes. It is removed when its lease expires without a datagram. Our messages
go to all members on one set of lanes. Sans-IO, like `unicast`.
"""

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field

from zenlake.core.enums import CongestionControl
from zenlake.core.peer_limits import Account, Resource
from zenlake.errors import CloseReason, DecodeError, ProtocolError
from zenlake.session.lanes import mask_of
from zenlake.session.state import SessionState
from zenlake.transport.handshake import close_reason
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.rx import RxArena, RxPath, Sink
from zenlake.transport.settings import Settings
from zenlake.transport.tx_queue import TxQueue
from zenlake.wire.batch_reader import messages
from zenlake.wire.handshake import Close, Join
from zenlake.wire.message_base import Message

__all__ = ["PeerJoined", "PeerLeft", "Multicast", "Peer"]

VERSION = 9
MTU = 65535
MEMBER_SIZE = 8 << 10  # bytes charged for a member: its session, its lanes and its face
MAX_LEASE = 300.0  # seconds; members repeat JOIN, so one that is silent for longer is gone


class Peer:
    """Another member of the group: its identity and the state of its lanes."""

    def __init__(self, group: "Multicast", source: Hashable, join: Join, now: float) -> None:
        self.group = group
        self.source = source
        self.zid: bytes = join.zid.value
        self.whatami: int = join.whatami
        self.session = SessionState()
        self.session.on_join(join)
        self.session.opener.lanes.max_message_size = group.settings.max_message_size
        self.lease: float = min(join.lease_ms / 1000, MAX_LEASE)
        self.last_received = now
        self.rx = RxPath(group.arena, self, group.sink(self), 0)
        self.rx.budget = group.budget
        self.rx.start(self.session.opener.lanes, MTU, self.session.qos, False, False)
        self._terms = _terms(join)
        self.left: CloseReason | None = None

    def resume(self) -> None:
        """Deliver the messages that were stored while its sink was suspended."""
        try:
            self.rx.resume()
        except (DecodeError, ProtocolError):
            self.group.counters.undecodable += 1
        if self.left is not None and self.group.peers.get(self.source) is self:
            self.group._forget(self, self.left)

    def on_join(self, join: Join) -> None:
        """Check that a repeated JOIN has the same parameters. A node that restarted at the same address is a new peer."""
        if join.zid.value != self.zid or _terms(join) != self._terms:
            self.left = CloseReason.INVALID
            self.rx.stop()
        self.lease = min(join.lease_ms / 1000, MAX_LEASE)

    def on_close(self, reason: int, session: bool) -> None:
        self.left = close_reason(reason)
        self.rx.stop()


@dataclass(frozen=True, slots=True)
class PeerJoined:
    peer: Peer


@dataclass(frozen=True, slots=True)
class PeerLeft:
    peer: Peer
    reason: CloseReason


@dataclass(slots=True)
class Counters:
    """Counters of ignored datagrams."""

    not_joined: int = 0
    """Datagrams of nodes that have not joined."""
    incompatible: int = 0
    """JOIN messages with other parameters than ours."""
    undecodable: int = field(default=0)
    """Datagrams that cannot be decoded."""
    refused: int = 0
    """JOIN messages that exceed the maximum number of members or their memory limit."""


class Multicast:
    """Our membership in a group. `sink` creates the receiver of a peer's messages; `initial_sn` is the start of our lanes."""

    def __init__(
        self,
        settings: Settings,
        *,
        initial_sn: int,
        now: float,
        sink: Callable[[Peer], Sink] | None = None,
        arena: RxArena | None = None,
        mtu: int = MTU,
        budget: MemoryBudget | None = None,
        account: Account | None = None,
    ) -> None:
        self.settings = settings
        self.budget = budget
        self.account = account or Account()
        """Memory account of all members together."""
        self.arena = arena or RxArena()
        self.sink = sink or (lambda peer: Sink())
        self.peers: dict[Hashable, Peer] = {}
        self.counters = Counters()
        self.dropped = 0
        self.is_closed = False
        self.queue = TxQueue(0)
        self.queue.start(
            min(settings.multicast_batch_size, mtu), mask_of(settings.resolution_code), initial_sn,
            settings.multicast_qos, False, settings.queue_size, settings.wait_before_drop_fragments,
        )  # fmt: skip
        self._next_join = now
        self._events: deque[PeerJoined | PeerLeft] = deque()

    # Receive

    def receive(self, data: bytes | memoryview, source: Hashable, now: float) -> None:
        """Process one datagram of the group. Do not pass our own datagrams, which the group also delivers."""
        if self.is_closed:
            return
        peer = self.peers.get(source)
        if peer is None:
            peer = self._add_peer(bytes(data), source, now)
            if peer is None:
                return
        peer.last_received = now
        try:
            peer.rx.receive(data)
        except (DecodeError, ProtocolError):
            self.counters.undecodable += 1  # a single invalid or forged datagram must not remove a member
        if peer.left is not None:
            self._forget(peer, peer.left)

    def _add_peer(self, data: bytes, source: Hashable, now: float) -> Peer | None:
        try:
            first = messages(data)[0]
        except (DecodeError, IndexError):
            self.counters.undecodable += 1
            return None
        if not isinstance(first, Join):
            self.counters.not_joined += 1
            return None
        if _terms(first)[:3] != self._own_terms() or (first.lanes is not None and not self.settings.multicast_qos):
            self.counters.incompatible += 1
            return None
        if first.zid.value == self.settings.zid:
            return None
        if len(self.peers) >= self.settings.multicast_max_sessions or not self.account.charge(
            Resource.MULTICAST_MEMBERS, MEMBER_SIZE
        ):
            self.counters.refused += 1
            return None
        peer = self.peers[source] = Peer(self, source, first, now)
        self._events.append(PeerJoined(peer))
        self._next_join = min(
            self._next_join, now
        )  # send a JOIN immediately, so that the new member learns our parameters
        return peer

    def _own_terms(self) -> tuple[int, int, int]:
        return VERSION, self.settings.resolution_code, self.settings.multicast_batch_size

    def _forget(self, peer: Peer, reason: CloseReason) -> None:
        del self.peers[peer.source]
        peer.rx.stop()
        self.account.release(Resource.MULTICAST_MEMBERS, MEMBER_SIZE)
        self._events.append(PeerLeft(peer, reason))

    # Transmit

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = CongestionControl.DROP,
        express: bool = False,
    ) -> bool:
        """Queue a message to all members. Return False if the queue is full."""
        return bool(self.queue.send(message, priority, reliable, congestion, express))

    def data(self, now: float) -> memoryview | None:
        """Return the next datagram. A JOIN is sent only when the queue is empty, because it contains the next sequence numbers."""
        if not self.queue.waiting and now >= self._next_join and not self.is_closed:
            self._next_join = now + self.settings.join_interval
            self.queue.control(self._join().encode())
        view: memoryview | None = self.queue.data(now)
        return view

    def mark_sent(self, size: int, now: float) -> bool:
        return bool(self.queue.advance(size))

    def _join(self) -> Join:
        own = self.settings
        lanes = self.queue.next_sns()
        seconds = own.lease_ms % 1000 == 0
        return Join(
            whatami=own.whatami.to_wire(),
            zid=own.zid,
            sized=own.resolution_code != 0x0A or own.multicast_batch_size != 8192,
            resolution=own.resolution_code,
            batch_size=own.multicast_batch_size,
            seconds=seconds,
            lease=own.lease_ms // 1000 if seconds else own.lease_ms,
            reliable_sn=0 if own.multicast_qos else lanes[5][0],
            best_effort_sn=0 if own.multicast_qos else lanes[5][1],
            lanes=lanes if own.multicast_qos else None,
            patch=own.patch,
        )

    def close(self) -> None:
        """Leave the group with a CLOSE."""
        if not self.is_closed:
            self.is_closed = True
            self.queue.end()
            self.queue.discard()
            for peer in self.peers.values():
                peer.rx.stop()
            self.account.close()
            self.queue.control(Close(reason=CloseReason.GENERIC).encode())

    # Timers

    def next_timeout(self) -> float | None:
        if self.is_closed:
            return None
        return min([self._next_join, *(peer.last_received + peer.lease for peer in self.peers.values())])

    def is_join_due(self, now: float) -> bool:
        """Return whether our next JOIN is to be sent."""
        return now >= self._next_join

    def on_timeout(self, now: float) -> None:
        """Remove members whose lease has expired. `data` returns the JOIN."""
        for peer in [peer for peer in self.peers.values() if now >= peer.last_received + peer.lease]:
            self._forget(peer, CloseReason.EXPIRED)

    def events(self) -> Iterator[PeerJoined | PeerLeft]:
        while self._events:
            yield self._events.popleft()


def _terms(join: Join) -> tuple[int, int, int, int, bool]:
    """Return the parameters that a member must not change."""
    return join.version, join.resolution & 0x0F, join.batch_size, join.patch, join.lanes is not None
