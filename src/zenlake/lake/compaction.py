# SPDX-License-Identifier: Apache-2.0
"""Many small files, as frequent landings leave them, become few large ones.

In a lake of Parquet files that is an entry of the ledger like a landing: files that come, and files that go with them. Killed
before the entry, nothing has happened; after it, whoever opens the lake next finishes. A reader who looks meanwhile may see rows
twice or not at all, so only days that are over are touched, when nobody reads them. In a Delta table readers see the old files or
the new ones, and landings go on meanwhile.
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
from zenlake.lake.layout import DAY, STAGING, Staged, reached
from zenlake.lake.staging import SOURCE, File
from zenlake.log.disk import inside
from zenlake.tables.schemas import TABLES

__all__ = ["TARGET", "Compacted", "compact"]

TARGET = 256 << 20  # bytes of a file that is large enough
QUERY = "compact"  # in whose name the ledger's entries are


@dataclass(frozen=True, slots=True)
class Compacted:
    """What became of a table's files."""

    table: str
    files: int
    """That there were, of those that were too small."""
    into: int
    """That there are instead."""


def compact(
    lake: Lake, tables: Sequence[str] | None = None, before: date | None = None, target: int = TARGET
) -> list[Compacted]:
    """Put small files together, of the days before that one (today, if not given; in UTC). Rows stay the same, each once."""
    known = lake.tables()
    wrong = [name for name in tables or () if name not in known]
    if wrong:
        raise LakeError(f"no table {wrong[0]!r} in {lake.path}; there are {', '.join(known) or 'none yet'}")
    end = (before or datetime.now(UTC).date()).isoformat()
    if lake.format == "delta":
        from zenlake.lake.delta import optimize

        lake.recover()
        # Landings go on meanwhile, but no other compaction: of two at once `deltalake` lets both replace the same files.
        with lake.ledger.lock("compaction"):
            return [Compacted(name, *optimize(lake.path / name, end, target)) for name in tables or known]
    return [_compact(lake, name, end, target) for name in tables or known]


def _compact(lake: Lake, table: str, end: str, target: int) -> Compacted:
    files = into = 0
    for folder in sorted((lake.path / table).glob(f"{DAY}=*")):
        day = folder.name.removeprefix(f"{DAY}=")
        if day >= end or not day[:1].isdigit():  # rows without a time belong to a day that is never over
            continue
        inside(lake.path, f"{table}/{folder.name}", LakeError)
        with lake.ledger.lock():
            lake.apply()
            for old in _groups(folder, target):
                _replace(lake, table, day, old)
                files, into = files + len(old), into + 1
    return Compacted(table, files, into)


def _groups(folder: Path, target: int) -> Iterator[list[Path]]:
    """Files to be put together, in the order of time; those that a lake did not write are left alone."""
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
    told = [metadata.row_group(i).column(at).statistics for i in range(metadata.num_row_groups)]
    return min((each.min for each in told if each is not None and each.has_min_max), default=0)


def _replace(lake: Lake, table: str, day: str, old: Sequence[Path]) -> None:
    """One new file for the old ones. With the ledger's lock."""
    staging = inside(lake.path, f"{STAGING}/{QUERY}", LakeError)
    shutil.rmtree(staging, ignore_errors=True)  # what one that was killed left
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
                    reached("write")
        made = file.finish(lake.path, table, day, sources)
    except BaseException:
        file.discard()
        raise
    if made.rows != sum(pq.read_metadata(path).num_rows for path in old):
        raise LakeError(f"{lake.path}/{table}/{DAY}={day}: the files changed while they were read; nothing was done")
    reached("staged")
    _enter(lake, made, [path.relative_to(lake.path).as_posix() for path in old])


def _enter(lake: Lake, made: Staged, removed: list[str]) -> None:
    last = lake.ledger.last()
    entry = last.following(QUERY, last.number + 1)
    # Not `add`, and no query: these rows were landed before, and nothing has to be derived again because of them.
    entry.files, entry.queries, entry.removed = [made], last.queries, removed
    reached("commit")
    lake.ledger.append(entry)
    reached("entered")
    lake.apply()


def _sources(path: Path) -> list[Any]:
    found = json.loads((pq.read_schema(path).metadata or {})[SOURCE])
    several: list[Any] = found.get("compacted", [found])
    return several


def _schema(table: str, files: Sequence[Path]) -> pa.Schema:
    """Of the file that replaces these: what is written today, or, of transformed rows, the columns of all of them."""
    found = [pq.read_schema(path).remove_metadata() for path in files]
    today = TABLES.get(table)
    if today is not None and all(set(each.names) <= set(today.names) for each in found):
        return today
    return pa.unify_schemas(found, promote_options="permissive")


def _with_all(schema: pa.Schema, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Columns that a file was too old to have are null."""
    columns = [
        rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(len(rows), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
