# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""A connection: joins a link, a transport and the timers of the event loop. The node sees it as a face.

Threading: received messages are handled on the event loop thread. `send` and `close` may be called from any thread. A lock
guards the transmit path. It is not held while a received message is handled. So a sink may send on any face and may be slow,
but must not wait for another thread that sends.

Flush policy: on an idle connection, the sending thread writes immediately. Messages that follow each other within
`flush_policy.QUIET` are gathered. The sending thread writes when a batch is full or the last write is `flush_policy.GATHER` ago.
The event loop checks every `batching_limit` while there is traffic, and writes the rest when the traffic ends. So a single
message is written immediately, heavy traffic is written in large batches, and neither wakes the event loop for each
message. Messages sent on the event loop thread are written at the end of its turn.
"""

import threading
from logging import getLogger
from typing import Any

import cython
from cython.cimports.zenlake._compat.rlock import FastRLock
from cython.cimports.zenlake.link.stream import Pipe
from cython.cimports.zenlake.runtime.event_loop import EventLoop, PolledConnection, Timer
from cython.cimports.zenlake.runtime.flush_policy import FlushPolicy
from cython.cimports.zenlake.transport.unicast import Unicast

from zenlake.core.enums import CongestionControl
from zenlake.core.peer_limits import Account
from zenlake.errors import CloseReason, LinkError, RemoteError
from zenlake.link.base import BaseLink
from zenlake.link.stream import StreamLink
from zenlake.session.state import SessionState
from zenlake.transport.references import ReferenceMessage
from zenlake.transport.rx import Sink
from zenlake.transport.unicast import Closed, Opened
from zenlake.wire.message_base import Message

if cython.compiled:
    from cython.cimports.cpython.time import monotonic
else:
    from time import monotonic

__all__ = ["Connection", "ConnectionOwner"]

SWEEP = 5.0  # seconds between two checks for buffers that a partner has taken over
LINGER = 1.0  # seconds to write the last bytes of a closed connection

DROP = CongestionControl.DROP

log = getLogger("zenlake.runtime")


class ConnectionOwner:
    """Owner of connections. Methods are called on the event loop thread."""

    def sink(self, face: "Connection") -> Sink:
        """Return the receiver of the messages of a connection."""
        return Sink()

    def on_start(self, face: "Connection") -> None:
        """Handle a ready link, before the first message."""

    def on_stateless_reply(self, link: BaseLink, init: bytes, replies: list[bytes]) -> None:
        """Handle a datagram of an unknown peer, with the messages sent in reply. No face was created for it."""

    def on_open(self, face: "Connection") -> None:
        """Handle an opened session. Messages can be sent and received from now on."""

    def on_close(self, face: "Connection", event: Closed) -> None:
        """Handle the end of an opened session."""

    def on_open_failed(self, face: "Connection", event: Closed) -> None:
        """Handle a session that failed to open."""

    def on_writable(self, face: "Connection") -> None:
        """Retry messages that were refused on the event loop thread: the link accepts bytes again."""


class Connection(PolledConnection):  # type: ignore[misc]
    """One connection, created by the runtime. It is the `Owner` of its link."""

    def __init__(
        self, engine: EventLoop, link: BaseLink, node: ConnectionOwner, account: Account | None = None
    ) -> None:
        PolledConnection.__init__(self)
        self.account = account or Account()
        """Memory that the peer makes this node use."""
        link.account = self.account
        self.link = link
        self.shared: Any = None  # shared memory of the session, from its opening on
        self.node = node
        self.was_open = False
        self.link_error: LinkError | None = None
        self.bytes_out = 0
        self._engine = engine
        self._pipe: Pipe | None = link.pipe if isinstance(link, StreamLink) and link.direct else None
        self.lock = FastRLock()
        self._room = threading.Condition(self.lock)
        self._waiters = 0
        self.flush_policy = FlushPolicy(
            self.lock,
            link.direct,
            engine.ident,
            self._flush,
            self.schedule_flush,
            lambda: engine.call_soon(self._watch),
        )
        self._done = False
        self._paused = False
        self._resuming = False
        self._timer: Timer | None = None
        self._linger: Timer | None = None
        self._event: Closed | None = None
        self.transport: Unicast = None  # set by `attach`

    def attach(self, transport: Unicast) -> None:
        """Attach the transport. The link may begin afterwards."""
        self.transport = transport
        transport.guard = self.lock
        self.link.owner = self

    @property
    def session(self) -> SessionState:
        return self.transport.session

    @property
    def zid(self) -> bytes:
        return self.transport.peer_zid

    @property
    def is_open(self) -> bool:
        return self.transport.is_open

    # Any thread

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = DROP,
        express: bool = False,
    ) -> bool:
        """Send a network message or encoded bytes. Return False if it was dropped because there was no room.

        On other threads this waits according to the congestion control. On the event loop thread it never waits. There a
        message that must not be dropped is refused (False), and the caller keeps it. `ConnectionOwner.on_writable` signals
        when to retry.
        """
        if self.shared is not None or type(message) is ReferenceMessage:
            return self._send_shared(message, priority, reliable, congestion, express)
        return self._send(message, priority, reliable, congestion, express)

    def _send(self, message: Message | bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        with self.lock:
            queue = self.transport.queue
            if not queue.send(message, priority, reliable, congestion, express) and not self._wait(
                message, priority, reliable, congestion, express
            ):
                return False
            self.flush_policy.on_send(express, queue.complete)
            return True

    def _send_shared(
        self, message: Message | bytes, priority: int, reliable: bool, congestion: int, express: bool
    ) -> bool:
        """Send a message that has references, or may be large enough for them."""
        shared = self.shared
        moved = message if isinstance(message, ReferenceMessage) else None
        if (
            shared is not None
            and moved is None
            and isinstance(message, bytes)
            and len(message) >= self.flush_policy.limit
        ):
            moved = shared.node.move(message, priority)
        if moved is None:
            return self._send(message, priority, reliable, congestion, express)
        if shared is None or not shared.takes_references:
            plain = moved.inline()
            return plain is None or self._send(plain, priority, reliable, congestion, express)
        with self.lock:
            shared.lend(moved.buffers, moved.priority)
        is_sent = False
        try:
            is_sent = self._send(bytes(moved), priority, reliable, congestion, express)
        finally:
            if not is_sent:
                with self.lock:
                    shared.take_back(moved.buffers, moved.priority)
        return is_sent

    def _wait(self, message: Message | bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        """Make room, or wait for it as long as the congestion control of the message allows."""
        transport = self.transport
        if not self.flush_policy.blocked and (self.link.direct or self._engine.inside):
            self._flush(monotonic())
            if transport.send(message, priority, reliable, congestion, express):
                return True
        droppable = congestion == DROP or not reliable
        if self._engine.inside:
            if droppable:
                transport.dropped += 1
            return False
        if not isinstance(message, bytes):
            message = message.encode()
        max_wait = transport.max_wait(priority, reliable, congestion)
        deadline = monotonic() + max_wait
        self._waiters += 1
        try:
            while (left := deadline - monotonic()) > 0:
                self._room.wait(left)
                if transport.send(message, priority, reliable, congestion, express):
                    return True
        finally:
            self._waiters -= 1
            transport.end_wait(priority, congestion, max_wait)
        transport.give_up(reliable, congestion, max_wait)
        if not transport.is_open:
            self._engine.call_soon(self._run_effects)
        return False

    def close(self, reason: CloseReason = CloseReason.GENERIC) -> None:
        """Send queued messages and a CLOSE, then close the connection."""
        with self.lock:
            self.transport.close(reason)
        self._engine.call_soon(self.turn)

    def abandon(self, reason: CloseReason = CloseReason.UNRESPONSIVE) -> None:
        """Close the connection to a peer that does not read: send CLOSE if possible, and discard queued messages."""
        with self.lock:
            self.transport.abandon(reason)
        self._engine.call_soon(self._run_effects)

    # Event loop thread

    def begin(self) -> None:
        """Begin the connection. Its link is being polled."""
        self.link.begin()
        self._run_effects()

    def write(self) -> None:
        """Write queued messages without handling the result."""
        self.lock.acquire()
        try:
            self._flush(monotonic())
        finally:
            self.lock.release()

    def pause(self) -> None:
        """Stop reading. This applies backpressure to the peer."""
        self._paused = True
        if not self._done:
            self.transport.pause()
            self.link.pause()

    def resume(self) -> None:
        """Resume in the next turn: first with bytes that a suspended sink left, then with the link."""
        self._paused = False
        if not self._resuming:
            self._resuming = True
            self._engine.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if self._paused or self._done:
            return
        self.transport.resume(monotonic())
        self._run_effects()
        if not self._paused and not self._done and not self.transport.is_suspended:
            self.link.resume()

    def on_ready(self) -> None:
        if self._pipe is not None:
            self._engine.add_reader(self._pipe.number, self)
        self.node.on_start(self)
        with self.lock:
            self.transport.start(monotonic())
        self._run_effects()

    def retry(self) -> None:
        """Continue a handshake that waits for another connection to the same peer."""
        with self.lock:
            self.transport.retry(monotonic())
        self._run_effects()

    def get_buffer(self) -> memoryview:
        return self.transport.get_buffer()

    def read(self, now: float) -> int:
        try:
            size = self._pipe.read(self.transport.get_buffer())  # type: ignore[union-attr]
        except OSError:
            size = 0
        if size > 0:
            self.transport.receive_buffered(size, now)
            self._run_effects()
        else:
            self.link.on_readable(now)  # type: ignore[attr-defined]  # handles the end and errors
        return 0

    def on_buffer_filled(self, size: int) -> None:
        self.transport.receive_buffered(size, monotonic())
        self._run_effects()

    def on_data(self, data: bytes | memoryview) -> None:
        self.transport.receive(data, monotonic())
        self._run_effects()

    def on_writable(self) -> None:
        with self.lock:  # otherwise a writer that has just found the socket full could set `blocked` after this
            self.flush_policy.blocked = False
        self.turn()
        if not self.flush_policy.blocked and self.was_open and not self._done:
            self.node.on_writable(self)

    def on_drain(self) -> None:
        if self.transport.is_closed:
            self._run_effects()

    def on_close(self, error: LinkError | None) -> None:
        self.link_error = error
        with self.lock:
            self.transport.link_lost(RemoteError(error.why if error else "connection closed by the peer"))
            self.transport.queue.discard()
        self._finish()

    def _watch(self) -> None:
        """Check again after `batching_limit` whether the traffic has ended."""
        now = monotonic()
        if now - self.flush_policy.last < self.transport.settings.batching_limit and not self._done:
            self._engine.call_at(now + self.transport.settings.batching_limit, self._watch)
        else:
            self.turn()

    def turn(self) -> None:
        """Write queued messages."""
        self.flush_policy.is_scheduled = self.flush_policy.is_watched = False
        if not self._done:
            try:
                self.write()
            except Exception as error:
                return self._fail(error)
        self._run_effects()

    def schedule_flush(self) -> None:
        """Request a write at the end of the turn of the event loop."""
        if self._engine.is_inside():
            self._engine.run_at_turn_end(self)
        else:
            self._engine.call_soon(self.turn)

    def end_turn(self) -> int:
        self.turn()
        return 0

    def _flush(self, now: float) -> None:
        """Write batches until the link accepts no more. The caller holds the lock."""
        if self.flush_policy.blocked:
            return
        transport = self.transport
        while transport.has_data():
            view = transport.data(now)
            if view is None:
                break
            size = self._write(view)
            if size:
                self.bytes_out += size
                transport.mark_sent(size, now)
            if size < len(view):
                self.flush_policy.blocked = True
                break
        if self._waiters:
            self._room.notify_all()

    def _write(self, view: memoryview) -> int:
        """Write to the link. Return the number of bytes it accepted. If not all, it notifies when there is room.

        An error of the link ends the connection after this call, because the queue is in use here.
        """
        size = cython.declare(cython.Py_ssize_t, 0)
        if self._pipe is not None:
            try:
                size = self._pipe.write(view)
            except OSError:  # full, or closed
                size = 0
            if size == len(view):
                return size
            view = view[size:]
        try:
            return size + self.link.write(view)
        except Exception as error:
            failure = error
            self._engine.call_soon(lambda: self._fail(failure))
            return size

    def _run_effects(self) -> None:
        """Handle the events of the transport. An error ends the connection, so that no connection is left without a timer."""
        if self._done:
            return
        try:
            self._react()
        except Exception as error:
            self._fail(error)

    def _share(self) -> None:
        """Use the shared memory that the session agreed on."""
        shared = self.transport.shared
        if shared is None:
            return
        # A recorded connection sends its payloads inline, so that the recording has them.
        shared.takes_references = shared.partner.maps_posix and self.transport.rx.tee is None
        self.shared = shared
        if shared.takes_references and shared.node.settings.optimises:
            self.flush_policy.limit = shared.node.settings.threshold
        self._sweep()

    def _sweep(self) -> None:
        """Stop confirming, now and later, the buffers that the partner has taken over."""
        if not self._done and not self.transport.is_closed:
            with self.lock:
                self.shared.sweep()
            self._engine.call_at(monotonic() + SWEEP, self._sweep)

    def _react(self) -> None:
        """Handle events, write the resulting messages, and set the timer."""
        transport = self.transport
        for event in transport.events() if transport._events else ():
            if isinstance(event, Opened):
                self.was_open = True
                self._share()
                self.node.on_open(self)
            else:
                self._event = event
                with self.lock:
                    self._room.notify_all()
        if transport.has_data():
            self.write()
        if transport.is_closed:
            if not transport.queue.waiting and self.link.is_drained:
                self._finish()
            elif self._linger is None:
                self._linger = self._engine.call_at(monotonic() + LINGER, self._finish)
            return
        when = transport.next_timeout()
        if when is not None and (self._timer is None or self._timer.when > when):
            self._set_timer(when)

    def _set_timer(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._engine.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self.transport.is_silent(monotonic()):
            self._read_before_lease_check()
        if not self._done:
            with self.lock:
                self.transport.on_timeout(monotonic())
            self._run_effects()

    def _read_before_lease_check(self) -> None:
        """Read before checking the lease: after a stop of the process, timers can run first."""
        try:
            if self.link.is_paused:
                self.transport.restart_lease(monotonic())
            else:
                self.link.poll(monotonic())
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the connection after an error of the link or an internal error."""
        if not self._done:
            log.debug("%s: %s", self.link.remote, error, exc_info=error)
            why = error.why if isinstance(error, LinkError) else f"{type(error).__name__}: {error}"
            self.on_close(LinkError(self.link.remote, why))

    def _finish(self) -> None:
        """End the connection exactly once, in any state of the link.

        The node is notified even if the link cannot be closed in order, because it counts connections.
        """
        if self._done:
            return
        self._done = True
        for timer in (self._timer, self._linger):
            if timer is not None:
                timer.cancel()
        for event in self.transport.events():
            if isinstance(event, Closed):
                self._event = event
        try:
            self.link.close()
        except Exception as error:
            log.debug("%s: %s", self.link.remote, error, exc_info=error)
        port = self.link.port
        if port is not None:
            self._engine.remove(port)
        with self.lock:
            self.transport.link_lost()
            self.transport.queue.discard()
            self._room.notify_all()
        self.account.close()
        event = self._event or Closed(CloseReason.GENERIC, False)
        (self.node.on_close if self.was_open else self.node.on_open_failed)(self, event)
