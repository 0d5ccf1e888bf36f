# SPDX-License-Identifier: Apache-2.0
"""Folder layout of a lake.

    lake/
      zenlake-lake.json                    marks a lake, with its version and format (parquet or delta)
      samples/day=2026-01-31/NAME.parquet  a table, with one folder per day of received time
      samples/_delta_log/                  with format delta: the list of current files
      _landed/0000000012.json              the ledger: changes of one commit, and the total landed state
      _landed/applied.json                 the last entry whose files are in their final place
      _staging/QUERY/NAME.parquet          written by tasks, not committed
      _checkpoints/                        Spark checkpoints, by default
      _derived/latest/0000000012-ID/       with format parquet: a snapshot of a derived table, up to this ledger entry
      latest -> _derived/latest/...        the newest snapshot

Readers of Parquet folders ignore names that begin with `_`.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zenlake.errors import InvalidValue, LakeError
from zenlake.tables.lake_reader import MARKER

__all__ = [
    "CHECKPOINTS", "DAY", "FORMATS", "KEPT", "LEDGER", "MARKER", "STAGING", "VERSION", "LandingBatch", "Staged",
    "describe_batch", "is_lake",
    "fault_point",
]  # fmt: skip

VERSION = 1
FORMATS = ("parquet", "delta")
LEDGER = "_landed"
STAGING = "_staging"
CHECKPOINTS = "_checkpoints"
KEPT = "_derived"
DAY = "day"

_QUERY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


@dataclass(frozen=True, slots=True)
class LandingBatch:
    """Identity of a landing: a query and its batch number. The same batch may be retried after a crash."""

    query: str
    number: int

    def __post_init__(self) -> None:
        if not _QUERY.fullmatch(self.query):
            raise InvalidValue(f"invalid query name {self.query!r}; expected letters, digits, `_`, `.` and `-`")


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that a task has written and synced: its path, its final path, and the part of the log in it."""

    table: str
    day: str
    staged: str  # relative to the lake
    final: str
    rows: int
    size: int
    source: Mapping[str, Any] = field(
        default_factory=dict
    )  # {"log": id, "pieces": [...]}, or empty for transformed rows
    since: int = 0  # ns: received times of its first and last row
    until: int = 0

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def is_lake(path: str | os.PathLike[str]) -> bool:
    return (Path(path) / MARKER).is_file()


def describe_batch(path: Path) -> dict[str, Any]:
    """Read a small JSON file of the lake. Raise if this version does not support it."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        version = found["version"]
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise LakeError(f"cannot read {path} ({error}); restore it from a backup") from None
    if version > VERSION:
        raise LakeError(f"{path} has version {version}; this version of Zenlake reads up to {VERSION}: upgrade Zenlake")
    return found


def fault_point(point: str) -> None:
    """A named point in a task or commit. Tests end the process here."""
