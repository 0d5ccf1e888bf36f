# SPDX-License-Identifier: Apache-2.0
"""A live node: the node of the network layer on connections of the runtime.

Open it with `open_node(NodeConfig(...))` and end it with `close`.

Threading: the application calls (those of `network.local_face`) from any thread. Received messages are handled on the event
loop thread, which also sends all control messages. Samples, queries and replies are sent by the thread that creates them.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from logging import getLogger
from typing import TYPE_CHECKING, Any

from zenlake import __version__
from zenlake.core.endpoint import EndPoint
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import Timestamp, ZenohId
from zenlake.core.peer_limits import merge_limits
from zenlake.core.releases import likely_release
from zenlake.errors import ConfigError, LinkError, ZenlakeError
from zenlake.link import Tls
from zenlake.link.base import BaseLink
from zenlake.network import face as network
from zenlake.network import node as nodes
from zenlake.network.access_control import EGRESS, INGRESS, AccessControl, Subject
from zenlake.network.adminspace import AdminSpace
from zenlake.network.forwarding import RxDispatcher
from zenlake.network.local_entities import LocalEntity
from zenlake.network.namespace import Namespace
from zenlake.network.roles import FaceRole
from zenlake.runtime.autoconnect import Autoconnect
from zenlake.runtime.connection import Connection, ConnectionOwner
from zenlake.runtime.connection_adapter import ConnectionAdapter, InterceptedAdapter
from zenlake.runtime.connection_manager import MEMORY, Backoff, ConnectionManager, Connector, new_zid
from zenlake.runtime.event_loop import Timer, wall
from zenlake.runtime.recording_hooks import RecordingHooks
from zenlake.runtime.traffic_stats import TrafficStats
from zenlake.transport.handshake import SOUTH
from zenlake.transport.rx import Sink
from zenlake.transport.settings import Settings
from zenlake.transport.tx_queue import TxQueue
from zenlake.transport.unicast import Closed

if TYPE_CHECKING:
    from zenlake.runtime.interceptors import IncomingInterceptor, Interceptors
    from zenlake.shared_memory.settings import SharedMemorySettings

__all__ = ["LiveNode", "NodeConfig", "RecordingHooks", "open_node"]

log = getLogger("zenlake.node")

# Default endpoints: only on this machine.
LISTEN = {WhatAmI.ROUTER: ("tcp/127.0.0.1:7447",), WhatAmI.PEER: ("tcp/127.0.0.1:0",), WhatAmI.CLIENT: ()}
DECLARE_TIMEOUT = 0.5  # seconds that a peer waits for the declarations of connected peers
MOMENT = 0.02  # seconds that a 1.10.2 peer needs to start connecting to discovered nodes
DROP_CHECK_PERIOD = 10.0  # seconds between two checks of the drop counters, if recorded

Scout = Callable[[float], Iterable[tuple[bytes, WhatAmI, tuple[str, ...]]]]


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Configuration of a node. Times are in seconds."""

    mode: WhatAmI = WhatAmI.PEER
    connect: tuple[str, ...] = ()
    listen: tuple[str, ...] | None = None
    """Endpoints to listen on. None: a free loopback port for a peer, port 7447 on loopback for a router, none for a client."""
    zid: bytes | None = None
    """ZenohID in wire format (little-endian). None: random."""
    transport: dict[str, Any] = field(default_factory=dict, repr=False)  # it contains the password
    """Fields of `transport.settings.Settings`: lease, qos, user, users ..."""
    shared_memory: "SharedMemorySettings | None" = None
    """Settings of shared memory with nodes of this host. None: payloads are always inline."""
    tls: Tls | None = None
    protocols: frozenset[str] | None = None
    """Allowed link protocols. None: all."""
    max_sessions: int = 1000
    max_pending: int = 100
    """Limit of pending handshakes for each listener."""
    max_memory: int = MEMORY
    """Limit in bytes of the memory that all neighbours together make this node use."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits in bytes for one neighbour, by `zenlake.core.peer_limits.Resource`. Other resources have the default limit."""
    access: AccessControl | None = None
    """Access control. None: everything is allowed."""
    filters: "Interceptors | None" = None
    """Filters of connections. None: all messages pass unchanged."""
    recording: RecordingHooks | None = None
    connect_timeout: float = 10.0
    """Seconds that `open_node` waits for pending connections. A client then fails, other roles continue in the background."""
    retry_for: float = 0.0
    """Seconds that `open_node` retries before it fails; `math.inf` for no limit."""
    must_connect: bool = False
    """Whether peers and routers fail too, unless every endpoint accepted the connection."""
    backoff: Backoff | None = field(default_factory=Backoff)
    """Delays of reconnection. None: no reconnection."""
    scout: Scout | None = None
    """Scouting function. A client without endpoints calls it with a timeout in seconds."""
    scouting_timeout: float = 3.0
    gossip: Autoconnect | None = None
    """Nodes discovered by gossip that this node connects to. None: a peer connects to peers and routers."""
    timestamping: bool | None = None
    """Whether samples receive timestamps. None: only on routers."""
    drops_future: bool = False
    """Whether a node that adds timestamps drops samples too far in the future instead of replacing their timestamps."""
    query_timeout: float = 10.0
    interest_timeout: float = 10.0
    namespace: bytes = b""
    """Prefix of all keys of the application, which it does not see."""
    aggregation: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Wide keys, in the application's namespace, that replace those of its subscribers and of its publishers."""
    admin: bool | None = None
    """Whether other nodes may query the admin space. None: only on routers."""


class LiveNode(ConnectionOwner):
    """One node of a Zenoh network. `docs/design/network.md` lists the interface of the application."""

    def __init__(self, config: NodeConfig) -> None:
        if sys.platform != "linux" and any(
            rules and rules.needs_interfaces for rules in (config.access, config.filters)
        ):
            raise ConfigError("rules on interfaces need Linux; use link_protocols or zids instead")
        limits = merge_limits(config.limits)
        self.config = config
        self.zid = config.zid or new_zid()
        self.whatami = config.mode
        self.node = nodes.Node(
            self.zid, config.mode, now=time.monotonic, wall=wall, lock=threading.RLock,
            adds_timestamps=config.timestamping, drops_future=config.drops_future, query_timeout=config.query_timeout,
            interest_timeout=config.interest_timeout,
        )  # fmt: skip
        self.node.wake = self._wake
        self.node.queries.on_earlier_deadline = self.node.interests.on_earlier_deadline = (
            self.node.routers.on_earlier_deadline
        ) = self._on_earlier_deadline
        self.node.interests.on_initial = lambda face: self.node.queue_call(self._notify_waiters)
        self.node.jobs.wake = self._wake_jobs
        self.node.on_error = lambda error: log.error("a callback failed", exc_info=error)
        is_peer = config.mode is WhatAmI.PEER
        self._gossip = config.gossip or Autoconnect(frozenset({WhatAmI.ROUTER, WhatAmI.PEER} if is_peer else ()))
        self.node.on_discover = self._on_discover
        self.node.call_with_delay = self._schedule_soon
        self.node.is_guarded = config.access is not None
        if config.recording is not None:
            self.node.queries.on_forward = self._record_forward
        self._past = dict.fromkeys(WhatAmI, TrafficStats())
        self._dispatchers: dict[Connection, RxDispatcher] = {}
        self._screens: "dict[Connection, IncomingInterceptor]" = {}
        self._recorded_drops: dict[Connection, int] = {}
        self._awake = False
        self._jobs_awake = False
        self._timer: Timer | None = None
        self._connecting: set[bytes] = set()
        self._changed = threading.Condition()
        self._closed = False
        application = self.node.application
        application.namespace = Namespace(config.namespace)
        if any(config.aggregation):
            from zenlake.network.aggregation import Aggregation  # imported here because aggregation is rare

            wide = ([application.namespace.add_prefix(key.encode()) for key in keys] for keys in config.aggregation)
            self.node.declarations.aggregation = Aggregation(*wide)
        self.declare_subscriber = application.declare_subscriber
        self.declare_publisher = application.declare_publisher
        self.declare_queryable = application.declare_queryable
        self.declare_querier = application.declare_querier
        self.declare_token = application.declare_token
        self.declare_liveliness_subscriber = application.declare_liveliness_subscriber
        self.liveliness_get = application.liveliness_get
        self.put = application.put
        self.prepare_put = application.prepare_put
        self.delete = application.delete
        self.get = application.get
        settings = Settings(self.zid, config.mode, **config.transport)
        self.admin = AdminSpace(
            self.node, f"zenlake {__version__}", config.mode is WhatAmI.ROUTER if config.admin is None else config.admin
        )
        self.runtime = ConnectionManager(
            settings, self, config.tls, config.max_sessions, config.max_pending, config.max_memory, config.protocols,
            limits, config.shared_memory,
        )  # fmt: skip
        self.node.budget = self.runtime.budget
        self.node.report = self.runtime.engine.peer_errors.report
        self.node.limits = limits

    # Any thread

    @property
    def locators(self) -> tuple[str, ...]:
        """Locators of this node."""
        return self.node.gossip.locators

    def faces(self) -> list[network.Face]:
        """Return the current neighbours, with `zid`, `whatami`, `dropped` and so on."""
        with self.node.lock:
            return self.node.faces

    def release_of(self, zid: bytes) -> str | None:
        """Return the likely Zenoh release of a neighbour, inferred from its handshake, or None."""
        face = self.runtime.faces.get(zid)
        if face is None:
            return None
        sides = face.session.sides
        return next((likely_release(side.traits, side is sides[0]) for side in sides if side.zid == zid), None)

    def counters(self) -> dict[str, int]:
        """Return the counters of dropped and refused messages, by cause."""
        return {**self.node.counters, **self.runtime.engine.peer_errors.counts}

    def traffic(self) -> dict[WhatAmI, TrafficStats]:
        """Return the traffic by role of the neighbours."""
        found = dict(self._past)
        for face, dispatcher in list(self._dispatchers.items()):
            if dispatcher.face is not None:
                found[dispatcher.face.whatami] += TrafficStats.of(face, dispatcher.face)
        return found

    def new_timestamp(self) -> Timestamp:
        """Return a new timestamp of this node's hybrid logical clock."""
        return self.node.timestamp()

    def undeclare(self, entity: LocalEntity) -> None:
        """Undeclare an entity returned by a `declare_...` method. Repeated calls have no effect."""
        entity.undeclare()

    def listen(self, endpoint: str) -> str:
        """Listen on an endpoint. Return the locator with the selected port."""
        locator = self.runtime.listen(endpoint)
        with self.node.lock:
            self.node.gossip.update_locators((*self.node.gossip.locators, locator))
        self._wake()
        return locator

    def connect(self, endpoint: str) -> Connector:
        """Connect to an endpoint, and reconnect after a loss."""
        return self.runtime.connect(endpoint, self.config.backoff)

    def wait_for_face(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait until this number of sessions is open. Return False after the timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.faces()) >= count, timeout)

    def wait_until_declared(self, timeout: float) -> bool:
        """Wait until every connected peer has sent its initial declarations."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(face.has_initial_final for face in self.faces() if face.role is FaceRole.BESIDE), timeout
            )

    def close(self) -> None:
        """Undeclare all entities, send CLOSE to all neighbours and stop."""
        if self._closed:
            return
        self._closed = True
        self.node.application.close()
        self.runtime.engine.run(self._flush)
        self.runtime.close()

    def __enter__(self) -> "LiveNode":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Listen and connect according to the configuration."""
        config = self.config
        if config.recording is not None:
            self.runtime.engine.run(self._record_all_drops)
        for endpoint in LISTEN[config.mode] if config.listen is None else config.listen:
            if not self._join_group(endpoint):
                self.listen(endpoint)
        if config.mode is WhatAmI.CLIENT:
            self._be_client()
            return
        connections = [self.connect(endpoint) for endpoint in config.connect if not self._join_group(endpoint)]
        self._wait_for([connection.tried for connection in connections], min(config.connect_timeout, 1.0))
        if config.must_connect:
            self._wait_for([connection.first for connection in connections], config.retry_for)
            for connection in connections:
                if not connection.first.done():
                    raise connection.error or LinkError(str(connection.endpoint), "session not open in time")
        if connections and config.mode is WhatAmI.PEER:
            self.wait_until_declared(DECLARE_TIMEOUT)

    def _join_group(self, endpoint: str) -> bool:
        """Join a multicast group that a peer or router has as endpoint. Return False for other endpoints."""
        if self.whatami is WhatAmI.CLIENT or not endpoint.startswith("udp/"):
            return False
        from zenlake.link.udp import is_multicast
        from zenlake.runtime.multicast_adapter import MulticastAdapter

        if not is_multicast(EndPoint.parse(endpoint)):
            return False
        membership = MulticastAdapter(self.node)
        membership.speak(self.runtime.join(endpoint, membership))
        self._wake()
        return True

    @staticmethod
    def _wait_for(futures: "list[Future[Any]]", timeout: float) -> None:
        deadline = time.monotonic() + timeout
        for future in futures:
            with suppress(TimeoutError, ZenlakeError):
                future.result(None if math.isinf(timeout) else max(0.0, deadline - time.monotonic()))

    def _be_client(self) -> None:
        """Open the single session of a client, with the first endpoint that accepts it."""
        config = self.config
        endpoints = list(config.connect)
        if not endpoints and config.scout is not None:
            endpoints = [locator for _, _, where in config.scout(config.scouting_timeout) for locator in where]
            if not endpoints:
                raise LinkError("scouting", f"no reply in {config.scouting_timeout:g} s; specify an endpoint")
        if not endpoints:
            raise ConfigError("a client needs an endpoint to connect to, for example tcp/127.0.0.1:7447")
        self.runtime.connect_first(endpoints, config.connect_timeout, config.backoff, config.retry_for)

    # Event loop thread, called by the runtime

    def sink(self, face: Connection) -> Sink:
        dispatcher = self._dispatchers[face] = RxDispatcher(self.node, lambda: self._join(face))
        if self.config.filters is None:
            return dispatcher
        from zenlake.runtime.interceptors import IncomingInterceptor

        screen = self._screens[face] = IncomingInterceptor(dispatcher, self.node, lambda: self._join(face))
        return screen

    def on_stateless_reply(self, link: BaseLink, init: bytes, replies: list[bytes]) -> None:
        if self.config.recording is not None:
            self.config.recording.on_stateless_reply(link, init, replies)

    def on_start(self, face: Connection) -> None:
        if self.config.recording is not None:
            self.config.recording.on_start(face)

    def on_open(self, face: Connection) -> None:
        if self._dispatchers[face].face is None:
            self._join(face)
        self._notify_waiters()

    def _join(self, face: Connection) -> network.Face:
        """Add the connection to the node as a face."""
        session = face.session
        theirs = next(side for side in session.sides if side.zid == face.zid)
        bits = 8 << (session.resolution >> 2 & 3)
        tx = self._tx_handle(face)
        joined = network.Face(
            tx, face.zid, self.whatami, WhatAmI.from_wire(theirs.whatami),
            request_ids=(1 << min(bits, 32)) - 1, is_gateway=theirs.remote_bound == SOUTH,
        )  # fmt: skip
        if self.config.access is not None:
            joined.guard = self.config.access.guard(_describe_subject(face))
        if self.config.filters is not None:
            self._screens.pop(face).attach(joined, self.config.filters.of(_describe_subject(face), INGRESS))
        if isinstance(tx, InterceptedAdapter):
            tx.joined = joined
        elif isinstance(face.transport.queue, TxQueue):
            face.flush_policy.queue = face.transport.queue
            joined.queue_handle = face.flush_policy
        self._dispatchers[face].attach(joined)
        self.node.add_face(joined)
        return joined

    def _tx_handle(self, face: Connection) -> ConnectionAdapter:
        filter = None if self.config.filters is None else self.config.filters.of(_describe_subject(face), EGRESS)
        if filter is None:
            return ConnectionAdapter(face, self)
        from zenlake.runtime.interceptors import OutgoingInterceptor

        def finish_query(id: int) -> None:
            joined = self._dispatchers[face].face if face in self._dispatchers else None
            if joined is not None:
                with self.node.lock:
                    sends = self.node.queries.on_final(joined, id)
                self.node._perform(sends)

        soon = self.runtime.engine.call_soon
        return InterceptedAdapter(
            face, self, OutgoingInterceptor(self.node, filter, lambda id: soon(lambda: finish_query(id)))
        )

    def on_close(self, face: Connection, event: Closed) -> None:
        joined = self._dispatchers.pop(face).face
        if joined is not None:
            self._past[joined.whatami] += TrafficStats.of(face, joined, sessions=0)
            self.node.remove_face(joined)
        self._record_end(face, joined, event)
        self._notify_waiters()

    def on_open_failed(self, face: Connection, event: Closed) -> None:
        self._dispatchers.pop(face, None)
        self._screens.pop(face, None)
        self._record_end(face, None, event)

    def _record_end(self, face: Connection, joined: network.Face | None, event: Closed) -> None:
        if self.config.recording is not None:
            if joined is not None:
                self._record_drops(face, joined)
                self._recorded_drops.pop(face, None)
            self.config.recording.on_close(face, event)

    def _record_all_drops(self) -> None:
        for face, dispatcher in self._dispatchers.items():
            if dispatcher.face is not None:
                self._record_drops(face, dispatcher.face)
        self.runtime.engine.call_at(time.monotonic() + DROP_CHECK_PERIOD, self._record_all_drops)

    def _record_drops(self, face: Connection, joined: network.Face) -> None:
        """Record the messages dropped since the last call."""
        dropped = TrafficStats.of(face, joined).dropped
        new = dropped - self._recorded_drops.get(face, 0)
        if new and self.config.recording is not None:
            self._recorded_drops[face] = dropped
            self.config.recording.on_drop(face, new)

    def _record_forward(self, source: network.Face, id: int, target: network.Face, new: int) -> None:
        came, goes = source.tx, target.tx
        if (
            self.config.recording is not None
            and isinstance(came, ConnectionAdapter)
            and isinstance(goes, ConnectionAdapter)
        ):
            self.config.recording.on_forward(came.face, id, goes.face, new)

    def on_writable(self, face: Connection) -> None:
        if self.node.dirty_faces:
            self._flush()

    def _notify_waiters(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # Work on the event loop thread

    def in_loop(self, call: Callable[[], object]) -> None:
        if self.runtime.engine.inside:
            call()
        else:
            self.runtime.engine.call_soon(call)

    def _schedule_soon(self, call: Callable[[], None]) -> None:
        def late() -> None:
            with self.node.lock:
                call()
            self.node._run_effects()

        self.runtime.engine.call_at(time.monotonic() + MOMENT, late)

    def _wake(self) -> None:
        if not self._awake:
            self._awake = True
            self.runtime.engine.call_soon(self._flush)

    def _flush(self) -> None:
        self._awake = False
        self.node.flush()

    def _wake_jobs(self) -> None:
        if not self._jobs_awake:
            self._jobs_awake = True
            self.runtime.engine.call_soon(self._run_jobs)

    def _run_jobs(self) -> None:
        self._jobs_awake = False
        self.node.jobs.run()

    def _on_earlier_deadline(self, deadline: float) -> None:
        self.in_loop(self._set_timer)

    def _set_timer(self) -> None:
        when = self.node.next_timeout()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when is not None:
            self._timer = self.runtime.engine.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.node.on_timeout(time.monotonic())
        self._set_timer()

    # Gossip

    def _on_discover(self, zid: bytes, whatami: WhatAmI, locators: tuple[str, ...]) -> None:
        if self._gossip.wants(self.zid, zid, whatami):
            self.connect_discovered(zid, locators)

    def connect_discovered(self, zid: bytes, locators: tuple[str, ...]) -> None:
        """Connect to a discovered node immediately. If it connects too, `ConnectionManager` decides which session remains."""
        if self.whatami is WhatAmI.CLIENT or zid in self._connecting or zid in self.runtime.faces or self._closed:
            return
        self._connecting.add(zid)
        self.runtime.engine.call_soon(lambda: self._connect_next(zid, list(locators)))

    def _connect_next(self, zid: bytes, locators: list[str]) -> None:
        if not locators or zid in self.runtime.faces or self._closed:
            self._connecting.discard(zid)
            return
        try:
            connection = self.runtime.connect(locators.pop(0))
        except ZenlakeError:
            return self._connect_next(zid, locators)

        def try_next(first: "Future[Connection]") -> None:
            self.runtime.engine.call_soon(
                lambda: self._connect_next(zid, [] if first.exception() is None else locators)
            )

        connection.first.add_done_callback(try_next)


def _describe_subject(face: Connection) -> Subject:
    """Return the properties of a neighbour for access control."""
    protocol = face.link.remote.partition("/")[0]
    link = face.link
    return Subject(protocol, str(ZenohId.from_wire(face.zid)), face.transport.user, link.common_name, link.interfaces)


def open_node(config: NodeConfig) -> LiveNode:
    """Open a node: it listens, and a client is connected."""
    node = LiveNode(config)
    try:
        node.start()
    except BaseException:
        node.close()
        raise
    return node
