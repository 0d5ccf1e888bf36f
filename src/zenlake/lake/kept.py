# SPDX-License-Identifier: Apache-2.0
"""Derived tables that a lake keeps, each a snapshot that is replaced in one go.

In a lake of Parquet files a snapshot is a folder in which nothing ever changes, and the table's name is a link to the newest one,
replaced by a rename. Who resolves it once reads one snapshot, whole: those that were replaced stay for a while. Who does not, lists
the files before that moment and opens them after it, is told that they are not there: no name is used twice, so nobody takes a new
file for the one that was listed. A snapshot is a file for each day, or one in all; days that stay the same are the same files,
under a second name.

In a Delta lake it is a Delta table: its log tells which files count, and a transaction is the moment.
"""

import os
import shutil
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from zenlake.errors import LakeError
from zenlake.lake.commit import Lake
from zenlake.lake.layout import DAY, KEPT, STAGING, reached
from zenlake.log.disk import Disk, inside

__all__ = ["ALL", "Kept", "kept"]

ALL = ""  # instead of a day: of a table that is one file
PATIENCE = 600.0  # seconds for which a snapshot that was replaced stays


class Kept(Protocol):
    """A derived table in a lake. One process at a time changes it."""

    def made(self) -> int:
        """Up to which entry of the ledger it was made; 0 if it never was."""

    def snapshot(self) -> tuple[Path, list[str]]:
        """The folder and in it the files that count now, as paths; those of a day are in a folder `day=2026-01-31` there."""

    def replace(self, fresh: Mapping[str, Path], entry: int) -> None:
        """Put these files, by day, in the place of what there was, in one go."""


def kept(lake: Lake, table: str) -> Kept:
    return KeptDelta(lake, table) if lake.format == "delta" else KeptFiles(lake, table)


class KeptFiles:
    """In a lake of Parquet files."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.lake, self.table = lake.path, table
        self.name = lake.path / table
        self.folder = inside(lake.path, f"{KEPT}/{table}", LakeError)
        self.disk = Disk()

    def made(self) -> int:
        found = self._newest()
        return int(found.name.partition("-")[0]) if found else 0

    def snapshot(self) -> tuple[Path, list[str]]:
        found = self._newest()
        return (found, sorted(map(str, found.rglob("*.parquet")))) if found else (self.name, [])

    def replace(self, fresh: Mapping[str, Path], entry: int) -> None:
        old = self._newest()
        new = self.folder / f"{entry:010d}-{uuid.uuid4().hex[:12]}"
        new.mkdir(parents=True)
        if old is not None:
            for file in old.glob(f"{DAY}=*/*.parquet"):
                if file.parent.name.removeprefix(f"{DAY}=") not in fresh:
                    (new / file.parent.name).mkdir(exist_ok=True)
                    os.link(file, new / file.parent.name / file.name)
            os.utime(old)  # from now on it has its time to stay
        settle(fresh, new, new.name)
        reached("kept written")
        self._point_to(new)
        reached("kept")
        for other in self.folder.iterdir():
            if other != new and time.time() - other.stat().st_mtime > PATIENCE:
                shutil.rmtree(other)

    def _point_to(self, snapshot: Path) -> None:
        if self.name.is_dir() and not self.name.is_symlink():
            shutil.rmtree(self.name)  # of a version that wrote the files themselves here
        fresh = self.lake / STAGING / f"{self.table}-{snapshot.name}"
        fresh.parent.mkdir(exist_ok=True)
        fresh.symlink_to(snapshot.relative_to(self.lake))
        os.replace(fresh, self.name)
        self.disk.sync_folder(self.lake)

    def _newest(self) -> Path | None:
        try:
            target = inside(self.lake, os.readlink(self.name), LakeError)
        except OSError:  # none yet, or the folder of an earlier version
            return None
        return target if target.is_dir() else None


class KeptDelta:
    """In a Delta lake."""

    def __init__(self, lake: Lake, table: str) -> None:
        self.folder = inside(lake.path, table, LakeError)

    def made(self) -> int:
        from zenlake.lake import delta

        return delta.last_entry(self.folder)

    def snapshot(self) -> tuple[Path, list[str]]:
        from zenlake.lake import delta

        return self.folder, delta.files(self.folder)

    def replace(self, fresh: Mapping[str, Path], entry: int) -> None:
        from zenlake.lake import delta

        if self.folder.is_dir() and not (self.folder / "_delta_log").is_dir():
            shutil.rmtree(self.folder)  # of a version that wrote plain files here
        names = settle(fresh, self.folder, f"{entry:010d}-{uuid.uuid4().hex[:12]}")
        reached("kept written")
        delta.replace(self.folder, {name: day or None for day, name in names.items()}, entry)
        reached("kept")


def settle(fresh: Mapping[str, Path], folder: Path, name: str) -> dict[str, str]:
    """Move files durably to where they stay: by day, where that is in the folder."""
    disk = Disk()
    found = {day: f"{f'{DAY}={day}/' if day else ''}{name}.parquet" for day in fresh}
    for day, file in fresh.items():
        final = folder / found[day]
        final.parent.mkdir(parents=True, exist_ok=True)
        opened = disk.open(file)
        try:
            disk.sync(opened)
        finally:
            os.close(opened)
        os.rename(file, final)
        disk.sync_folder(final.parent)
    disk.sync_folder(folder)
    disk.sync_folder(folder.parent)
    return found
