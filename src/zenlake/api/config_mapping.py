# SPDX-License-Identifier: Apache-2.0
"""Map a Zenoh `Config` to the settings of a node (`NodeConfig`)."""

import math
import os
from logging import getLogger
from time import monotonic
from typing import TYPE_CHECKING, Any

from zenlake.config import Config
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.errors import ConfigError
from zenlake.link import Tls
from zenlake.network.access_control import AccessControl
from zenlake.runtime.autoconnect import Autoconnect
from zenlake.runtime.connection_manager import Backoff
from zenlake.runtime.live_node import NodeConfig
from zenlake.shared_memory.settings import SharedMemorySettings

if TYPE_CHECKING:
    from zenlake.runtime.interceptors import Interceptors

__all__ = []

log = getLogger("zenlake.node")

PASSWORD_ENV = "ZENLAKE_PASSWORD"

# Sections with messages of their own in `_check`.
PLUGINS = "plugins"
PUBLIC_KEYS = "transport/auth/pubkey"
# Keys and sections without effect. `tests/api/test_session_node.py` compares them with the keys that the code reads.
IDLE = (
    "adminspace/permissions/write",
    "gateway",
    "listen/exit_on_failure",
    "listen/retry",
    "listen/timeout_ms",
    "metadata",
    "plugins_loading",
    "routing/peer",
    "routing/router",
    "scouting/gossip/multihop",
    "scouting/gossip/target",
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
    "transport/unicast/max_links",
)
_routers_and_peers = ["router", "peer"]
# Values that equal the default behaviour of Zenoh or of Zenlake: no warning is needed.
AS_IT_IS: dict[str, Any] = {
    "listen/exit_on_failure": True,
    "listen/retry": {"period_init_ms": 1000, "period_max_ms": 4000, "period_increase_factor": 2},
    "listen/timeout_ms": 0,
    "routing/peer": {"mode": "peer_to_peer"},
    "routing/router/peers_failover_brokering": True,
    "scouting/gossip/multihop": False,
    "scouting/gossip/target": {"router": _routers_and_peers, "peer": _routers_and_peers},
    "transport/link/tls/close_link_on_expiration": False,
}
QUERY_TIMEOUT = 10_000  # milliseconds


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
        shared_memory=_shared_memory(config),
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
        gossip=_gossip(config),
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
    idle = [path for path, value in config.changed() if is_idle(path) and not _is_as_it_is(config, path, value)]
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


def _is_as_it_is(config: Config, path: str, value: Any) -> bool:
    """Return whether a value equals the behaviour of this node. It may be null, or have one value for each mode."""
    expected: Any = AS_IT_IS.get(path)
    role, of_role = str(config.role), config.of_role(path)
    if of_role is None or value == expected:
        return True
    if path == "listen/retry":
        return all(
            (each.get(role, expected[name]) if isinstance(each, dict) else each) in (None, expected[name])
            for name, each in of_role.items()
        )
    return path in AS_IT_IS and of_role == (
        expected.get(role) if isinstance(expected, dict) and role in expected else expected
    )


def _gossip(config: Config) -> Autoconnect:
    if config.get("scouting/gossip/enabled") is False:
        return Autoconnect()
    default = (WhatAmI.ROUTER, WhatAmI.PEER) if config.role is WhatAmI.PEER else ()
    return Autoconnect.parse(
        config.of_role("scouting/gossip/autoconnect"), config.of_role("scouting/gossip/autoconnect_strategy"), default
    )


def is_idle(path: str) -> bool:
    return f"{path}/".startswith(tuple(f"{each}/" for each in IDLE))


def _unless_null(value: int | None, default: int) -> int:
    """Return the value, or the default if it is null. Zero is a value."""
    return default if value is None else value


def _filters(config: Config) -> "Interceptors | None":
    sections = config.get("downsampling"), config.get("low_pass_filter"), config.get("qos/network")
    if not any(sections):
        return None
    from zenlake.runtime.interceptors import Interceptors  # rarely set

    return Interceptors(monotonic, *sections)


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
        "region_name": config.get("region_name"),
        "user": config.get("transport/auth/usrpwd/user"),
        "password": _password(config).encode(),
    }
    dictionary = config.get("transport/auth/usrpwd/dictionary_file")
    if dictionary is not None:
        settings["users"] = _users(dictionary)
    return settings


def _shared_memory(config: Config) -> SharedMemorySettings | None:
    """Return the settings of shared memory. It is opt-in: the default value of the key does not enable it."""
    if not config.is_set("transport/shared_memory/enabled") or not config.get("transport/shared_memory/enabled"):
        return None
    return SharedMemorySettings(
        is_eager=config.get("transport/shared_memory/mode") == "init",
        optimises=config.get("transport/shared_memory/transport_optimization/enabled") is not False,
        pool_size=config.get("transport/shared_memory/transport_optimization/pool_size"),
        threshold=config.get("transport/shared_memory/transport_optimization/message_size_threshold"),
        messages=frozenset(config.get("transport/shared_memory/transport_optimization/messages")),
    )


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
