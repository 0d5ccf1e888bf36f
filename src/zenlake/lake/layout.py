# SPDX-License-Identifier: Apache-2.0
"""What lies where in a lake.

    lake/
      zenlake-lake.json                    this folder is a lake, of this version and format (parquet or delta)
      samples/day=2026-01-31/NAME.parquet  a table, a folder for each day on which rows were received
      samples/_delta_log/                  with format delta: which of the files count
      _landed/0000000012.json              the ledger: what a commit added, and all that is landed since the beginning
      _landed/applied.json                 up to which entry the files are where they belong
      _staging/QUERY/NAME.parquet          written by tasks and not, or not yet, committed
      _checkpoints/                        those of Spark, if nobody says otherwise
      _derived/latest/0000000012-ID/       with format parquet: a snapshot of a derived table, made up to this entry of the ledger
      latest -> _derived/latest/...        the newest one

Names that begin with `_` are passed over by whoever reads a folder of Parquet files.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zenlake.errors import InvalidValue, LakeError
from zenlake.tables.stored import MARKER

__all__ = [
    "CHECKPOINTS", "DAY", "FORMATS", "KEPT", "LEDGER", "MARKER", "STAGING", "VERSION", "Batch", "Staged", "described", "is_lake",
    "reached",
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
class Batch:
    """Who lands: one query, and which of its batches. The same one may come again after a crash."""

    query: str
    number: int

    def __post_init__(self) -> None:
        if not _QUERY.fullmatch(self.query):
            raise InvalidValue(f"a query is named with letters, digits, `_`, `.` and `-`, not {self.query!r}")


@dataclass(frozen=True, slots=True)
class Staged:
    """A file that a task has written and synced: where it is, where it belongs, which part of which log it holds."""

    table: str
    day: str
    staged: str  # relative to the lake
    final: str
    rows: int
    size: int
    source: Mapping[str, Any] = field(
        default_factory=dict
    )  # {"log": id, "pieces": [...]}, or nothing for transformed rows
    since: int = 0  # ns: received times of its first and last row
    until: int = 0

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def is_lake(path: str | os.PathLike[str]) -> bool:
    return (Path(path) / MARKER).is_file()


def described(path: Path) -> dict[str, Any]:
    """A small JSON file of ours, if this version reads it."""
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        version = found["version"]
    except FileNotFoundError:
        raise
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise LakeError(f"{path} cannot be read ({error}); restore it from a copy") from None
    if version > VERSION:
        raise LakeError(f"{path} has version {version}; this version of Zenlake reads up to {VERSION}: upgrade it")
    return found


def reached(point: str) -> None:
    """A named moment of a task's or a commit's work; tests end the process here."""
