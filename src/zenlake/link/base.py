# SPDX-License-Identifier: Apache-2.0
"""Base classes of all links, and the interfaces that their two users implement.

A `Port` is polled: it has a file descriptor, and is notified when that is readable or writable, or when a timeout expires. A
`BaseLink` carries the batches of one connection. It is often its own port, but the links of one UDP socket share a port. An
`Owner` is notified of the events of its link.

Threading: all of them are non-blocking and have no thread. One event loop drives them all.
"""

import errno
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from zenlake.core.endpoint import EndPoint
from zenlake.core.peer_limits import Account, Resource
from zenlake.errors import EndpointError, LinkError

__all__ = ["Address", "BaseLink", "LinkListener", "Owner", "Port", "addresses", "describe", "locator", "open_socket"]

Address = tuple[int, tuple[object, ...]]
"""A socket family and an address in it."""


HANG_UP = "connection closed by the peer"
"""Reason of a connection that the peer's system ended. Processes often end like this, so it is not an error."""


class Owner(Protocol):
    """User of a link. Threading: all methods are called on the event loop thread."""

    def on_ready(self) -> None:
        """Handle the end of the connection setup: the link can be written."""

    def get_buffer(self) -> memoryview:
        """Return the buffer that a plain stream may read into."""

    def on_buffer_filled(self, size: int) -> None:
        """Handle the bytes that were read into `get_buffer`."""

    def on_data(self, data: bytes | memoryview) -> None:
        """Handle a piece of a stream, or a whole datagram."""

    def on_writable(self) -> None:
        """Resume writing after a partial `write`."""

    def on_drain(self) -> None:
        """Handle the completion of a write that the link itself had buffered."""

    def on_close(self, error: LinkError | None) -> None:
        """Handle the end of the link, with a reason, or with None if the peer closed it in order."""


class Port(ABC):
    """An object that the event loop polls.

    The event loop sets `on_change`. Call it when `wants_write`, `wants_read` or the timeout changes.
    """

    wants_read = True
    wants_write = False

    def on_change(self) -> None:  # noqa: B027
        """Notify the event loop. Replaced by the event loop when it registers the port."""

    def on_fault(self, place: str, error: Exception) -> None:
        """Report an internal error that a peer caused. Replaced by the event loop, which counts and logs it."""
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
        """Handle an exception in a callback of this port: it ends the port."""
        self.close()

    @abstractmethod
    def close(self) -> None: ...


class BaseLink(ABC):
    """A link to one other node."""

    stream = True
    """Whether the link is a byte stream, so that each batch needs a length prefix."""
    reliable = True
    direct = False
    """Whether `write` may be called from any thread (by one at a time)."""
    mtu = 65535
    local = ""
    remote = ""
    owner: Owner
    account: Account | None = None
    """Memory account of the peer, set by the owner."""

    @property
    def whole_segments(self) -> int:
        """Largest part of the `mtu` that fills whole network segments. eclipse-zenoh limits its batches to this size."""
        return self.mtu

    @property
    def common_name(self) -> str | None:
        """Common name of the verified peer certificate, or None."""
        return None

    @property
    def interfaces(self) -> tuple[str, ...]:
        """Names of the network interfaces that have our address. Empty for links without an IP address."""
        from zenlake.link.interfaces import find_by_address  # Performance: rarely used, so imported on demand

        try:
            return find_by_address(EndPoint.parse(self.local).host_and_port()[0])
        except EndpointError:
            return ()

    @property
    @abstractmethod
    def port(self) -> Port | None:
        """Return the port to poll for this link, or None if a shared port serves it."""

    def pause(self) -> None:
        """Stop reading. This applies backpressure to the peer."""
        if self.port is not None:
            self.port.wants_read = False
            self.port.on_change()

    def resume(self) -> None:
        if self.port is not None:
            self.port.wants_read = True
            self.port.on_change()

    @property
    def is_paused(self) -> bool:
        """Whether the owner has stopped reading, so that silence does not mean a dead peer."""
        return self.port is not None and not self.port.wants_read

    def poll(self, now: float) -> None:
        """Read the received bytes once, outside the turn of the event loop."""
        if self.port is not None and self.port.wants_read:
            self.port.on_readable(now)

    def hold(self, size: int, limit: int | None = None) -> None:
        """Charge the bytes that the link itself buffers for its peer.

        Raises:
            LinkError: They exceed the limit.
        """
        if self.account is None:
            return
        is_within = self.account.set(Resource.LINK_BUFFERS, size)
        if not is_within and (limit is None or size > limit):
            most = limit or self.account.limits[Resource.LINK_BUFFERS]
            raise LinkError(
                self.remote, f"the link buffers {size} bytes for the peer; the limit is {most} (link_buffers)"
            )

    @property
    def is_drained(self) -> bool:
        """Whether all written bytes have left, so that closing loses no data."""
        return True

    def begin(self) -> None:
        """Start the link after the event loop registered its port.

        Notify the owner if the link is `on_ready` already, or continue the connection setup.
        """
        self.owner.on_ready()

    @abstractmethod
    def write(self, data: memoryview) -> int:
        """Write bytes and return the number of accepted bytes.

        `owner.on_writable` follows a partial write. A datagram is accepted whole or not at all.
        """

    @abstractmethod
    def close(self) -> None: ...

    @property
    def context(self) -> bytes:
        """Return the context that a cookie is bound to."""
        return f"{self.local} {self.remote}".encode()


class LinkListener(Port):
    """A port that accepts links."""

    locator = ""
    on_link: Callable[[BaseLink], None]
    on_stranger: Callable[[BaseLink, bytes], bool]
    """Handle a datagram from an unknown source first. Return True if it was handled, and its source need not be stored."""


def addresses(endpoint: EndPoint, kind: socket.SocketKind, passive: bool = False) -> list[Address]:
    """Return the addresses of an endpoint's host and port, in the order of the system.

    Threading: blocks if the host is a name that must be resolved.
    """
    host, port = endpoint.host_and_port()
    try:
        found = socket.getaddrinfo(encode_address(host), port, type=kind, flags=socket.AI_PASSIVE if passive else 0)
    except OSError as error:
        raise LinkError(str(endpoint), f"unknown host `{host}`: {error.strerror}") from None
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
        raise EndpointError(
            f"endpoint `{endpoint}`: iface={name} is not supported on this system; remove it from the endpoint"
        )
    sock = socket.socket(family, kind)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
    except OSError as error:
        sock.close()
        raise LinkError(str(endpoint), f"iface={name}: {describe(error)}") from None
    return sock


def needs_resolution(endpoint: EndPoint) -> bool:
    """Return whether the host is a name, so that `addresses` may block."""
    host, port = endpoint.host_and_port()
    try:
        socket.getaddrinfo(encode_address(host), port, flags=socket.AI_NUMERICHOST)
    except OSError:
        return True
    return False


def encode_address(host: str) -> bytes | str:
    """Return a host in the form that `getaddrinfo` accepts without loading the IDNA codec, if the host is ASCII."""
    return host.encode() if host.isascii() else host


def locator(protocol: str, address: object) -> str:
    """Return the text of a socket address."""
    if isinstance(address, tuple):
        host, port = address[0], address[1]
        return f"{protocol}/[{host}]:{port}" if ":" in host else f"{protocol}/{host}:{port}"
    return f"{protocol}/{address.decode() if isinstance(address, bytes) else address}"


def describe(error: OSError) -> str:
    """Return the meaning of an operating system error for a connection or a listener."""
    reasons = {
        errno.ECONNREFUSED: "connection refused",
        errno.EHOSTUNREACH: "no route to the host",
        errno.ENETUNREACH: "no route to the network",
        errno.ETIMEDOUT: "connection timed out",
        errno.EADDRINUSE: "address already in use",
        errno.EADDRNOTAVAIL: "not an address of this machine",
        errno.EACCES: "permission denied",
        errno.ENOENT: "socket not found",
        errno.ENODEV: "no such network interface",
        errno.ECONNRESET: HANG_UP,
        errno.EPIPE: HANG_UP,
    }
    return reasons.get(error.errno or 0, error.strerror or os.strerror(error.errno or 0) or str(error))
