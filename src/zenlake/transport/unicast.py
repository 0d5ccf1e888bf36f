# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""One connection between two nodes, from its first byte to its last.

Sans-IO: bytes come in through `receive` (or straight into the buffer, `space` and `filled`), bytes to be written come
out of `data` and are acknowledged with `sent`; time comes in as `now`, a float in seconds that never goes back, and
`next_timeout` says when to call `on_timeout`. Network messages go to the sink, everything else that happens is an
event.

    unicast = Unicast(Opener(settings), stream=True, sink=sink)
    unicast.start(now)
    while view := unicast.data(now): unicast.sent(link.write(view), now)
    unicast.receive(link.read(), now)
    for event in unicast.events(): ...

Receiving and sending may happen in two threads. The sending half (`send`, `data`, `sent`, `close`, `on_timeout`) is
then for the caller to guard; what is received changes it only while `guard` is held, never while a message is handed
on. `dropped` counts messages that found no room.

Who breaks the protocol hears a CLOSE that says why, and the connection ends. (1.10.2 hangs up without a word in most of
these cases; it reads the CLOSE all the same.)
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

import cython

from zenlake.errors import CloseReason, DecodeError, LocalError, ProtocolError, RemoteError
from zenlake.limits import Account
from zenlake.record import dataclass
from zenlake.session.lanes import mask_of
from zenlake.session.session import Session
from zenlake.transport.budget import Budget
from zenlake.transport.handshake import Acceptor, Opener, State, close_reason
from zenlake.transport.lowlatency import LowLatencyQueue
from zenlake.values import CongestionControl
from zenlake.wire.handshake import Close, Join
from zenlake.wire.message import Message
from zenlake.wire.qos_link import QosLink
from zenlake.wire.transport import KeepAlive

if cython.compiled:
    from cython.cimports.zenlake.transport.inbox import Arena, Inbox, Sink
    from cython.cimports.zenlake.transport.queue import Queue
else:
    from zenlake.transport.inbox import Arena, Inbox, Sink
    from zenlake.transport.queue import Queue

__all__ = ["Closed", "Opened", "Tee", "Unicast"]

KEEP_ALIVE = KeepAlive().encode()


@dataclass(frozen=True, slots=True)
class Opened:
    """Messages may be sent."""

    session: Session


@dataclass(frozen=True, slots=True)
class Closed:
    """The end: `reason` as in CLOSE, whether the other end gave it, and the breach of the protocol if there was one."""

    reason: CloseReason
    by_peer: bool
    error: ProtocolError | None = None


class Tee(Protocol):
    """Who hears of every batch, without the link's length and compressed no more. Called in the middle of the work, by
    whatever thread does it: it must not wait."""

    def received(self, data: bytes | memoryview, wire_size: int, compressed: bool) -> None:
        """A batch that has just arrived, before it is looked into; `wire_size` counts the length before it. The bytes are there
        until this returns: who keeps them copies them."""

    def sent(self, data: bytes, wire_size: int, compressed: bool) -> None:
        """A batch that is being handed to the link."""


class Unicast:
    """Both roles: pass an Opener or an Acceptor. `stream` says whether batches need a length before them."""

    def __init__(
        self, handshake: Opener | Acceptor, *, stream: bool, sink: Sink | None = None, arena: Arena | None = None,
        budget: Budget | None = None, account: Account | None = None,
    ) -> None:  # fmt: skip
        self.settings = handshake.settings
        self.session = handshake.session
        self.guard: AbstractContextManager[object] = nullcontext()
        self.is_open = False
        self.is_closed = False
        self.paused = False
        self.dropped = 0
        self.queue: Queue | LowLatencyQueue = Queue(2 if stream else 0)
        self._plain: Queue | None = self.queue  # the same, for as long as it is the compiled one
        self.inbox = Inbox(arena or Arena(), self, sink or Sink(), 2 if stream else 0)
        self.queue.budget = self.inbox.budget = budget
        self.inbox.account = account
        self._handshake = handshake
        self._own = 0 if isinstance(handshake, Opener) else 1
        self._events: list[Opened | Closed] = []
        self._now = 0.0
        self._closing: CloseReason | None = None
        self._waiting_first = set[int]()
        self._last_received = 0.0
        self._last_sent = 0.0
        self._stall_began = 0.0
        self._stall_ended = 0.0
        self._keep_alive = 0.0
        self._peer_lease = 0.0

    @property
    def is_opener(self) -> bool:
        """Whether it was our idea."""
        return self._own == 0

    @property
    def peer_zid(self) -> bytes:
        """The other end's id; known when the session is open."""
        zid: bytes = self.session.sides[1 - self._own].zid
        return zid

    @property
    def user(self) -> str | None:
        """Who the other end proved to be, where passwords were asked for."""
        return self._handshake.user

    @property
    def restriction(self) -> QosLink | None:
        """What the link is for, if not for every message."""
        return self._handshake.restriction

    def record(self, tee: Tee | None) -> None:
        """From here on a tee hears of every batch; before `start`, of the handshake too. None: no more."""
        self.inbox.tee = self.queue.tee = tee

    def start(self, now: float) -> None:
        """Begin the handshake, if it is ours to begin."""
        if isinstance(self._handshake, Opener):
            self._handshake.start(now)
            self._after_handshake(now)

    # In

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Bytes of a stream, in pieces of any size; or one datagram."""
        self._heard(now)
        try:
            self.inbox.receive(data)
        except (DecodeError, ProtocolError) as error:
            self._fail(error)

    def space(self) -> memoryview:
        """Where a stream may be read into without a copy; valid until the next call of anything."""
        return self.inbox.space()

    def filled(self, size: int, now: float) -> None:
        """That many bytes were read into `space`."""
        self._heard(now)
        try:
            self.inbox.filled(size)
        except (DecodeError, ProtocolError) as error:
            self._fail(error)

    def pause(self) -> None:
        """The link is not read from now on: silence says nothing about the other end, so its lease does not expire."""
        self.paused = True

    @property
    def is_suspended(self) -> bool:
        """Whether the sink is suspended: call `resume` before more is read."""
        return self.inbox.sink.suspended != 0

    def resume(self, now: float) -> None:
        """Deliver the messages that were kept while the sink was suspended. The link is read again, unless it still is."""
        self._now = now
        try:
            if self.inbox.sink.suspended:
                self.inbox.resume()
        except (DecodeError, ProtocolError) as error:
            self._fail(error)
        if not self.inbox.sink.suspended:
            self.paused = False
            self._last_received = now

    def _heard(self, now: float) -> None:
        """Note the time of the last bytes. After more than a lease of silence, this node itself did not read."""
        if self.is_open and now - self._last_received > self._peer_lease:
            self._stall_began = self._last_received
            self._stall_ended = now
        self._last_received = self._now = now

    def on_batch(self, batch: bytes) -> None:
        with self.guard:
            self._handshake.receive(batch, self._now)
            self._after_handshake(self._now)

    def on_close(self, reason: int, session: bool) -> None:
        with self.guard:
            self.queue.discard()
            self._end(Closed(close_reason(reason), True))

    def on_join(self, join: Join) -> None:
        """Multicast's word; it has no meaning here."""

    def _after_handshake(self, now: float) -> None:
        handshake = self._handshake
        for message in handshake.to_send:
            self.queue.control(message)
        handshake.to_send.clear()
        if handshake.state is State.CLOSED:
            self._end(Closed(handshake.reason or CloseReason.GENERIC, handshake.refused_by_peer, handshake.error))
        elif handshake.state is State.OPEN and not self.is_open:
            self._open(now)

    def _open(self, now: float) -> None:
        own, session = self.settings, self.session
        mine, theirs = session.sides[self._own], session.sides[1 - self._own]
        theirs.lanes.most = own.max_message_size
        self.inbox.start(theirs.lanes, session.batch_size, session.qos, session.compression, session.low_latency)
        assert isinstance(self.queue, Queue)
        if session.low_latency:
            self.queue = LowLatencyQueue(self.queue, session.batch_size, own.queue_size)
            self._plain = None
        else:
            self.queue.start(
                session.batch_size, mask_of(session.resolution), mine.initial_sn, session.qos, session.compression,
                own.queue_size, own.wait_before_drop_fragments,
            )  # fmt: skip
        self._keep_alive = own.lease / own.keep_alive
        self._peer_lease = theirs.lease_ms / 1000
        self._last_received = self._last_sent = now
        self.is_open = True
        self._events.append(Opened(session))

    # Out

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = CongestionControl.DROP,
        express: bool = False,
    ) -> bool:
        """Queue a network message, or one that is bytes already. False if its priority is full: see `patience`."""
        return bool(self.queue.send(message, priority, reliable, congestion, express))

    def patience(self, priority: int, reliable: bool, congestion: int) -> float:
        """How long the sender of a message that found no room waits before it says `give_up`."""
        if congestion == CongestionControl.DROP or not reliable:
            return self.settings.wait_before_drop
        if congestion == CongestionControl.BLOCK_FIRST:
            if priority in self._waiting_first:
                return 0.0
            self._waiting_first.add(priority)
        return self.settings.wait_before_close

    def wait_over(self, priority: int, congestion: int, patience: float) -> None:
        """The one that was told this patience has its place, or gave up."""
        if congestion == CongestionControl.BLOCK_FIRST and patience:
            self._waiting_first.discard(priority)

    def give_up(self, reliable: bool, congestion: int, patience: float) -> None:
        """There was no room in all that time.

        Drop the message, or end the session with UNRESPONSIVE if it may not be dropped.
        """
        if congestion == CongestionControl.DROP or not reliable or not patience:
            self.dropped += 1
        else:
            self._fail(RemoteError(f"no room for a message in {patience:g} s", CloseReason.UNRESPONSIVE))

    def data(self, now: float) -> memoryview | None:
        """What to write next: (the rest of) one batch, or None."""
        view = self.queue.data(now) if self._plain is None else self._plain.data(now)
        if view is None and self._closing is not None and not self.is_closed:
            reason = self._closing
            self.queue.control(Close(reason=reason).encode())
            self._end(Closed(reason, False))
            view = self.queue.data(now)
        return view

    def sent(self, size: int, now: float) -> bool:
        """That many bytes of `data` were taken by the link. True if the batch is finished."""
        self._last_sent = now
        return bool(self.queue.advance(size) if self._plain is None else self._plain.advance(size))

    def has_data(self) -> bool:
        """Whether there is anything to write."""
        waits = self.queue.waiting if self._plain is None else self._plain.is_waiting()
        return waits or (self._closing is not None and not self.is_closed)

    @property
    def is_finished(self) -> bool:
        """Closed, and the last byte is gone: the link may go too."""
        return self.is_closed and not self.queue.waiting

    # Time

    def next_timeout(self) -> float | None:
        if self.is_closed:
            return None
        if not self.is_open:
            return self._handshake.next_timeout()
        if self.paused:
            return self._last_sent + self._keep_alive
        return min(self._last_sent + self._keep_alive, self._last_received + self._peer_lease)

    def is_silent(self, now: float) -> bool:
        """Whether the lease of the peer is over. Read once more before `on_timeout`: this node may have been stopped."""
        return self.is_open and now >= self._last_received + self._peer_lease

    def excuse(self, now: float) -> None:
        """Restart the lease: the peer was not heard because this node does not read."""
        self._last_received = now

    def silent_since(self, now: float) -> float:
        """Return when the peer was last heard, before the stall of this node if one has just ended."""
        return self._stall_began if now - self._stall_ended <= self._peer_lease else self._last_received

    def on_timeout(self, now: float) -> None:
        if self.is_closed:
            return
        if not self.is_open:
            self._handshake.on_timeout(now)
            self._after_handshake(now)
        elif now >= self._last_received + self._peer_lease and not self.paused:
            self._fail(RemoteError(f"nothing was heard for {self._peer_lease:g} s", CloseReason.EXPIRED))
        elif now >= self._last_sent + self._keep_alive:
            self._last_sent = now
            if not self.queue.waiting:  # else there is enough to say
                self.queue.control(KEEP_ALIVE)

    # The end

    def close(self, reason: CloseReason = CloseReason.GENERIC) -> None:
        """End the session after all that waits has been sent; before the handshake is over, at once."""
        if self.is_closed or self._closing is not None:
            return
        if self.is_open:
            self._closing = reason
            self.queue.end()
        else:
            self._fail(LocalError("closed before it was open", reason))

    def abandon(self, reason: CloseReason) -> None:
        """End the session without sending what waits."""
        self._fail(LocalError("given up: the other end takes nothing", reason))

    def link_lost(self, error: ProtocolError | None = None) -> None:
        """There is nobody to talk to any more."""
        self._end(Closed(CloseReason.GENERIC, True, error))

    def _fail(self, error: DecodeError | ProtocolError) -> None:
        if isinstance(error, DecodeError):
            error = RemoteError(str(error), error.reason)
        with self.guard:
            if not self.is_closed:
                self.queue.discard()
                self.queue.control(Close(reason=error.reason).encode())
                self._end(Closed(error.reason, False, error))

    def _end(self, event: Closed) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.is_open = False
        self.queue.end()
        self.session.closed()
        self.inbox.stop()
        self._events.append(event)

    def events(self) -> list[Opened | Closed]:
        """What has happened since the last call."""
        found = self._events
        self._events = []
        return found
