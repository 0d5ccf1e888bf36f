# SPDX-License-Identifier: Apache-2.0
"""`udp/224.0.0.225:7447#iface=eth0`: a multicast group. Every member receives all datagrams of all members.

There are two sockets. One is bound to the group and receives. The other has our own address and sends, so that the source
address of a datagram identifies the member.
"""

import socket
import struct
from collections.abc import Callable, Sequence
from contextlib import suppress

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import BaseLink, Port, addresses, describe, locator
from zenlake.link.interfaces import ANY, Interface, find_interface
from zenlake.link.udp import MTU, UdpPort

__all__ = ["GroupLink", "open_receiver", "join", "open_sender"]


def open_receiver(family: int, group: tuple[object, ...], interfaces: Sequence[Interface]) -> socket.socket:
    """Return a socket that receives the datagrams of the group on these interfaces."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("::", group[1]) if family == socket.AF_INET6 else group)  # a link-local group cannot be bound alone
        address = socket.inet_pton(family, str(group[0]))
        for one in interfaces:
            if family == socket.AF_INET6:
                membership = address + struct.pack("@I", one.index)
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, membership)
            else:
                sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, address + socket.inet_aton(one.address))
    except OSError:
        sock.close()
        raise
    return sock


def open_sender(family: int, interface: Interface, ttl: int) -> socket.socket:
    """Return a socket with our own address that sends by this interface. Members on this machine receive its datagrams too."""
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, interface.index)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, ttl)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 1)
            sock.bind(("::", 0))
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface.address))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sock.bind((interface.address, 0))
    except OSError:
        sock.close()
        raise
    return sock


class GroupLink(UdpPort, BaseLink):
    """Our membership in a group. `on_member` receives each datagram with its source."""

    stream = False
    reliable = False
    direct = True
    mtu = MTU
    on_member: Callable[[memoryview, tuple[object, ...]], None]

    def __init__(self, hears: socket.socket, speaks: socket.socket, group: tuple[object, ...], name: str) -> None:
        super().__init__(hears)
        speaks.setblocking(False)
        self._speaks = speaks
        self._group = group
        self._own = speaks.getsockname()
        self.remote = name
        self.local = locator("udp", self._own)

    @property
    def port(self) -> Port:
        return self

    def on_datagram(self, data: memoryview, source: tuple[object, ...], now: float) -> None:
        if source != self._own:  # (our own JOIN, received over another interface, is recognised by its id)
            self.on_member(data, source)

    def write(self, data: memoryview) -> int:
        with suppress(OSError):  # dropped, like any datagram
            self._speaks.sendto(data, self._group)
        return len(data)

    def close(self) -> None:
        super().close()
        self._speaks.close()


def join(endpoint: EndPoint) -> GroupLink:
    family, group = addresses(endpoint, socket.SOCK_DGRAM)[0]
    try:
        name = endpoint.config.get("iface")
        interface = find_interface(name)[0] if name else ANY
        hears = open_receiver(family, group, [interface])
        try:
            speaks = open_sender(family, interface, int(endpoint.config.get("ttl", "1")))
        except OSError:
            hears.close()
            raise
    except OSError as error:
        raise LinkError(str(endpoint), describe(error)) from None
    return GroupLink(hears, speaks, group, str(endpoint.locator))
