# SPDX-License-Identifier: Apache-2.0
"""Idle clients do not slow down busy ones."""

import pytest
from bench.crowd import served


@pytest.mark.slow
def test_idle_connections_do_not_slow_busy_ones() -> None:
    """All idle clients are connected at the end, and all busy ones were served. `served` asserts both."""
    alone, among = (served("ours", idle, pairs=20, seconds=3.0) for idle in (0, 500))
    # At most twice as long, with a minimum for slow machines.
    assert among.late < max(2 * alone.late, 0.1)
    assert among.cheap > alone.cheap / 2
