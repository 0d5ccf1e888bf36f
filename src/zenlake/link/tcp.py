# SPDX-License-Identifier: Apache-2.0
"""`tcp/host:port`."""

import socket

from zenlake.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Link, Listener, addresses, describe
from zenlake.link.stream import StreamLink, StreamListener, dial

__all__ = ["bind", "connect", "listen"]


def connect(endpoint: EndPoint, tls: object = None) -> Link:
    name = str(endpoint.locator)
    return StreamLink(dial(*addresses(endpoint, socket.SOCK_STREAM)[0], name), "tcp", name, True)


def listen(endpoint: EndPoint, tls: object = None) -> Listener:
    return StreamListener(bind(endpoint), "tcp", lambda sock, remote: StreamLink(sock, "tcp", remote, False))


def bind(endpoint: EndPoint, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A socket at the endpoint's address."""
    family, address = addresses(endpoint, kind, passive=True)[0]
    sock = socket.socket(family, kind)
    try:
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise LinkError(str(endpoint), describe(error)) from None
    return sock
