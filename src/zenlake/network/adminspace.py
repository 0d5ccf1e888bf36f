# SPDX-License-Identifier: Apache-2.0
"""The admin space: the node replies to queries about itself under `@/<zid>/...` (companion adminspace.md).

`@/<zid>/session/...` always exists and is visible only to the local session. The other keys are an ordinary queryable.
A router has it by default, other nodes on request. The admin space is read-only.
"""

from typing import TYPE_CHECKING, Any

from zenlake.core.encoding import Encoding
from zenlake.core.enums import Locality, WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.keyexpr import intersects
from zenlake.network.face import KINDS, QUERYABLE, SUBSCRIBER, TOKEN, Face
from zenlake.network.local_queries import IncomingQuery

if TYPE_CHECKING:
    from zenlake.network.node import Node

__all__ = ["AdminSpace"]

NAMES = {SUBSCRIBER: "subscriber", QUERYABLE: "queryable", TOKEN: "token"}
JSON = Encoding.APPLICATION_JSON


def format_zid(zid: bytes) -> str:
    return str(ZenohId.from_wire(zid))


class AdminSpace:
    """Queryables of the admin space of one node."""

    def __init__(self, node: "Node", version: str, is_public: bool) -> None:
        self.node = node
        self.version = version
        self._own_zid = format_zid(node.zid)
        self._mode = str(node.whatami)
        self._successors = f"@/{self._own_zid}/{self._mode}/route/successor"
        application = node.application
        application.declare_queryable(
            f"@/{self._own_zid}/session/**".encode(), self._answer, origin=Locality.SESSION_LOCAL
        )
        if is_public:
            application.declare_queryable(f"@/{self._own_zid}/{self._mode}/**".encode(), self._answer)

    def _answer(self, query: IncomingQuery, reader: Any) -> None:
        import json

        try:
            stats = b"_stats" in (reader.request.query.parameters.value or b"")
            entries = self.entries(stats)
            if intersects(query.key, f"{self._successors}/**".encode()):
                entries |= self.successors()
            for key, content in entries.items():
                utf8 = key.encode()
                if intersects(query.key, utf8):
                    query.reply(utf8, json.dumps(content).encode(), encoding=JSON)
        finally:
            query.finish()

    def entries(self, stats: bool = False) -> dict[str, object]:
        """Return all keys of the admin space with their content."""
        node = self.node
        with node.lock:
            faces = node.faces
            own = f"@/{self._own_zid}/{self._mode}"
            entries: dict[str, object] = {own: self._state(faces, stats)}
            for kind in KINDS:
                for resource in node.declarations.tables[kind].values():
                    name = f"{own}/{NAMES[kind]}/{resource.key.decode()}"
                    entries[name] = self._holders(list(resource.holders))
            for face in faces:
                name = f"@/{self._own_zid}/session/transport/unicast/{format_zid(face.zid)}"
                description = face.tx.describe()
                links = description.pop("links", [])
                entries[name] = {
                    "zid": format_zid(face.zid),
                    "whatami": str(face.whatami),
                    "is_shm": False,
                    **description,
                }
                assert isinstance(links, list)
                for number, link in enumerate(links):
                    entries[f"{name}/link/{number}"] = link
            return entries

    def successors(self) -> dict[str, object]:
        """Return the next hop for each pair of source router and destination router."""
        entries: dict[str, object] = {}
        with self.node.lock:
            routers = self.node.routers.by_zid.values()
            for source in routers:
                for target in routers:
                    hop = source.next_hops.get(target.zid, source.parent)
                    if hop is not None and target is not self.node.routers.own:
                        name = f"src/{format_zid(source.zid)}/dst/{format_zid(target.zid)}"
                        entries[f"{self._successors}/{name}"] = format_zid(hop.zid)
        return entries

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
