# SPDX-License-Identifier: Apache-2.0
"""A router under several attacks at once, and every attack in its long form."""

import random
from pathlib import Path

import pytest

from tests.hostile.attacker import CATALOGUE
from tests.hostile.trial import LONG, check

pytestmark = pytest.mark.hostile

ROUTED = [name for name, attack in CATALOGUE.items() if "group" not in attack.needs]


def select(seed: int, count: int) -> list[str]:
    """Return `count` attacks on a router, by chance."""
    return random.Random(seed).sample(ROUTED, count)


@pytest.mark.parametrize("seed", range(3))
def test_several_simultaneous_attacks(seed: int, tmp_path: Path) -> None:
    check(select(seed, 8), tmp_path, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", CATALOGUE)
def test_each_attack_for_long(name: str, tmp_path: Path) -> None:
    check([name], tmp_path, LONG)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_simultaneous_attacks_for_long(seed: int, tmp_path: Path) -> None:
    check(select(seed, 20), tmp_path, LONG, seed)
