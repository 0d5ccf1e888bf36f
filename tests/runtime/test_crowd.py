# SPDX-License-Identifier: Apache-2.0
"""Idle clients are no burden to the busy ones."""

import pytest
from bench.crowd import served


@pytest.mark.slow
def test_idle_connections_do_not_slow_busy_ones() -> None:
    """All idle ones are still there at the end, and all busy ones were served; both are asserted in `served`."""
    alone, among = (served("ours", idle, pairs=20, seconds=3.0) for idle in (0, 500))
    # Twice as long at the most; and on a machine where everything takes a moment, a moment.
    assert among.late < max(2 * alone.late, 0.1)
    assert among.cheap > alone.cheap / 2
