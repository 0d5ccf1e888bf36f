# SPDX-License-Identifier: Apache-2.0
"""A router, and a member of a multicast group, under attacks by link states, gossip and scouting."""

from pathlib import Path

import pytest

from tests.hostile import graphs
from tests.hostile.attacker import names_in
from tests.hostile.trial import check

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", names_in(graphs))
def test_honest_clients_are_served(name: str, tmp_path: Path) -> None:
    check([name], tmp_path)
