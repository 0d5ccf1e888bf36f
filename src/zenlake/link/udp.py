# SPDX-License-Identifier: Apache-2.0
"""`udp/host:port`: UDP links.

Each datagram holds one batch, and nothing is resent. A listener identifies its links by the source address of datagrams.
"""

import socket
from abc import abstractmethod
from logging import getLogger
from time import monotonic

from zenlake.core.endpoint import EndPoint
from zenlake.errors import EndpointError, LinkError
from zenlake.link.base import Address, BaseLink, LinkListener, Port, describe, locator, open_socket
from zenlake.link.tcp import bind

__all__ = ["MTU", "SharedUdpLink", "UdpPort", "connect", "is_multicast", "listen"]

Source = tuple[object, ...]

MTU = 65487
"""The largest payload that 1.10.2 sends on Linux."""
HELD = 256 << 10  # bytes of datagrams buffered for a paused link
BURST = 64  # datagrams per turn of the event loop
log = getLogger("zenlake.link")

LINKS = 4096
"""Maximum number of sources of a listener. Datagrams cost a sender nothing, and their source is easily forged.

The runtime's limit of pending handshakes is far lower.
"""


def is_multicast(endpoint: EndPoint) -> bool:
    from ipaddress import ip_address

    if endpoint.protocol != "udp":
        return False
    try:
        return ip_address(endpoint.host_and_port()[0]).is_multicast
    except ValueError:
        return False


class UdpPort(Port):
    """A bound socket. It reads bursts and remembers the links whose writes were refused."""

    is_shared = True
    """Whether several peers use the socket, so that an error of one peer must not end it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, 4 * 65536)
        self._sock = sock
        self._buffer = bytearray(65536)
        self._blocked: dict[BaseLink, None] = {}
        self._closed = False

    def fileno(self) -> int:
        return self._sock.fileno()

    def on_readable(self, now: float) -> None:
        view = memoryview(self._buffer)
        for _ in range(BURST):
            if self._closed or not self.wants_read:
                return
            try:
                size, source = self._sock.recvfrom_into(self._buffer)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                return self.on_error(error)
            try:
                self.on_datagram(view[:size], source, now)
            except Exception as error:
                if not self.is_shared:
                    raise
                self.on_fault(f"{source[0]}:{source[1]}", error)

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        raise NotImplementedError

    def on_error(self, error: OSError) -> None:
        """Handle an ICMP error for a sent datagram. A listener ignores it, because it serves other peers."""

    def blame(self, link: BaseLink, error: Exception) -> None:
        """Handle an exception in a callback of this link: it ends the link, not the shared socket."""
        log.debug("%s failed", link.remote, exc_info=error)
        owner = link.owner
        link.close()
        owner.on_close(LinkError(link.remote, f"{type(error).__name__}: {error}"))

    def send(self, data: memoryview | bytes, target: tuple[object, ...] | None, link: BaseLink) -> int:
        try:
            if target is None:
                self._sock.send(data)
            else:
                self._sock.sendto(data, target)
        except (BlockingIOError, InterruptedError):
            if not hasattr(link, "owner"):
                return len(data)  # a reply to an unknown source, which is dropped
            self._blocked[link] = None
            if not self.wants_write:
                self.wants_write = True
                self.on_change()
            return 0
        except OSError:
            pass  # dropped, like any datagram; the lease detects a dead peer
        return len(data)

    def on_writable(self, now: float) -> None:
        blocked, self._blocked = self._blocked, {}
        self.wants_write = False
        self.on_change()
        for link in blocked:
            try:
                self.on_room(link)
            except Exception as error:
                self.blame(link, error)

    def on_room(self, link: BaseLink) -> None:
        """Notify a blocked link that the socket accepts datagrams again."""
        link.owner.on_writable()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.wants_read = self.wants_write = False
            self.on_change()
            self._sock.close()


class UdpLink(UdpPort, BaseLink):
    """Link of the connecting end, with a socket of its own."""

    is_shared = False
    stream = False
    reliable = False
    direct = True
    mtu = MTU

    def __init__(self, sock: socket.socket, remote: str) -> None:
        UdpPort.__init__(self, sock)
        self.remote = remote
        self.local = locator("udp", sock.getsockname())

    @property
    def port(self) -> Port:
        return self

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        self.owner.on_data(data)

    def on_error(self, error: OSError) -> None:
        owner = self.owner
        self.close()
        owner.on_close(LinkError(self.remote, describe(error)))

    def fail(self, error: Exception) -> None:
        owner = self.owner
        self.close()
        owner.on_close(LinkError(self.remote, f"{type(error).__name__}: {error}"))

    def write(self, data: memoryview) -> int:
        return self.send(data, None, self)


class SharedUdpLink(BaseLink):
    """A link on a socket that it shares with other links.

    While the link is paused, a limited number of datagrams is buffered. Further datagrams are dropped, as by a socket
    that is not read. (With QUIC, the peer sends them again and slows down.)
    """

    _waiting: list[tuple[bytes, Source]] | None = None
    _held = 0

    @property
    def port(self) -> Port | None:
        return None

    @abstractmethod
    def take(self, data: bytes | memoryview, source: Source, now: float) -> None:
        """Process a datagram for this link."""

    @abstractmethod
    def fail(self, error: Exception) -> None:
        """Handle an exception in a callback of this link."""

    def on_datagram(self, data: bytes | memoryview, source: Source, now: float) -> None:
        """Accept a received datagram. It is buffered while the link is paused."""
        if self._waiting is None:
            try:
                self.take(data, source, now)
            except Exception as error:
                self.fail(error)
        elif self._held + len(data) <= HELD:
            self._waiting.append((bytes(data), source))
            self._held += len(data)
            self.hold(self._held)

    @property
    def is_paused(self) -> bool:
        return self._waiting is not None

    def pause(self) -> None:
        if self._waiting is None:
            self._waiting = []

    def resume(self) -> None:
        waiting, self._waiting, self._held = self._waiting or [], None, 0
        self.hold(0)
        for data, source in waiting:
            self.on_datagram(data, source, monotonic())


class UdpPeer(SharedUdpLink):
    """Link of one source of a listener's datagrams."""

    stream = False
    reliable = False
    direct = True
    mtu = MTU

    def __init__(self, listener: "UdpListener", source: tuple[object, ...]) -> None:
        self._listener = listener
        self._source = source
        self.local = listener.locator
        self.remote = locator("udp", source)

    def take(self, data: bytes | memoryview, source: Source, now: float) -> None:
        self.owner.on_data(data)

    def fail(self, error: Exception) -> None:
        self._listener.blame(self, error)

    def poll(self, now: float) -> None:
        self._listener.on_readable(now)

    def write(self, data: memoryview) -> int:
        return self._listener.send(data, self._source, self)

    def close(self) -> None:
        self._listener.forget(self._source)


class UdpListener(UdpPort, LinkListener):
    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.locator = locator("udp", sock.getsockname())
        self.links: dict[tuple[object, ...], UdpPeer] = {}
        self._ended = False

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        link = self.links.get(source)
        if link is None:
            if self._ended or len(self.links) >= LINKS:
                return
            link = UdpPeer(self, source)
            if self.on_stranger(link, bytes(data)):
                return
            self.links[source] = link
            try:
                self.on_link(link)
            except BaseException:
                self.forget(source)
                raise
            if self.links.get(source) is not link:
                return  # refused
        link.on_datagram(data, source, now)

    def forget(self, source: tuple[object, ...]) -> None:
        self.links.pop(source, None)
        if self._ended and not self.links:
            super().close()

    def close(self) -> None:
        """Stop listening. Open links continue until they close."""
        self._ended = True
        if not self.links:
            super().close()


def connect(endpoint: EndPoint, address: Address, tls: object = None) -> BaseLink:
    _refuse_reliable(endpoint)
    name = str(endpoint.locator)
    family, target = address
    sock = open_socket(endpoint, family, socket.SOCK_DGRAM)
    try:
        sock.connect(target)
    except OSError as error:
        sock.close()
        raise LinkError(name, describe(error)) from None
    return UdpLink(sock, name)


def listen(endpoint: EndPoint, tls: object = None) -> LinkListener:
    _refuse_reliable(endpoint)
    return UdpListener(bind(endpoint, socket.SOCK_DGRAM))


def _refuse_reliable(endpoint: EndPoint) -> None:
    if endpoint.metadata.get("rel") == "1":
        raise EndpointError(f"endpoint `{endpoint}`: UDP links are not reliable; use quic/{endpoint.address}")
    if is_multicast(endpoint):
        raise EndpointError(f"endpoint `{endpoint}`: a client cannot join a multicast group; use mode peer or router")
