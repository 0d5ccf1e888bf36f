# SPDX-License-Identifier: Apache-2.0
"""Finding each other by multicast: `Asker` sends SCOUT and hands on each HELLO; `Discovery` does that for a node, and
answers those who look for it.

One thread each, which does nothing but wait: discovery is slow by nature and must not hold up the loop.
"""

import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zenlake.choices import WhatAmI, WhatAmIMatcher
from zenlake.config import Config
from zenlake.endpoint import EndPoint, Locator
from zenlake.link.multicast import interface_address
from zenlake.runtime.node import YIELD
from zenlake.transport.scouting import Responder, Scouter

if TYPE_CHECKING:
    from zenlake.api.opening import SessionNode

__all__ = ["Asker", "Discovery"]

GROUP = "224.0.0.224:7446"
AUTOCONNECT = {
    WhatAmI.ROUTER: "",
    WhatAmI.PEER: "router|peer",
    WhatAmI.CLIENT: "router|peer",
}

Found = Callable[[bytes, WhatAmI, tuple[str, ...]], None]


class Asker:
    """Asks in rounds, from every interface, until it is closed."""

    def __init__(self, config: Config, what: WhatAmIMatcher, found: Found, responder: Responder | None = None) -> None:
        host, port = EndPoint.parse(f"udp/{config.get('scouting/multicast/address') or GROUP}").host_and_port()
        self._group = (host, port)
        self._found = found
        self._responder = responder
        self._scouter = None if what.is_empty() else Scouter(what, time.monotonic())
        self._wake, self._woken = socket.socketpair()
        addresses = _addresses(config.get("scouting/multicast/interface"))
        ttl = config.get("scouting/multicast/ttl") or 1
        self._speaking = [each for each in (_speaker(address, ttl) for address in addresses) if each is not None]
        self._hearing = None if responder is None else _hearer(self._group, addresses)
        self._thread = threading.Thread(target=self._run, name="zenlake-scouting", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._wake.close()

    def join(self) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(5.0)

    def _run(self) -> None:
        sockets = [self._woken, *self._speaking, *([] if self._hearing is None else [self._hearing])]
        with selectors.DefaultSelector() as selector:
            for each in sockets:
                selector.register(each, selectors.EVENT_READ)
            while not self._round(selector):
                pass
        for each in sockets:
            each.close()

    def _round(self, selector: selectors.BaseSelector) -> bool:
        """Ask if it is time, and wait for what comes. True when there is no more to do."""
        scouter, wait = self._scouter, None
        if scouter is not None:
            now = time.monotonic()
            datagram = scouter.data(now)
            for each in self._speaking if datagram is not None else ():
                with suppress(OSError):
                    each.sendto(datagram or b"", self._group)
            wait = max(0.0, scouter.next_timeout() - now)
        for key, _ in selector.select(wait):
            heard: Any = key.fileobj
            if heard is self._woken:
                return True
            with suppress(OSError):
                data, source = heard.recvfrom(65536)
                if heard is self._hearing:
                    self._answer(data, source)
                elif scouter is not None and (hello := scouter.receive(data)) is not None:
                    self._found(hello.zid.value, WhatAmI.from_wire(hello.whatami), tuple(hello.locators))
        return False

    def _answer(self, datagram: bytes, source: tuple[str, int]) -> None:
        assert self._responder is not None
        answer = self._responder.answer(datagram, source[0].startswith("127."))
        if answer is not None and self._speaking:
            self._speaking[0].sendto(answer, source)


class Discovery:
    """What a node does to be found and to find others."""

    def __init__(self, config: Config, node: "SessionNode") -> None:
        self._config = config
        self._node = node
        self._asker: Asker | None = None
        self._somebody = False
        wanted = config.of_role("scouting/multicast/autoconnect")
        self._what = WhatAmIMatcher(AUTOCONNECT[node.whatami] if wanted is None else "|".join(wanted))

    def find(self, seconds: float) -> list[tuple[bytes, WhatAmI, tuple[str, ...]]]:
        """The first node that answers, in so many seconds."""
        found: list[tuple[bytes, WhatAmI, tuple[str, ...]]] = []
        came = threading.Event()

        def hello(zid: bytes, whatami: WhatAmI, locators: tuple[str, ...]) -> None:
            found.append((zid, whatami, locators))
            came.set()

        asker = Asker(self._config, self._what, hello)
        try:
            came.wait(seconds)
        finally:
            asker.close()
        return found

    def begin(self) -> None:
        """Answer, and connect to whom we find; returns when somebody was found or the time for it is over."""
        node, config = self._node, self._config
        if node.whatami is WhatAmI.CLIENT:
            return
        listens = config.of_role("scouting/multicast/listen") is not False
        responder = Responder(node.zid, node.whatami, self._locators) if listens else None
        self._asker = Asker(config, self._what, self._found, responder)
        delay = config.get("scouting/delay")
        if not self._what.is_empty() and config.get("open/return_conditions/connect_scouted") is not False:
            found = node.wait_for_face(1, (500 if delay is None else delay) / 1000)
            if self._somebody and not found:  # the one with the smaller id waits for the other to connect
                node.wait_for_face(1, 2 * YIELD)

    def close(self) -> None:
        if self._asker is not None:
            self._asker.close()
            self._asker.join()
            self._asker = None

    def _found(self, zid: bytes, whatami: WhatAmI, locators: tuple[str, ...]) -> None:
        if zid != self._node.zid:
            self._somebody = True
            self._node.soon(lambda: self._node._discovered(zid, whatami, locators))

    def _locators(self, from_loopback: bool) -> Sequence[str]:
        """Where we can be reached; an address that stands for all of this machine's is spelled out."""
        found: list[str] = []
        for text in self._node.locators:
            locator = Locator.from_wire(text.encode())
            host = locator.address.rpartition(":")[0]
            if host not in ("0.0.0.0", "[::]"):
                found.append(text)
                continue
            port = locator.address.rpartition(":")[2]
            addresses = _addresses(None)
            others = [address for address in addresses if not address.startswith("127.")]
            found += [f"{locator.protocol}/{address}:{port}" for address in (addresses if from_loopback else others)]
        return found


def _speaker(address: str, ttl: int) -> socket.socket | None:
    speaks = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        speaks.setblocking(False)
        speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, ttl)
        speaks.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(address))
        speaks.bind((address, 0))
    except OSError:
        speaks.close()
        return None
    return speaks


def _hearer(group: tuple[str, int], addresses: list[str]) -> socket.socket | None:
    """Hears what is said to the group on these interfaces; None where multicast is not possible."""
    hears = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        hears.setblocking(False)
        hears.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        hears.bind(group)
        for address in addresses:
            with suppress(OSError):
                membership = socket.inet_aton(group[0]) + socket.inet_aton(address)
                hears.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
    except OSError:
        hears.close()
        return None
    return hears


def _addresses(interface: str | None) -> list[str]:
    """The addresses of the interfaces that are named (separated by commas), or of all."""
    if interface and interface != "auto":
        names = [name.strip() for name in interface.split(",")]
    else:
        names = [name for _, name in socket.if_nameindex()]
    found = []
    for name in names:
        with suppress(OSError):
            found.append(interface_address(name))
    return found
