# SPDX-License-Identifier: Apache-2.0
"""`tcp/host:port`: plain TCP links."""

import socket

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Address, BaseLink, LinkListener, addresses, describe, open_socket
from zenlake.link.stream import StreamLink, StreamListener, dial

__all__ = ["bind", "connect", "listen"]


def connect(endpoint: EndPoint, address: Address, tls: object = None) -> BaseLink:
    name = str(endpoint.locator)
    return StreamLink(dial(endpoint, *address), "tcp", name, True)


def listen(endpoint: EndPoint, tls: object = None) -> LinkListener:
    return StreamListener(bind(endpoint), "tcp", lambda sock, remote: StreamLink(sock, "tcp", remote, False))


def bind(endpoint: EndPoint, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """Return a socket bound to the first usable address of the endpoint."""
    reason = ""
    for family, address in addresses(endpoint, kind, passive=True):
        sock = open_socket(endpoint, family, kind)
        try:
            if kind == socket.SOCK_STREAM:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(address)
            return sock
        except OSError as error:
            sock.close()
            reason = reason or describe(error)
    raise LinkError(str(endpoint), reason)
