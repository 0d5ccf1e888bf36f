# SPDX-License-Identifier: Apache-2.0
"""What every kind of link offers, and what it asks of its two users.

A `Port` is something to be polled: it has a file descriptor and is told when that is readable, writable, or late. A
`Link` carries the batches of one connection; often it is its own port, but the links of one UDP socket share theirs.
All of them are non-blocking and none of them has a thread: one loop drives them all. An `Owner` is told what happens to
its link.
"""

import errno
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from zenlake.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.limits import Account, Resource

__all__ = ["Address", "Link", "Listener", "Owner", "Port", "addresses", "describe", "locator", "open_socket"]

Address = tuple[int, tuple[object, ...]]
"""A family of sockets, and an address in it."""


HANG_UP = "the other end hung up"
"""The reason of a connection that the peer's system ended: processes end like this, so it is not a fault."""


class Owner(Protocol):
    """Who uses a link. Everything here is called from the loop's thread."""

    def ready(self) -> None:
        """The link can be written."""

    def space(self) -> memoryview:
        """Where a plain stream may read into."""

    def filled(self, size: int) -> None:
        """That many bytes were read into `space`."""

    def receive(self, data: bytes | memoryview) -> None:
        """A piece of a stream, or a whole datagram."""

    def writable(self) -> None:
        """There is room again after `write` took less than all."""

    def drained(self) -> None:
        """A link that holds bytes back itself has sent them all."""

    def lost(self, error: LinkError | None) -> None:
        """The link is gone: with a reason, or because the other end closed it in order."""


class Port(ABC):
    """Something the loop polls.

    `changed` is set by the loop; call it when `wants_write`, `wants_read` or the timeout change.
    """

    wants_read = True
    wants_write = False

    def changed(self) -> None:  # noqa: B027
        """Replaced by the loop when it takes the port in."""

    def on_fault(self, place: str, error: Exception) -> None:
        """Report an error of our own code that a peer caused. Replaced by the loop, which counts and logs it."""
        raise error

    @abstractmethod
    def fileno(self) -> int: ...

    @abstractmethod
    def on_readable(self, now: float) -> None: ...

    def on_writable(self, now: float) -> None:  # noqa: B027
        pass

    def next_timeout(self) -> float | None:
        return None

    def on_timeout(self, now: float) -> None:  # noqa: B027
        pass

    def fail(self, error: Exception) -> None:
        """Somebody's code failed while this port was being served: that ends it."""
        self.close()

    @abstractmethod
    def close(self) -> None: ...


class Link(ABC):
    """The way to one other node."""

    stream = True
    """Whether batches run together, so that each needs a length before it."""
    reliable = True
    direct = False
    """Whether `write` may be called from any thread (by one at a time)."""
    mtu = 65535
    local = ""
    remote = ""
    owner: Owner
    account: Account | None = None
    """The peer's memory account, which the owner sets."""

    @property
    def whole_segments(self) -> int:
        """How much of the `mtu` fills segments of the network's, as real nodes reckon it, which make their batches no larger."""
        return self.mtu

    @property
    def common_name(self) -> str | None:
        """Of the certificate that the other end showed and that was checked."""
        return None

    @property
    def interfaces(self) -> tuple[str, ...]:
        """The names of the network interfaces that have our address; none if it has no such address."""
        from zenlake.link.interfaces import having  # few ask for it

        try:
            return having(EndPoint.parse(self.local).host_and_port()[0])
        except EndpointError:
            return ()

    @property
    @abstractmethod
    def port(self) -> Port | None:
        """What the loop has to poll for this link; None if somebody else's port serves it."""

    def pause(self) -> None:
        """Read nothing more for now: the other end will feel it."""
        if self.port is not None:
            self.port.wants_read = False
            self.port.changed()

    def resume(self) -> None:
        if self.port is not None:
            self.port.wants_read = True
            self.port.changed()

    @property
    def is_paused(self) -> bool:
        """Whether the owner has stopped reading, so that silence says nothing about the peer."""
        return self.port is not None and not self.port.wants_read

    def poll(self, now: float) -> None:
        """Read once what has arrived, outside the turn of the loop."""
        if self.port is not None and self.port.wants_read:
            self.port.on_readable(now)

    def hold(self, size: int, limit: int | None = None) -> None:
        """Charge the bytes that the link itself holds for its peer. A LinkError if they are more than the limit."""
        if self.account is None:
            return
        is_within = self.account.set(Resource.LINK_BUFFERS, size)
        if not is_within and (limit is None or size > limit):
            most = limit or self.account.limits[Resource.LINK_BUFFERS]
            raise LinkError(self.remote, f"the link holds {size} bytes for the peer, limit {most} (link_buffers)")

    @property
    def is_drained(self) -> bool:
        """Whether everything that was written has left, so that closing loses nothing."""
        return True

    def begin(self) -> None:
        """The loop polls the port now.

        Tell the owner if the link is `ready` already, or go on with what makes it so.
        """
        self.owner.ready()

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """How many bytes were taken; if not all, `owner.writable` follows. A datagram is taken whole or not at all."""

    @abstractmethod
    def close(self) -> None: ...

    @property
    def context(self) -> bytes:
        """What a cookie is bound to."""
        return f"{self.local} {self.remote}".encode()


class Listener(Port):
    """A port at which links arrive."""

    locator = ""
    on_link: Callable[[Link], None]
    on_stranger: Callable[[Link, bytes], bool]
    """Where a datagram from nowhere known goes first; True if that was all, and its sender need not be remembered."""


def addresses(endpoint: EndPoint, kind: socket.SocketKind, passive: bool = False) -> list[Address]:
    """Where an endpoint's host and port are, the system's favourite first.

    Blocks if the host is a name that needs asking for.
    """
    host, port = endpoint.host_and_port()
    try:
        found = socket.getaddrinfo(encoded(host), port, type=kind, flags=socket.AI_PASSIVE if passive else 0)
    except OSError as error:
        raise LinkError(str(endpoint), f"host `{host}` is unknown: {error.strerror}") from None
    return [(family, address) for family, _, _, _, address in found]


def open_socket(endpoint: EndPoint, family: int, kind: int) -> socket.socket:
    """Create a socket for an endpoint, restricted to the network interface of its `#iface`.

    Raises:
        EndpointError: The system cannot restrict a socket.
        LinkError: The interface does not exist, or the process may not use it.
    """
    name = endpoint.config.get("iface")
    if name is None:
        return socket.socket(family, kind)
    if not hasattr(socket, "SO_BINDTODEVICE") or family not in (socket.AF_INET, socket.AF_INET6):
        raise EndpointError(f"endpoint `{endpoint}`: iface={name} cannot be honoured here; remove it from the endpoint")
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    except OSError as error:
        sock.close()
        raise LinkError(str(endpoint), f"iface={name}: {describe(error)}") from None
    return sock


def needs_asking(endpoint: EndPoint) -> bool:
    """Whether the host is a name, so that `addresses` may take its time."""
    host, port = endpoint.host_and_port()
    try:
        socket.getaddrinfo(encoded(host), port, flags=socket.AI_NUMERICHOST)
    except OSError:
        return True
    return False


def encoded(host: str) -> bytes | str:
    """A host as `getaddrinfo` takes it without loading the rules of international names, where it is none."""
    return host.encode() if host.isascii() else host


def locator(protocol: str, address: object) -> str:
    """The text of a socket address."""
    if isinstance(address, tuple):
        host, port = address[0], address[1]
        return f"{protocol}/[{host}]:{port}" if ":" in host else f"{protocol}/{host}:{port}"
    return f"{protocol}/{address.decode() if isinstance(address, bytes) else address}"


def describe(error: OSError) -> str:
    """What an operating system's error means to somebody who wanted to connect or listen."""
    told = {
        errno.ECONNREFUSED: "refused: nobody listens there",
        errno.EHOSTUNREACH: "unreachable: no route to the host",
        errno.ENETUNREACH: "unreachable: no route to the network",
        errno.ETIMEDOUT: "no answer",
        errno.EADDRINUSE: "somebody else listens there already",
        errno.EADDRNOTAVAIL: "not an address of this machine",
        errno.EACCES: "not permitted",
        errno.ENOENT: "no such socket",
        errno.ENODEV: "no such network interface",
        errno.ECONNRESET: HANG_UP,
        errno.EPIPE: HANG_UP,
    }
    return told.get(error.errno or 0, error.strerror or os.strerror(error.errno or 0) or str(error))
