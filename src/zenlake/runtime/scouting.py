# SPDX-License-Identifier: Apache-2.0
"""Scouting on real sockets: `ScoutRounds` finds other nodes, `ScoutReplies` replies to them, both on the event loop of a node.

Both open their sockets in the constructor and need an event loop only from `begin`. Datagrams that arrive in between wait in
the sockets. So a program can send scouting messages first and create a node while the replies arrive. `ScoutThread`
scouts without a node, with its own event loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING

from zenlake.core.endpoint import EndPoint, Locator
from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.link import scouting as sockets
from zenlake.link.interfaces import find_by_address, pack_address, with_multicast
from zenlake.transport.scouting import Responder, Scouter
from zenlake.wire.scouting import Hello

if TYPE_CHECKING:
    from zenlake.runtime.event_loop import EventLoop, Timer

__all__ = ["ScoutReplies", "ScoutRounds", "ScoutGroup", "ScoutThread"]

WILDCARDS = ("/0.0.0.0:", "/[::]:")  # in locators: all addresses of this machine, which may change


@dataclass(frozen=True, slots=True)
class ScoutGroup:
    """Scouting address and interfaces (`auto`, or names and addresses separated by commas)."""

    address: str = "224.0.0.224:7446"
    interfaces: str = "auto"
    ttl: int = 1

    @property
    def endpoint(self) -> EndPoint:
        return EndPoint.parse(f"udp/{self.address}")


class ScoutRounds:
    """Scouting in rounds until closed. `on_hello` receives every reply, including repeated ones."""

    def __init__(self, group: ScoutGroup, what: WhatAmIMatcher) -> None:
        self._ports = sockets.open_asking_ports(group.endpoint, group.interfaces, group.ttl)
        self._scouter = Scouter(what, monotonic())
        self._engine: EventLoop | None = None
        self._timer: Timer | None = None
        self.own = {port.address for port in self._ports}
        """Source addresses of our scouting messages, so that this node does not reply to itself."""

    def send_scout(self) -> None:
        """Send a scouting message if due. The first one is due immediately."""
        datagram = self._scouter.data(monotonic())
        if datagram is not None:
            for port in self._ports:
                port.send_scout(datagram)

    def begin(self, engine: "EventLoop", on_hello: Callable[[Hello], None]) -> None:
        self._engine = engine
        self._on_hello = on_hello
        for port in self._ports:
            port.on_answer = self._answer
            engine.add(port)
        self._timer = engine.call_at(self._scouter.next_timeout(), self._round)

    def _round(self) -> None:
        self.send_scout()
        if self._engine is not None:
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
            if self._engine is not None:
                self._engine.remove(port)


class ScoutReplies:
    """Replies to scouting for the role of this node. `locators` returns the current locators."""

    def __init__(self, group: ScoutGroup) -> None:
        self._port = sockets.open_answering_ports(group.endpoint, group.interfaces)
        self._engine: EventLoop | None = None

    def begin(
        self,
        engine: "EventLoop",
        zid: bytes,
        whatami: WhatAmI,
        locators: Callable[[], Sequence[str]],
        own: frozenset[tuple[object, ...]] = frozenset(),
    ) -> None:
        self._engine = engine
        self._locators = locators
        self._responder = Responder(zid, whatami, lambda local: reachable(locators(), local))
        self._port.own = own
        self._port.on_question = self._question
        engine.add(self._port)

    def _question(self, datagram: bytes, source: tuple[object, ...]) -> bytes | None:
        host, local = str(source[0]), self._locators()
        reply = self._responder.reply(datagram, _loops(host) or find_by_address(host) != ())
        if reply is not None and _loops(host) and not any(wildcard in one for one in local for wildcard in WILDCARDS):
            self._port.known = {(datagram, host): reply}
        return reply

    def close(self) -> None:
        self._port.close()
        if self._engine is not None:
            self._engine.remove(self._port)


class ScoutThread:
    """Scouting on its own thread, until closed."""

    def __init__(self, group: ScoutGroup, what: WhatAmIMatcher, on_hello: Callable[[Hello], None]) -> None:
        from zenlake.runtime.event_loop import EventLoop

        self._engine = EventLoop("zenlake-scout")
        self._rounds = ScoutRounds(group, what)
        self._engine.start()
        self._engine.call_soon(lambda: self._rounds.begin(self._engine, on_hello))

    def close(self) -> None:
        """Stop scouting. Called from `on_hello` or the garbage collector, it does not wait for the end of the thread."""
        self._engine.call_soon(self._rounds.close)
        self._engine.stop()


def reachable(locators: Sequence[str], from_here: bool) -> list[str]:
    """Return the locators at which the sender of a scouting message can reach this node.

    Loopback addresses are only for the same machine. A wildcard address is replaced by the addresses of the interfaces.
    """
    found: list[str] = []
    for text in locators:
        locator = Locator.from_wire(text.encode())
        host, _, port = locator.address.rpartition(":")
        if f"/{host}:" in WILDCARDS:
            hosts = [one.address for one in with_multicast()] + (["127.0.0.1"] if from_here else [])
            found += [f"{locator.protocol}/{one}:{port}" for one in hosts]
        elif from_here or not _loops(host):
            found.append(text)
    return found


def _loops(host: str) -> bool:
    """Return whether an address is reachable only from this machine."""
    number = pack_address(host.strip("[]"))
    return number is not None and (number[0] == 127 if len(number) == 4 else number == bytes(15) + b"\1")
