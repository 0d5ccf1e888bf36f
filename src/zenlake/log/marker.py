# SPDX-License-Identifier: Apache-2.0
"""A log's own file: what tells it from other logs, and which numbers its writers have spent.

Streams, lakes and mirrors know a block by its number, so none is used twice. A writer counts on from what lies in its folder; if
somebody empties that, it would begin at 1 again, and whoever had read up to 7 would go on in the middle of what is new. So the log
remembers for each writer a number behind all that it may have used, and a writer that finds nothing begins there.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zenlake.log.disk import Disk
from zenlake.log.layout import MARKER, READERS, described, new_marker

__all__ = ["STEP", "mark", "spend", "spent"]

STEP = 10_000_000  # segments that no writer fills between two starts
WRITERS = "writers"


def mark(root: Path, disk: Disk) -> None:
    """Make the log's file if there is none: writers that begin in a new folder at once agree on whose it is."""
    if not (root / MARKER).exists():
        with _locked(root):
            if not (root / MARKER).exists():
                disk.replace(root / MARKER, new_marker())
    _read(root)


def spent(root: Path, writer: str) -> int:
    """No segment or epoch of this writer has had a larger number."""
    return int(_read(root).get(WRITERS, {}).get(writer, 0))


def spend(root: Path, writer: str, segment: int, disk: Disk) -> None:
    """A writer is about to use the numbers behind this one."""
    last = (segment // STEP + 1) * STEP
    if spent(root, writer) == last:
        return
    with _locked(root):
        known = _read(root)
        known[WRITERS] = {**known.get(WRITERS, {}), writer: last}
        disk.replace(root / MARKER, json.dumps(known).encode())


def _read(root: Path) -> dict[str, Any]:
    return described((root / MARKER).read_bytes(), str(root / MARKER))


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    lock = os.open(root / READERS / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
