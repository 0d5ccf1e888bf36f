# SPDX-License-Identifier: Apache-2.0
"""A part of the version matrix with two old versions: every scenario, in the topologies with the most different code paths.

`make matrix` runs all versions, topologies and links, and the yardstick beside them.
"""

from pathlib import Path

import pytest

from tests.versions.captures import check, record
from tests.versions.environments import SMOKE
from tests.versions.matrix import OURS, run_topology
from tests.versions.topologies import NETWORKS, Network, Topology

TOPOLOGIES = [
    topology
    for topology in NETWORKS
    if topology.name in ("our client, their router", "our peer, their peer", "their clients through our router")
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: topology.name)
@pytest.mark.parametrize("version", SMOKE)
def test_every_scenario_passes_with_an_old_version(version: str, topology: Topology) -> None:
    cell = run_topology(topology, lambda: Network(OURS, version), version, OURS)
    assert cell.failed == {}
    assert cell.passed == 2 * sum(scenario.exists_in(version) for scenario in topology.scenarios())


@pytest.mark.parametrize("version", SMOKE)
def test_a_capture_of_an_old_version_decodes(version: str, namespace: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    record(version, path, namespace)
    assert check(path) == []
