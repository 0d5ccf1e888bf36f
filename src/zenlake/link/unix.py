# SPDX-License-Identifier: Apache-2.0
"""`unixsock-stream/path`: a stream socket in the file system. The listener creates the file and removes it."""

import os
import socket
import stat
from contextlib import suppress

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import BaseLink, LinkListener, describe, open_socket
from zenlake.link.stream import StreamLink, StreamListener, dial

__all__ = ["connect", "listen"]

PROTOCOL = "unixsock-stream"


class UnixListener(StreamListener):
    def close(self) -> None:
        with suppress(OSError):
            os.unlink(self._sock.getsockname())
        super().close()


def connect(endpoint: EndPoint, address: object = None, tls: object = None) -> BaseLink:
    name = str(endpoint.locator)
    return StreamLink(dial(endpoint, socket.AF_UNIX, endpoint.address), PROTOCOL, name, True)


def listen(endpoint: EndPoint, tls: object = None) -> LinkListener:
    path = endpoint.address
    sock = open_socket(endpoint, socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_orphan(path):
            os.unlink(path)
        sock.bind(path)
    except OSError as error:
        sock.close()
        raise LinkError(str(endpoint), describe(error)) from None
    # Connecting sockets have no address. They are numbered, so that a cookie is bound to one of them.
    count = iter(range(1, 1 << 62))
    return UnixListener(
        sock,
        PROTOCOL,
        lambda accepted, remote: StreamLink(accepted, PROTOCOL, f"{PROTOCOL}/{path}#{next(count)}", False),
    )


def _is_orphan(path: str) -> bool:
    """Return whether the path is a stale socket without a listener."""
    try:
        if not stat.S_ISSOCK(os.stat(path).st_mode):
            return False
    except OSError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
