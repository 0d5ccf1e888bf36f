# SPDX-License-Identifier: Apache-2.0
"""Large graphs of routers: trees are computed in short slices, and limits hold."""

import random
import time
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.network.mesh import ROUTER, Hand, Mesh, Wire
from zenlake.core.enums import WhatAmI
from zenlake.core.identifiers import ZenohId
from zenlake.core.peer_limits import Resource
from zenlake.network import linkstate as routers
from zenlake.network import spanning_tree
from zenlake.network.face import Face
from zenlake.network.node import Node
from zenlake.wire import linkstate
from zenlake.wire.linkstate import LinkState
from zenlake.wire.network import Oam

OWN = b"\xff" * 16


def zid(number: int) -> bytes:
    """Return the zid of the node with a number; 0 is the neighbour that describes the graph."""
    return number.to_bytes(15, "little") + b"\1"


def describe(links: dict[int, Iterable[int]], sn: int = 2) -> bytes:
    """Encode a graph as its node 0 describes it. The last number is ours."""
    entries = [
        LinkState(number, sn, ZenohId.from_wire(OWN if number == len(links) else zid(number)), WhatAmI.ROUTER, None, tuple(near))
        for number, near in (links | {len(links): ()}).items()
    ]  # fmt: skip
    return linkstate.encode(entries)


def chain(size: int) -> dict[int, list[int]]:
    links = {n: [near for near in (n - 1, n + 1) if 0 <= near < size] for n in range(size)}
    links[0].append(size)  # to us
    return links


def web(size: int, degree: int) -> dict[int, list[int]]:
    dice = random.Random(size)
    links: dict[int, set[int]] = {n: set() for n in range(size)}
    for n in range(1, size):
        for near in {dice.randrange(n) for _ in range(degree)}:
            links[n].add(near)
            links[near].add(n)
    links[0].add(size)
    return {n: sorted(near) for n, near in links.items()}


def listen(node: Node) -> Face:
    face = Face(Wire(), zid(0), ROUTER, ROUTER)
    node.add_face(face)
    return face


def run_jobs(node: Node) -> float:
    """Run all jobs, and return the processor time of the longest slice."""
    longest = 0.0
    while node.routers._is_computing:
        start = time.thread_time()
        node.jobs.run()
        longest = max(longest, time.thread_time() - start)
    return longest


@pytest.mark.parametrize("links", [chain(1000), web(5000, 3)], ids=["chain of 1000", "web of 5000"])
def test_a_large_graph_does_not_stop_the_node(links: dict[int, list[int]]) -> None:
    """Finding 8: a link state of 28 kB took 10 s."""
    node = Node(OWN, ROUTER, now=time.monotonic, wall=lambda: 0)
    face = listen(node)
    start = time.thread_time()
    node.routers.receive(face, describe(links))
    assert time.thread_time() - start < 1.5  # decoding takes most of this time
    assert node.routers._is_computing, "the trees are computed in later slices"
    assert run_jobs(node) < 0.2
    assert len(node.routers.by_zid) == len(links) + 1
    assert time.thread_time() - start < 10
    root = node.routers.by_zid[zid(len(links) - 1)]
    assert root.parent is face
    assert root.children == ()
    assert node.routers.own.children == (face,)
    assert len(node.routers.own.next_hops) == len(links)


def test_link_states_with_growing_numbers_are_taken_in_short_steps() -> None:
    node = Node(OWN, ROUTER, now=time.monotonic, wall=lambda: 0)
    face = listen(node)
    links = web(300, 3)
    node.routers.receive(face, describe(links))
    for sn in range(3, 40):
        links[sn].append(sn + 100)
        links[sn + 100].append(sn)
        start = time.thread_time()
        node.routers.receive(face, describe(links, sn))
        assert time.thread_time() - start < 0.5
    assert run_jobs(node) < 0.2
    assert (
        spanning_tree.edges({zid: router.links for zid, router in node.routers.by_zid.items()}) == node.routers._edges
    )


def test_a_neighbour_cannot_describe_more_routers_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routers, "MAX_ROUTERS", 100)
    mesh = Mesh()
    node = mesh.node(ROUTER)
    hand = Hand(mesh, node, ROUTER, zid(0), 1)
    hand.say(Oam(id=linkstate.OAM_ID, body=linkstate.encode([
        LinkState(n, 1, ZenohId.from_wire(zid(n)), WhatAmI.ROUTER, None, (n + 1, n + 200)) for n in range(300)
    ])))  # fmt: skip
    assert len(node.routers.by_zid) <= 100
    assert node.counters["link states over their limit"] > 0
    monkeypatch.setattr(routers, "MAX_LINK_STATES", 10)
    hand.say(Oam(id=linkstate.OAM_ID, body=describe(chain(20))))
    assert len(node.routers.by_zid) <= 100
    hand.leave()
    assert len(node.routers.by_zid) == 1


def test_a_neighbour_pays_for_the_routers_that_it_describes() -> None:
    mesh = Mesh()
    node = mesh.node(ROUTER)
    node.limits = {**node.limits, Resource.LINK_STATES: 1_000_000}
    hand = Hand(mesh, node, ROUTER, zid(0), 1)

    def send_linkstate(size: int, sn: int) -> None:
        body = linkstate.encode([
            LinkState(n, sn, ZenohId.from_wire(zid(n)), WhatAmI.ROUTER, None, tuple(k for k in (n - 1, n + 1) if 0 <= k < size))
            for n in range(size)
        ])  # fmt: skip
        hand.say(Oam(id=linkstate.OAM_ID, body=body))

    send_linkstate(50, 1)
    used = hand.face.account.used[Resource.LINK_STATES]
    assert 50 * 10_000 < used < 50 * 13_000
    send_linkstate(50, 2)
    assert hand.face.account.used[Resource.LINK_STATES] == used
    send_linkstate(10, 3)
    assert hand.face.account.used[Resource.LINK_STATES] < used / 3
    assert hand.wire.closed is None
    send_linkstate(200, 4)
    assert len(node.routers.by_zid) < 100
    assert hand.wire.closed is not None
    assert node.counters["limit reached: link_states"] > 0


pairs = st.tuples(st.integers(0, 7), st.integers(0, 7)).filter(lambda pair: pair[0] < pair[1])


@settings(max_examples=60, deadline=None)
@given(st.sets(pairs, max_size=20), st.sets(st.integers(0, 7), min_size=1))
def test_our_place_in_each_tree_is_that_which_the_root_computes(links: set[tuple[int, int]], near: set[int]) -> None:
    mesh = Mesh()
    nodes = [mesh.node(ROUTER) for _ in range(8)]
    own = mesh.node(ROUTER)
    for one, other in links:
        mesh.link(nodes[one], nodes[other])
    for number in near:
        mesh.link(own, nodes[number])
    known = own.routers.by_zid
    edges = spanning_tree.edges({zid: router.links for zid, router in known.items()})
    for root in known.values():
        _, before = spanning_tree.find_shortest_paths(edges, root.zid)
        place = spanning_tree.find_position(before, own.zid)
        assert (None if root.parent is None else root.parent.zid) == place.parent
        assert {zid: face.zid for zid, face in root.next_hops.items()} == place.next_hops
        assert {face.zid for face in root.children} == set(place.next_hops.values())
