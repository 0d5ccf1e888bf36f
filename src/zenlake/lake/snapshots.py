# SPDX-License-Identifier: Apache-2.0
"""Stored derived tables of a lake: each is a snapshot that is replaced atomically.

In a Parquet lake, a snapshot is an immutable folder, and the table's name is a symbolic link to the newest one, replaced by a
rename. A reader that resolves the link once reads one whole snapshot, because replaced snapshots are kept for a while. A
reader that lists the files before the replacement and opens them after it gets a file-not-found error. File names are never
reused, so it cannot open a different file by the same name. A snapshot has one file per day, or one file in total. Unchanged
days are hard links to the same files.

In a Delta lake, it is a Delta table: the Delta log lists the current files, and a transaction replaces them.
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
from zenlake.lake.layout import DAY, KEPT, STAGING, fault_point
from zenlake.log.disk import Disk, inside

__all__ = ["ALL", "Snapshot", "list_snapshots"]

ALL = ""  # used instead of a day for a table with one file
PATIENCE = 600.0  # seconds for which a replaced snapshot is kept


class Snapshot(Protocol):
    """A derived table in a lake. Only one process at a time changes it."""

    def made(self) -> int:
        """Return the ledger entry up to which it was computed, or 0."""

    def snapshot(self) -> tuple[Path, list[str]]:
        """Return the folder and the paths of its current files. Files of a day are in a folder such as `day=2026-01-31`."""

    def replace(self, fresh: Mapping[str, Path], entry: int) -> None:
        """Replace the table's content by these files, by day, atomically."""


def list_snapshots(lake: Lake, table: str) -> Snapshot:
    return DeltaSnapshot(lake, table) if lake.format == "delta" else ParquetSnapshot(lake, table)


class ParquetSnapshot:
    """A derived table in a Parquet lake."""

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
            os.utime(old)  # its retention starts now
        settle(fresh, new, new.name)
        fault_point("kept written")
        self._point_to(new)
        fault_point("kept")
        for other in self.folder.iterdir():
            if other != new and time.time() - other.stat().st_mtime > PATIENCE:
                shutil.rmtree(other)

    def _point_to(self, snapshot: Path) -> None:
        if self.name.is_dir() and not self.name.is_symlink():
            shutil.rmtree(self.name)  # of a version that wrote the files directly here
        fresh = self.lake / STAGING / f"{self.table}-{snapshot.name}"
        fresh.parent.mkdir(exist_ok=True)
        fresh.symlink_to(snapshot.relative_to(self.lake))
        os.replace(fresh, self.name)
        self.disk.sync_folder(self.lake)

    def _newest(self) -> Path | None:
        try:
            target = inside(self.lake, os.readlink(self.name), LakeError)
        except OSError:  # missing, or the folder of an earlier version
            return None
        return target if target.is_dir() else None


class DeltaSnapshot:
    """A derived table in a Delta lake."""

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
        fault_point("kept written")
        delta.replace(self.folder, {name: day or None for day, name in names.items()}, entry)
        fault_point("kept")


def settle(fresh: Mapping[str, Path], folder: Path, name: str) -> dict[str, str]:
    """Move files durably to their final place, in folders by day if they have one."""
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
