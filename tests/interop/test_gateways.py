# SPDX-License-Identifier: Apache-2.0
"""Our client, peer and router south of real gateways (regions, since 1.9).

`make matrix` runs all positions, also with the yardstick.
"""

from collections.abc import Iterator

import pytest

from tests.versions.environments import YARDSTICK
from tests.versions.matrix import OURS, run_topology
from tests.versions.topologies import GATEWAYS, Network, Topology

pytestmark = pytest.mark.interop

HARD = ("peer - peer - peer", "router - peer - peer", "router - client - peer", "peer - client - peer")
"""Positions in which a node that ignores regions loses traffic."""


def positions() -> Iterator[object]:
    for topology in GATEWAYS:
        if "by list" in topology.name and "we are south" in topology.name:
            yield pytest.param(topology, YARDSTICK, id=f"{topology.name}, {YARDSTICK}")
            if any(name in topology.name for name in HARD):
                yield pytest.param(topology, "1.9.0", id=f"{topology.name}, 1.9.0")


@pytest.mark.parametrize(("topology", "version"), [*positions()])
def test_traffic_passes_a_real_gateway_in_both_directions(topology: Topology, version: str) -> None:
    cell = run_topology(topology, lambda: Network(OURS, version), version, OURS)
    assert cell.failed == {}
    assert cell.passed == 2 * len(topology.scenarios())
