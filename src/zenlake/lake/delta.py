# SPDX-License-Identifier: Apache-2.0
"""Delta commits of existing Parquet files, with the package `deltalake` and without a JVM.

The number of the ledger entry is stored as Delta's application transaction, so that a repeated entry is detected.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from zenlake.lake.layout import DAY, Staged
from zenlake.tables.lake_location import import_deltalake
from zenlake.tables.lake_reader import delta_files as files

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

__all__ = ["add", "files", "last_entry", "optimize", "replace"]

APPLICATION = "zenlake"
SOON = 1  # retention in hours of files that `replace` replaced: it may run every few seconds
MAX_OLD_FILES = 20  # minimum number of such files for a vacuum
TIME = pa.timestamp("us", "UTC")


def add(table: Path, staged: Sequence[Staged], entry: int) -> None:
    """Add files in the table's folder to the table, in one transaction and exactly once."""
    import_deltalake()
    from deltalake.transaction import AddAction

    lake = table.parent
    found = widen_schema(table, pq.read_schema(lake / staged[0].final).remove_metadata(), [DAY])
    if (found.transaction_version(APPLICATION) or 0) >= entry:
        return
    actions = [
        AddAction(
            (lake / file.final).relative_to(table).as_posix(),
            file.size,
            {DAY: file.day},
            int((lake / file.final).stat().st_mtime * 1000),
            True,
            json.dumps({"numRecords": file.rows}),
        )
        for file in staged
    ]
    found.create_write_transaction(
        actions, mode="append", schema=found.schema(), partition_by=[DAY], commit_properties=_read_note(entry)
    )


def replace(table: Path, fresh: Mapping[str, str | None], entry: int) -> None:
    """Replace the files of the same days (without a day: all files) by files in the table's folder, in one transaction."""
    import_deltalake()
    from deltalake.transaction import AddAction

    days = sorted(day for day in fresh.values() if day is not None)
    by = [DAY] if days else []
    schema = pq.read_schema(table / next(iter(fresh))).remove_metadata()
    # By default, Spark writes times as INT96, which has no time zone. They are all UTC.
    times = [field.with_type(TIME) if pa.types.is_timestamp(field.type) else field for field in schema]
    found = widen_schema(table, pa.schema(times), by)
    actions = []
    for name, day in fresh.items():
        about, rows = (table / name).stat(), pq.read_metadata(table / name).num_rows
        values = {DAY: day} if day is not None else {}
        statistics = json.dumps({"numRecords": rows})
        actions.append(AddAction(name, about.st_size, values, int(about.st_mtime * 1000), True, statistics))
    found.create_write_transaction(
        actions,
        mode="overwrite",
        schema=found.schema(),
        partition_by=by,
        partition_filters=[(DAY, "in", days)] if days else None,
        commit_properties=_read_note(entry),
    )
    if sum(1 for _ in table.rglob("*.parquet")) > len(files(table)) + MAX_OLD_FILES:
        open_table(table).vacuum(SOON, dry_run=False, enforce_retention_duration=False)


def last_entry(table: Path) -> int:
    """Return the newest ledger entry whose files are in the table, or 0."""
    if not import_deltalake().DeltaTable.is_deltatable(str(table)):
        return 0
    return open_table(table).transaction_version(APPLICATION) or 0


def optimize(table: Path, end: str, target: int) -> tuple[int, int]:
    """Merge the small files of days before `end`, and remove files that are older than a week and not in use.

    Return the number of files before and after. Landings may continue, because they only add files.
    """
    delta = import_deltalake()
    if not delta.DeltaTable.is_deltatable(str(table)):
        return 0, 0
    found = delta.DeltaTable(str(table))
    done = found.optimize.compact(
        partition_filters=[(DAY, "<", end)],
        target_size=target,
        writer_properties=delta.WriterProperties(compression="ZSTD"),
    )
    delta.DeltaTable(str(table)).vacuum(dry_run=False)
    return int(done["numFilesRemoved"]), int(done["numFilesAdded"])


def widen_schema(table: Path, schema: pa.Schema, by: list[str]) -> "DeltaTable":
    """Open or create the table. Columns that an earlier version did not write are added; they are null in its files."""
    delta = import_deltalake()
    if not delta.DeltaTable.is_deltatable(str(table)):
        days = [pa.field(DAY, pa.date32())] if by else []
        return delta.DeltaTable.create(str(table), pa.schema([*schema, *days]), partition_by=by)
    found = open_table(table)
    known = {field.name for field in found.schema().fields}
    later = [field for field in delta.Schema.from_arrow(schema).fields if field.name not in known]
    if later:
        found.alter.add_columns(later)
        found = open_table(table)
    return found


def open_table(table: Path) -> "DeltaTable":
    return import_deltalake().DeltaTable(str(table))


def _read_note(entry: int) -> "CommitProperties":
    delta = import_deltalake()
    return delta.CommitProperties(app_transactions=[delta.Transaction(APPLICATION, entry)])
