# SPDX-License-Identifier: Apache-2.0
"""Ledger of a lake: numbered, immutable entries.

An entry lists the files that a commit adds and the total landed state, so a reader needs only the newest entry. Creating the
entry is the commit. Moving the files to their final place comes after it and can be repeated. `applied.json` has the last entry
for which that is done. A lock admits one writer at a time. On a file system without locks, the exclusive creation of the
entry's name still prevents two processes from creating the same entry.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from zenlake.errors import LakeError
from zenlake.lake.landed_intervals import LandedIntervals
from zenlake.lake.layout import KEPT as KEPT_TABLES
from zenlake.lake.layout import LEDGER, STAGING, VERSION, Staged, describe_batch
from zenlake.log.disk import Disk, inside, is_inside

__all__ = ["Entry", "Ledger"]

KEPT = 20  # applied entries that are kept, for diagnosis


@dataclass
class Entry:
    """One commit, with the landed state after it."""

    number: int = 0
    query: str = ""
    batch: int = -1
    files: list[Staged] = field(default_factory=list)
    landed: dict[str, LandedIntervals] = field(default_factory=dict)
    transformed: dict[str, str] = field(default_factory=dict)  # table -> the query that lands it
    queries: dict[str, int] = field(default_factory=dict)  # query -> its last batch
    touched: dict[str, dict[str, int]] = field(default_factory=dict)  # table -> day -> the last entry that added to it
    removed: list[str] = field(default_factory=list)  # files whose rows are now in other files; relative to the lake
    totals: dict[str, dict[str, int]] = field(default_factory=dict)  # table -> rows, bytes and files landed so far

    def coverage(self, table: str) -> LandedIntervals:
        return self.landed.get(table) or LandedIntervals()

    def paths(self) -> list[str]:
        """Return the files that this entry moves or removes, relative to the lake."""
        return [*(path for file in self.files for path in (file.staged, file.final)), *self.removed]

    def plain(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "number": self.number,
            "query": self.query,
            "batch": self.batch,
            "files": [file.plain() for file in self.files],
            "landed": {table: coverage.plain() for table, coverage in self.landed.items()},
            "transformed": self.transformed,
            "queries": self.queries,
            "touched": self.touched,
            "removed": self.removed,
            "totals": self.totals,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> "Entry":
        return cls(
            plain["number"],
            plain["query"],
            plain["batch"],
            [Staged(**file) for file in plain["files"]],
            {table: LandedIntervals(held) for table, held in plain["landed"].items()},
            plain["transformed"],
            plain["queries"],
            plain["touched"],
            plain.get("removed", []),
            plain.get("totals", {}),
        )

    def following(self, query: str, batch: int) -> "Entry":
        """Return the next entry, without changes."""
        landed = {table: LandedIntervals(coverage.plain()) for table, coverage in self.landed.items()}
        touched = {table: dict(days) for table, days in self.touched.items()}
        queries = {**self.queries, query: batch}
        totals = {table: dict(counts) for table, counts in self.totals.items()}
        return Entry(self.number + 1, query, batch, [], landed, dict(self.transformed), queries, touched, totals=totals)

    def add(self, file: Staged) -> None:
        self.files.append(file)
        self.touched.setdefault(file.table, {})[file.day] = self.number
        totals = self.totals.setdefault(file.table, {"rows": 0, "bytes": 0, "files": 0})
        for name, count in (("rows", file.rows), ("bytes", file.size), ("files", 1)):
            totals[name] += count


class Ledger:
    """Ledger in a lake's folder. Reading needs no lock: an entry is complete or absent."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.folder = lake / LEDGER
        for name in (LEDGER, STAGING, KEPT_TABLES):
            inside(lake, name, LakeError)
        self.disk = Disk()

    def last(self) -> Entry:
        """Return the newest entry, or an empty one in a new lake."""
        while True:
            numbers = self._numbers()
            if not numbers:
                return Entry()
            try:
                return self.entry(numbers[-1])
            except FileNotFoundError:
                continue  # another process has removed old entries in the meantime

    def entry(self, number: int) -> Entry:
        path = self._path(number)
        plain = describe_batch(path)
        try:
            entry = Entry.from_plain(plain)
            wrong = next((name for name in _names(entry) if "/" in name or not is_inside(name)), None)
            wrong = wrong or next((name for name in entry.paths() if not is_inside(name)), None)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise LakeError(f"cannot read {path} ({error!r}); restore it from a backup") from None
        if wrong is not None:
            raise LakeError(f"{path} names {wrong!r}, which is outside of the lake; the entry is damaged or malicious")
        return entry

    def unapplied(self) -> list[Entry]:
        """Return the entries whose files may not all be in their final place."""
        done = self.applied()
        return [self.entry(number) for number in self._numbers() if number > done]

    def applied(self) -> int:
        try:
            return int(describe_batch(self.folder / "applied.json")["number"])
        except FileNotFoundError:
            return 0

    # Require the lock

    @contextmanager
    def lock(self, name: str = "lock") -> Iterator[None]:
        """Acquire the lock for landing, or another named lock."""
        self.folder.mkdir(parents=True, exist_ok=True)
        file = os.open(self.folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
        finally:
            os.close(file)

    def append(self, entry: Entry) -> None:
        """Create the entry durably. This is the commit."""
        for name in entry.paths():
            inside(self.lake, name, LakeError)  # an entry that cannot be applied would block every later commit
        path = self._path(entry.number)
        fresh = path.with_name(f"{path.name}.{os.getpid()}")
        self.disk.replace(fresh, json.dumps(entry.plain()).encode())
        try:
            os.link(fresh, path)
        except FileExistsError:
            raise LakeError(
                f"{path} was created by another process, and this file system has no locks; retry the commit"
            ) from None
        finally:
            fresh.unlink(missing_ok=True)
        self.disk.sync_folder(self.folder)

    def mark_applied(self, number: int) -> None:
        self.disk.replace(self.folder / "applied.json", json.dumps({"version": VERSION, "number": number}).encode())
        for old in self._numbers():
            if old <= number - KEPT:
                self._path(old).unlink(missing_ok=True)
        for half in self.folder.glob("*.json.*"):  # of a process that crashed while it created an entry
            half.unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except FileNotFoundError:
            return []
        return sorted(int(stem) for stem, _, suffix in map(_split_entry, names) if suffix == "json" and stem.isdigit())

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:010d}.json"


def _names(entry: Entry) -> set[str]:
    """Return the names of tables and days, each of which is the name of a folder."""
    days = {day for held in entry.touched.values() for day in held}
    return {*entry.landed, *entry.transformed, *entry.touched, *days, *(file.table for file in entry.files)}


def _split_entry(name: str) -> tuple[str, str, str]:
    stem, dot, suffix = name.partition(".")
    return stem, dot, suffix
