# SPDX-License-Identifier: Apache-2.0
"""Ways to reach another node: `connect` and `listen` by an endpoint's protocol.

Each kind of link is a chapter that knows its socket and nothing of Zenoh's messages; the loop that drives them is in `runtime`.
"""

import socket
from importlib import import_module
from types import ModuleType

from zenlake.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.link.base import Link, Listener, Port, addresses
from zenlake.link.base import needs_asking as _needs_asking
from zenlake.link.tls import Tls
from zenlake.wire.qos_link import QosLink

__all__ = ["Link", "Listener", "Port", "Tls", "ask", "connect", "listen", "needs_asking", "qos_link"]

CHAPTERS = {
    "tcp": "tcp",
    "tls": "tls",
    "unixsock-stream": "unix",
    "udp": "udp",
    "quic": "quic",
    "ws": "websocket",
    "wss": "websocket",
    "memory": "memory",
}
EXTRAS = {"quic": "aioquic", "ws": "websockets", "wss": "websockets"}
WITHOUT_HOST = ("unixsock-stream", "memory")


def _chapter(endpoint: EndPoint) -> ModuleType:
    name = CHAPTERS.get(endpoint.protocol)
    if name is None:
        raise EndpointError(
            f"endpoint `{endpoint}`: `{endpoint.protocol}` links cannot be made here; those that can are {', '.join(CHAPTERS)}"
        )
    try:
        return import_module(f"zenlake.link.{name}")
    except ModuleNotFoundError as error:
        if error.name != EXTRAS.get(endpoint.protocol):
            raise
        raise LinkError(str(endpoint), f"needs the package `{error.name}`: pip install {error.name}") from None


def connect(endpoint: EndPoint, tls: Tls) -> Link:
    """Begin a link; its owner hears `ready` or `lost`. Does not block if the host's address is known."""
    link: Link = _chapter(endpoint).connect(endpoint, tls)
    return link


def listen(endpoint: EndPoint, tls: Tls) -> Listener:
    listener: Listener = _chapter(endpoint).listen(endpoint, tls)
    return listener


def needs_asking(endpoint: EndPoint) -> bool:
    return endpoint.protocol not in WITHOUT_HOST and _needs_asking(endpoint)


def ask(endpoint: EndPoint) -> object:
    """Ask for the host's address; raises a LinkError if it is unknown. This may take its time."""
    return addresses(endpoint, socket.SOCK_STREAM)


def qos_link(endpoint: EndPoint) -> QosLink | None:
    """What the endpoint's metadata restricts the link to: `?prio=1-3;rel=0`."""
    prio, rel = endpoint.metadata.get("prio"), endpoint.metadata.get("rel")
    if prio is None and rel is None:
        return None
    try:
        first, _, last = (prio or "").partition("-")
        priorities = None if prio is None else (int(first), int(last or first))
        return QosLink(True, priorities, None if rel is None else {"0": False, "1": True}[rel])
    except (ValueError, KeyError):
        raise EndpointError(f"endpoint `{endpoint}`: metadata is like ?prio=1-3;rel=0, with priorities 0 to 7") from None
