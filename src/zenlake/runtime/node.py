# SPDX-License-Identifier: Apache-2.0
"""A live node: the network's node on the runtime's connections. `open_node(NodeConfig(...))`, use it, `close` it.

The application's calls (those of `network.application`) come from any thread. What arrives is handled in the loop's
thread, and so are all control messages sent; samples, queries and answers are sent by the thread that makes them.
"""

import math
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zenlake import __version__
from zenlake.endpoint import EndPoint
from zenlake.errors import ConfigError, LinkError, ZenlakeError
from zenlake.limits import merge_limits
from zenlake.link import Tls
from zenlake.link.base import Link
from zenlake.network import face as network
from zenlake.network import node as nodes
from zenlake.network.access import EGRESS, INGRESS, AccessControl, Who
from zenlake.network.admin import Admin
from zenlake.network.entities import Entity
from zenlake.network.forward import Door, Lane
from zenlake.network.namespace import Namespace
from zenlake.network.roles import Stand
from zenlake.record import dataclass, field
from zenlake.runtime.engine import Timer, wall
from zenlake.runtime.face import Face, Node
from zenlake.runtime.future import Future
from zenlake.runtime.outlets import Connected, Screened
from zenlake.runtime.recording import Recording
from zenlake.runtime.runtime import MEMORY, Backoff, Connection, Runtime, new_zid
from zenlake.runtime.traffic import Traffic
from zenlake.telling import logger
from zenlake.transport.config import Settings
from zenlake.transport.inbox import Sink
from zenlake.transport.queue import Queue
from zenlake.transport.unicast import Closed
from zenlake.values import Timestamp, WhatAmI, ZenohId

if TYPE_CHECKING:
    from zenlake.runtime.filters import Filters, Screen

__all__ = ["LiveNode", "NodeConfig", "Recording", "open_node"]

log = logger("zenlake.node")

# Where a node listens unless told otherwise: only on this machine.
LISTEN = {WhatAmI.ROUTER: ("tcp/127.0.0.1:7447",), WhatAmI.PEER: ("tcp/127.0.0.1:0",), WhatAmI.CLIENT: ()}
TOLD = 0.5  # seconds that a peer waits for the declarations of those it connected to
MOMENT = 0.02  # seconds that a real peer needs to begin connecting to those that it was told of
SOUTH = 1  # RemoteBound of OPEN: the sender is our gateway
# Seconds that a peer leaves another to connect first: a real one, which waits for nobody; and one of ours with the greater id.
YIELD_TO_ALL, YIELD = 0.05, 0.5
NOTED = 10.0  # seconds between two looks at what was dropped, where that is recorded

Scout = Callable[[float], Iterable[tuple[bytes, WhatAmI, tuple[str, ...]]]]


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What a node is to be. Times in seconds."""

    mode: WhatAmI = WhatAmI.PEER
    connect: tuple[str, ...] = ()
    listen: tuple[str, ...] | None = None
    """None: a peer on a free port of the loopback interface, a router on its port 7447, a client nowhere."""
    zid: bytes | None = None
    """As it travels (little end first); None makes one up."""
    transport: dict[str, Any] = field(default_factory=dict, repr=False)  # it has the password
    """Fields of `transport.config.Settings`: lease, qos, user, users ..."""
    tls: Tls | None = None
    protocols: frozenset[str] | None = None
    """Of links that may be made; None: all."""
    max_sessions: int = 1000
    max_pending: int = 100
    """Pending handshakes that each listener may have."""
    max_memory: int = MEMORY
    """Bytes that all neighbours together may make this node use."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Bytes that one neighbour may make this node use, by resource (`zenlake.limits.Resource`); the rest is as by default."""
    access: AccessControl | None = None
    """Who may do what; None: everybody everything."""
    filters: "Filters | None" = None
    """What does not pass a connection, or passes it otherwise; None: everything passes as it is."""
    recording: Recording | None = None
    connect_timeout: float = 10.0
    """How long `open_node` waits for connections that are being made: a client's, or it fails; others go on in the background."""
    retry_for: float = 0.0
    """How long `open_node` tries again where it fails otherwise; `math.inf`: for ever."""
    must_connect: bool = False
    """Whether it fails for peers and routers too: unless each of the endpoints took them."""
    backoff: Backoff | None = field(default_factory=Backoff)
    """How a lost connection is made again; None: not at all."""
    scout: Scout | None = None
    """Finds nodes: called by a client that has nowhere to connect to, with the seconds that it may take."""
    scouting_timeout: float = 3.0
    gossip_connect: bool = True
    """Whether a peer connects to the peers that it hears of."""
    timestamping: bool | None = None
    """Whether samples are stamped; None: by routers."""
    drops_future: bool = False
    """Whether one that stamps drops samples whose time is too far ahead, instead of giving them its own."""
    query_timeout: float = 10.0
    interest_timeout: float = 10.0
    namespace: bytes = b""
    """A prefix of all keys of the application, which it does not see."""
    aggregation: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Wide keys, in the application's words, that stand for those of its subscribers and of its publishers."""
    admin: bool | None = None
    """Whether others may ask about the node; None: a router's may."""


class LiveNode(Node):
    """One node of a Zenoh network. See `docs/design/network.md` for what the application may call."""

    def __init__(self, config: NodeConfig) -> None:
        if sys.platform != "linux" and any(
            rules and rules.names_interfaces for rules in (config.access, config.filters)
        ):
            raise ConfigError("interfaces are told apart on Linux only: have rules name link_protocols or zids instead")
        limits = merge_limits(config.limits)
        self.config = config
        self.zid = config.zid or new_zid()
        self.whatami = config.mode
        self.node = nodes.Node(
            self.zid, config.mode, now=time.monotonic, wall=wall, lock=threading.RLock,
            stamps=config.timestamping, drops_future=config.drops_future, query_timeout=config.query_timeout,
            interest_timeout=config.interest_timeout,
        )  # fmt: skip
        self.node.wake = self._wake
        self.node.queries.sooner = self.node.interests.sooner = self.node.routers.sooner = self._sooner
        self.node.interests.on_initial = lambda face: self.node.later(self._tell)
        self.node.jobs.wake = self._wake_jobs
        self.node.on_error = lambda error: log.error("a callback failed", exc_info=error)
        self.node.on_discover = self._discovered
        self.node.in_a_moment = self._in_a_moment
        self.node.is_guarded = config.access is not None
        if config.recording is not None:
            self.node.queries.on_forward = self._forwarded
        self._past = dict.fromkeys(WhatAmI, Traffic())
        self._doors: dict[Face, Door] = {}
        self._screens: "dict[Face, Screen]" = {}
        self._noted: dict[Face, int] = {}
        self._awake = False
        self._jobs_awake = False
        self._timer: Timer | None = None
        self._connecting: set[bytes] = set()
        self._changed = threading.Condition()
        self._closed = False
        application = self.node.application
        application.namespace = Namespace(config.namespace)
        if any(config.aggregation):
            from zenlake.network.aggregation import Aggregation  # few have any

            wide = ([application.namespace.whole(key.encode()) for key in keys] for keys in config.aggregation)
            self.node.declarations.aggregation = Aggregation(*wide)
        self.declare_subscriber = application.declare_subscriber
        self.declare_publisher = application.declare_publisher
        self.declare_queryable = application.declare_queryable
        self.declare_querier = application.declare_querier
        self.declare_token = application.declare_token
        self.declare_liveliness_subscriber = application.declare_liveliness_subscriber
        self.liveliness_get = application.liveliness_get
        self.put = application.put
        self.post = application.post
        self.delete = application.delete
        self.get = application.get
        settings = Settings(self.zid, config.mode, **config.transport)
        self.admin = Admin(
            self.node, f"zenlake {__version__}", config.mode is WhatAmI.ROUTER if config.admin is None else config.admin
        )
        self.runtime = Runtime(
            settings, self, config.tls, config.max_sessions, config.max_pending, config.max_memory, config.protocols,
            limits,
        )  # fmt: skip
        self.node.budget = self.runtime.budget
        self.node.report = self.runtime.engine.reports.report
        self.node.limits = limits

    # From any thread

    @property
    def locators(self) -> tuple[str, ...]:
        """Where we listen."""
        return self.node.gossip.locators

    def faces(self) -> list[network.Face]:
        """The neighbours of now: `zid`, `whatami`, `dropped` and so on."""
        with self.node.lock:
            return self.node.faces

    def counters(self) -> dict[str, int]:
        """What was dropped or refused, by cause."""
        return {**self.node.counters, **self.runtime.engine.reports.counts}

    def traffic(self) -> dict[WhatAmI, Traffic]:
        """How much came and went, by the role of the other end."""
        found = dict(self._past)
        for face, door in list(self._doors.items()):
            if door.face is not None:
                found[door.face.whatami] += Traffic.of(face, door.face)
        return found

    def new_timestamp(self) -> Timestamp:
        """Of this node's hybrid logical clock."""
        return self.node.timestamp()

    def undeclare(self, entity: Entity) -> None:
        """Take back what a `declare_...` returned. Twice is harmless."""
        entity.undeclare()

    def listen(self, endpoint: str) -> str:
        """Accept sessions there; returns the locator, with the port that was chosen."""
        locator = self.runtime.listen(endpoint)
        with self.node.lock:
            self.node.gossip.listening((*self.node.gossip.locators, locator))
        self._wake()
        return locator

    def connect(self, endpoint: str) -> Connection:
        """Be connected there, again and again."""
        return self.runtime.connect(endpoint, self.config.backoff)

    def wait_for_face(self, count: int = 1, timeout: float = 10.0) -> bool:
        """Wait until that many sessions are open; False if they are not in time."""
        with self._changed:
            return self._changed.wait_for(lambda: len(self.faces()) >= count, timeout)

    def wait_until_told(self, timeout: float) -> bool:
        """Wait until every peer that we are connected to has told all that it declared."""
        with self._changed:
            return self._changed.wait_for(
                lambda: all(face.initial_final for face in self.faces() if face.stand is Stand.BESIDE), timeout
            )

    def close(self) -> None:
        """Take everything back, say CLOSE to everybody and stop."""
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
        """Listen and connect as the configuration says."""
        config = self.config
        if config.recording is not None:
            self.runtime.engine.run(self._note_all_drops)
        for endpoint in LISTEN[config.mode] if config.listen is None else config.listen:
            if not self._is_joined(endpoint):
                self.listen(endpoint)
        if config.mode is WhatAmI.CLIENT:
            self._be_client()
            return
        connections = [self.connect(endpoint) for endpoint in config.connect if not self._is_joined(endpoint)]
        self._wait_for([connection.tried for connection in connections], min(config.connect_timeout, 1.0))
        if config.must_connect:
            self._wait_for([connection.first for connection in connections], config.retry_for)
            for connection in connections:
                if not connection.first.done():
                    raise connection.error or LinkError(str(connection.endpoint), "not open in time")
        if connections and config.mode is WhatAmI.PEER:
            self.wait_until_told(TOLD)

    def _is_joined(self, endpoint: str) -> bool:
        """A peer's group, given where others listen or connect, is joined."""
        if self.whatami is not WhatAmI.PEER or not endpoint.startswith("udp/"):
            return False
        from zenlake.link.udp import is_multicast
        from zenlake.runtime.membership import Membership

        if not is_multicast(EndPoint.parse(endpoint)):
            return False
        membership = Membership(self.node)
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
        """A client has one session: with the first that takes it."""
        config = self.config
        endpoints = list(config.connect)
        if not endpoints and config.scout is not None:
            endpoints = [locator for _, _, where in config.scout(config.scouting_timeout) for locator in where]
            if not endpoints:
                raise LinkError("scouting", f"nobody answered in {config.scouting_timeout:g} s: name an endpoint")
        if not endpoints:
            raise ConfigError("a client needs an endpoint to connect to, like tcp/127.0.0.1:7447")
        self.runtime.connect_first(endpoints, config.connect_timeout, config.backoff, config.retry_for)

    # In the loop's thread, called by the runtime

    def sink(self, face: Face) -> Sink:
        door = self._doors[face] = Door(self.node, lambda: self._join(face))
        if self.config.filters is None:
            return door
        from zenlake.runtime.filters import Screen

        screen = self._screens[face] = Screen(door, self.node, lambda: self._join(face))
        return screen

    def answered(self, link: Link, heard: bytes, said: list[bytes]) -> None:
        if self.config.recording is not None:
            self.config.recording.answered(link, heard, said)

    def begins(self, face: Face) -> None:
        if self.config.recording is not None:
            self.config.recording.begins(face)

    def opened(self, face: Face) -> None:
        if self._doors[face].face is None:
            self._join(face)
        self._tell()

    def _join(self, face: Face) -> network.Face:
        """Make the connection a face of the node."""
        session = face.session
        theirs = next(side for side in session.sides if side.zid == face.zid)
        bits = 8 << (session.resolution >> 2 & 3)
        outlet = self._outlet(face)
        joined = network.Face(
            outlet, face.zid, self.whatami, WhatAmI.from_wire(theirs.whatami),
            request_ids=(1 << min(bits, 32)) - 1, is_gateway=theirs.remote_bound == SOUTH,
        )  # fmt: skip
        if self.config.access is not None:
            joined.guard = self.config.access.guard(_who(face))
        if self.config.filters is not None:
            self._screens.pop(face).enter(joined, self.config.filters.of(_who(face), INGRESS))
        if isinstance(outlet, Screened):
            outlet.joined = joined
        elif isinstance(face.transport.queue, Queue):
            joined.lane = face.lane = Lane(face.transport.queue, face.lock, face.arm)
            face.way.queue = face.transport.queue
            joined.way = face.way
        self._doors[face].enter(joined)
        self.node.opened(joined)
        return joined

    def _outlet(self, face: Face) -> Connected:
        filter = None if self.config.filters is None else self.config.filters.of(_who(face), EGRESS)
        if filter is None:
            return Connected(face, self)
        from zenlake.runtime.filters import Outgoing

        def unanswered(id: int) -> None:
            joined = self._doors[face].face if face in self._doors else None
            if joined is not None:
                with self.node.lock:
                    sends = self.node.queries.final(joined, id)
                self.node._perform(sends)

        soon = self.runtime.engine.call_soon
        return Screened(face, self, Outgoing(self.node, filter, lambda id: soon(lambda: unanswered(id))))

    def closed(self, face: Face, event: Closed) -> None:
        joined = self._doors.pop(face).face
        if joined is not None:
            self._past[joined.whatami] += Traffic.of(face, joined, sessions=0)
            self.node.closed(joined)
        self._ended(face, joined, event)
        self._tell()

    def failed(self, face: Face, event: Closed) -> None:
        self._doors.pop(face, None)
        self._screens.pop(face, None)
        self._ended(face, None, event)

    def _ended(self, face: Face, joined: network.Face | None, event: Closed) -> None:
        if self.config.recording is not None:
            if joined is not None:
                self._note_drops(face, joined)
                self._noted.pop(face, None)
            self.config.recording.ended(face, event)

    def _note_all_drops(self) -> None:
        for face, door in self._doors.items():
            if door.face is not None:
                self._note_drops(face, door.face)
        self.runtime.engine.call_at(time.monotonic() + NOTED, self._note_all_drops)

    def _note_drops(self, face: Face, joined: network.Face) -> None:
        """Have what was dropped since the last time recorded."""
        dropped = Traffic.of(face, joined).dropped
        new = dropped - self._noted.get(face, 0)
        if new and self.config.recording is not None:
            self._noted[face] = dropped
            self.config.recording.dropped(face, new)

    def _forwarded(self, source: network.Face, id: int, target: network.Face, new: int) -> None:
        came, goes = source.outlet, target.outlet
        if self.config.recording is not None and isinstance(came, Connected) and isinstance(goes, Connected):
            self.config.recording.forwarded(came.face, id, goes.face, new)

    def room(self, face: Face) -> None:
        if self.node.dirty:
            self._flush()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # The loop's errands

    def in_loop(self, call: Callable[[], object]) -> None:
        if self.runtime.engine.inside:
            call()
        else:
            self.runtime.engine.call_soon(call)

    def _in_a_moment(self, call: Callable[[], None]) -> None:
        def late() -> None:
            with self.node.lock:
                call()
            self.node._after()

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

    def _sooner(self, deadline: float) -> None:
        self.in_loop(self._set_timer)

    def _set_timer(self) -> None:
        when = self.node.next_timeout()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if when is not None:
            self._timer = self.runtime.engine.call_at(when, self._late)

    def _late(self) -> None:
        self._timer = None
        self.node.on_timeout(time.monotonic())
        self._set_timer()

    # Gossip

    def _discovered(self, zid: bytes, whatami: WhatAmI, locators: tuple[str, ...]) -> None:
        """Connect to a peer that we heard of. The one with the greater id goes first, lest both do and both are refused."""
        wanted = self.config.gossip_connect and self.whatami is WhatAmI.PEER and whatami is not WhatAmI.CLIENT
        if not wanted or zid in self._connecting or zid in self.runtime.faces or self._closed:
            return
        self._connecting.add(zid)
        delay = YIELD_TO_ALL if self.zid[::-1] > zid[::-1] else YIELD
        self.runtime.engine.call_at(time.monotonic() + delay, lambda: self._try(zid, list(locators)))

    def _try(self, zid: bytes, locators: list[str]) -> None:
        if not locators or zid in self.runtime.faces or self._closed:
            self._connecting.discard(zid)
            return
        try:
            connection = self.runtime.connect(locators.pop(0))
        except ZenlakeError:
            return self._try(zid, locators)

        def done(first: "Future[Face]") -> None:
            self.runtime.engine.call_soon(lambda: self._try(zid, [] if first.exception() is None else locators))

        connection.first.add_done_callback(done)


def _who(face: Face) -> Who:
    """What access control may know of the other end."""
    protocol = face.link.remote.partition("/")[0]
    link = face.link
    return Who(protocol, str(ZenohId.from_wire(face.zid)), face.transport.user, link.common_name, link.interfaces)


def open_node(config: NodeConfig) -> LiveNode:
    """A node that listens, and is connected if it is a client."""
    node = LiveNode(config)
    try:
        node.start()
    except BaseException:
        node.close()
        raise
    return node
