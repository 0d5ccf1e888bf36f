# SPDX-License-Identifier: Apache-2.0
"""Multicast discovery as configured: the nodes to search for, and those to reply to.

A peer sends its SCOUT as soon as its `ScoutingService` is created, before there is a node. `open` creates it first and
imports the other modules while the replies arrive. Therefore this module does not import the modules of a node.
"""

from logging import getLogger
from time import monotonic, sleep
from typing import TYPE_CHECKING

from zenlake.config import Config
from zenlake.core.enums import WhatAmI, WhatAmIMatcher
from zenlake.errors import LinkError
from zenlake.runtime.autoconnect import Autoconnect
from zenlake.runtime.scouting import ScoutGroup, ScoutReplies, ScoutRounds, ScoutThread
from zenlake.wire.scouting import Hello

if TYPE_CHECKING:
    from zenlake.api.session_node import SessionNode

__all__ = ["ScoutingService", "group"]

log = getLogger("zenlake.scouting")

REPLY_SPREAD = (
    0.001  # seconds to wait for further replies after the first one, or the time that the first one took, if longer
)
READ_TIMEOUT = 0.05  # seconds to read replies that arrived while modules were imported, however long that took
CONNECT_TIMEOUT = 1.0  # seconds to wait for the session with a node that replied

AUTOCONNECT = {
    WhatAmI.ROUTER: (),
    WhatAmI.PEER: (WhatAmI.ROUTER, WhatAmI.PEER),
    WhatAmI.CLIENT: (WhatAmI.ROUTER, WhatAmI.PEER),
}


def group(config: Config) -> ScoutGroup:
    """Return the address of multicast scouting in a configuration."""
    chosen = ScoutGroup()
    return ScoutGroup(
        config.get("scouting/multicast/address") or chosen.address,
        config.get("scouting/multicast/interface") or chosen.interfaces,
        config.get("scouting/multicast/ttl") or chosen.ttl,
    )


class ScoutingService:
    """Discovery of other nodes, and replies to their scouting."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._node: SessionNode | None = None
        self._rounds: ScoutRounds | None = None
        self._replies: ScoutReplies | None = None
        self._scout_time = 0.0
        self._first_reply_time: float | None = None
        wanted = config.of_role("scouting/multicast/autoconnect")
        strategy = config.of_role("scouting/multicast/autoconnect_strategy")
        self._autoconnect = Autoconnect.parse(wanted, strategy, AUTOCONNECT[config.role])
        self._what = WhatAmIMatcher("|".join(map(str, self._autoconnect.roles)))
        if config.role is not WhatAmI.CLIENT:
            self._start_scouting()

    def _start_scouting(self) -> None:
        where = group(self._config)
        try:
            if not self._what.is_empty():
                self._rounds = ScoutRounds(where, self._what)
            if self._config.of_role("scouting/multicast/listen") is not False:
                self._replies = ScoutReplies(where)
        except LinkError as error:  # a node works without multicast
            log.warning("no scouting by multicast: %s", error)
        if (
            self._rounds is not None
        ):  # this node listens already: of two nodes that start together, one receives the other's SCOUT
            self._rounds.send_scout()
            self._scout_time = monotonic()

    def find(self, seconds: float) -> list[tuple[bytes, WhatAmI, tuple[str, ...]]]:
        """Return the first node that replies within `seconds`, as a list. It is empty without a reply."""
        import queue

        hellos: queue.SimpleQueue[Hello] = queue.SimpleQueue()
        lookout = ScoutThread(group(self._config), self._what, hellos.put)
        try:
            hello = hellos.get(timeout=seconds)
        except queue.Empty:
            return []
        finally:
            lookout.close()
        return [(hello.zid.value, WhatAmI.from_wire(hello.whatami), tuple(hello.locators))]

    def begin(self, node: "SessionNode") -> None:
        """Reply to scouting and connect to discovered nodes. Return when a node was found or the timeout is over."""
        config, self._node = self._config, node
        node.runtime.engine.run(lambda: self._begin(node))
        if self._rounds is None or config.get("open/return_conditions/connect_scouted") is False:
            return
        delay = config.get("scouting/delay")
        seconds = (500 if delay is None else delay) / 1000
        began = monotonic()
        connected = node.wait_for_face(1, max(self._scout_time + seconds - began, min(READ_TIMEOUT, seconds)))
        if not connected and self._first_reply_time is not None:
            connected = node.wait_for_face(1, CONNECT_TIMEOUT)
        if connected:
            self._wait_for_peers(node, began, seconds)

    def _wait_for_peers(self, node: "SessionNode", began: float, seconds: float) -> None:
        """Wait for the other nodes that replied to the same SCOUT, so that they receive the first puts too.

        Replies that arrived before `began` were read together. Further replies are expected within the time of the first one.
        """
        now = monotonic()
        heard = now if self._first_reply_time is None else self._first_reply_time
        deadline, latest = heard + min(max(REPLY_SPREAD, heard - began), seconds), now + seconds + CONNECT_TIMEOUT
        while monotonic() < (latest if node.is_connecting else deadline):
            sleep(0.001)

    def _begin(self, node: "SessionNode") -> None:
        engine = node.runtime.engine
        if self._rounds is not None:
            self._rounds.begin(engine, self._on_hello)
        if self._replies is not None:
            own = frozenset() if self._rounds is None else frozenset(self._rounds.own)
            self._replies.begin(engine, node.zid, node.whatami, lambda: node.locators, own)

    def close(self) -> None:
        parts = [part for part in (self._rounds, self._replies) if part is not None]
        self._rounds = self._replies = None
        for part in parts:
            if self._node is None:
                part.close()
            else:
                self._node.runtime.engine.run(part.close)

    def _on_hello(self, hello: Hello) -> None:
        zid, node = hello.zid.value, self._node
        if node is not None and zid != node.zid:
            self._first_reply_time = self._first_reply_time or monotonic()
            if self._autoconnect.wants(node.zid, zid, WhatAmI.from_wire(hello.whatami)):
                node.connect_discovered(zid, tuple(hello.locators))
