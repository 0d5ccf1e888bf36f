# SPDX-License-Identifier: Apache-2.0
"""Links to other nodes: `connect` and `listen` by the protocol of an endpoint.

Each kind of link is a module that handles its socket and no Zenoh messages. The event loop that drives the links is in
`runtime`.
"""

import socket
from importlib import import_module
from types import ModuleType

from zenlake.core.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.link.base import Address, BaseLink, LinkListener, Port, addresses
from zenlake.link.base import needs_resolution as _needs_resolution
from zenlake.link.tls_config import Tls

__all__ = ["Address", "BaseLink", "LinkListener", "Port", "Tls", "ask", "connect", "listen", "needs_asking"]

PROTOCOL_MODULES = {
    "tcp": "tcp",
    "tls": "tls",
    "unixsock-stream": "unix",
    "udp": "udp",
    "quic": "quic",
    "ws": "websocket",
    "wss": "websocket",
    "memory": "inproc",
}
EXTRAS = {
    "quic": ("aioquic", "quic"),
    "ws": ("websockets", "ws"),
    "wss": ("websockets", "ws"),
}  # protocol: package, extra
WITHOUT_HOST = ("unixsock-stream", "memory")


def _import_protocol(endpoint: EndPoint) -> ModuleType:
    name = PROTOCOL_MODULES.get(endpoint.protocol)
    if name is None:
        raise EndpointError(
            f"endpoint `{endpoint}`: unsupported protocol `{endpoint.protocol}`; expected one of {', '.join(PROTOCOL_MODULES)}"
        )
    try:
        return import_module(f"zenlake.link.{name}")
    except ModuleNotFoundError as error:
        package, extra = EXTRAS.get(endpoint.protocol, (None, None))
        if (error.name or "").partition(".")[0] != package:
            raise
        raise LinkError(
            str(endpoint), f"requires the package `{package}`; run: pip install 'zenlake[{extra}]'"
        ) from None


def connect(endpoint: EndPoint, address: Address | None, tls: Tls) -> BaseLink:
    """Begin a link to one of the addresses of the endpoint. Its owner gets `on_ready` or `on_close`. Does not block."""
    link: BaseLink = _import_protocol(endpoint).connect(endpoint, address, tls)
    return link


def listen(endpoint: EndPoint, tls: Tls) -> LinkListener:
    listener: LinkListener = _import_protocol(endpoint).listen(endpoint, tls)
    return listener


def needs_resolution(endpoint: EndPoint) -> bool:
    """Return whether `resolve` may block."""
    return endpoint.protocol not in WITHOUT_HOST and _needs_resolution(endpoint)


def resolve(endpoint: EndPoint) -> list[Address | None]:
    """Return the addresses to try, in order. Endpoints without a host give one None.

    Raises:
        LinkError: The host is unknown.
    """
    return [None] if endpoint.protocol in WITHOUT_HOST else [*addresses(endpoint, socket.SOCK_STREAM)]
