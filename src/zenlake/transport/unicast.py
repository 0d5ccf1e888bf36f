# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""One unicast connection between two nodes, from its first byte to its last.

Sans-IO: received bytes are passed to `receive`, or read into the buffer (`get_buffer` and `receive_buffered`). `data`
returns the bytes to write, and `mark_sent` acknowledges them. `now` is a monotonic time in seconds (float). `next_timeout`
returns when to call `on_timeout`. Network messages go to the sink. Everything else is an event.

    unicast = Unicast(Opener(settings), stream=True, sink=sink)
    unicast.start(now)
    while view := unicast.data(now): unicast.mark_sent(link.write(view), now)
    unicast.receive(link.read(), now)
    for event in unicast.events(): ...

Threading: receiving and sending may run in two threads. The caller then guards the transmit path (`send`, `data`, `mark_sent`,
`close`, `on_timeout`). The receive path changes it only while `guard` is held, never while a message is delivered.
`dropped` counts messages for which there was no space.

A peer that violates the protocol gets a CLOSE with the reason, and the connection ends. (1.10.2 disconnects without a CLOSE
in most of these cases, but it decodes the CLOSE.)
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

from cython.cimports.zenlake.transport.rx import RxArena, RxPath, Sink
from cython.cimports.zenlake.transport.tx_queue import TxQueue

from zenlake.core.enums import CongestionControl
from zenlake.core.peer_limits import Account
from zenlake.errors import CloseReason, DecodeError, LocalError, ProtocolError, RemoteError
from zenlake.session.lanes import mask_of
from zenlake.session.state import SessionState
from zenlake.transport.handshake import Acceptor, HandshakeState, Opener, close_reason
from zenlake.transport.low_latency import LowLatencyQueue
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.references import SharedLink
from zenlake.wire.handshake import Close, Join
from zenlake.wire.message_base import Message
from zenlake.wire.qos_link import QosLink
from zenlake.wire.transport import KeepAlive

__all__ = ["Closed", "Opened", "Tee", "Unicast"]

KEEP_ALIVE = KeepAlive().encode()


@dataclass(frozen=True, slots=True)
class Opened:
    """Event: the session is open, and messages may be sent."""

    session: SessionState


@dataclass(frozen=True, slots=True)
class Closed:
    """Event: the session has ended, with the reason of the CLOSE, the end that sent it, and the protocol error or None."""

    reason: CloseReason
    by_peer: bool
    error: ProtocolError | None = None


class Tee(Protocol):
    """Observer of every batch, without length prefix and decompressed.

    Threading: called by whichever thread sends or receives. It must not block.
    """

    def on_receive(self, data: bytes | memoryview, wire_size: int, compressed: bool) -> None:
        """Handle a received batch, before it is decoded. `wire_size` includes the length prefix.

        Safety: the bytes are valid until this method returns. Copy them to keep them.
        """

    def on_send(self, data: bytes, wire_size: int, compressed: bool) -> None:
        """Handle a batch that is being passed to the link."""


class Unicast:
    """A connection in either role: pass an Opener or an Acceptor. `stream` selects length-prefixed batches."""

    def __init__(
        self, handshake: Opener | Acceptor, *, stream: bool, sink: Sink | None = None, arena: RxArena | None = None,
        budget: MemoryBudget | None = None, account: Account | None = None,
    ) -> None:  # fmt: skip
        self.settings = handshake.settings
        self.session = handshake.session
        self.guard: AbstractContextManager[object] = nullcontext()
        self.is_open = False
        self.is_closed = False
        self.paused = False
        self.dropped = 0
        self.queue: TxQueue | LowLatencyQueue = TxQueue(2 if stream else 0)
        self._plain: TxQueue | None = self.queue  # the same object while it is a compiled `TxQueue`
        self.rx = RxPath(arena or RxArena(), self, sink or Sink(), 2 if stream else 0)
        self.queue.budget = self.rx.budget = budget
        self.rx.account = account
        self.shared: SharedLink | None = None
        """Shared memory that both ends agreed on, or None."""
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
        """Whether this node opened the connection."""
        return self._own == 0

    @property
    def peer_zid(self) -> bytes:
        """ZenohID of the peer, known when the session is open."""
        zid: bytes = self.session.sides[1 - self._own].zid
        return zid

    @property
    def user(self) -> str | None:
        """User name of the authenticated peer, where passwords are required."""
        return self._handshake.user

    @property
    def restriction(self) -> QosLink | None:
        """Priorities and reliability that the link is restricted to, or None."""
        return self._handshake.restriction

    def record(self, tee: Tee | None) -> None:
        """Pass every further batch to a tee. Before `start`, this includes the handshake. None removes the tee."""
        self.rx.tee = self.queue.tee = tee

    def start(self, now: float) -> None:
        """Begin the handshake, if this node is the opener."""
        if isinstance(self._handshake, Opener):
            self._handshake.start(now)
            self._after_handshake(now)

    def retry(self, now: float) -> None:
        """Continue a handshake that waits for another connection to the same peer."""
        self._handshake.retry(now)
        self._after_handshake(now)

    # Receive

    def receive(self, data: bytes | bytearray | memoryview, now: float) -> None:
        """Process received bytes: a piece of a stream, of any size, or one datagram."""
        self._update_receive_time(now)
        try:
            self.rx.receive(data)
        except (DecodeError, ProtocolError) as error:
            self._fail(error)

    def get_buffer(self) -> memoryview:
        """Return a buffer to read a stream into without a copy. Safety: valid until the next call of any method."""
        return self.rx.get_buffer()

    def receive_buffered(self, size: int, now: float) -> None:
        """Process the bytes that were read into `get_buffer`."""
        self._update_receive_time(now)
        try:
            self.rx.receive_buffered(size)
        except (DecodeError, ProtocolError) as error:
            self._fail(error)

    def pause(self) -> None:
        """Record that the link is not read from now on. The lease of the peer then does not expire."""
        self.paused = True

    @property
    def is_suspended(self) -> bool:
        """Whether the sink is suspended. Call `resume` before reading more."""
        return self.rx.sink.suspended != 0

    def resume(self, now: float) -> None:
        """Deliver the messages that were stored while the sink was suspended. Reading continues unless it is suspended again."""
        self._now = now
        try:
            if self.rx.sink.suspended:
                self.rx.resume()
        except (DecodeError, ProtocolError) as error:
            self._fail(error)
        if not self.rx.sink.suspended:
            self.paused = False
            self._last_received = now

    def _update_receive_time(self, now: float) -> None:
        """Record the time of the last bytes. After more than a lease of silence, assume that this node itself was stalled."""
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
        """Ignore a JOIN, which applies to multicast only."""

    def _after_handshake(self, now: float) -> None:
        handshake = self._handshake
        for message in handshake.to_send:
            self.queue.control(message)
        handshake.to_send.clear()
        if handshake.state is HandshakeState.CLOSED:
            self._end(Closed(handshake.reason or CloseReason.GENERIC, handshake.refused_by_peer, handshake.error))
        elif handshake.state is HandshakeState.OPEN and not self.is_open:
            self._open(now)

    def _open(self, now: float) -> None:
        own, session = self.settings, self.session
        mine, theirs = session.sides[self._own], session.sides[1 - self._own]
        theirs.lanes.max_message_size = own.max_message_size
        self.rx.start(theirs.lanes, session.batch_size, session.qos, session.compression, session.low_latency)
        assert isinstance(self.queue, TxQueue)
        if session.low_latency:
            self.queue = LowLatencyQueue(self.queue, session.batch_size, own.queue_size)
            self._plain = None
        else:
            self.queue.start(
                session.batch_size, mask_of(session.resolution), mine.initial_sn, session.qos, session.compression,
                own.queue_size, own.wait_before_drop_fragments,
            )  # fmt: skip
        if self._handshake.shared is not None:
            self.shared = self.rx.shared = self._handshake.shared.agree()
        self._keep_alive = own.lease / own.keep_alive
        self._peer_lease = theirs.lease_ms / 1000
        self._last_received = self._last_sent = now
        self.is_open = True
        self._events.append(Opened(session))

    # Transmit

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = CongestionControl.DROP,
        express: bool = False,
    ) -> bool:
        """Queue a network message, encoded or not. Return False if the queue of its priority is full: see `max_wait`."""
        return bool(self.queue.send(message, priority, reliable, congestion, express))

    def max_wait(self, priority: int, reliable: bool, congestion: int) -> float:
        """Return how long the sender of a refused message waits before it calls `give_up`."""
        if congestion == CongestionControl.DROP or not reliable:
            return self.settings.wait_before_drop
        if congestion == CongestionControl.BLOCK_FIRST:
            if priority in self._waiting_first:
                return 0.0
            self._waiting_first.add(priority)
        return self.settings.wait_before_close

    def end_wait(self, priority: int, congestion: int, max_wait: float) -> None:
        """End the wait that `max_wait` started: the message was queued or given up."""
        if congestion == CongestionControl.BLOCK_FIRST and max_wait:
            self._waiting_first.discard(priority)

    def give_up(self, reliable: bool, congestion: int, max_wait: float) -> None:
        """Give up a message after its wait.

        The message is dropped. If it is not droppable, the session ends with UNRESPONSIVE.
        """
        if congestion == CongestionControl.DROP or not reliable or not max_wait:
            self.dropped += 1
        else:
            self._fail(RemoteError(f"transmit queue full for {max_wait:g} s", CloseReason.UNRESPONSIVE))

    def data(self, now: float) -> memoryview | None:
        """Return (the rest of) one batch to write, or None."""
        view = self.queue.data(now) if self._plain is None else self._plain.data(now)
        if view is None and self._closing is not None and not self.is_closed:
            reason = self._closing
            self.queue.control(Close(reason=reason).encode())
            self._end(Closed(reason, False))
            view = self.queue.data(now)
        return view

    def mark_sent(self, size: int, now: float) -> bool:
        """Acknowledge that many bytes of `data`. Return True if the batch is finished."""
        self._last_sent = now
        return bool(self.queue.advance(size) if self._plain is None else self._plain.advance(size))

    def has_data(self) -> bool:
        """Return whether there are bytes to write."""
        waits = self.queue.waiting if self._plain is None else self._plain.is_waiting()
        return waits or (self._closing is not None and not self.is_closed)

    @property
    def is_finished(self) -> bool:
        """Whether the session is closed and its last byte is written, so that the link can be closed."""
        return self.is_closed and not self.queue.waiting

    # Timers

    def next_timeout(self) -> float | None:
        if self.is_closed:
            return None
        if not self.is_open:
            return self._handshake.next_timeout()
        if self.paused:
            return self._last_sent + self._keep_alive
        return min(self._last_sent + self._keep_alive, self._last_received + self._peer_lease)

    def is_silent(self, now: float) -> bool:
        """Return whether the lease of the peer has expired. Read once more before `on_timeout`: this node may have been stalled."""
        return self.is_open and now >= self._last_received + self._peer_lease

    def restart_lease(self, now: float) -> None:
        """Restart the lease: the peer was silent because this node does not read."""
        self._last_received = now

    def silent_since(self, now: float) -> float:
        """Return when the peer was last heard, not counting a stall of this node that has just ended."""
        return self._stall_began if now - self._stall_ended <= self._peer_lease else self._last_received

    def on_timeout(self, now: float) -> None:
        if self.is_closed:
            return
        if not self.is_open:
            self._handshake.on_timeout(now)
            self._after_handshake(now)
        elif now >= self._last_received + self._peer_lease and not self.paused:
            self._fail(RemoteError(f"no data received for {self._peer_lease:g} s", CloseReason.EXPIRED))
        elif now >= self._last_sent + self._keep_alive:
            self._last_sent = now
            if not self.queue.waiting:  # otherwise other batches serve as KEEP_ALIVE
                self.queue.control(KEEP_ALIVE)

    # Close

    def close(self, reason: CloseReason = CloseReason.GENERIC) -> None:
        """End the session after the queue is sent. Before the end of the handshake, end it immediately."""
        if self.is_closed or self._closing is not None:
            return
        if self.is_open:
            self._closing = reason
            self.queue.end()
        else:
            self._fail(LocalError("closed before the session was open", reason))

    def abandon(self, reason: CloseReason) -> None:
        """End the session without sending the queue."""
        self._fail(LocalError("aborted: the peer does not read", reason))

    def link_lost(self, error: ProtocolError | None = None) -> None:
        """End the connection: the link is gone."""
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
        self.session.on_close()
        self.rx.stop()
        if self.shared is not None:
            self.shared.close()
        elif self._handshake.shared is not None:
            self._handshake.shared.close()
        self._events.append(event)

    def events(self) -> list[Opened | Closed]:
        """Return the events since the last call."""
        found = self._events
        self._events = []
        return found
