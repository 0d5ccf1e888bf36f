# SPDX-License-Identifier: Apache-2.0
"""The sockets of scouting: one per interface asks the group and hears the answers, one hears what others ask."""

import socket
from collections.abc import Callable
from contextlib import suppress

from zenlake.endpoint import EndPoint
from zenlake.errors import LinkError
from zenlake.link.base import addresses, describe
from zenlake.link.interfaces import named
from zenlake.link.multicast import hearing, speaking
from zenlake.link.udp import UdpPort

__all__ = ["AnsweringPort", "AskingPort", "answering", "asking"]

Source = tuple[object, ...]


class AskingPort(UdpPort):
    """Asks the whole group by one interface; answers come back to it alone."""

    on_answer: Callable[[bytes, Source], None]

    def __init__(self, sock: socket.socket, group: Source) -> None:
        super().__init__(sock)
        self._group = group
        self.address: Source = sock.getsockname()

    def ask(self, datagram: bytes) -> None:
        with suppress(OSError):  # an interface that is down: the next round tries again
            self._sock.sendto(datagram, self._group)

    def on_datagram(self, data: memoryview, source: Source, now: float) -> None:
        self.on_answer(bytes(data), source)


class AnsweringPort(UdpPort):
    """Hears questions to the group; an answer goes to the one who asked."""

    on_question: Callable[[bytes, Source], bytes | None]

    def on_datagram(self, data: memoryview, source: Source, now: float) -> None:
        answer = self.on_question(bytes(data), source)
        if answer is not None:
            with suppress(OSError):  # lost, as datagrams may be
                self._sock.sendto(answer, source)


def asking(group: EndPoint, interfaces: str, ttl: int) -> list[AskingPort]:
    """A port per interface (`auto`, or names and addresses with commas between)."""
    family, address = addresses(group, socket.SOCK_DGRAM)[0]
    ports: list[AskingPort] = []
    try:
        for one in named(interfaces):
            ports.append(AskingPort(speaking(family, one, ttl), address))
    except OSError as error:
        for port in ports:
            port.close()
        raise LinkError(str(group), describe(error)) from None
    return ports


def answering(group: EndPoint, interfaces: str) -> AnsweringPort:
    family, address = addresses(group, socket.SOCK_DGRAM)[0]
    try:
        return AnsweringPort(hearing(family, address, named(interfaces)))
    except OSError as error:
        raise LinkError(str(group), describe(error)) from None
