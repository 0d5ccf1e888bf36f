# SPDX-License-Identifier: Apache-2.0
"""A router under attacks by declarations, interests and key ids."""

from pathlib import Path

import pytest

from tests.hostile import declarations
from tests.hostile.attacker import names_in
from tests.hostile.trial import check

pytestmark = pytest.mark.hostile


@pytest.mark.parametrize("name", names_in(declarations))
def test_honest_clients_are_served(name: str, tmp_path: Path) -> None:
    check([name], tmp_path)
