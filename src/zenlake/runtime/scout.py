# SPDX-License-Identifier: Apache-2.0
"""Scouting on real sockets: `Asking` finds others, `Answering` lets others find us, both in the loop of a node.

`Lookout` asks where there is no node: it has a loop of its own.
"""

from collections.abc import Callable, Sequence
from ipaddress import ip_address
from time import monotonic

from zenlake.endpoint import EndPoint, Locator
from zenlake.link import scouting as sockets
from zenlake.link.interfaces import with_multicast
from zenlake.record import dataclass
from zenlake.runtime.engine import Engine, Timer
from zenlake.transport.scouting import Responder, Scouter
from zenlake.values import WhatAmI, WhatAmIMatcher
from zenlake.wire.scouting import Hello

__all__ = ["Answering", "Asking", "Group", "Lookout"]


@dataclass(frozen=True, slots=True)
class Group:
    """Where questions are asked: an address, the interfaces (`auto`, or names and addresses with commas between)."""

    address: str = "224.0.0.224:7446"
    interfaces: str = "auto"
    ttl: int = 1

    @property
    def endpoint(self) -> EndPoint:
        return EndPoint.parse(f"udp/{self.address}")


class Asking:
    """Asks in rounds until it is closed; `on_hello` hears every answer, repeated ones too."""

    def __init__(self, engine: Engine, group: Group, what: WhatAmIMatcher, on_hello: Callable[[Hello], None]) -> None:
        self._engine = engine
        self._scouter = Scouter(what, monotonic())
        self._on_hello = on_hello
        self._ports = sockets.asking(group.endpoint, group.interfaces, group.ttl)
        self._timer: Timer | None = None
        self.own = {port.address for port in self._ports}
        """Where our questions come from, so that we need not answer ourselves."""

    def begin(self) -> None:
        for port in self._ports:
            port.on_answer = self._answer
            self._engine.add(port)
        self._round()

    def _round(self) -> None:
        datagram = self._scouter.data(monotonic())
        if datagram is not None:
            for port in self._ports:
                port.ask(datagram)
        self._timer = self._engine.call_at(self._scouter.next_timeout(), self._round)

    def _answer(self, datagram: bytes, source: tuple[object, ...]) -> None:
        hello = self._scouter.receive(datagram)
        if hello is not None:
            self._on_hello(hello)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for port in self._ports:
            port.close()
            self._engine.remove(port)


class Answering:
    """Answers those who look for a node of our role. `locators` says where we listen at this moment."""

    def __init__(
        self,
        engine: Engine,
        group: Group,
        zid: bytes,
        whatami: WhatAmI,
        locators: Callable[[], Sequence[str]],
        own: frozenset[tuple[object, ...]] = frozenset(),
    ) -> None:
        self._engine = engine
        self._own = own
        self._responder = Responder(zid, whatami, lambda local: reachable(locators(), local))
        self._port = sockets.answering(group.endpoint, group.interfaces)

    def begin(self) -> None:
        self._port.on_question = self._question
        self._engine.add(self._port)

    def _question(self, datagram: bytes, source: tuple[object, ...]) -> bytes | None:
        if source in self._own:
            return None
        return self._responder.answer(datagram, _is_here(str(source[0]).partition("%")[0]))

    def close(self) -> None:
        self._port.close()
        self._engine.remove(self._port)


class Lookout:
    """Asks in a thread of its own, from now until it is closed."""

    def __init__(self, group: Group, what: WhatAmIMatcher, on_hello: Callable[[Hello], None]) -> None:
        self._engine = Engine("zenlake-scout")
        self._asking = Asking(self._engine, group, what, on_hello)
        self._engine.start()
        self._engine.call_soon(self._asking.begin)

    def close(self) -> None:
        """Ask no more. From `on_hello`, or from a garbage collector, it does not wait for the thread's end."""
        self._engine.call_soon(self._asking.close)
        self._engine.stop()


def reachable(locators: Sequence[str], from_loopback: bool) -> list[str]:
    """Where one who asks can reach us: this machine's own addresses only from this machine, and an address that stands
    for all of them spelled out."""
    found: list[str] = []
    for text in locators:
        locator = Locator.from_wire(text.encode())
        host, _, port = locator.address.rpartition(":")
        if host in ("0.0.0.0", "[::]"):
            hosts = [one.address for one in with_multicast()] + (["127.0.0.1"] if from_loopback else [])
            found += [f"{locator.protocol}/{one}:{port}" for one in hosts]
        elif from_loopback or not _loops(host):
            found.append(text)
    return found


def _is_here(address: str) -> bool:
    """Whether this is an address of this machine: who asks from here can reach what only this machine can."""
    return _loops(address) or any(one.address == address for one in with_multicast())


def _loops(host: str) -> bool:
    """Whether only this machine reaches this address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
