# SPDX-License-Identifier: Apache-2.0
# cython: annotation_typing=False
"""A face: one connection as the node sees it. It joins a link, a transport and the clock.

Threading rules. Everything that arrives is handled in the loop's thread; `send` and `close` may be called from any. A
lock guards the sending half; it is never held while a message is handed on, so a sink may send on any face, and may be
slow, but must not wait for another thread that sends.

When a message is written. If the line is quiet, at once, by the thread that sends it. If messages follow each other
more closely than `sending.QUIET`, they are gathered: the sending thread writes when a batch is full or the last write is
`sending.GATHER` ago, and the loop, which looks every `batching_limit` while there is traffic, writes what is left when the
flood ends. So a lone message leaves at once, a flood leaves in large batches, and neither wakes the loop for each
message. What is sent in the loop's thread leaves at the end of its turn.
"""

import threading

import cython

from zenlake.errors import CloseReason, LinkError, RemoteError
from zenlake.limits import Account
from zenlake.link.base import Link
from zenlake.link.stream import StreamLink
from zenlake.session.session import Session
from zenlake.telling import logger
from zenlake.transport.inbox import Sink
from zenlake.transport.unicast import Closed, Opened
from zenlake.values import CongestionControl
from zenlake.wire.message import Message

if cython.compiled:
    from cython.cimports.cpython.time import monotonic
    from cython.cimports.zenlake.link.stream import Pipe
    from cython.cimports.zenlake.network.forward import Lane
    from cython.cimports.zenlake.runtime.engine import Engine, Served, Timer
    from cython.cimports.zenlake.runtime.lock import Lock
    from cython.cimports.zenlake.runtime.sending import Sending
    from cython.cimports.zenlake.transport.unicast import Unicast
else:
    from time import monotonic

    from zenlake.link.stream import Pipe
    from zenlake.network.forward import Lane
    from zenlake.runtime.engine import Engine, Served, Timer
    from zenlake.runtime.lock import Lock
    from zenlake.runtime.sending import Sending
    from zenlake.transport.unicast import Unicast

__all__ = ["Face", "Node"]

LINGER = 1.0  # seconds that the last bytes of a closed connection may take

DROP = CongestionControl.DROP

log = logger("zenlake.runtime")


class Node:
    """Who owns faces. Called in the loop's thread."""

    def sink(self, face: "Face") -> Sink:
        """Who receives this face's messages."""
        return Sink()

    def begins(self, face: "Face") -> None:
        """The link is ready; nothing has been said yet."""

    def answered(self, link: Link, heard: bytes, said: list[bytes]) -> None:
        """A datagram of somebody unknown, and what it was answered: no face was made for it."""

    def opened(self, face: "Face") -> None:
        """Messages may be sent and will come."""

    def closed(self, face: "Face", event: Closed) -> None:
        """It was open, and is no more."""

    def failed(self, face: "Face", event: Closed) -> None:
        """It never opened."""

    def room(self, face: "Face") -> None:
        """The link takes bytes again: what was refused in the loop's thread may be tried again."""


class Face(Served):  # type: ignore[misc]
    """One connection. Made by the runtime; an Owner of its link."""

    def __init__(self, engine: Engine, link: Link, node: Node, account: Account | None = None) -> None:
        Served.__init__(self)
        self.account = account or Account()
        """The memory that the peer makes this node use."""
        link.account = self.account
        self.link = link
        self.node = node
        self.was_open = False
        self.link_error: LinkError | None = None
        self.bytes_out = 0
        self._engine = engine
        self._pipe: Pipe | None = link.pipe if isinstance(link, StreamLink) and link.direct else None
        self.lock = Lock()
        self._room = threading.Condition(self.lock)  # type: ignore[arg-type]
        self._waiters = 0
        self.way = Sending(
            self.lock,
            link.direct,
            engine.ident,
            self._flush,
            self.arm,
            lambda: engine.call_soon(self._watch),
        )
        self.lane: Lane = None  # type: ignore[assignment]  # the way of samples that pass, when it is open
        self._done = False
        self._paused = False
        self._resuming = False
        self._timer: Timer | None = None
        self._linger: Timer | None = None
        self._event: Closed | None = None
        self.transport: Unicast = None  # type: ignore[assignment]  # attached at once

    def attach(self, transport: Unicast) -> None:
        """Give it its transport; then the link may begin."""
        self.transport = transport
        transport.guard = self.lock
        self.link.owner = self

    @property
    def session(self) -> Session:
        return self.transport.session

    @property
    def zid(self) -> bytes:
        return self.transport.peer_zid

    @property
    def is_open(self) -> bool:
        return self.transport.is_open

    # From any thread

    def send(
        self,
        message: Message | bytes,
        priority: int = 5,
        reliable: bool = True,
        congestion: int = DROP,
        express: bool = False,
    ) -> bool:
        """Send a network message, or one that is bytes already. False if it was dropped because there was no room.

        From a thread of your own it waits as the congestion control says. In the loop's thread nothing may wait: there
        a message that must not be dropped is refused (False) and stays yours; `Node.room` tells when to try again.
        """
        with self.lock:
            queue = self.transport.queue
            if not queue.send(message, priority, reliable, congestion, express) and not self._wait(
                message, priority, reliable, congestion, express
            ):
                return False
            self.way.sent(express, queue.complete)
            return True

    def _wait(self, message: Message | bytes, priority: int, reliable: bool, congestion: int, express: bool) -> bool:
        """There was no room: make some, or wait for it as long as the message's congestion control allows."""
        transport = self.transport
        if not self.way.blocked and (self.link.direct or self._engine.inside):
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
        patience = transport.patience(priority, reliable, congestion)
        deadline = monotonic() + patience
        self._waiters += 1
        try:
            while (left := deadline - monotonic()) > 0:
                self._room.wait(left)
                if transport.send(message, priority, reliable, congestion, express):
                    return True
        finally:
            self._waiters -= 1
            transport.wait_over(priority, congestion, patience)
        transport.give_up(reliable, congestion, patience)
        if not transport.is_open:
            self._engine.call_soon(self._after)
        return False

    def close(self, reason: CloseReason = CloseReason.GENERIC) -> None:
        """Send what waits, say CLOSE, and go."""
        with self.lock:
            self.transport.close(reason)
        self._engine.call_soon(self.turn)

    def abandon(self, reason: CloseReason = CloseReason.UNRESPONSIVE) -> None:
        """The other end does not read: say CLOSE if that can be said, and go without sending what waits."""
        with self.lock:
            self.transport.abandon(reason)
        self._engine.call_soon(self._after)

    # In the loop's thread

    def begin(self) -> None:
        """The link is being polled."""
        self.link.begin()
        self._after()

    def write(self) -> None:
        """Write what waits, without looking at what came of it."""
        self.lock.acquire()
        try:
            self._flush(monotonic())
        finally:
            self.lock.release()

    def pause(self) -> None:
        """Read nothing more for now: backpressure for the other end."""
        self._paused = True
        if not self._done:
            self.transport.pause()
            self.link.pause()

    def resume(self) -> None:
        """Continue in the next turn: first with the bytes that a suspended sink left, then with the link."""
        self._paused = False
        if not self._resuming:
            self._resuming = True
            self._engine.call_soon(self._resume)

    def _resume(self) -> None:
        self._resuming = False
        if self._paused or self._done:
            return
        self.transport.resume(monotonic())
        self._after()
        if not self._paused and not self._done and not self.transport.is_suspended:
            self.link.resume()

    def ready(self) -> None:
        if self._pipe is not None:
            self._engine.reads(self._pipe.number, self)
        self.node.begins(self)
        with self.lock:
            self.transport.start(monotonic())
        self._after()

    def space(self) -> memoryview:
        return self.transport.space()

    def read(self, now: float) -> int:
        try:
            size = self._pipe.read(self.transport.space())  # type: ignore[union-attr]
        except OSError:
            size = 0
        if size > 0:
            self.transport.filled(size, now)
            self._after()
        else:
            self.link.on_readable(now)  # type: ignore[attr-defined]  # which knows what that means
        return 0

    def filled(self, size: int) -> None:
        self.transport.filled(size, monotonic())
        self._after()

    def receive(self, data: bytes | memoryview) -> None:
        self.transport.receive(data, monotonic())
        self._after()

    def writable(self) -> None:
        with self.lock:  # else a writer that has just met a full socket might say so after us
            self.way.blocked = False
        self.turn()
        if not self.way.blocked and self.was_open and not self._done:
            self.node.room(self)

    def drained(self) -> None:
        if self.transport.is_closed:
            self._after()

    def lost(self, error: LinkError | None) -> None:
        self.link_error = error
        with self.lock:
            self.transport.link_lost(RemoteError(error.why if error else "the other end hung up"))
            self.transport.queue.discard()
        self._finish()

    def _watch(self) -> None:
        """There is a flood: look again in a moment whether it is over."""
        now = monotonic()
        if now - self.way.last < self.transport.settings.batching_limit and not self._done:
            self._engine.call_at(now + self.transport.settings.batching_limit, self._watch)
        else:
            self.turn()

    def turn(self) -> None:
        """Write what waits."""
        self.way.armed = False
        if not self._done:
            try:
                self.write()
            except Exception as error:
                return self._fail(error)
        self._after()

    def arm(self) -> None:
        """There is something to write: do that when the loop's turn ends."""
        if self._engine.is_inside():
            self._engine.at_end(self)
        else:
            self._engine.call_soon(self.turn)

    def end_turn(self) -> int:
        if self.lane is not None:
            self.lane.armed = False
        self.turn()
        return 0

    def _flush(self, now: float) -> None:
        """With the lock held: write batches until the link takes no more."""
        if self.way.blocked:
            return
        transport = self.transport
        while transport.has_data():
            view = transport.data(now)
            if view is None:
                break
            size = self._write(view)
            if size:
                self.bytes_out += size
                transport.sent(size, now)
            if size < len(view):
                self.way.blocked = True
                break
        if self._waiters:
            self._room.notify_all()

    def _write(self, view: memoryview) -> int:
        """How many bytes the link took; if not all, it will tell when there is room.

        An error of the link ends the connection after this call: the queue is in use here.
        """
        size = cython.declare(cython.Py_ssize_t, 0)
        if self._pipe is not None:
            try:
                size = self._pipe.write(view)
            except OSError:  # full, or gone
                size = 0
            if size == len(view):
                return size  # type: ignore[no-any-return]
            view = view[size:]
        try:
            return size + self.link.write(view)  # type: ignore[no-any-return]
        except Exception as error:
            failure = error
            self._engine.call_soon(lambda: self._fail(failure))
            return size  # type: ignore[no-any-return]

    def _after(self) -> None:
        """Handle the events of the transport. An error ends the connection, so that none is left without a timer."""
        if self._done:
            return
        try:
            self._react()
        except Exception as error:
            self._fail(error)

    def _react(self) -> None:
        """Something happened: tell what it was, write what it caused, set the clock."""
        transport = self.transport
        for event in transport.events() if transport._events else ():
            if isinstance(event, Opened):
                self.was_open = True
                self.node.opened(self)
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
        self._timer = self._engine.call_at(when, self._late)

    def _late(self) -> None:
        self._timer = None
        if self.transport.is_silent(monotonic()):
            self._read_late()
        if not self._done:
            with self.lock:
                self.transport.on_timeout(monotonic())
            self._after()

    def _read_late(self) -> None:
        """Read before the lease is judged: timers can come first after a stop of the process."""
        try:
            if self.link.is_paused:
                self.transport.excuse(monotonic())
            else:
                self.link.poll(monotonic())
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        """End the connection because the link or our own code raised an error."""
        if not self._done:
            log.debug("%s: %s", self.link.remote, error, exc_info=error)
            why = error.why if isinstance(error, LinkError) else f"{type(error).__name__}: {error}"
            self.lost(LinkError(self.link.remote, why))

    def _finish(self) -> None:
        """End the connection: exactly once, whatever the link does.

        The node hears of the end even if the link cannot be closed in order: it counts connections.
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
        (self.node.closed if self.was_open else self.node.failed)(self, event)
