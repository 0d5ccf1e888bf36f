# SPDX-License-Identifier: Apache-2.0
"""Connection manager: listens, connects, reconnects, and closes all connections of one node.

Threads: the event loop, and one more while a host name is resolved, for any number of connections.
"""

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from zenlake import link as links
from zenlake.core.endpoint import EndPoint
from zenlake.core.peer_limits import DEFAULT_LIMITS, Account, Resource
from zenlake.errors import CloseReason, EndpointError, LinkError, RemoteError, ZenlakeError
from zenlake.link.base import HANG_UP, BaseLink, LinkListener
from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.runtime.event_loop import EventLoop, Timer
from zenlake.transport.handshake import Acceptor, Admit, Deferred, HandshakeState, Opener
from zenlake.transport.memory_budget import MemoryBudget
from zenlake.transport.rx import RxArena
from zenlake.transport.settings import Settings
from zenlake.transport.unicast import Closed, Unicast
from zenlake.wire.qos_link import QosLink

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from zenlake.runtime.multicast_connection import MulticastConnection, MulticastListener
    from zenlake.shared_memory.link import Negotiation
    from zenlake.shared_memory.node import SharedMemory
    from zenlake.shared_memory.settings import SharedMemorySettings

__all__ = ["MEMORY", "Backoff", "Connector", "ConnectionManager", "new_zid"]

MEMORY = 1 << 31  # two messages of the maximum default size
GRACE = 0.5  # minimum seconds of a handshake
BURST = 10  # times the limit: maximum pending handshakes that are younger than GRACE
HANDSHAKE_SIZE = 128 << 10  # bytes of a pending handshake: TLS state and the beginning of a batch


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays between attempts: 1, 2, 4, 4 ... seconds."""

    first: float = 1.0
    factor: float = 2.0
    most: float = 4.0


class Connector:
    """An outgoing connection to an endpoint, or to one of several. With a backoff it reconnects after a loss."""

    def __init__(self, runtime: "ConnectionManager", endpoint: EndPoint, backoff: Backoff | None) -> None:
        self.endpoint = endpoint
        self.restriction = qos_link(endpoint)
        self._choices = [endpoint]
        self._round: list[EndPoint] = []
        """Endpoints of this round that have not been tried yet."""
        self.face: Connection | None = None
        self.error: ZenlakeError | None = None
        self.first: Future[Connection] = Future()
        """Completed when the first session is open; failed if that fails and there is no backoff."""
        self.tried: Future[None] = Future()
        """Completed when every address was tried once, or one has opened."""
        self._runtime = runtime
        self._backoff = backoff
        self._delay = backoff.first if backoff else 0.0
        self._timer: Timer | None = None
        self._addresses: list[links.Address | None] = []
        """Addresses of this endpoint that have not been tried yet."""
        self._stopped = False

    def stop(self) -> None:
        """Stop connecting. An open session stays open."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        if not self.first.done():
            self.first.set_exception(LinkError(str(self.endpoint), "cancelled: connecting was stopped"))
        self._finish_round()

    def keep(self, backoff: Backoff | None, choices: list[EndPoint]) -> None:
        """Reconnect after a loss from now on, to the first of these endpoints that accepts."""
        self._choices = choices
        self._backoff = backoff
        self._delay = backoff.first if backoff else 0.0

    def begin(self) -> None:
        """Try each address of each host once. Called on the event loop thread."""
        self._timer = None
        self._round = list(self._choices)
        self._next()

    def _next(self) -> None:
        if self._stopped:
            return
        self.endpoint = self._round.pop(0)
        self.restriction = qos_link(self.endpoint)
        try:
            self._runtime.admit(self.endpoint)
        except LinkError as error:
            return self.on_open_failed(error)
        self._runtime.resolve(self.endpoint, self._on_addresses, self.on_open_failed)

    def _on_addresses(self, addresses: list[links.Address | None]) -> None:
        self._addresses = addresses
        self._attempt()

    def _attempt(self) -> None:
        if self._stopped:
            return
        try:
            link = links.connect(self.endpoint, self._addresses.pop(0), self._runtime.tls)
        except ZenlakeError as error:
            return self.on_open_failed(error)
        self._runtime.start_handshake(link, self)

    def on_open(self, face: Connection) -> None:
        self.face = face
        self.error = None
        self._delay = self._backoff.first if self._backoff else 0.0
        if not self.first.done():
            self.first.set_result(face)
        self._finish_round()

    def on_close(self) -> None:
        self.face = None
        self._schedule_retry()

    def on_open_failed(self, error: ZenlakeError) -> None:
        if self._addresses:
            return self._attempt()
        if self._round:
            return self._next()
        self.error = error
        if self._backoff is None and not self.first.done():
            self.first.set_exception(error)
        self._finish_round()
        self._schedule_retry()

    def _finish_round(self) -> None:
        if not self.tried.done():
            self.tried.set_result(None)

    def _schedule_retry(self) -> None:
        if self._backoff is None or self._stopped:
            return
        self._timer = self._runtime.engine.call_at(monotonic() + self._delay, self.begin)
        self._delay = min(self._delay * self._backoff.factor, self._backoff.most)


class ConnectionManager(ConnectionOwner):
    """All connections of one node. `node` handles their events."""

    def __init__(
        self,
        settings: Settings,
        node: ConnectionOwner,
        tls: links.Tls | None = None,
        max_sessions: int = 1000,
        max_pending: int = 100,
        max_memory: int = MEMORY,
        protocols: frozenset[str] | None = None,
        limits: Mapping[Resource, int] = DEFAULT_LIMITS,
        shared_memory: "SharedMemorySettings | None" = None,
    ) -> None:
        self.settings = settings
        self._shared_settings = shared_memory
        self.shared_memory: "SharedMemory | None" = None
        """Shared memory of this node, from its first connection on."""
        self.node = node
        self.tls = tls or links.Tls()
        self.max_sessions = max_sessions
        self.max_pending = max_pending
        """Limit of pending handshakes for each listener. A flood at one listener leaves the others available."""
        self.protocols = protocols
        """Allowed link protocols. None: all."""
        self.limits = limits
        """Limits in bytes for one peer, by resource."""
        self.budget = MemoryBudget(max_memory, threading.Lock())
        """Memory limit of all connections together. At the limit, new links are refused."""
        self.engine = EventLoop()
        self.faces: dict[bytes, Connection] = {}
        self.listeners: list[LinkListener] = []
        self.connections: list[Connector] = []
        self.groups: "list[MulticastConnection]" = []
        self.refused = 0
        """Number of refused links, because of the handshake limit or the memory limit."""
        self._arena = RxArena()
        self._secret = os.urandom(32)
        self._handshakes: dict[Connection, tuple[LinkListener, float]] = {}
        self._all: dict[Connection, Connector | None] = {}
        self._dialing: set[Connection] = set()  # outgoing connections without a session
        self._resolver: "ThreadPoolExecutor | None" = None
        self._gone = threading.Condition()
        self._closing = False
        self._ends_itself = False  # closed on its own thread: the end of the last connection stops the loop
        self.engine.start()

    # Any thread

    def listen(self, endpoint: str | EndPoint) -> str:
        """Listen on an endpoint. Return the locator with the selected port."""
        end = EndPoint.parse(endpoint) if isinstance(endpoint, str) else endpoint
        self.admit(end)
        listener = links.listen(end, self.tls)
        restriction = qos_link(end)
        listener.on_link = lambda link: self._accept(link, restriction, listener)
        listener.on_stranger = lambda link, data: self._answer(link, data, restriction)

        def begin() -> None:
            self.listeners.append(listener)
            self.engine.add(listener)

        self.engine.run(begin)
        return listener.locator

    def admit(self, endpoint: EndPoint) -> None:
        """Refuse a link whose protocol the configuration does not allow."""
        if self.protocols is not None and endpoint.protocol not in self.protocols:
            allowed = ", ".join(sorted(self.protocols)) or "none"
            raise LinkError(
                str(endpoint),
                f"transport/link/protocols allows {allowed}: add {endpoint.protocol}, or use an allowed protocol",
            )

    def connect(self, endpoint: str | EndPoint, backoff: Backoff | None = None) -> Connector:
        """Connect once, or with a backoff repeatedly, without waiting. `first` is completed when the session is open."""
        end = EndPoint.parse(endpoint) if isinstance(endpoint, str) else endpoint
        connection = Connector(self, end, backoff)

        def begin() -> None:
            if self._closing:
                return connection.stop()
            self.connections.append(connection)
            connection.begin()

        self.engine.call_soon(begin)
        return connection

    def open(self, endpoint: str | EndPoint, timeout: float | None = None) -> Connection:
        """Connect once and wait until the session is open."""
        connection = self.connect(endpoint)
        try:
            return connection.first.result(timeout)
        except TimeoutError:
            connection.stop()
            raise LinkError(str(endpoint), f"session not open after {timeout:g} s") from None

    def connect_first(
        self, endpoints: Sequence[str | EndPoint], timeout: float, backoff: Backoff | None, retry_for: float = 0.0
    ) -> Connector:
        """Connect to the first endpoint that accepts. With a backoff, reconnect after each loss.

        Each endpoint is tried once, within `timeout` seconds in total. All are tried again until `retry_for` seconds have passed.
        It fails immediately if another thread closes the runtime.
        """
        end = monotonic() + retry_for
        delays = backoff or Backoff()
        delay = delays.first
        while True:
            left = end - monotonic()
            try:
                return self._connect_first(endpoints, min(timeout, left) if retry_for else timeout, backoff)
            except LinkError as error:
                with self._gone:
                    self._gone.wait_for(lambda: self._closing, max(0.0, min(delay, end - monotonic())))
                if self._closing:
                    raise LinkError(error.endpoint, "cancelled: the runtime is closing") from None
                if monotonic() >= end:
                    tried = f"; tried for {retry_for:g} s" if retry_for else ""
                    raise LinkError(error.endpoint, error.why + tried) from None
            delay = min(delay * delays.factor, delays.most)

    def _connect_first(self, endpoints: Sequence[str | EndPoint], timeout: float, backoff: Backoff | None) -> Connector:
        deadline = monotonic() + timeout
        failure: ZenlakeError | None = None
        choices = [EndPoint.parse(endpoint) if isinstance(endpoint, str) else endpoint for endpoint in endpoints]
        for endpoint in choices:
            if self._closing:
                raise LinkError(str(endpoint), "cancelled: the runtime is closing")
            connection = self.connect(endpoint)
            try:
                connection.first.result(max(0.0, deadline - monotonic()))
            except TimeoutError:
                connection.stop()
                failure = failure or LinkError(str(endpoint), f"session not open after {timeout:g} s")
            except ZenlakeError as error:
                failure = failure or error
            else:
                connection.keep(backoff, choices)
                return connection
        raise failure or EndpointError("no endpoint to connect to; specify one, for example tcp/127.0.0.1:7447")

    def join(self, endpoint: str | EndPoint, members: "MulticastListener") -> "MulticastConnection":
        """Join a multicast group."""
        from zenlake.link import multicast
        from zenlake.runtime.multicast_connection import MulticastConnection

        end = EndPoint.parse(endpoint) if isinstance(endpoint, str) else endpoint
        self.admit(end)
        link = multicast.join(end)

        def begin() -> "MulticastConnection":
            group = MulticastConnection(
                self.engine, link, self.settings, members, self._arena, self.budget, Account(self.limits, self.budget)
            )
            self.groups.append(group)
            self.engine.add(link)
            group.begin()
            return group

        return self.engine.run(begin)

    def close(self, timeout: float = 5.0) -> None:
        """Send CLOSE to all peers, wait until it is sent, and stop. No thread, socket or file descriptor remains.

        On the event loop thread it returns immediately, and the event loop completes the work.
        """
        if self._closing:
            return
        self._closing = True
        self._notify()

        def begin() -> None:
            for connection in self.connections:
                connection.stop()
            for listener in self.listeners:
                listener.close()
            for group in self.groups:
                group.close()
            for face in list(self._all):
                face.close()

        self.engine.run(begin)
        if self.engine.inside:
            self._ends_itself = True
            self.engine.call_at(monotonic() + timeout, self.engine.stop)
            self._notify()
        else:
            with self._gone:
                self._gone.wait_for(lambda: not self._all, timeout)
            self.engine.stop()
            self._end_shared_memory()
        if self._resolver is not None:
            self._resolver.shutdown(wait=not self.engine.inside, cancel_futures=True)

    # Event loop thread

    def resolve(
        self,
        endpoint: EndPoint,
        on_addresses: Callable[[list[links.Address | None]], None],
        on_error: Callable[[ZenlakeError], None],
    ) -> None:
        """Resolve the addresses of a host without blocking the event loop."""
        if not links.needs_resolution(endpoint):
            return on_addresses(links.resolve(endpoint))
        if self._resolver is None:
            from concurrent.futures import ThreadPoolExecutor

            self._resolver = ThreadPoolExecutor(1, thread_name_prefix="zenlake-names")

        def finish(answer: Future[list[links.Address | None]]) -> None:
            if answer.cancelled():
                return
            error = answer.exception()
            if isinstance(error, ZenlakeError):
                failure = error
                self.engine.call_soon(lambda: on_error(failure))
            else:
                self.engine.call_soon(lambda: on_addresses(answer.result()))

        self._resolver.submit(links.resolve, endpoint).add_done_callback(finish)

    def start_handshake(self, link: BaseLink, connection: Connector) -> None:
        """Begin the handshake of an outgoing link."""
        opener = Opener(
            self.settings, now=monotonic(), batch_size=link.mtu, qos_link=connection.restriction, admit=self._admit,
            shared=self._negotiate_shared_memory(link),
        )  # fmt: skip
        self._begin(link, opener, connection, Account(self.limits, self.budget))

    def _negotiate_shared_memory(self, link: BaseLink) -> "Negotiation | None":
        """Return the negotiation of shared memory on a link, or None if it is off."""
        if self._shared_settings is None or self._closing:
            return None
        if self.shared_memory is None:
            from zenlake.shared_memory.node import SharedMemory  # Performance: imported with the first connection

            self.shared_memory = SharedMemory(self._shared_settings, self.settings.max_message_size)
        report = self.engine.peer_errors.report
        return self.shared_memory.negotiate(
            link.reliable, lambda: is_same_host(link), lambda why: report(link.remote, why, "references refused")
        )

    @property
    def _pending(self) -> int:
        """Number of pending handshakes of incoming connections."""
        return len(self._handshakes)

    def _accept(self, link: BaseLink, restriction: QosLink | None, listener: LinkListener) -> None:
        """Begin the handshake of an incoming connection. Over the limit of its listener, the oldest handshakes end.

        An honest handshake takes milliseconds, so the oldest ones are most likely stalled. A handshake younger than GRACE stays, up
        to BURST times the limit: otherwise a burst of connections would end honest handshakes too.
        """
        account = Account(self.limits, self.budget)
        full = ""
        now = monotonic()
        pending = [(began, face) for face, (each, began) in self._handshakes.items() if each is listener]
        for began, face in pending[: max(0, len(pending) + 1 - self.max_pending)]:
            if began + GRACE > now:
                break
            del self._handshakes[face]
            self.refused += 1
            self.engine.peer_errors.report(face.link.remote, "handshake ended", "connections refused: handshake limit")
            face.abandon()
        if len(pending) >= BURST * self.max_pending:
            full = "handshake limit"
        elif self.budget.is_full or not account.charge(Resource.HANDSHAKES, HANDSHAKE_SIZE):
            full = "no memory"
        if full or self._closing:
            account.close()
            self.refused += 1
            if full:
                self.engine.peer_errors.report(link.remote, "connection refused", f"connections refused: {full}")
            link.close()
            return
        self._begin(link, self._acceptor(link, restriction, self._admit_incoming), None, account, listener)

    def _answer(self, link: BaseLink, data: bytes, restriction: QosLink | None) -> bool:
        """Handle a datagram of an unknown peer. Unless it is a valid OpenSyn, the peer receives only a reply."""
        if self.budget.is_full:
            self.refused += 1
            self.engine.peer_errors.report(link.remote, "datagram refused", "connections refused: no memory")
            return True
        acceptor = self._acceptor(
            link, restriction, self._admit
        )  # a valid OpenSyn gets a connection, which decides again
        acceptor.receive(data, monotonic())
        if acceptor.shared is not None:
            acceptor.shared.close()  # nothing is stored for a datagram
        if acceptor.state is HandshakeState.OPEN:
            return False
        if acceptor.error is not None and not acceptor.refused_by_peer:
            self.engine.peer_errors.report(link.remote, acceptor.error, "handshakes refused: datagrams")
        for message in acceptor.to_send:
            link.write(memoryview(message))
        self.node.on_stateless_reply(link, data, list(acceptor.to_send))
        return True

    def _acceptor(self, link: BaseLink, restriction: QosLink | None, admit: Admit) -> Acceptor:
        return Acceptor(
            self.settings, secret=self._secret, context=link.context, now=monotonic(), batch_size=link.mtu,
            qos_link=restriction, admit=admit, shared=self._negotiate_shared_memory(link),
        )  # fmt: skip

    def _begin(
        self,
        link: BaseLink,
        handshake: Opener | Acceptor,
        connection: Connector | None,
        account: Account,
        listener: LinkListener | None = None,
    ) -> None:
        face = Connection(self.engine, link, self, account)
        sink = self.node.sink(face)
        face.attach(
            Unicast(handshake, stream=link.stream, sink=sink, arena=self._arena, budget=self.budget, account=account)
        )
        self._all[face] = connection
        if listener is not None:
            self._handshakes[face] = (listener, monotonic())
        else:
            self._dialing.add(face)
        if link.port is not None:
            self.engine.add(link.port)
        face.begin()

    def _admit(self, zid: bytes) -> CloseReason | None:
        if zid in self.faces:
            return CloseReason.MAX_LINKS
        if len(self.faces) >= self.max_sessions:
            return CloseReason.MAX_SESSIONS
        return None

    def _admit_incoming(self, zid: bytes) -> CloseReason | None:
        """Decide about an OpenSyn of a peer. If both ends connect at once, the connection of the greater id remains.

        The end with the greater id refuses the other connection. The end with the smaller id waits for the result of its own
        connection: a Zenlake peer refuses it, a 1.10.2 peer may accept it.
        """
        if any(face.zid == zid for face in self._dialing):
            if self.settings.zid[::-1] > zid[::-1]:
                return CloseReason.MAX_LINKS
            raise Deferred
        return self._admit(zid)

    def _end_dial(self, face: Connection) -> None:
        """Decide about connections that waited for the result of an outgoing one."""
        if face in self._dialing:
            self._dialing.discard(face)
            for other in list(self._handshakes):
                other.retry()

    def on_start(self, face: Connection) -> None:
        self.node.on_start(face)

    def on_open(self, face: Connection) -> None:
        connection = self._all[face]
        if self._handshakes.pop(face, None) is not None:
            face.account.set(Resource.HANDSHAKES, 0)
        self.faces[face.zid] = face
        self.node.on_open(face)
        if connection is not None:
            connection.on_open(face)
        self._end_dial(face)

    def on_close(self, face: Connection, event: Closed) -> None:
        if self.faces.get(face.zid) is face:
            del self.faces[face.zid]
        connection = self._all.pop(face)
        self._report(face, event, connection is None)
        try:
            self.node.on_close(face, event)
        finally:
            if connection is not None:
                connection.on_close()
            self._notify()

    def on_open_failed(self, face: Connection, event: Closed) -> None:
        connection = self._all.pop(face)
        self._handshakes.pop(face, None)
        self._report(face, event, connection is None)
        try:
            self.node.on_open_failed(face, event)
        finally:
            if connection is not None:
                connection.on_open_failed(face.link_error or event.error or LinkError(face.link.remote, "closed"))
            self._end_dial(face)
            self._notify()

    def _report(self, face: Connection, event: Closed, accepted: bool) -> None:
        """Report an end caused by the peer: a protocol violation, silence, or an unusable link."""
        if face.link_error is not None:
            reason: ZenlakeError | None = face.link_error if accepted and face.link_error.why != HANG_UP else None
            kind = "link"
        else:
            reason = event.error if isinstance(event.error, RemoteError) and not event.by_peer else None
            kind = event.reason.name.lower()
        if event.reason is CloseReason.MAX_LINKS:
            return  # two nodes that discover each other connect to each other
        if reason is not None:
            why = reason.why if isinstance(reason, LinkError) else reason
            self.engine.peer_errors.report(
                face.link.remote, why, f"{'sessions' if face.was_open else 'handshakes'} closed: {kind}"
            )

    def on_writable(self, face: Connection) -> None:
        self.node.on_writable(face)

    def _notify(self) -> None:
        with self._gone:
            self._gone.notify_all()
        if self._ends_itself and not self._all:
            self._end_shared_memory()
            self.engine.stop()

    def _end_shared_memory(self) -> None:
        if self.shared_memory is not None:
            self.shared_memory.close()


def is_same_host(link: BaseLink) -> bool:
    """Return whether both ends of a link are certainly on this host, so that shared memory may be proposed."""
    protocol, _, remote = link.remote.partition("/")
    if protocol.startswith("unix"):
        return True
    host = remote.rpartition(":")[0]
    return host == link.local.partition("/")[2].rpartition(":")[0] or host.startswith("127.") or host == "[::1]"


def new_zid() -> bytes:
    """Return a random ZenohID of 16 bytes, as 1.10.2 does. The last byte is not 0, because such ids have fewer digits."""
    zid = os.urandom(16)
    return zid if zid[-1] else zid[:-1] + b"\x01"


def qos_link(endpoint: EndPoint) -> QosLink | None:
    """Return the restriction of a link in the metadata of its endpoint: `?prio=1-3;rel=0`."""
    prio, rel = endpoint.metadata.get("prio"), endpoint.metadata.get("rel")
    if prio is None and rel is None:
        return None
    try:
        first, _, last = (prio or "").partition("-")
        priorities = None if prio is None else (int(first), int(last or first))
        return QosLink(True, priorities, None if rel is None else {"0": False, "1": True}[rel])
    except (ValueError, KeyError):
        raise EndpointError(
            f"endpoint `{endpoint}`: invalid metadata; expected for example ?prio=1-3;rel=0, with priorities 0 to 7"
        ) from None
