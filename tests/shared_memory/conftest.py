# SPDX-License-Identifier: Apache-2.0
"""Shared memory needs Linux and the compiled modules. After a test, no segment is open."""

import contextlib
import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zenlake.shared_memory.segment import is_available
from zenlake.shared_memory.shared_buffers import forget_idle


@pytest.fixture(autouse=True)
def check_segments() -> Iterator[None]:
    if not is_available():
        pytest.skip("shared memory needs Linux and compiled modules")
    before = open_segments()
    yield
    gc.collect()
    forget_idle(float("inf"))
    gc.collect()
    assert open_segments() <= before


def open_segments() -> set[str]:
    """Return the files of shared memory that this process has open."""
    found = []
    for each in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(os.readlink(each))
    return {each for each in found if each.startswith("/dev/shm/") and ".zenoh" in each}
