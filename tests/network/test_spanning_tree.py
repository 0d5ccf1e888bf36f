# SPDX-License-Identifier: Apache-2.0
"""The graph of routers: the same lengths and the same trees as real routers have."""

import importlib.util
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zenlake.network import spanning_tree


def wire(zid: str) -> bytes:
    return bytes.fromhex(zid.zfill(32))[::-1]


# Three real routers (1.10.2), joined in a ring; the lengths are what their admin space says (`linkstate/north`).
A, B, C = (
    wire(zid)
    for zid in (
        "fd1d082a5c57f69c542c2ea6ec7f945a",
        "d705500b530245754fcef8d3f4592ae5",
        "af0c9b3dd1c1322be0f18cd5aa8fbec1",
    )
)
REAL = [(A, B, 100.97076737018553), (B, C, 100.2340196050317), (A, C, 100.54655154108687)]


@pytest.mark.parametrize(("one", "other", "length"), REAL)
def test_edges_are_as_long_as_real_routers_say(one: bytes, other: bytes, length: float) -> None:
    assert spanning_tree.compute_weight(one, other) == spanning_tree.compute_weight(other, one) == length


@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python hashes sources in another way")
@given(st.binary(max_size=70))
def test_the_hash_is_that_of_other_implementations(data: bytes) -> None:
    own_key = importlib.util._imp.source_hash
    assert spanning_tree.siphash13(data) == int.from_bytes(own_key(0, data), "little")


def test_an_edge_needs_both_ends_and_takes_the_greater_weight() -> None:
    links = {b"a": {b"b": 0, b"c": 7}, b"b": {b"a": 0}, b"c": {b"a": 30}, b"d": {b"a": 0}}
    edges = spanning_tree.edges(links)
    assert {zid: set(near) for zid, near in edges.items()} == {
        b"a": {b"b", b"c"},
        b"b": {b"a"},
        b"c": {b"a"},
        b"d": set(),
    }
    assert 100 <= edges[b"a"][b"b"] <= 101
    assert 30 <= edges[b"a"][b"c"] == edges[b"c"][b"a"] <= 30.3
    assert spanning_tree.find_reachable(links, b"a") == {b"a", b"b", b"c"}


@given(st.sets(st.tuples(st.integers(1, 7), st.integers(1, 7)).filter(lambda pair: pair[0] < pair[1])))
def test_the_parts_of_all_routers_make_one_tree(pairs: set[tuple[int, int]]) -> None:
    """Every router connected with the root receives it once, from its parent."""
    links: dict[bytes, dict[bytes, int]] = {bytes([n]): {} for n in range(1, 8)}
    for one, other in pairs:
        links[bytes([one])][bytes([other])] = links[bytes([other])][bytes([one])] = 0
    edges = spanning_tree.edges(links)
    for root in links:
        distances, before = spanning_tree.find_shortest_paths(edges, root)
        for other in distances:  # no edge gives a shorter path than the computed one
            assert all(distances[near] <= distances[other] + length for near, length in edges[other].items())
        trees = {own: spanning_tree.find_position(before, own) for own in links}
        heard = {root}
        for own, part in trees.items():
            for child in set(part.next_hops.values()):
                assert trees[child].parent == own
                assert child not in heard
                heard.add(child)
        assert heard == spanning_tree.find_reachable(links, root) == set(distances)
        assert set(trees[root].next_hops) == heard - {root}
