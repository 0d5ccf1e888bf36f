# SPDX-License-Identifier: Apache-2.0
"""The proof that a user can run (`make proof`) completes with a result."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(2400)
@pytest.mark.parametrize(
    ("format", "store"), [("delta", "no"), ("iceberg", "no"), ("delta", "yes"), ("iceberg", "yes")]
)
def test_acknowledged_batches_land_once_after_a_kill_at_any_point(format, store):
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "bench.kill9", "--kills", "1", "--rate", "500", "--seed", "7"]
    done = subprocess.run(
        [*command, "--format", format, "--store", store], cwd=root, capture_output=True, text=True, timeout=2400
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "proven: every acknowledged sample is in the lake, once" in done.stdout
