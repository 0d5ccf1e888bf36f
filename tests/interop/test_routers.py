# SPDX-License-Identifier: Apache-2.0
"""Several routers of both implementations in every position: the same trees, and every message exactly once.

A row names the implementation of its routers a, b, c, d by a letter each (o: ours, t: theirs), and the links between them. Every
router publishes and subscribes, and so does a client of the same implementation at each router.
"""

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.interop.nodes import Ours, Theirs, until
from zenlake.network import spanning_tree

CHAIN = ("ab", "bc")
TREE = ("ba", "ca")
RING = ("ab", "bc", "ca")
SQUARE = ("ab", "bc", "cd", "da")


class Cable:
    """A connection that can be cut: it listens, and forwards bytes to its target and back."""

    def __init__(self, leads_to: str) -> None:
        host, port = leads_to.removeprefix("tcp/").split(":")
        self._leads_to = (host, int(port))
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.locator = f"tcp/127.0.0.1:{self._listening.getsockname()[1]}"
        self._ends: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                self._ends.append(here)
                try:
                    there = socket.create_connection(self._leads_to)
                except OSError:  # the target does not listen yet
                    here.close()
                    continue
                self._ends.append(there)
                for pair in ((here, there), (there, here)):
                    thread = threading.Thread(target=self._carry, args=pair, daemon=True)
                    self._threads.append(thread)
                    thread.start()

    @staticmethod
    def _carry(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for end in self._ends:
            end.close()


class Net:
    """Routers, a client at each, and their events."""

    def __init__(self, kinds: str, links: tuple[str, ...], ports: Iterator[int]) -> None:
        self.routers: dict[str, Any] = {}
        self.clients: dict[str, Any] = {}
        self.links = list(links)
        self.cables: dict[str, Cable] = {}
        self._round = 0
        names = "abcd"[: len(kinds)]
        where = {name: f"tcp/127.0.0.1:{next(ports)}" for name in names}
        # Start the dialled nodes first where possible, to avoid retries.
        for name in sorted(names, key=lambda name: sum(link[0] == name for link in links)):
            kind = kinds[names.index(name)]
            dials = []
            for link in links:
                if link[0] == name:  # the node that is named first connects, through a cable for the first link
                    if link == links[0]:
                        self.cables[link] = Cable(where[link[1]])
                    dials.append(self.cables[link].locator if link in self.cables else where[link[1]])
            make: Any = Ours if kind == "o" else Theirs
            more = {"connect_timeout": 0.1} if kind == "o" else {"adminspace/enabled": True}
            self.routers[name] = make("router", tuple(dials), (where[name],), **more)
            self.clients[name] = make("client", (where[name],))
        for name, node in self.all_nodes():
            node.do("sub", "s", "s/**")
            node.do("token", "t", f"here/{name}")

    def all_nodes(self) -> list[tuple[str, Any]]:
        return [*self.routers.items()] + [(f"client-{name}", node) for name, node in self.clients.items()]

    def close(self) -> None:
        for node in [*self.clients.values(), *self.routers.values()]:
            node.close()
        for cable in self.cables.values():
            cable.cut()

    def lose(self, name: str) -> None:
        """Kill a router with its client."""
        for node in (self.clients.pop(name), self.routers.pop(name)):
            node.kill() if isinstance(node, Theirs) else node.close()
        self.links = [link for link in self.links if name not in link]

    # Expected state

    def reach(self, name: str) -> set[str]:
        """Return the routers that are connected with this one."""
        found = {name}
        for _ in self.routers:
            found |= {end for link in self.links for end in link if found & set(link)}
        return found & set(self.routers)

    def expected(self, at: str) -> dict[tuple[str, str], str]:
        """Return, for each source and destination, the neighbour to which a router forwards."""
        wire = {name: bytes.fromhex(node.zid.zfill(32))[::-1] for name, node in self.routers.items()}
        names = {zid: name for name, zid in wire.items()}
        lists: dict[bytes, dict[bytes, int]] = {wire[name]: {} for name in self.reach(at)}
        for one, other in (link for link in self.links if link[0] in self.reach(at)):
            lists[wire[one]][wire[other]] = lists[wire[other]][wire[one]] = 0
        edges = spanning_tree.edges(lists)
        found = {}
        for source in self.reach(at):
            tree = spanning_tree.find_position(spanning_tree.find_shortest_paths(edges, wire[source])[1], wire[at])
            for target in self.reach(at) - {at}:
                hop = tree.next_hops.get(wire[target], tree.parent)
                assert hop is not None
                found[source, target] = names[hop]
        return found

    # Actual state

    def successors(self, at: str) -> dict[tuple[str, str], str]:
        """Return the same, as reported by the router."""
        node = self.routers[at]
        names = {router.zid: name for name, router in self.routers.items()}
        found = {}
        for _, key, zid in node.do("get", f"@/{node.zid}/router/route/successor/**"):
            *_, source, _, target = key.split("/")
            hop = json.loads(zid)
            if {source, target, hop} <= names.keys():
                found[names[source], names[target]] = names[hop]
            else:
                found["?", target] = hop
        return found

    def settled(self) -> None:
        """Wait until all routers have the trees that they should have, and all tokens are where they should be.

        Routers of eclipse-zenoh are queried last, when nothing changes any more: 1.10.2 replies about its trees with its tables
        locked, and deadlocks if they change at that moment.
        """
        self.have_trees(Ours)
        for name, node in self.all_nodes():
            there = self.reach(name[-1])
            tokens = sorted(f"here/{other}" for other, _ in self.all_nodes() if other[-1] in there)
            until(
                lambda node=node, tokens=tokens: sorted(set(node.do("who", "here/*"))) == tokens,
                f"the tokens at {name}",
            )
        until(self.all_hear_all, "samples of all at all")
        self.have_trees(Theirs)

    def news(self, count: int) -> list[tuple[str, bool]]:
        """Return the tokens that appeared and ended, as the client of a received them, each once. A client of eclipse-zenoh
        sometimes receives its own token twice, also where all routers are of eclipse-zenoh."""

        def heard() -> list[tuple[str, bool]]:
            return list(dict.fromkeys(tuple(event) for event in self.clients["a"].events.of("alive", "l")))

        until(lambda: len(heard()) >= count, f"{count} awaited, {heard()} came")
        return heard()

    def have_trees(self, kind: type) -> None:
        for name, node in self.routers.items():
            if isinstance(node, kind):
                until(lambda name=name: self.successors(name) == self.expected(name), f"the trees of {name}")

    def all_hear_all(self) -> bool:
        """Return whether a sample of each node reaches all nodes within 0.3 s."""
        self._round += 1
        for name, node in self.all_nodes():
            node.do("put", f"s/{self._round}/{name}", "")
        deadline = time.monotonic() + 0.3
        while time.monotonic() < deadline:
            if all(len(self.got(node)) == self.others(name) for name, node in self.all_nodes()):
                return True
            time.sleep(0.01)
        return False

    def exchange(self, count: int = 3) -> None:
        """Let every node publish twice. Each first sample has arrived exactly once when the second arrives."""
        for _ in range(2):
            self._round += 1
            for name, node in self.all_nodes():
                for number in range(count):
                    node.do("put", f"s/{self._round}/{name}", str(number))
            for name, node in self.all_nodes():
                until(
                    lambda node=node, name=name: len(self.got(node)) >= count * self.others(name), f"samples at {name}"
                )
        for name, node in self.all_nodes():
            there = [other for other, _ in self.all_nodes() if other[-1] in self.reach(name[-1])]
            expected = [(f"s/{self._round - 1}/{other}", str(number)) for other in there for number in range(count)]
            assert sorted(self.got(node, self._round - 1)) == sorted(expected), name

    def others(self, name: str) -> int:
        return sum(other[-1] in self.reach(name[-1]) for other, _ in self.all_nodes())

    def got(self, node: Any, round: int | None = None) -> list[tuple[str, str]]:
        samples = [(event[0], event[2]) for event in node.events.of("sample", "s")]
        return [sample for sample in samples if sample[0].startswith(f"s/{round or self._round}/")]

    def ask(self) -> None:
        """Let every node query all nodes. Each replies once, and the query ends (`get` waits for that)."""
        for name, node in self.all_nodes():
            node.do("queryable", "q", f"q/{name}", "plain")
        for name, node in self.all_nodes():
            there = [other for other, _ in self.all_nodes() if other[-1] in self.reach(name[-1])]
            answers = sorted(["put", f"q/{other}", "of q"] for other in there)
            until(lambda node=node, answers=answers: sorted(node.do("get", "q/*", "ALL", "NONE")) == answers, name)


ROWS = [
    *itertools.product(("ooo", "too", "oto", "tot", "tto"), (CHAIN,)),
    *itertools.product(("ooo", "too", "oto", "ott"), (TREE,)),
    *itertools.product(("ooo", "too", "tto", "tot"), (RING,)),
    *itertools.product(("otot", "toot", "ooot"), (SQUARE,)),
]


@pytest.mark.parametrize(
    ("kinds", "links"), ROWS, ids=lambda value: value if isinstance(value, str) else "-".join(value)
)
def test_every_sample_arrives_exactly_once(kinds: str, links: tuple[str, ...], ports: Iterator[int]) -> None:
    net = Net(kinds, links, ports)
    try:
        net.settled()
        net.exchange()
        net.ask()
        net.cables[links[0]].cut()
        net.links.remove(links[0])
        net.settled()
        net.exchange()
        last = net.links[-1][1]  # a router with a remaining link
        net.lose(last)
        net.settled()
        net.exchange()
    finally:
        net.close()


@pytest.mark.parametrize("kinds", ["toot", "otto"])
def test_the_nearest_queryable_is_queried_and_removals_propagate(kinds: str, ports: Iterator[int]) -> None:
    """In a chain a - b - c - d, with complete queryables at both ends."""
    net = Net(kinds, ("ab", "bc", "cd"), ports)
    try:
        net.settled()
        for end in "ad":
            net.clients[end].do("queryable", end, "best", "plain", complete=True)
        for name, nearest in zip("abcd", "aadd", strict=True):
            askers = [net.routers[name], net.clients[name]]
            if name in "ad":  # the client replies itself; 1.10.2 also queries the nearest of other routers
                askers = [asker for asker in askers[:1] if isinstance(asker, Ours)]
            for asker in askers:
                answer = [["put", "best", f"of {nearest}"]]
                until(
                    lambda asker=asker, answer=answer: asker.do("get", "best", "BEST_MATCHING", "NONE") == answer, name
                )
        net.clients["a"].do("live", "l", "here/*", True)
        assert len(net.news(8)) == 8
        net.clients["a"].do("pub", "p", "only/d")
        net.clients["d"].do("sub", "d", "only/*")
        until(lambda: net.clients["a"].do("matching", "p"))
        net.clients["d"].do("undeclare", "d")
        until(lambda: not net.clients["a"].do("matching", "p"))
        net.clients["d"].do("undeclare", "t")
        assert net.news(9)[8] == ("here/client-d", False)
        net.lose("d")
        assert net.news(10)[9] == ("here/d", False)
        until(lambda: net.clients["c"].do("get", "best", "BEST_MATCHING", "NONE") == [["put", "best", "of a"]])
    finally:
        net.close()


def test_a_weight_that_a_real_router_set_is_honoured(ports: Iterator[int]) -> None:
    """In a ring, the direct link of a and c is so long that both use b. All routers report the same lengths."""
    where = [f"tcp/127.0.0.1:{next(ports)}" for _ in range(2)]
    b = Ours("router", (), (where[0],))
    c = Ours("router", (where[0],), (where[1],))
    weights = [{"dst_zid": c.zid, "weight": 500}]
    a = Theirs("router", tuple(where), **{"routing/router/linkstate/transport_weights": weights})
    try:
        for one, other in ((a, c), (c, a)):
            one.do("sub", "s", "s/**")
            until(lambda one=one, other=other: other.do("put", "s/1", "") is None and one.events.of("sample", "s"))
        known = c.node.node.routers
        until(lambda: len(known.by_zid) == 3 and {face.zid for face in known.own.children} == {b.node.zid})
        assert 500 < known._edges[c.node.zid][bytes.fromhex(a.zid.zfill(32))[::-1]] < 505
        for one, other in ((a, c), (c, a)):
            one.do("sub", "through b", "t/*")
            until(
                lambda one=one, other=other: other.do("put", "t/1", "") is None and one.events.of("sample", "through b")
            )
    finally:
        for node in (a, c, b):
            node.close()


@pytest.mark.parametrize(("routers", "peers"), [(Ours, Theirs), (Theirs, Ours)], ids=["their peers", "our peers"])
def test_peers_connected_to_two_routers_receive_every_sample_once(
    routers: Any, peers: Any, ports: Iterator[int]
) -> None:
    """One router forwards between a peer and the other routers. They select the same one, from the gossip of the peer."""
    where = [f"tcp/127.0.0.1:{next(ports)}" for _ in range(2)]
    nodes = {"a": routers("router", (), (where[0],)), "b": routers("router", (where[0],), (where[1],))}
    nodes |= {name: peers("peer", tuple(where), ("tcp/127.0.0.1:0",)) for name in "pq"}
    nodes |= {name: routers("client", (at,)) for name, at in zip("cd", where, strict=True)}
    try:
        until(lambda: nodes["q"].zid in nodes["p"].do("peers"))
        until(lambda: nodes["p"].zid in nodes["q"].do("peers"))
        for name, node in nodes.items():
            node.do("token", "t", f"here/{name}")
            node.do("sub", "s", "s/**")
        tokens = [f"here/{name}" for name in sorted(nodes)]
        for name, node in nodes.items():
            until(lambda node=node: sorted(set(node.do("who", "here/*"))) == tokens, name)
        exact = (
            nodes if routers is Ours else "pq"
        )  # 1.10.2 forwards the samples of a peer also to the other router of that peer
        for round in range(2):
            for name, node in nodes.items():
                node.do("put", f"s/{round}/{name}", "")
            for name in nodes:
                until(lambda name=name, round=round: {f"s/{round}/{n}" for n in nodes} <= set(keys(nodes[name])), name)
        for name in exact:
            assert sorted(key for key in keys(nodes[name]) if key.startswith("s/0/")) == [
                f"s/0/{n}" for n in sorted(nodes)
            ]
    finally:
        for node in reversed(nodes.values()):
            node.close()


def keys(node: Any) -> list[str]:
    return [event[0] for event in node.events.of("sample", "s")]
