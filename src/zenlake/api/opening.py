# SPDX-License-Identifier: Apache-2.0
"""Create a live node from a configuration, with the services of a session: timers, pauses, connection events."""

import math
import os
import sys
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Any

from zenlake.choices import Reliability, SampleKind, WhatAmI
from zenlake.config import Config
from zenlake.errors import ClosedError, ConfigError, DeadlockError
from zenlake.link import Tls
from zenlake.network.access import AccessControl
from zenlake.runtime.face import Face
from zenlake.runtime.node import TOLD, LiveNode, NodeConfig
from zenlake.runtime.runtime import Backoff
from zenlake.telling import logger
from zenlake.transport.unicast import Closed
from zenlake.values import ZenohId

if TYPE_CHECKING:
    from zenlake.api.discovery import Discovery
    from zenlake.api.info import Link, Transport
    from zenlake.runtime.filters import Filters

__all__ = ["Attempt", "SessionNode", "open_node"]

log = logger("zenlake.node")

PASSWORD_ENV = "ZENLAKE_PASSWORD"

# Keys without effect that cause a warning.
PLUGINS = "plugins"
PUBLIC_KEYS = "transport/auth/pubkey"
# Keys and sections without effect. (`tests/api/test_opening.py` compares them with the keys that the code reads.)
IDLE = (
    "adminspace/permissions/write",
    "gateway",
    "listen/exit_on_failure",
    "listen/retry",
    "listen/timeout_ms",
    "metadata",
    "plugins_loading",
    "region_name",
    "routing/peer",
    "routing/router",
    "scouting/gossip/autoconnect",
    "scouting/gossip/autoconnect_strategy",
    "scouting/gossip/multihop",
    "scouting/gossip/target",
    "scouting/multicast/autoconnect_strategy",
    "stats",
    "transport/auth/pubkey",
    "transport/link/rx/buffer_size",
    "transport/link/tcp",
    "transport/link/tls/close_link_on_expiration",
    "transport/link/tls/connect_certificate_base64",
    "transport/link/tls/connect_private_key_base64",
    "transport/link/tls/listen_certificate_base64",
    "transport/link/tls/listen_private_key_base64",
    "transport/link/tls/root_ca_certificate_base64",
    "transport/link/tls/so_rcvbuf",
    "transport/link/tls/so_sndbuf",
    "transport/link/tx/queue/allocation",
    "transport/link/tx/queue/batching/enabled",
    "transport/link/tx/queue/size/background",
    "transport/link/tx/queue/size/control",
    "transport/link/tx/queue/size/data_high",
    "transport/link/tx/queue/size/data_low",
    "transport/link/tx/queue/size/interactive_high",
    "transport/link/tx/queue/size/interactive_low",
    "transport/link/tx/queue/size/real_time",
    "transport/link/tx/threads",
    "transport/link/unixpipe",
    "transport/multicast/compression",
    "transport/shared_memory",
    "transport/unicast/max_links",
)
_routers_and_peers = ["router", "peer"]
_always = {"peer": {"to_router": "always", "to_peer": "always"}}
# Values that equal the default behaviour of Zenoh or of Zenlake: no warning is needed.
AS_IT_IS = {
    "listen/exit_on_failure": True,
    "listen/retry": {"period_init_ms": 1000, "period_max_ms": 4000, "period_increase_factor": 2},
    "listen/timeout_ms": 0,
    "routing/peer": {"mode": "peer_to_peer"},
    "routing/router/peers_failover_brokering": True,
    "scouting/gossip/autoconnect": {"router": [], "peer": _routers_and_peers},
    "scouting/gossip/autoconnect_strategy": _always,
    "scouting/gossip/multihop": False,
    "scouting/gossip/target": {"router": _routers_and_peers, "peer": _routers_and_peers},
    "scouting/multicast/autoconnect_strategy": _always,
    "transport/link/tls/close_link_on_expiration": False,
    "transport/shared_memory/enabled": False,
}
QUERY_TIMEOUT = 10_000  # milliseconds

ALL = 0, 7  # the priorities of a link that accepts every message
A_MOMENT = 0.05  # seconds in which a waiting callback is scheduled on a CPU
NO_ROOM = "messages dropped: no room in a channel"

Watcher = Callable[[SampleKind, "Transport", "Link"], None]


class SessionNode(LiveNode):
    """The node of one session."""

    def __init__(self, config: NodeConfig) -> None:
        self._watchers: dict[object, Watcher] = {}
        self._full: set[object] = set()
        self._paused: list[Face] = []
        self.discovery: Discovery | None = None
        super().__init__(config)

    def settle(self) -> None:
        """Flush declarations before any later message.

        On the event loop thread they are flushed at the end of the iteration.
        """
        if not self.runtime.engine.inside and not self._closed:
            self.runtime.engine.run(self._flush)

    def soon(self, call: Callable[[], object]) -> None:
        """Run a function later on the event loop thread. Safe to call from the garbage collector."""
        self.runtime.engine.call_soon(call)

    def after(self, delay: float, call: Callable[[], object]) -> None:
        """Call a function once, later, on the event loop thread."""
        self.in_loop(lambda: self.runtime.engine.call_at(monotonic() + delay, call))

    def every(self, period: float, call: Callable[[], object]) -> Callable[[], None]:
        """Call a function periodically on the event loop thread. Return a function that stops it."""
        ended = False

        def turn() -> None:
            if not ended and not self._closed:
                self.runtime.engine.call_at(monotonic() + period, turn)
                call()

        def end() -> None:
            nonlocal ended
            ended = True

        self.soon(lambda: self.runtime.engine.call_at(monotonic() + period, turn))
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

        For a droppable sample this is longer than for a full connection, because a callback may only wait for a CPU. In a
        running asyncio event loop both are the same, because the wait blocks the loop.
        """
        settings = self.runtime.settings
        if block:
            return settings.wait_before_close
        asyncio = sys.modules.get("asyncio")
        in_event_loop = asyncio is not None and asyncio._get_running_loop() is not None
        return settings.wait_before_drop if in_event_loop else max(A_MOMENT, settings.wait_before_drop)

    def forgotten(self) -> None:
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
        return [_described(face) for face in list(self.runtime.faces.values())]

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

    def opened(self, face: Face) -> None:
        super().opened(face)
        self._report(SampleKind.PUT, face)

    def closed(self, face: Face, event: Closed) -> None:
        super().closed(face, event)
        self._report(SampleKind.DELETE, face)

    def _report(self, kind: SampleKind, face: Face) -> None:
        if self._watchers:
            transport, link = _described(face)
            for watcher in list(self._watchers.values()):
                watcher(kind, transport, link)


def _described(face: Face) -> tuple["Transport", "Link"]:
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
        Transport(zid, WhatAmI.from_wire(theirs.whatami), is_qos),
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


class Attempt:
    """A node being opened. Another thread may abandon it at any time. The node is then closed, even if it is already open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._node: SessionNode | None = None
        self._given_up = False

    def begun(self, node: SessionNode) -> None:
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
    config: Config, attempt: Attempt | None = None, discovery: "Discovery | None" = None, **more: Any
) -> SessionNode:
    """Return the node that a configuration describes, listening and connected.

    `discovery` is the discovery of the configuration, if scouting has started already. `more` has fields of NodeConfig without a
    configuration key.
    """

    def scout(timeout: float) -> Any:
        return node.find(timeout)

    finds = config.get("scouting/multicast/enabled") is not False
    node = SessionNode(node_config(config, scout=scout if finds else None, **more))
    try:
        if attempt is not None:
            attempt.begun(node)
        if finds:
            from zenlake.api.discovery import Discovery

            node.discovery = discovery or Discovery(config)
        node.start()
        if node.discovery is not None:
            node.discovery.begin(node)
            if config.get("open/return_conditions/declares") is not False:
                node.wait_until_told(TOLD)
    except BaseException:
        node.close()
        raise
    return node


def node_config(config: Config, **more: Any) -> NodeConfig:
    _check(config)
    mode = config.role
    zid = config.get("id")
    protocols = config.get("transport/link/protocols")
    patience = config.of_role("connect/timeout_ms")
    if patience is None:
        patience = 0 if mode is WhatAmI.CLIENT else -1
    return NodeConfig(
        mode=mode,
        connect=tuple(_endpoints(config.of_role("connect/endpoints") or ())),
        listen=_listen(config),
        zid=None if zid is None else ZenohId.parse(zid).to_wire(),
        transport=_transport(config),
        tls=_tls(config),
        protocols=None if protocols is None else frozenset(protocols),
        max_sessions=config.get("transport/unicast/max_sessions"),
        max_pending=config.get("transport/unicast/accept_pending"),
        filters=_filters(config),
        access=AccessControl(config.get("access_control")) if config.get("access_control/enabled") else None,
        connect_timeout=patience / 1000 if patience > 0 else 10.0,
        retry_for=patience / 1000 if patience >= 0 else math.inf,
        must_connect=bool(config.of_role("connect/exit_on_failure")),
        backoff=_backoff(config),
        scouting_timeout=_unless_null(config.get("scouting/timeout"), 3000) / 1000,
        gossip_connect=config.get("scouting/gossip/enabled") is not False,
        timestamping=config.of_role("timestamping/enabled"),
        drops_future=bool(config.get("timestamping/drop_future_timestamp")),
        query_timeout=_unless_null(config.get("queries_default_timeout"), QUERY_TIMEOUT) / 1000,
        interest_timeout=_unless_null(config.get("routing/interests/timeout"), 10_000) / 1000,
        namespace=(config.get("namespace") or "").encode(),
        aggregation=(tuple(config.get("aggregation/subscribers")), tuple(config.get("aggregation/publishers"))),
        admin=config.get("adminspace/enabled") and config.get("adminspace/permissions/read"),
        **more,
    )


def _check(config: Config) -> None:
    """Log a warning for settings without effect.

    Raise an error for settings that would restrict access.
    """
    plugins = config.get(PLUGINS)
    if plugins:
        log.warning(
            "the configuration has plugins (%s), but a session does not load plugins, as in zenoh-python: connect to a zenohd "
            "that runs them",
            ", ".join(plugins),
        )
    idle = [path for path, value in config.changed() if is_idle(path) and value != AS_IT_IS.get(path)]
    if idle:
        log.warning("the configuration sets keys without effect: %s", ", ".join(sorted(idle)))
    protocols = config.get("transport/link/protocols")
    for each in _endpoints(config.of_role("connect/endpoints") or ()):
        if protocols is not None and each.partition("/")[0] not in protocols:
            log.warning("transport/link/protocols does not allow %s; it is not connected", each)
    keys = [path for path, value in config.changed() if path.startswith(f"{PUBLIC_KEYS}/") and value is not None]
    if keys:
        raise ConfigError(
            f"{', '.join(sorted(keys))} restricts peers by their public keys, which is not supported: "
            "authenticate with certificates (transport/link/tls/enable_mtls) or passwords (transport/auth/usrpwd)"
        )


def is_idle(path: str) -> bool:
    return f"{path}/".startswith(tuple(f"{each}/" for each in IDLE))


def _unless_null(value: int | None, default: int) -> int:
    """Return the value, or the default if it is null. Zero is a value."""
    return default if value is None else value


def _filters(config: Config) -> "Filters | None":
    sections = config.get("downsampling"), config.get("low_pass_filter"), config.get("qos/network")
    if not any(sections):
        return None
    from zenlake.runtime.filters import Filters  # rarely set

    return Filters(monotonic, *sections)


def _listen(config: Config) -> tuple[str, ...] | None:
    """Return the endpoints to listen on. None if not configured: the node then listens on this machine only."""
    if "listen/endpoints" not in config._set:
        return None
    return tuple(_endpoints(config.of_role("listen/endpoints") or ()))


def _endpoints(items: Any) -> list[str]:
    found: list[str] = []
    for item in items:
        found += item["locators"] if isinstance(item, dict) else [item]
    return found


def _backoff(config: Config) -> Backoff:
    retry = config.get("connect/retry") or {}

    def of_role(name: str, default: float) -> float:
        value = retry.get(name)
        value = value.get(str(config.role)) if isinstance(value, dict) else value
        return default if value is None else float(value)

    return Backoff(
        of_role("period_init_ms", 1000) / 1000,
        of_role("period_increase_factor", 2),
        of_role("period_max_ms", 4000) / 1000,
    )


def _transport(config: Config) -> dict[str, Any]:
    tx = "transport/link/tx"
    settings = {
        "lease": config.get(f"{tx}/lease") / 1000,
        "keep_alive": config.get(f"{tx}/keep_alive"),
        "batch_size": config.get(f"{tx}/batch_size"),
        "resolution": min(32, int(config.get(f"{tx}/sequence_number_resolution").removesuffix("bit"))),
        "queue_size": config.get(f"{tx}/queue/size/data"),
        "wait_before_drop": config.get(f"{tx}/queue/congestion_control/drop/wait_before_drop") / 1e6,
        "wait_before_drop_fragments": config.get(f"{tx}/queue/congestion_control/drop/max_wait_before_drop_fragments")
        / 1e6,
        "wait_before_close": config.get(f"{tx}/queue/congestion_control/block/wait_before_close") / 1e6,
        "batching_limit": config.get(f"{tx}/queue/batching/time_limit") / 1000,
        "max_message_size": config.get("transport/link/rx/max_message_size"),
        "qos": config.get("transport/unicast/qos/enabled"),
        "low_latency": config.get("transport/unicast/lowlatency"),
        "compression": config.get("transport/unicast/compression/enabled"),
        "open_timeout": config.get("transport/unicast/open_timeout") / 1000,
        "accept_timeout": config.get("transport/unicast/accept_timeout") / 1000,
        "multicast_max_sessions": _unless_null(config.get("transport/multicast/max_sessions"), 1000),
        "multicast_qos": config.get("transport/multicast/qos/enabled"),
        "join_interval": (config.get("transport/multicast/join_interval") or 2500) / 1000,
        "user": config.get("transport/auth/usrpwd/user"),
        "password": _password(config).encode(),
    }
    dictionary = config.get("transport/auth/usrpwd/dictionary_file")
    if dictionary is not None:
        settings["users"] = _users(dictionary)
    return settings


def _password(config: Config) -> str:
    """Return the password of the configuration, or that of the environment if only a user is configured."""
    password = config.get("transport/auth/usrpwd/password")
    if password is None and config.get("transport/auth/usrpwd/user") is not None:
        password = os.environ.get(PASSWORD_ENV)
    return password or ""


def _users(path: str) -> dict[str, bytes]:
    """Read a file with a line `user:password` for each accepted user."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except OSError as error:
        raise ConfigError(f"transport/auth/usrpwd/dictionary_file: cannot read {path}: {error.strerror}") from None
    users = {}
    for number, line in enumerate(lines, 1):
        user, colon, password = line.strip().partition(":")
        if line.strip() and not (user and colon):
            raise ConfigError(
                f"transport/auth/usrpwd/dictionary_file: invalid line {number} of {path}; expected user:password"
            )
        if line.strip():
            users[user] = password.encode()
    return users


def _tls(config: Config) -> Tls:
    section = config.get("transport/link/tls")
    return Tls(**{name: section[name] for name in Tls.__match_args__ if section.get(name) is not None})
