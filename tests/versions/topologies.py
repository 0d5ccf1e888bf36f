# SPDX-License-Identifier: Apache-2.0
"""Networks of the version matrix: nodes of an old version, and a node of Zenlake or of the yardstick in the same place.

A topology is a function that opens nodes and returns the two ends. `open_node(PLACE, mode, ...)` opens a node and
records it.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.interop.nodes import Theirs
from tests.versions.scenarios import SCENARIOS, Scenario

LOOPBACK = ("tcp/127.0.0.1:0",)
GROUP = "udp/224.0.0.225:7449#iface=lo"
NO_GOSSIP = {"scouting/gossip/autoconnect": {"router": [], "peer": []}}


def free_port() -> int:
    with socket.socket() as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        port: int = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
    return port


class Network:
    """Nodes of a topology. `ours` is the implementation in our place, `theirs` the version of the other nodes."""

    def __init__(self, ours: str, theirs: str, prefix: tuple[str, ...] = (), certificates: Path | None = None) -> None:
        self._implementations = {"ours": ours, "theirs": theirs}
        self._prefix = prefix
        self.certificates = certificates
        self._nodes: list[Theirs] = []

    def open(
        self, place: str, mode: str, connect: tuple[str, ...] = (), listen: tuple[str, ...] = (), **config: Any
    ) -> Theirs:
        if mode == "client" and listen == LOOPBACK:
            listen = ()
        implementation = self._implementations[place]
        self._nodes.append(Theirs(mode, connect, listen, implementation, self._prefix, **config))
        return self._nodes[-1]

    def close(self) -> None:
        for node in reversed(self._nodes):
            node.kill()  # some versions hang when they close


Ends = tuple[Theirs, Theirs]


@dataclass(frozen=True)
class Topology:
    name: str
    build: Callable[[Network], Ends]
    is_basic: bool = False
    """Whether only the basic scenarios run."""
    only: tuple[str, ...] = ()
    since: tuple[int, int] = (1, 0)

    def scenarios(self) -> list[Scenario]:
        return [
            each for each in SCENARIOS.values()
            if (not self.is_basic or each.is_basic) and (not self.only or each.name in self.only)
        ]  # fmt: skip

    def exists_in(self, version: str) -> bool:
        return tuple(map(int, version.split(".")[:2])) >= self.since

    @contextmanager
    def opened(self, network: Network) -> Iterator[Ends]:
        try:
            yield self.build(network)
        finally:
            network.close()


ORDER = ("router", "peer", "client")


def _listen(link: str = "tcp") -> tuple[str, ...]:
    return (f"{link}/127.0.0.1:{free_port()}",)


def _direct(ours: str, theirs: str, network: Network) -> Ends:
    """One connection. The node with the higher role listens."""
    where = _listen()
    if ORDER.index(ours) < ORDER.index(theirs):
        node = network.open("ours", ours, (), where)
        return node, network.open("theirs", theirs, where, LOOPBACK)
    other = network.open("theirs", theirs, (), where)
    return network.open("ours", ours, where, LOOPBACK), other


def _clients_through_our_router(network: Network) -> Ends:
    where = _listen()
    network.open("ours", "router", (), where)
    return network.open("theirs", "client", where), network.open("theirs", "client", where)


def _clients_through_their_router(network: Network) -> Ends:
    where = _listen()
    network.open("theirs", "router", (), where)
    return network.open("ours", "client", where), network.open("theirs", "client", where)


def _client_and_peer_through_our_peer(network: Network) -> Ends:
    where = _listen()
    network.open("ours", "peer", (), where)
    return network.open("theirs", "client", where), network.open("theirs", "peer", where, LOOPBACK)


def _linked(link: str, who_listens: str, options: dict[str, Any], network: Network) -> Ends:
    """A client and a router with one kind of link, or one option of a session."""
    config = dict(options)
    if link in ("tls", "quic"):
        folder = network.certificates
        assert folder is not None
        names = {
            "root_ca_certificate": "ca.pem",
            "listen_certificate": "server.pem",
            "listen_private_key": "server.key",
        }
        config |= {f"transport/link/tls/{name}": str(folder / file) for name, file in names.items()}
    where = (f"{link}/localhost:{free_port()}",) if link in ("tls", "quic") else _listen(link)
    other = "theirs" if who_listens == "ours" else "ours"
    router = network.open(who_listens, "router", (), where, **config)
    client = network.open(other, "client", where, **config)
    return (router, client) if who_listens == "ours" else (client, router)


def _group(network: Network) -> Ends:
    """Peers of a multicast group, without another connection."""
    config = {"transport/multicast/join_interval": 200}
    return network.open("ours", "peer", (), (GROUP,), **config), network.open("theirs", "peer", (), (GROUP,), **config)


def _group_and_router(network: Network) -> Ends:
    """A peer of a multicast group, and a client of our router in the same group."""
    config = {"transport/multicast/join_interval": 200}
    where = _listen()
    network.open("ours", "router", (), (*where, GROUP), **config)
    return network.open("theirs", "client", where), network.open("theirs", "peer", (), (GROUP,), **config)


def _gateway(
    north: str, gateway: str, south: str, position: str, has_list: bool, gateway_dials: bool, network: Network
) -> Ends:
    """A gateway between a node north of it and a node south of it. One position is ours."""
    places = {name: "ours" if name == position else "theirs" for name in ("north", "gateway", "south")}
    above, below = _listen(), _listen()
    top = network.open(places["north"], north, (), above, id="c0c0", **NO_GOSSIP)
    region = {"gateway": {"south": [{"filters": [{"zids": ["bbbb"]}]}]}} if has_list else {}
    if gateway_dials:
        bottom = network.open(places["south"], south, (), below, id="bbbb", **NO_GOSSIP)
        network.open(places["gateway"], gateway, (*above, *below), LOOPBACK, id="aaaa", **region, **NO_GOSSIP)
    else:
        network.open(places["gateway"], gateway, above, below, id="aaaa", **region, **NO_GOSSIP)
        bottom = network.open(places["south"], south, below, LOOPBACK, id="bbbb", **NO_GOSSIP)
    return bottom, top


BY_MODES = (
    ("router", "router", "peer"),
    ("router", "router", "client"),
    ("peer", "peer", "client"),
    ("router", "peer", "client"),
)
BY_LIST = (
    ("router", "router", "router"), ("router", "router", "peer"), ("router", "router", "client"), ("peer", "peer", "peer"),
    ("peer", "peer", "client"), ("router", "peer", "peer"), ("router", "peer", "client"), ("router", "client", "peer"),
    ("router", "client", "client"), ("peer", "client", "peer"), ("peer", "client", "client"),
)  # fmt: skip
GATEWAY_SCENARIOS = (
    "put and delete", "declared publisher", "late subscriber", "matching", "get and reply", "liveliness get",
    "liveliness history", "liveliness changes",
)  # fmt: skip


def _gateways() -> Iterator[Topology]:
    for position in ("south", "north", "gateway"):
        for has_list, combinations in ((False, BY_MODES), (True, BY_LIST)):
            if has_list and position == "gateway":
                continue  # a gateway with a list needs regions of its own
            for north, gateway, south in combinations:
                how = "by list" if has_list else "by modes"
                name = f"gateway {how}: {north} - {gateway} - {south}, we are {position}"
                build = partial(_gateway, north, gateway, south, position, has_list, False)
                yield Topology(name, build, only=GATEWAY_SCENARIOS, since=(1, 9))
    build = partial(_gateway, "peer", "peer", "peer", "south", True, True)
    yield Topology(
        "gateway by list: peer - peer - peer, we are south, it dials", build, only=GATEWAY_SCENARIOS, since=(1, 9)
    )


DIRECT = (
    ("client", "router"), ("client", "peer"), ("peer", "peer"), ("peer", "router"), ("peer", "client"),
    ("router", "client"), ("router", "peer"), ("router", "router"),
)  # fmt: skip
OPTIONS = {
    "compression": {"transport/unicast/compression/enabled": True},
    "low latency": {"transport/unicast/lowlatency": True, "transport/unicast/qos/enabled": False},
}
NETWORKS = (
    *(Topology(f"our {ours}, their {theirs}", partial(_direct, ours, theirs)) for ours, theirs in DIRECT),
    Topology("their clients through our router", _clients_through_our_router),
    Topology("our client and theirs through their router", _clients_through_their_router),
    Topology("their client and their peer through our peer", _client_and_peer_through_our_peer),
)
LINKS = (
    *(
        Topology(f"{link}, {who} listens", partial(_linked, link, place, {}), True)
        for link in ("tls", "quic", "ws")
        for place, who in (("ours", "our router"), ("theirs", "their router"))
    ),
    *(
        Topology(
            f"{name}, {who} listens",
            partial(_linked, "tcp", place, options),
            True,
            only=("put and delete", "get and reply") if name == "low latency" else (),  # which has no fragments
        )
        for name, options in OPTIONS.items()
        for place, who in (("ours", "our router"), ("theirs", "their router"))
    ),
    Topology("multicast group of peers", _group, only=("put and delete",)),
    Topology("their peer in a multicast group, their client, our router", _group_and_router, only=("put and delete",)),
)
GATEWAYS = tuple(_gateways())
TOPOLOGIES = (*NETWORKS, *LINKS, *GATEWAYS)
