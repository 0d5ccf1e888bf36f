# SPDX-License-Identifier: Apache-2.0
"""Scouting on real sockets: `Asking` finds others, `Answering` lets others find us, `scout` is both ends of a question.

All of it runs in the loop's thread; only `scout` blocks, and has a loop of its own.
"""

import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from time import monotonic

from zenlake.endpoint import EndPoint
from zenlake.link import scouting as sockets
from zenlake.runtime.engine import Engine, Timer
from zenlake.transport.scouting import Responder, Scouter
from zenlake.values import WhatAmI, WhatAmIMatcher
from zenlake.wire.scouting import Hello

__all__ = ["Answering", "Asking", "Group", "scout"]


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
        self._responder = Responder(zid, whatami, lambda local: [one for one in locators() if local or not loops(one)])
        self._port = sockets.answering(group.endpoint, group.interfaces)

    def begin(self) -> None:
        self._port.on_question = self._question
        self._engine.add(self._port)

    def _question(self, datagram: bytes, source: tuple[object, ...]) -> bytes | None:
        if source in self._own:
            return None
        return self._responder.answer(datagram, ip_address(str(source[0]).partition("%")[0]).is_loopback)

    def close(self) -> None:
        self._port.close()
        self._engine.remove(self._port)


def loops(locator: str) -> bool:
    """Whether only this machine reaches this locator."""
    try:
        return ip_address(EndPoint.parse(locator).host_and_port()[0]).is_loopback
    except ValueError:
        return False


def scout(
    what: WhatAmIMatcher | None = None, timeout: float | None = None, group: Group | None = None
) -> Iterator[Hello]:
    """Every HELLO that comes within `timeout` seconds (None: until the iterator is closed), as it comes."""
    engine = Engine("zenlake-scout")
    hellos: queue.SimpleQueue[Hello] = queue.SimpleQueue()
    asking = Asking(engine, group or Group(), what or WhatAmIMatcher("router|peer"), hellos.put)
    engine.start()
    deadline = None if timeout is None else monotonic() + timeout
    try:
        engine.run(asking.begin)
        while True:
            left = None if deadline is None else deadline - monotonic()
            if left is not None and left <= 0:
                return
            try:
                yield hellos.get(timeout=left)
            except queue.Empty:
                return
    finally:
        engine.run(asking.close)
        engine.stop()
