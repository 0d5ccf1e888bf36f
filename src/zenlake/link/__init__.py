# SPDX-License-Identifier: Apache-2.0
"""Ways to reach another node: `connect` and `listen` by an endpoint's protocol.

Each kind of link is a chapter that knows its socket and nothing of Zenoh's messages; the loop that drives them is in
`runtime`.
"""

import socket
from importlib import import_module
from types import ModuleType

from zenlake.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.link.base import Address, Link, Listener, Port, addresses
from zenlake.link.base import needs_asking as _needs_asking
from zenlake.link.certificates import Tls

__all__ = ["Address", "Link", "Listener", "Port", "Tls", "ask", "connect", "listen", "needs_asking"]

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
            f"endpoint `{endpoint}`: `{endpoint.protocol}` links cannot be made here; "
            f"those that can are {', '.join(CHAPTERS)}"
        )
    try:
        return import_module(f"zenlake.link.{name}")
    except ModuleNotFoundError as error:
        if error.name != EXTRAS.get(endpoint.protocol):
            raise
        raise LinkError(str(endpoint), f"needs the package `{error.name}`: pip install {error.name}") from None


def connect(endpoint: EndPoint, address: Address | None, tls: Tls) -> Link:
    """Begin a link to one of the endpoint's addresses; its owner hears `ready` or `lost`. Does not block."""
    link: Link = _chapter(endpoint).connect(endpoint, address, tls)
    return link


def listen(endpoint: EndPoint, tls: Tls) -> Listener:
    listener: Listener = _chapter(endpoint).listen(endpoint, tls)
    return listener


def needs_asking(endpoint: EndPoint) -> bool:
    """Whether `ask` may take its time."""
    return endpoint.protocol not in WITHOUT_HOST and _needs_asking(endpoint)


def ask(endpoint: EndPoint) -> list[Address | None]:
    """The addresses to try, in order; raises a LinkError if the host is unknown. Only some endpoints have one."""
    return [None] if endpoint.protocol in WITHOUT_HOST else [*addresses(endpoint, socket.SOCK_STREAM)]
