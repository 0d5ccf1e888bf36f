# SPDX-License-Identifier: Apache-2.0
"""`udp/224.0.0.225:7447#iface=eth0`: a multicast group. What is sent reaches every member, and every member is heard.

Two sockets: one bound to the group hears, one of our own address speaks, so that members can be told apart by where
datagrams come from.
"""

import fcntl
import socket
import struct
from collections.abc import Callable
from contextlib import suppress

from zenlake.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import Link, Port, addresses, describe, locator
from zenlake.link.udp import MTU, UdpPort

__all__ = ["GroupLink", "interface_address", "join"]

SIOCGIFADDR = 0x8915


def interface_address(name: str) -> str:
    """The IPv4 address of a network interface. An address is itself."""
    with suppress(OSError):
        socket.inet_aton(name)
        return name
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        answer = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
    return socket.inet_ntoa(answer[20:24])


class GroupLink(UdpPort, Link):
    """Our membership of a group. Datagrams come with their source: `on_member` gets both."""

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
        if source != self._own:  # (a JOIN of our own that came another way is known by its id)
            self.on_member(data, source)

    def write(self, data: memoryview) -> int:
        with suppress(OSError):  # lost, as datagrams may be
            self._speaks.sendto(data, self._group)
        return len(data)

    def close(self) -> None:
        super().close()
        self._speaks.close()


def join(endpoint: EndPoint) -> GroupLink:
    family, group = addresses(endpoint, socket.SOCK_DGRAM)[0]
    name = str(endpoint.locator)
    if family != socket.AF_INET:
        raise LinkError(name, "groups of IPv6 cannot be joined here")
    hears = socket.socket(family, socket.SOCK_DGRAM)
    speaks = socket.socket(family, socket.SOCK_DGRAM)
    try:
        iface = interface_address(endpoint.config.get("iface", "0.0.0.0"))
        ttl = int(endpoint.config.get("ttl", "1"))
        hears.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hears.bind(group)
        membership = socket.inet_aton(str(group[0])) + socket.inet_aton(iface)
        hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(iface))
        speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
        speaks.bind((iface, 0))
    except OSError as error:
        hears.close()
        speaks.close()
        raise LinkError(str(endpoint), describe(error)) from None
    return GroupLink(hears, speaks, group, name)
