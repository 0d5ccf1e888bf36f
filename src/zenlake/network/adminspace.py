# SPDX-License-Identifier: Apache-2.0
"""The admin space: the node replies to queries about itself under `@/<zid>/...` (companion adminspace.md).

`@/<zid>/session/...` always exists and is visible only to the local session. The other keys are an ordinary queryable.
A router has it by default, other nodes on request. The admin space is read-only.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from zenlake.core.encoding import Encoding
from zenlake.core.enums import Locality, WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.keyexpr import intersects
from zenlake.network.declarations import STEP
from zenlake.network.face import KINDS, QUERYABLE, SUBSCRIBER, TOKEN, Face
from zenlake.network.jobs import Job
from zenlake.network.local_queries import IncomingQuery

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["AdminSpace"]

NAMES = {SUBSCRIBER: "subscriber", QUERYABLE: "queryable", TOKEN: "token"}
JSON = Encoding.APPLICATION_JSON

Entries = Iterator[tuple[str, Callable[[], object]]]
"""Keys, each with a function that returns its content."""


def format_zid(zid: bytes) -> str:
    return str(ZenohId.from_wire(zid))


class AdminSpace:
    """Queryables of the admin space of one node."""

    def __init__(self, node: "Node", version: str, is_public: bool) -> None:
        self.node = node
        self.version = version
        self._own_zid = format_zid(node.zid)
        self._mode = str(node.whatami)
        self._own = f"@/{self._own_zid}/{self._mode}"
        application = node.application
        application.declare_queryable(
            f"@/{self._own_zid}/session/**".encode(),
            lambda query, reader: self._answer(query, self._sessions()),
            origin=Locality.SESSION_LOCAL,
        )
        if is_public:
            application.declare_queryable(f"{self._own}/**".encode(), self._answer_public)

    def _answer_public(self, query: IncomingQuery, reader: Any) -> None:
        stats = b"_stats" in (reader.request.query.parameters.value or b"")
        self._answer(query, self._entries(query.key, stats))

    def _answer(self, query: IncomingQuery, entries: Entries) -> None:
        """Reply in a job. The entries of a node with many neighbours may take seconds, and the querier may read slowly."""
        source = query.source
        with self.node.lock:
            self.node.jobs.start(source, self._reply(query, entries), suspend=not source.is_application)

    def _reply(self, query: IncomingQuery, entries: Entries) -> Job:
        import json

        for number, (key, describe) in enumerate(entries, 1):
            if number % STEP == 0:
                yield query.source if query.source.is_full else None
            if query.is_over:
                return
            if intersects(query.key, key.encode()):
                query.queue_reply(key.encode(), json.dumps(describe()).encode(), JSON)
        self.node.queue_call(query.finish)

    def _entries(self, key: bytes, stats: bool) -> Entries:
        """Yield all public keys."""
        yield self._own, lambda: self._state(self.node.faces, stats)
        for kind in KINDS:
            for resource in self.node.declarations.tables[kind].values():
                if resource.holders:
                    name = f"{self._own}/{NAMES[kind]}/{resource.key.decode()}"
                    yield name, partial(self._holders, list(resource.holders))
        routes = f"{self._own}/route/successor"
        if intersects(key, f"{routes}/**".encode()):
            yield from self._successors(key, routes)

    def _successors(self, key: bytes, routes: str) -> Entries:
        """Yield the next hop for each pair of source router and destination router."""
        routers = list(self.node.routers.by_zid.values())
        for source in routers:
            start = f"{routes}/src/{format_zid(source.zid)}/dst"
            if not intersects(key, f"{start}/*".encode()):
                yield start, dict  # only a step: it matches no query that reaches this line
                continue
            for target in routers:
                hop = source.next_hops.get(target.zid, source.parent)
                if hop is not None and target is not self.node.routers.own:
                    yield f"{start}/{format_zid(target.zid)}", partial(format_zid, hop.zid)

    def _sessions(self) -> Entries:
        """Yield the sessions and their links, which only the application of this node sees."""
        for face in self.node.faces:
            name = f"@/{self._own_zid}/session/transport/unicast/{format_zid(face.zid)}"
            description = face.tx.describe()
            links = description.pop("links", [])
            content = {"zid": format_zid(face.zid), "whatami": str(face.whatami), "is_shm": False, **description}
            yield name, partial(dict, content)
            assert isinstance(links, list)
            for number, link in enumerate(links):
                yield f"{name}/link/{number}", partial(dict, link)

    def _state(self, faces: list[Face], stats: bool) -> dict[str, object]:
        state: dict[str, object] = {
            "zid": self._own_zid, "version": self.version, "metadata": None, "plugins": None,
            "locators": list(self.node.gossip.locators), "sessions": [self._session(face) for face in faces],
        }  # fmt: skip
        if stats:
            state["stats"] = dict(self.node.counters)
        return state

    @staticmethod
    def _session(face: Face) -> dict[str, object]:
        description = face.tx.describe()
        links = description.get("links", [])
        assert isinstance(links, list)
        addresses = [{"src": link["src"], "dst": link["dst"]} for link in links]
        return {
            "peer": format_zid(face.zid), "whatami": str(face.whatami), "links": addresses,
            "shm": description.get("is_shm", False), "weight": None, "dropped": face.dropped,
        }  # fmt: skip

    def _holders(self, holders: list[Face]) -> dict[str, list[str]]:
        names: dict[str, list[str]] = {"routers": [], "peers": [], "clients": []}
        for face in holders:
            whatami = self.node.whatami if face.is_application else face.whatami
            name = {WhatAmI.ROUTER: "routers", WhatAmI.PEER: "peers", WhatAmI.CLIENT: "clients"}[whatami]
            names[name].append(format_zid(face.zid))
        return names
