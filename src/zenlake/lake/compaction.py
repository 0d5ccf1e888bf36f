# SPDX-License-Identifier: Apache-2.0
"""Compaction: merge the many small files of frequent landings into few large ones.

In a Parquet lake, a compaction is a ledger entry like a landing, with files to add and files to remove. After a crash before
the entry, the lake is unchanged. After a crash after the entry, the next process that opens the lake completes it. A
concurrent reader may see rows twice or not at all. Therefore only past days are compacted; run it when they are not being
read. In a Delta table, readers see either the old or the new files, and landings may continue.
"""

import json
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zenlake.errors import LakeError
from zenlake.lake.commit import Lake
from zenlake.lake.layout import DAY, STAGING, Staged, fault_point
from zenlake.lake.staging import SOURCE, File
from zenlake.log.disk import inside
from zenlake.tables.schemas import TABLES

__all__ = ["TARGET", "CompactionResult", "compact"]

TARGET = 256 << 20  # minimum size in bytes of a file that is not merged
QUERY = "compact"  # query name of the ledger entries


@dataclass(frozen=True, slots=True)
class CompactionResult:
    """Result of the compaction of one table."""

    table: str
    files: int
    """Number of small files before."""
    into: int
    """Number of files that replace them."""


def compact(
    lake: Lake, tables: Sequence[str] | None = None, before: date | None = None, target: int = TARGET
) -> list[CompactionResult]:
    """Merge small files. The rows do not change.

    Args:
        lake: The lake.
        tables: Names of the tables. Default: all.
        before: Only days before this date, in UTC. Default: today.
        target: Size in bytes from which a file is not merged.

    Returns:
        The number of files before and after, for each table.

    Raises:
        LakeError: A table does not exist, or its files changed during the compaction.
    """
    known = lake.tables()
    wrong = [name for name in tables or () if name not in known]
    if wrong:
        raise LakeError(
            f"unknown table {wrong[0]!r} in {lake.path}; expected one of {', '.join(known) or '(no tables yet)'}"
        )
    end = (before or datetime.now(UTC).date()).isoformat()
    if lake.format == "delta":
        from zenlake.lake.delta import optimize

        lake.recover()
        # Landings may continue, but not other compactions: `deltalake` lets two of them replace the same files.
        with lake.ledger.lock("compaction"):
            return [CompactionResult(name, *optimize(lake.path / name, end, target)) for name in tables or known]
    return [_compact(lake, name, end, target) for name in tables or known]


def _compact(lake: Lake, table: str, end: str, target: int) -> CompactionResult:
    files = into = 0
    for folder in sorted((lake.path / table).glob(f"{DAY}=*")):
        day = folder.name.removeprefix(f"{DAY}=")
        if day >= end or not day[:1].isdigit():  # rows without a time belong to a day that never ends
            continue
        inside(lake.path, f"{table}/{folder.name}", LakeError)
        with lake.ledger.lock():
            lake.apply()
            for old in _groups(folder, target):
                _replace(lake, table, day, old)
                files, into = files + len(old), into + 1
    return CompactionResult(table, files, into)


def _groups(folder: Path, target: int) -> Iterator[list[Path]]:
    """Return groups of files to merge, ordered by time. Files that were not written by a lake are ignored."""
    small: list[tuple[int, Path, int]] = []
    for path in folder.glob("*.parquet"):
        metadata = pq.read_metadata(path)
        if SOURCE in (metadata.metadata or {}) and path.stat().st_size < target // 2:
            small.append((_first_time(metadata), path, path.stat().st_size))
    group: list[Path] = []
    held = 0
    for _, path, size in sorted(small):
        if group and held + size > target:
            if len(group) > 1:
                yield group
            group, held = [], 0
        group.append(path)
        held += size
    if len(group) > 1:
        yield group


def _first_time(metadata: pq.FileMetaData) -> int:
    names = metadata.schema.names
    if "received_ns" not in names or not metadata.num_row_groups:
        return 0
    at = names.index("received_ns")
    groups = [metadata.row_group(i).column(at).statistics for i in range(metadata.num_row_groups)]
    return min((each.min for each in groups if each is not None and each.has_min_max), default=0)


def _replace(lake: Lake, table: str, day: str, old: Sequence[Path]) -> None:
    """Write one new file for the old ones. Requires the ledger's lock."""
    staging = inside(lake.path, f"{STAGING}/{QUERY}", LakeError)
    shutil.rmtree(staging, ignore_errors=True)  # files of a crashed compaction
    staging.mkdir(parents=True)
    name = f"{QUERY}-{uuid.uuid4().hex[:12]}-{table}.parquet"
    schema = _schema(table, old)
    sources = {"compacted": [each for path in old for each in _sources(path)]}
    file = File(lake.path / STAGING / QUERY / name, schema, sources, f"{table}/{DAY}={day}/{name}")
    try:
        for path in old:
            with pq.ParquetFile(path) as opened:
                for batch in opened.iter_batches(batch_size=1 << 16):
                    file.add(_with_all(schema, batch))
                    fault_point("write")
        made = file.finish(lake.path, table, day, sources)
    except BaseException:
        file.discard()
        raise
    if made.rows != sum(pq.read_metadata(path).num_rows for path in old):
        raise LakeError(
            f"{lake.path}/{table}/{DAY}={day}: the files changed while they were read; they were not compacted"
        )
    fault_point("staged")
    _enter(lake, made, [path.relative_to(lake.path).as_posix() for path in old])


def _enter(lake: Lake, made: Staged, removed: list[str]) -> None:
    last = lake.ledger.last()
    entry = last.following(QUERY, last.number + 1)
    # Not `add`, and no query: these rows were landed before, so derived tables need no update.
    entry.files, entry.queries, entry.removed = [made], last.queries, removed
    fault_point("commit")
    lake.ledger.append(entry)
    fault_point("entered")
    lake.apply()


def _sources(path: Path) -> list[Any]:
    found = json.loads((pq.read_schema(path).metadata or {})[SOURCE])
    several: list[Any] = found.get("compacted", [found])
    return several


def _schema(table: str, files: Sequence[Path]) -> pa.Schema:
    """Return the schema of the merged file: the current schema, or for transformed rows the union of their columns."""
    found = [pq.read_schema(path).remove_metadata() for path in files]
    today = TABLES.get(table)
    if today is not None and all(set(each.names) <= set(today.names) for each in found):
        return today
    return pa.unify_schemas(found, promote_options="permissive")


def _with_all(schema: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Add columns that an old file lacks, as null."""
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
