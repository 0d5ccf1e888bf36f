# SPDX-License-Identifier: Apache-2.0
"""A router under attacks on listeners and handshakes."""

from pathlib import Path

import pytest

from tests.hostile import connections
from tests.hostile.attacker import names_in
from tests.hostile.trial import check

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", names_in(connections))
def test_honest_clients_are_served(name: str, tmp_path: Path) -> None:
    check([name], tmp_path)
