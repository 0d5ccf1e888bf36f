# SPDX-License-Identifier: Apache-2.0
"""Folder layout of a lake, local or in a store.

    lake/
      zenlake-lake.json                    marks a lake: version, format, and the catalog of an Iceberg lake
      samples/day=2026-01-31/NAME.parquet  a table, with one folder per day of received time
      samples/_delta_log/                  format delta: its commit log
      samples/metadata/                    format iceberg: its metadata
      _catalog.db                          format iceberg: the catalog of a local lake, unless one is configured
      _checkpoints/                        Spark checkpoints of a local lake, by default
      latest/                              a stored derived table, of the same format

Only its commit log states which files belong to a table. Files that no commit names are orphans.
"""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from zenlake.errors import InvalidValue
from zenlake.tables.lake_location import DAY, MARKER, VERSION
from zenlake.tables.lake_reader import NO_DAY

__all__ = ["CHECKPOINTS", "DAY", "FORMATS", "MARKER", "NO_DAY", "VERSION", "DataFile", "LandingBatch", "fault_point"]

FORMATS = ("delta", "iceberg")
CHECKPOINTS = "_checkpoints"

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
class DataFile:
    """A file that a task has written under its final name, and the part of the log in it."""

    table: str
    path: str  # relative to the table's folder; empty if the part has no rows
    rows: int
    size: int
    day: str | None
    source: Mapping[str, Any] = field(default_factory=dict)  # {"log": id, "pieces": [...]}, or empty
    statistics: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # as in a Delta add action

    def plain(self) -> dict[str, Any]:
        return asdict(self)


def fault_point(point: str) -> None:
    """A named point in a task or commit. Tests end the process here."""
