# SPDX-License-Identifier: Apache-2.0
"""The graph of routers, and the spanning tree of each of them. All routers must compute the same trees.

An edge exists if both ends list it. Its weight is the configured one (100 by default), plus up to one hundredth that depends
only on the two ids. So no two paths have the same length, and all routers select the same one. The hash is that of 1.10.2:
otherwise rings of both implementations would loop or lose messages.
"""

import heapq
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from zenlake.network.keyexpr_tree import Walk, finish

__all__ = [
    "Edges",
    "SpanningTree",
    "edges",
    "find_reachable",
    "find_shortest_paths",
    "siphash13",
    "find_position",
    "walk_edges",
    "walk_shortest",
    "compute_weight",
]

Links = Mapping[bytes, Mapping[bytes, int]]
"""For each router: the neighbours that it lists, with the configured weights; 0 if missing."""
Edges = dict[bytes, dict[bytes, float]]

WEIGHT = 100  # default weight of an edge
WORD = 0xFFFFFFFFFFFFFFFF
MAX_STEPS = 256  # edges in one slice of a computation


class SpanningTree(NamedTuple):
    """The part of the tree of one root that concerns one router."""

    parent: bytes | None
    """Neighbour from which the root is received."""
    next_hops: dict[bytes, bytes]
    """For each router that receives the root through this one: the neighbour to forward to."""


def siphash13(data: bytes) -> int:
    """Return the SipHash-1-3 of data with a key of zeros."""
    v0, v1, v2, v3 = 0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573

    def rotate(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & WORD

    def mix() -> None:
        nonlocal v0, v1, v2, v3
        v0, v2 = (v0 + v1) & WORD, (v2 + v3) & WORD
        v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
        v0 = rotate(v0, 32)
        v0, v2 = (v0 + v3) & WORD, (v2 + v1) & WORD
        v1, v3 = rotate(v1, 17) ^ v2, rotate(v3, 21) ^ v0
        v2 = rotate(v2, 32)

    aligned = len(data) & ~7
    last = int.from_bytes(data[aligned:], "little") | (len(data) & 0xFF) << 56
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, aligned, 8)]
    for word in [*words, last]:
        v3 ^= word
        mix()
        v0 ^= word
    v2 ^= 0xFF
    for _ in range(3):
        mix()
    return v0 ^ v1 ^ v2 ^ v3


@lru_cache(1 << 16)
def compute_weight(one: bytes, other: bytes, base: int = WEIGHT) -> float:
    """Return the length of the edge between two routers."""
    first, second = sorted((one.ljust(16, b"\0"), other.ljust(16, b"\0")))  # compared as wire bytes, not as numbers
    part = (siphash13(first + second) & 0xFFFFFFFF) / 0xFFFFFFFF
    return base * (1.0 + 0.01 * part)


def edges(links: Links) -> Edges:
    """Return the neighbours of each router that list it too, with their distances."""
    return finish(walk_edges(links))


def walk_edges(links: Links) -> Walk[Edges]:
    """Return the neighbours as `edges` does, in slices."""
    result: Edges = {}
    steps = 0
    for one, listed in links.items():
        neighbours = result[one] = {}
        for other, link_weight in listed.items():
            steps += 1
            if steps % MAX_STEPS == 0:
                yield
            reverse = links.get(other, {})
            if one in reverse:
                neighbours[other] = compute_weight(one, other, max(link_weight, reverse[one]) or WEIGHT)
    return result


def find_reachable(links: Links, own: bytes) -> set[bytes]:
    """Return all routers that a reachable router lists."""
    result, queue = {own}, [own]
    while queue:
        for other in links.get(queue.pop(), ()):
            if other not in result:
                result.add(other)
                queue.append(other)
    return result


def find_shortest_paths(edges: Edges, root: bytes) -> tuple[dict[bytes, float], dict[bytes, bytes]]:
    """Return the distance of every router from a root, and its predecessor on the shortest path. The nearest are first."""
    return finish(walk_shortest(edges, root))


def walk_shortest(edges: Edges, root: bytes) -> Walk[tuple[dict[bytes, float], dict[bytes, bytes]]]:
    """Return the distances in slices."""
    distances: dict[bytes, float] = {}
    predecessors: dict[bytes, bytes] = {}
    queue: list[tuple[float, bytes, bytes]] = [(0.0, root, root)]
    steps = 0
    while queue:
        steps += 1
        if steps % MAX_STEPS == 0:
            yield
        distance, router, previous = heapq.heappop(queue)
        if router in distances:
            continue
        distances[router] = distance
        if router != root:
            predecessors[router] = previous
        for other, length in edges.get(router, {}).items():
            if other not in distances:
                heapq.heappush(queue, (distance + length, other, router))
    return distances, predecessors


def find_position(predecessors: Mapping[bytes, bytes], own: bytes) -> SpanningTree:
    """Return our part of a tree, which is given by predecessors, the nearest first."""
    next_hops: dict[bytes, bytes] = {}
    for router, previous in predecessors.items():
        if previous == own:
            next_hops[router] = router
        elif previous in next_hops:
            next_hops[router] = next_hops[previous]
    return SpanningTree(predecessors.get(own), next_hops)
