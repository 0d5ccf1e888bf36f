# SPDX-License-Identifier: Apache-2.0
"""Finding each other by multicast, as a session's configuration says: whom to look for, whom to answer."""

import queue
from time import monotonic, sleep
from typing import TYPE_CHECKING

from zenlake.choices import WhatAmI, WhatAmIMatcher
from zenlake.config import Config
from zenlake.errors import LinkError
from zenlake.runtime.node import YIELD
from zenlake.runtime.scout import Answering, Asking, Group, Lookout
from zenlake.telling import logger
from zenlake.wire.scouting import Hello

if TYPE_CHECKING:
    from zenlake.api.opening import SessionNode

__all__ = ["Discovery", "group"]

log = logger("zenlake.scouting")

ANSWERS = 0.05  # seconds after the first in which the other answers to one question come; or as long as the first took

AUTOCONNECT = {
    WhatAmI.ROUTER: "",
    WhatAmI.PEER: "router|peer",
    WhatAmI.CLIENT: "router|peer",
}


def group(config: Config) -> Group:
    """Where a configuration says that questions are asked."""
    chosen = Group()
    return Group(
        config.get("scouting/multicast/address") or chosen.address,
        config.get("scouting/multicast/interface") or chosen.interfaces,
        config.get("scouting/multicast/ttl") or chosen.ttl,
    )


class Discovery:
    """What a node does to be found and to find others."""

    def __init__(self, config: Config, node: "SessionNode") -> None:
        self._config = config
        self._node = node
        self._parts: list[Asking | Answering] = []
        self._heard: float | None = None  # when the first answered
        wanted = config.of_role("scouting/multicast/autoconnect")
        self._what = WhatAmIMatcher(AUTOCONNECT[node.whatami] if wanted is None else "|".join(wanted))

    def find(self, seconds: float) -> list[tuple[bytes, WhatAmI, tuple[str, ...]]]:
        """The first node that answers, in so many seconds."""
        hellos: queue.SimpleQueue[Hello] = queue.SimpleQueue()
        lookout = Lookout(group(self._config), self._what, hellos.put)
        try:
            hello = hellos.get(timeout=seconds)
        except queue.Empty:
            return []
        finally:
            lookout.close()
        return [(hello.zid.value, WhatAmI.from_wire(hello.whatami), tuple(hello.locators))]

    def begin(self) -> None:
        """Answer, and connect to whom we find; returns when somebody was found or the time for it is over."""
        node, config = self._node, self._config
        if node.whatami is WhatAmI.CLIENT:
            return
        began = monotonic()
        node.runtime.engine.run(self._begin)
        delay = config.get("scouting/delay")
        if not self._what.is_empty() and config.get("open/return_conditions/connect_scouted") is not False:
            seconds = (500 if delay is None else delay) / 1000
            connected = node.wait_for_face(1, seconds)
            if not connected and self._heard is not None:  # the one with the smaller id waits for the other to connect
                connected = node.wait_for_face(1, 2 * YIELD)
            if connected:
                self._wait_for_the_others(began, seconds)

    def _wait_for_the_others(self, began: float, seconds: float) -> None:
        """Somebody was found: those who answered the same question are to hear what is put first, too."""
        now = monotonic()
        heard = now if self._heard is None else self._heard
        answered, latest = heard + min(max(ANSWERS, heard - began), seconds), now + seconds + 2 * YIELD
        while monotonic() < (latest if self._node.is_connecting else answered):
            sleep(0.005)

    def _begin(self) -> None:
        node, where, engine = self._node, group(self._config), self._node.runtime.engine
        own: frozenset[tuple[object, ...]] = frozenset()
        try:
            if not self._what.is_empty():
                asking = Asking(engine, where, self._what, self._found)
                own = frozenset(asking.own)
                self._parts.append(asking)
            if self._config.of_role("scouting/multicast/listen") is not False:
                answering = Answering(engine, where, node.zid, node.whatami, lambda: node.locators, own)
                self._parts.append(answering)
        except LinkError as error:  # a node without multicast is still a node
            log.warning("no scouting by multicast: %s", error)
        for part in self._parts:
            part.begin()

    def close(self) -> None:
        parts, self._parts = self._parts, []
        for part in parts:
            self._node.runtime.engine.run(part.close)

    def _found(self, hello: Hello) -> None:
        zid = hello.zid.value
        if zid != self._node.zid:
            self._heard = self._heard or monotonic()
            self._node._discovered(zid, WhatAmI.from_wire(hello.whatami), tuple(hello.locators))
