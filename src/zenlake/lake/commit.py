# SPDX-License-Identifier: Apache-2.0
"""Lake: its landed state, and exactly-once commits of batches.

A commit takes the ledger's lock, completes the work of a crashed commit, skips files whose part of the log was landed by
another query in the meantime, creates the ledger entry, and moves the files to their final place. After a crash before the
entry, the lake is unchanged and the batch is retried. After a crash after the entry, the batch is landed: the next commit
moves its remaining files, and a retry of the batch finds everything landed. Files in a table's folder are removed only if
their rows are in another file (`compaction`).
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zenlake.errors import LakeError
from zenlake.lake.landed_intervals import LandedIntervals
from zenlake.lake.layout import (
    DAY,
    FORMATS,
    MARKER,
    STAGING,
    VERSION,
    LandingBatch,
    Staged,
    describe_batch,
    fault_point,
    is_lake,
)
from zenlake.lake.ledger import Entry, Ledger
from zenlake.log.disk import Disk, inside

__all__ = ["Lake"]

Restage = Callable[[str, list[list[Any]]], list[Staged]]  # of a table; pieces in the form of `Piece.plain`


class Lake:
    """A lake of one format. With `create`, a missing lake is created in this format."""

    def __init__(self, path: str | os.PathLike[str], create: str | None = None) -> None:
        if "://" in os.fspath(path):
            raise LakeError(
                f"invalid lake {os.fspath(path)!r}; expected a folder of a file system with rename: mount it"
            )
        self.path = Path(path)
        if create is not None and not is_lake(path):
            if create not in FORMATS:
                raise LakeError(f"invalid lake format {create!r}; expected {' or '.join(FORMATS)}")
            self.path.mkdir(parents=True, exist_ok=True)
            about = {"version": VERSION, "format": create}
            Disk().replace(self.path / MARKER, json.dumps(about).encode())
        if not is_lake(path):
            raise LakeError(f"{self.path} is not a lake: it has no {MARKER}")
        self.format: str = describe_batch(self.path / MARKER)["format"]
        if create is not None and create != self.format:
            raise LakeError(
                f"{self.path} is a lake of format {self.format}; land into it with that format, or into another folder"
            )
        self.ledger = Ledger(self.path)

    def tables(self) -> list[str]:
        """Return the names of the tables with landed rows."""
        last = self.ledger.last()
        return sorted({*last.landed, *last.transformed})

    def days(self, table: str) -> dict[str, int]:
        """Return the days of a table that have rows, each with the number of the last ledger entry that added to it."""
        return dict(self.ledger.last().touched.get(table, {}))

    def recover(self) -> None:
        """Complete the work of a crashed commit. Every commit does this first."""
        if self.ledger.unapplied():
            with self.ledger.lock():
                self.apply()

    def commit(
        self, staged: Iterable[Staged], batch: LandingBatch, restage: Restage | None = None, refuse: bool = False
    ) -> int:
        """Land these files and return their number of rows. A batch that is already landed is not landed again.

        Args:
            staged: Files that tasks have written.
            batch: The query and batch number, which identify a retry.
            restage: Callback that writes the remaining rows again if another query has landed part of them in the meantime.
            refuse: Treat that case as an error instead.
        """
        with self.ledger.lock():
            self.apply()
            last = self.ledger.last()
            files = list(staged)
            if last.queries.get(batch.query, -1) >= batch.number:
                files = []  # a retry: all of it is in the ledger
            entry = last.following(batch.query, batch.number)
            for (table, part), group in group_by_table(files).items():
                if part:
                    self._add_part(entry, table, group, restage, refuse)
                else:
                    self._add_transformed(entry, table, group)
            if files:
                self._verify(entry.files)
                fault_point("commit")
                self.ledger.append(entry)
                fault_point("entered")
                self.apply()
            self._sweep(batch.query)
        return sum(file.rows for file in entry.files)

    def _verify(self, files: Iterable[Staged]) -> None:
        """Reject staged files that differ from the task's description. The lake is unchanged then, because there is no entry."""
        for file in files:
            path = self.path / file.staged
            try:
                found = (path.stat().st_size, pq.read_metadata(path).num_rows)
            except (OSError, pa.ArrowException) as error:
                problem = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read ({error})"
            else:
                if found == (file.size, file.rows):
                    continue
                problem = f"has {found[0]} bytes and {found[1]} rows instead of {file.size} and {file.rows}"
            raise LakeError(
                f"{path} was staged by a task, and {problem} for the driver. The batch is not landed and the lake is "
                "unchanged. Driver and workers need one file system: mount the lake under the same path on each, and run "
                "the query again"
            )

    def _add_part(self, entry: Entry, table: str, files: list[Staged], restage: Restage | None, refuse: bool) -> None:
        """Add the files of a part of a log, or only the rows of it that are not landed."""
        if table in entry.transformed:
            raise LakeError(
                f"{self.path}/{table} has transformed rows of query {entry.transformed[table]}; choose another folder"
            )
        coverage = entry.landed.setdefault(table, LandedIntervals())
        log, parts = files[0].source["log"], files[0].source["pieces"]
        if any(coverage.overlaps(log, part) for part in parts):
            if refuse or restage is None:
                raise LakeError(f"{self.path}/{table} has rows of {parts} already: another query has landed them")
            for group in group_by_table(restage(table, parts)).values():
                self._add_part(entry, table, group, None, refuse)
            return
        for writer, *interval in parts:
            coverage.add(log, writer, (interval[0], interval[1]), (interval[2], interval[3]))
        for file in files:
            if file.rows:
                entry.add(file)

    def _add_transformed(self, entry: Entry, table: str, files: list[Staged]) -> None:
        owner = entry.transformed.setdefault(table, entry.query)
        if owner != entry.query or table in entry.landed:
            other = "decoded rows" if table in entry.landed else f"rows of query {owner}"
            raise LakeError(
                f"{self.path}/{table} has {other}; rows that a second query repeats cannot be detected: "
                "choose another folder"
            )
        for file in files:
            if file.rows:
                entry.add(file)

    def apply(self) -> None:
        """Move the files of entries to their final place. Existing files stay. Requires the ledger's lock."""
        for entry in self.ledger.unapplied():
            for name in entry.paths():
                inside(self.path, name, LakeError)
            folders = {(self.path / file.final).parent for file in entry.files}
            for folder in folders:
                folder.mkdir(parents=True, exist_ok=True)
            for file in entry.files:
                staged, final = self.path / file.staged, self.path / file.final
                if staged.exists():
                    os.rename(staged, final)
                    fault_point("rename")
                elif not final.exists():
                    raise LakeError(
                        f"{final} is in the ledger (entry {entry.number}) but missing, and it is not staged either"
                    )
            for folder in folders:
                self.ledger.disk.sync_folder(folder)
                self.ledger.disk.sync_folder(folder.parent)
            for gone in entry.removed:
                (self.path / gone).unlink(missing_ok=True)
                fault_point("removed")
            if self.format == "delta":
                from zenlake.lake.delta import add

                for table in sorted({file.table for file in entry.files}):
                    add(self.path / table, [file for file in entry.files if file.table == table], entry.number)
                    fault_point("delta")
            self.ledger.mark_applied(entry.number)
            fault_point("applied")

    def _sweep(self, query: str) -> None:
        """Remove files of earlier attempts of this query. After a commit, none of its tasks is running."""
        folder = inside(self.path, f"{STAGING}/{query}", LakeError)
        if folder.is_dir():
            for left in folder.iterdir():
                left.unlink(missing_ok=True)

    def files(self, table: str) -> list[str]:
        """Return the paths of a table's current files."""
        if self.format == "delta":
            from zenlake.lake.delta import files

            return files(self.path / table)
        return [str(path) for path in sorted((self.path / table).glob(f"{DAY}=*/*.parquet"))]


def group_by_table(files: Iterable[Staged]) -> dict[tuple[str, str], list[Staged]]:
    """Group files by table and part of the log: files of several days from the same pieces."""
    found: dict[tuple[str, str], list[Staged]] = {}
    for file in files:
        found.setdefault((file.table, json.dumps(file.source) if file.source else ""), []).append(file)
    return found
