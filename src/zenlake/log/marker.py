# SPDX-License-Identifier: Apache-2.0
"""The marker file of a log: its identity, and the segment numbers that its writers have used.

Streams, lakes and mirrors identify a block by its number, so a number is never used twice. A writer continues after the
segments in its folder. After the folder was emptied it would restart at 1, and a reader at segment 7 would continue in
the middle of the new data. The marker therefore stores, for each writer, an upper bound of the used numbers. A writer
with an empty folder starts after it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zenlake.log.disk import Disk
from zenlake.log.layout import MARKER, READERS, describe_layout, new_marker

__all__ = ["STEP", "create_marker", "reserve_numbers", "read_used_numbers"]

STEP = 10_000_000  # segments that a writer never fills between two starts
WRITERS = "writers"


def create_marker(root: Path, disk: Disk) -> None:
    """Create the marker file if it is missing. Writers that start concurrently in a new folder agree on one identity."""
    if not (root / MARKER).exists():
        with _lock(root):
            if not (root / MARKER).exists():
                disk.replace(root / MARKER, new_marker())
    _read(root)


def read_used_numbers(root: Path, writer: str) -> int:
    """Return an upper bound of the segment and epoch numbers of this writer."""
    return int(_read(root).get(WRITERS, {}).get(writer, 0))


def reserve_numbers(root: Path, writer: str, segment: int, disk: Disk) -> None:
    """Reserve the numbers after this one for a writer."""
    last = (segment // STEP + 1) * STEP
    if read_used_numbers(root, writer) == last:
        return
    with _lock(root):
        known = _read(root)
        known[WRITERS] = {**known.get(WRITERS, {}), writer: last}
        disk.replace(root / MARKER, json.dumps(known).encode())


def _read(root: Path) -> dict[str, Any]:
    return describe_layout((root / MARKER).read_bytes(), str(root / MARKER))


@contextmanager
def _lock(root: Path) -> Iterator[None]:
    lock = os.open(root / READERS / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
