# SPDX-License-Identifier: Apache-2.0
"""Keys of a Zenoh configuration, with their types and defaults.

The keys and defaults are those that eclipse-zenoh 1.10.2 prints and accepts; `tests/test_config.py` compares them. Keys without
effect in Zenlake are included, so that one file works for both. A dict is a section, a `Key` is a value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from zenlake.core.endpoint import EndPoint
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.keyexpr import KeyExpr

__all__ = ["KEYS", "Key", "Kind"]

ROLES = ("router", "peer", "client")
U64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """Type of a value: a description (`wants`), and a check that returns the error or None."""

    wants: str
    check: Callable[[Any], str | None]


@dataclass(frozen=True, slots=True)
class Key:
    kind: Kind
    default: Any = None
    secret: bool = False
    """Accepted, but never printed."""


def _is(wants: str, test: Callable[[Any], bool]) -> Kind:
    return Kind(wants, lambda value: None if test(value) else f"is not {wants}")


def _parse(wants: str, parse: Callable[[str], object]) -> Kind:
    def check(value: Any) -> str | None:
        if not isinstance(value, str):
            return f"is not {wants}"
        try:
            parse(value)
        except ValueError as error:
            return str(error)
        return None

    return Kind(wants, check)


def _describe_kind(found: str, why: str, joint: str = " that ") -> str:
    """Combine a value with its error, as one clause or as two."""
    return f"{found}{joint if why.startswith(('is ', 'has ', 'lacks ')) else ': '}{why}"


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def unsigned_integer(largest: int = U64, smallest: int = 0) -> Kind:
    limits = f"of {smallest} or more" if largest == U64 else f"from {smallest} to {largest}"
    return _is(f"an integer {limits}", lambda value: _is_integer(value) and smallest <= value <= largest)


def one_of(*texts: str) -> Kind:
    return _is(" or ".join(f'"{text}"' for text in texts), lambda value: value in texts)


def or_null(kind: Kind) -> Kind:
    return Kind(f"{kind.wants}, or null", lambda value: None if value is None else kind.check(value))


def list_of(kind: Kind, least: int = 0) -> Kind:
    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return f"is not a list where each item is {kind.wants}"
        if len(value) < least:
            return "is empty"
        return next((_describe_kind(f"has an item {item!r}", why) for item in value if (why := kind.check(item))), None)

    return Kind(f"a list where each item is {kind.wants}", check)


def by_role(kind: Kind) -> Kind:
    """Return the kind of a value, or of an object with a value for each mode."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return kind.check(value)
        for role, each in value.items():
            if role not in ROLES:
                return f"has an unknown mode {role!r}: expected one of {', '.join(ROLES)}"
            if each is not None and (why := kind.check(each)):
                return _describe_kind(f"has {each!r} for {role}", why, ", which ")
        return None

    return Kind(f"{kind.wants}, or an object with a value for each mode: router, peer, client", check)


def record(needed: dict[str, Kind], optional: dict[str, Kind]) -> Kind:
    """Return the kind of an object with these entries and no others."""

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"is not an object with {', '.join(needed or optional)}"
        for name in needed:
            if name not in value:
                return f"lacks `{name}`"
        for name, each in value.items():
            kind = needed.get(name) or optional.get(name)
            if kind is None:
                return f"has an unknown entry `{name}`: {_nearest(name, [*needed, *optional])}"
            if (each is not None or name in needed) and (why := kind.check(each)):
                return _describe_kind(f"has `{name}`: {each!r}", why, ", which ")
        return None

    entries = ", ".join(needed) + (" and optionally " if needed and optional else "") + ", ".join(optional)
    return Kind(f"an object with {entries}", check)


def _nearest(name: str, known: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else f"expected one of {', '.join(known)}"


def either(*kinds: Kind) -> Kind:
    wants = ", or ".join(kind.wants for kind in kinds)

    def check(value: Any) -> str | None:
        reasons = [kind.check(value) for kind in kinds]
        if None in reasons:
            return None
        # If the value has the type of one kind but is invalid, report that error.
        faults = [why for why in reasons if why and not why.startswith("is not ")]
        return faults[0] if len(faults) == 1 else f"is not {wants}"

    return Kind(wants, check)


def _address(text: str) -> None:
    from ipaddress import ip_address

    host, _, port = text.rpartition(":")
    try:
        ip_address(host.strip("[]"))
        is_one = 0 <= int(port) <= 0xFFFF
    except ValueError:
        is_one = False
    if not is_one:
        raise ValueError("is not an IP address and a port, such as 224.0.0.224:7446")


def _literal(text: str) -> None:
    KeyExpr(text)
    if "*" in text:
        raise ValueError(
            f"`{text}` has wildcards, so puts would be delivered to all matching keys; expected a single key"
        )


anything = Kind("anything", lambda value: None)
flag = _is("true or false", lambda value: isinstance(value, bool))
text = _is("a string", lambda value: isinstance(value, str))
whole = _is("an integer", _is_integer)
number = _is("a number", lambda value: _is_integer(value) or isinstance(value, float))
an_object = _is("an object", lambda value: isinstance(value, dict))
zid = _parse("a ZenohID of hexadecimal digits", ZenohId.parse)
role = _parse("a mode (router, peer or client)", WhatAmI)
roles = list_of(role)
key_expr = _parse("a key expression", KeyExpr)
key = _parse("a key expression without wildcards", _literal)
endpoint = _parse("an endpoint like tcp/localhost:7447", EndPoint.parse)
address = _parse("an IP address and a port like 224.0.0.224:7446", _address)
u8, u32 = unsigned_integer(0xFF), unsigned_integer(0xFFFFFFFF)

endpoints = by_role(list_of(endpoint))
endpoint_groups = by_role(
    list_of(either(endpoint, record({"strategy": one_of("allOf"), "locators": list_of(endpoint)}, {})))
)
retry = record(
    {},
    {"period_init_ms": by_role(whole), "period_max_ms": by_role(whole), "period_increase_factor": by_role(number)},
)
strategy = by_role(either(one_of("always", "greater-zid"), record({}, {"to_router": one_of("always", "greater-zid"),
    "to_peer": one_of("always", "greater-zid"), "to_client": one_of("always", "greater-zid")})))  # fmt: skip

_flows = list_of(one_of("egress", "ingress"), 1)
_protocols = list_of(one_of("tcp", "udp", "tls", "quic", "serial", "unixpipe", "unixsock-stream", "vsock", "ws"), 1)
_messages = list_of(one_of("put", "delete", "query", "reply"), 1)
_texts = list_of(text, 1)
_keys = list_of(key_expr, 1)
_where = {"id": text, "interfaces": _texts, "link_protocols": _protocols, "flows": _flows}
_permission = one_of("allow", "deny")
_priority = one_of("real_time", "interactive_high", "interactive_low", "data_high", "data", "data_low", "background")
_congestion = one_of("drop", "block", "blockfirst", "block_first")
_reliability = one_of("best_effort", "reliable")

downsampling = record(
    {"messages": _messages, "rules": list_of(record({"key_expr": key_expr, "freq": number}, {}), 1)}, _where
)
low_pass = record({"messages": _messages, "key_exprs": _keys, "size_limit": unsigned_integer()}, _where)
acl_rule = record(
    {
        "id": text,
        "key_exprs": _keys,
        "messages": list_of(
            one_of("put", "delete", "declare_subscriber", "query", "declare_queryable", "reply", "liveliness_token",
                   "declare_liveliness_subscriber", "liveliness_query"), 1
        ),
        "permission": _permission,
    },
    {"flows": _flows},
)  # fmt: skip
acl_subject = record(
    {"id": text},
    {
        "interfaces": _texts,
        "cert_common_names": _texts,
        "usernames": _texts,
        "link_protocols": _protocols,
        "zids": list_of(zid, 1),
    },
)
acl_policy = record({"rules": list_of(text), "subjects": list_of(text)}, {"id": text})
publisher_qos = record(
    {
        "key_exprs": list_of(key_expr),
        "config": record(
            {},
            {
                "congestion_control": _congestion,
                "priority": _priority,
                "express": flag,
                "reliability": _reliability,
                "allowed_destination": one_of("remote", "session_local", "any"),
            },
        ),
    },
    {},
)
network_qos = record(
    {"messages": list_of(one_of("put", "delete", "query", "reply"), 1), "overwrite": an_object},
    {**_where, "zids": list_of(zid, 1), "key_exprs": _keys, "qos": an_object, "payload_size": text},
)
south = either(
    one_of("auto"),
    list_of(record({}, {"filters": list_of(record({}, {"modes": roles, "interfaces": _texts, "zids": list_of(zid, 1),
        "region_names": _texts, "negated": flag}))})),
)  # fmt: skip

FLAG = Key(or_null(flag))
TEXT = Key(or_null(text))
COUNT = Key(or_null(unsigned_integer()))
SECRET = Key(or_null(text), secret=True)
OFF = {"enabled": Key(flag, False)}
ON = {"enabled": Key(flag, True)}
_waiting = {
    "timeout_ms": Key(or_null(by_role(whole))),
    "exit_on_failure": Key(or_null(by_role(flag))),
    "retry": Key(or_null(retry)),
}
_socket_buffers = {"so_sndbuf": Key(or_null(u32)), "so_rcvbuf": Key(or_null(u32))}
_files = (
    "root_ca_certificate",
    "listen_private_key",
    "listen_certificate",
    "connect_private_key",
    "connect_certificate",
)
_queues = ("control", "real_time", "interactive_high", "interactive_low", "data_high", "data", "data_low", "background")

KEYS: dict[str, Any] = {
    "id": Key(or_null(zid)),
    "metadata": Key(anything),
    "mode": Key(or_null(role)),
    "region_name": TEXT,
    "gateway": {"south": Key(or_null(south))},
    "connect": {"endpoints": Key(endpoint_groups, []), **_waiting},
    "listen": {
        "endpoints": Key(endpoints, {"router": ["tcp/[::]:7447"], "peer": ["tcp/[::]:0"]}),
        **_waiting,
    },
    "open": {"return_conditions": {"connect_scouted": FLAG, "declares": FLAG}},
    "scouting": {
        "timeout": COUNT,
        "delay": COUNT,
        "multicast": {
            "enabled": FLAG,
            "address": Key(or_null(address)),
            "interface": TEXT,
            "ttl": Key(or_null(u32)),
            "autoconnect": Key(or_null(by_role(roles))),
            "autoconnect_strategy": Key(or_null(strategy)),
            "listen": Key(or_null(by_role(flag))),
        },
        "gossip": {
            "enabled": FLAG,
            "multihop": FLAG,
            "target": Key(or_null(by_role(roles))),
            "autoconnect": Key(or_null(by_role(roles))),
            "autoconnect_strategy": Key(or_null(strategy)),
        },
    },
    "timestamping": {"enabled": Key(or_null(by_role(flag))), "drop_future_timestamp": FLAG},
    "queries_default_timeout": COUNT,
    "routing": {
        "router": {
            "peers_failover_brokering": Key(or_null(flag), secret=True),  # deprecated: without effect
            "linkstate": {
                "transport_weights": Key(
                    list_of(record({"dst_zid": zid, "weight": unsigned_integer(0xFFFF, 1)}, {})), []
                )
            },
        },
        "peer": Key(anything, secret=True),  # deprecated too
        "interests": {"timeout": COUNT},
    },
    "aggregation": {"subscribers": Key(list_of(key_expr), []), "publishers": Key(list_of(key_expr), [])},
    "qos": {"publication": Key(list_of(publisher_qos), []), "network": Key(list_of(network_qos), [])},
    "transport": {
        "unicast": {
            "open_timeout": Key(unsigned_integer(), 10000),
            "accept_timeout": Key(unsigned_integer(), 10000),
            "accept_pending": Key(unsigned_integer(), 100),
            "max_sessions": Key(unsigned_integer(), 1000),
            "max_links": Key(unsigned_integer(), 1),
            "lowlatency": Key(flag, False),
            "qos": ON,
            "compression": OFF,
        },
        "multicast": {
            "join_interval": Key(or_null(unsigned_integer()), 2500),
            "max_sessions": Key(or_null(unsigned_integer()), 1000),
            "qos": OFF,
            "compression": OFF,
        },
        "link": {
            "protocols": Key(or_null(list_of(text))),
            "tx": {
                "sequence_number_resolution": Key(one_of("8bit", "16bit", "32bit", "64bit"), "32bit"),
                "lease": Key(unsigned_integer(), 10000),
                "keep_alive": Key(unsigned_integer(), 4),
                "batch_size": Key(unsigned_integer(), 65535),
                "queue": {
                    "size": {name: Key(unsigned_integer(), 2) for name in _queues},
                    "congestion_control": {
                        "drop": {
                            "wait_before_drop": Key(whole, 1000),
                            "max_wait_before_drop_fragments": Key(whole, 50000),
                        },
                        "block": {"wait_before_close": Key(whole, 5000000)},
                    },
                    "batching": {"enabled": Key(flag, True), "time_limit": Key(unsigned_integer(), 1)},
                    "allocation": {"mode": Key(one_of("init", "lazy"), "lazy")},
                },
                "threads": Key(unsigned_integer(), 1),
            },
            "rx": {"buffer_size": Key(unsigned_integer(), 65535), "max_message_size": Key(unsigned_integer(), 1 << 30)},
            "tls": {
                **dict.fromkeys(_files, TEXT),
                "enable_mtls": FLAG,
                "verify_name_on_connect": FLAG,
                "close_link_on_expiration": FLAG,
                **_socket_buffers,
                **{f"{name}_base64": SECRET for name in _files},
            },
            "tcp": _socket_buffers,
            "unixpipe": {"file_access_mask": Key(or_null(u32))},
        },
        "shared_memory": {
            "enabled": Key(flag, True),
            "mode": Key(one_of("init", "lazy"), "lazy"),
            "transport_optimization": {
                "enabled": Key(flag, True),
                "pool_size": Key(unsigned_integer(smallest=1), 16777216),
                "message_size_threshold": Key(unsigned_integer(), 3072),
                "messages": Key(list_of(one_of("put", "delete", "query", "reply")), ["put", "query", "reply"]),
            },
        },
        "auth": {
            "usrpwd": {"user": TEXT, "password": TEXT, "dictionary_file": TEXT},
            "pubkey": {
                "public_key_pem": TEXT,
                "private_key_pem": TEXT,
                "public_key_file": TEXT,
                "private_key_file": TEXT,
                "key_size": COUNT,
                "known_keys_file": TEXT,
            },
        },
    },
    "adminspace": {**OFF, "permissions": {"read": Key(flag, True), "write": Key(flag, False)}},
    "namespace": Key(or_null(key)),
    "downsampling": Key(list_of(downsampling), []),
    "access_control": {
        **OFF,
        "default_permission": Key(_permission, "deny"),
        "rules": Key(or_null(list_of(acl_rule))),
        "subjects": Key(or_null(list_of(acl_subject))),
        "policies": Key(or_null(list_of(acl_policy))),
    },
    "low_pass_filter": Key(list_of(low_pass), []),
    "stats": {"filters": Key(list_of(record({"key": key_expr}, {})), [])},
    "plugins_loading": {
        **OFF,
        "search_dirs": Key(
            or_null(list_of(either(text, an_object))),
            [
                {"kind": "current_exe_parent", "value": None},
                ".", "~/.zenoh/lib", "/opt/homebrew/lib", "/usr/local/lib", "/usr/lib",
            ],
        ),
    },
    "plugins": Key(an_object, {}),
}  # fmt: skip
