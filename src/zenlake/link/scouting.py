# SPDX-License-Identifier: Apache-2.0
"""Sockets of scouting: one per interface sends SCOUT and receives HELLO, one receives the SCOUT messages of others."""

import socket
from collections.abc import Callable
from contextlib import suppress

from zenlake.core.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import addresses, describe
from zenlake.link.interfaces import find_interface
from zenlake.link.multicast import open_receiver, open_sender
from zenlake.link.udp import UdpPort

__all__ = ["AnsweringPort", "AskingPort", "open_answering_ports", "open_asking_ports"]

Source = tuple[object, ...]
MAX_QUESTION = 2048  # bytes; the rest of a longer datagram is cut off


class AskingPort(UdpPort):
    """Socket that sends to the group by one interface. Replies are sent to it alone."""

    on_answer: Callable[[bytes, Source], None]

    def __init__(self, sock: socket.socket, group: Source) -> None:
        super().__init__(sock)
        self._group = group
        self.address: Source = sock.getsockname()

    def send_scout(self, datagram: bytes) -> None:
        with suppress(OSError):  # the interface is down: the next round tries again
            self._sock.sendto(datagram, self._group)

    def on_datagram(self, data: memoryview, source: Source, now: float) -> None:
        self.on_answer(bytes(data), source)


class AnsweringPort(UdpPort):
    """Socket that receives SCOUT messages to the group. Replies go to the sender."""

    on_question: Callable[[bytes, Source], bytes | None]

    def __init__(self, sock: socket.socket) -> None:
        super().__init__(sock)
        self.own: frozenset[Source] = frozenset()
        """Source addresses of this node's own SCOUT messages."""
        self.known: dict[tuple[bytes, object], bytes] = {}
        """Replies by SCOUT and host of its sender, because a sender repeats its SCOUT."""

    def on_readable(self, now: float) -> None:
        """Reply to one datagram.

        Performance: a 1.10.2 node connects first to the node that replies first. It may send a query before it connects to
        the next one. So the reply to a repeated SCOUT is not computed again.
        """
        source: Source = ("", 0)
        try:
            data, source = self._sock.recvfrom(MAX_QUESTION)
            if source in self.own:
                return
            answer = self.known.get((data, source[0])) or self.on_question(data, source)
            if answer is not None:
                self._sock.sendto(answer, source)
        except OSError:  # nothing to read, or a reply that is dropped like any datagram
            return
        except Exception as error:
            self.on_fault(f"{source[0]}:{source[1]}", error)


def open_asking_ports(group: EndPoint, interfaces: str, ttl: int) -> list[AskingPort]:
    """Return one port per interface (`auto`, or names and addresses separated by commas)."""
    family, address = addresses(group, socket.SOCK_DGRAM)[0]
    ports: list[AskingPort] = []
    try:
        for one in find_interface(interfaces):
            ports.append(AskingPort(open_sender(family, one, ttl), address))
    except OSError as error:
        for port in ports:
            port.close()
        raise LinkError(str(group), describe(error)) from None
    return ports


def open_answering_ports(group: EndPoint, interfaces: str) -> AnsweringPort:
    family, address = addresses(group, socket.SOCK_DGRAM)[0]
    try:
        return AnsweringPort(open_receiver(family, address, find_interface(interfaces)))
    except OSError as error:
        raise LinkError(str(group), describe(error)) from None
