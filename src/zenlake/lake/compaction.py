# SPDX-License-Identifier: Apache-2.0
"""Compaction: rewrite the small files of frequent landings as few large ones, sorted by key and then by time.

A job is one day of one table. `rewrite` may run anywhere. `replace_files` commits the new files and removes the old ones in one
transaction. Readers see the old or the new files. Landing may continue, because it only adds files. If two compactions replace the
same files, the second is refused. DuckDB sorts on disk if a day does not fit into memory.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import chain

import pyarrow as pa

from zenlake.errors import LakeError
from zenlake.lake.lake import Lake
from zenlake.lake.layout import DataFile, LandingBatch
from zenlake.lake.parquet_writer import TARGET, write_rows
from zenlake.lake.table_format import TableFormat
from zenlake.tables.lake_location import Location
from zenlake.tables.lake_reader import SnapshotFile, TableSnapshot

__all__ = ["ORPHAN_HOURS", "TARGET", "CompactionJob", "CompactionResult", "compact", "plan_jobs", "remove_orphans"]

MEMORY = "512MB"  # memory limit of DuckDB while it sorts
BATCH = 1 << 16
ORPHAN_HOURS = 168.0  # must be longer than any task or reader runs


@dataclass(frozen=True)
class CompactionJob:
    """The files of one day of one table that are replaced together."""

    lake: str
    table: str
    day: str
    files: tuple[SnapshotFile, ...]
    schema: pa.Schema
    target: int


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of the compaction of one table."""

    table: str
    files: int
    """Number of files before."""
    into: int
    """Number of files that replace them."""


Run = Callable[[Sequence[CompactionJob]], Iterable[list[DataFile]]]


def compact(
    lake: Lake,
    tables: Sequence[str] | None = None,
    before: date | None = None,
    target: int = TARGET,
    run: Run | None = None,
) -> list[CompactionResult]:
    """Merge small files. The rows do not change.

    Args:
        lake: The lake.
        tables: Names of the tables. Default: all.
        before: Only days before this date, in UTC. Default: today.
        target: Size in bytes of a file.
        run: Function that rewrites the jobs, for example on a cluster. Default: here, one after the other.

    Returns:
        The number of files before and after, for each table.

    Raises:
        LakeError: A table does not exist, or its files were replaced during the compaction.
    """
    known = lake.tables()
    wrong = [name for name in tables or () if name not in known]
    if wrong:
        raise LakeError(
            f"unknown table {wrong[0]!r} in {lake.location.address}; expected one of {', '.join(known) or '(no tables yet)'}"
        )
    names = list(tables or known)
    jobs = [job for name in names for job in plan_jobs(lake, name, before, target)]
    made = run(jobs) if run is not None else map(rewrite, jobs)
    results = {name: [0, 0] for name in names}
    for job, files in zip(jobs, made, strict=True):
        replace_files(lake, job, files)
        results[job.table][0] += len(job.files)
        results[job.table][1] += len(files)
    return [CompactionResult(name, *counts) for name, counts in results.items()]


def plan_jobs(lake: Lake, table: str, before: date | None = None, target: int = TARGET) -> list[CompactionJob]:
    """Return the days of a table with at least two small files."""
    end = (before or datetime.now(UTC).date()).isoformat()
    opened = lake.table(table)
    schema = opened.schema()
    days: dict[str, list[SnapshotFile]] = {}
    for file in opened.files():
        if file.day is not None and file.day < end:  # rows without a time belong to a day that never ends
            days.setdefault(file.day, []).append(file)
    found = []
    for day, files in sorted(days.items()):
        small = [file for file in files if file.size < target // 2]
        if len(small) > 1:
            # A whole day is sorted, so that the files have different keys, unless it is large.
            chosen = files if sum(file.size for file in files) <= 4 * target else small
            found.append(CompactionJob(lake.location.given, table, day, tuple(chosen), schema, target))
    return found


def rewrite(job: CompactionJob) -> list[DataFile]:
    """Write the rows of a job's files, sorted. Nothing is committed."""
    import duckdb

    location = Location(job.lake)
    snapshot = TableSnapshot(list(job.files), None if location.is_local else location.filesystem)
    order = [f"{name} nulls last" for name in ("key", "received_ns", "received") if name in job.schema.names][:2]
    with duckdb.connect() as engine:
        engine.execute("set TimeZone = 'UTC'")
        engine.execute(f"set memory_limit = '{MEMORY}'")
        engine.register("job", snapshot.dataset(job.schema))
        ordered = engine.sql(f"from job order by {', '.join(order or ['all'])}").to_arrow_reader(BATCH)
        rows = ((job.table, batch.cast(job.schema)) for batch in ordered)
        made = write_rows(location, rows, {job.table: job.schema}, LandingBatch("compact", 0), "0", target=job.target)
    before, after = sum(file.rows or 0 for file in job.files), sum(file.rows for file in made)
    if all(file.rows is not None for file in job.files) and before != after:
        raise LakeError(
            f"{location.uri(job.table)}, {job.day}: {before} rows were read as {after}; it is not compacted"
        )
    return made


def replace_files(lake: Lake, job: CompactionJob, made: Sequence[DataFile]) -> None:
    """Commit the new files of a job and remove the old ones."""

    def choose(opened: TableFormat) -> Sequence[SnapshotFile]:
        current = {file.path for file in opened.files()}
        if any(file.path not in current for file in job.files):
            raise LakeError(
                f"{lake.location.uri(job.table)}, {job.day}: another compaction has replaced these files; run it again"
            )
        return job.files

    lake.replace(job.table, made, choose, job.schema, {}, is_change=False)


def remove_orphans(lake: Lake, tables: Sequence[str] | None = None, hours: float = ORPHAN_HOURS) -> dict[str, int]:
    """Remove files that no commit of the last `hours` names: replaced files, and files of failed tasks.

    Args:
        lake: The lake.
        tables: Names of the tables. Default: all.
        hours: Minimum age. It must be longer than any task or reader runs.

    Returns:
        The number of removed files of each table.

    Raises:
        LakeError: A table has a symbolic link, or its files cannot be removed.
    """
    names = tables or lake.tables()
    for name in names:
        refuse_links(lake.location, name)
    return {name: len(lake.table(name).remove_orphans(hours)) for name in names}


def refuse_links(location: Location, table: str) -> None:
    """Raise if a local table has a symbolic link, because its target may belong to another program."""
    if not location.is_local:
        return
    root = location.at(table)
    paths = (os.path.join(folder, name) for folder, *names in os.walk(root) for name in chain(*names))
    link = next(filter(os.path.islink, chain([root], paths)), None)
    if link is not None:
        raise LakeError(f"{link} is a symbolic link; no file of the table is removed: replace the link by its target")
