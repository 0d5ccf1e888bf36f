# SPDX-License-Identifier: Apache-2.0
"""Files that are already written become part of a Delta table, through the package `deltalake` and without a JVM.

The number of the ledger's entry goes with them as Delta's application transaction: an entry that is applied again is recognised.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from zenlake.lake.layout import DAY, Staged
from zenlake.tables.stored import delta_files as files
from zenlake.tables.stored import import_deltalake

if TYPE_CHECKING:
    from deltalake import DeltaTable

__all__ = ["add", "files", "optimize"]

APPLICATION = "zenlake"


def add(table: Path, staged: Sequence[Staged], entry: int) -> None:
    """Add files that lie in the table's folder, in one transaction, once."""
    delta = import_deltalake()
    from deltalake.transaction import AddAction

    lake = table.parent
    schema = pq.read_schema(lake / staged[0].final).remove_metadata()
    found = opened(table, schema.append(pa.field(DAY, pa.date32())))
    done = found.transaction_version(APPLICATION)
    if done is not None and done >= entry:
        return
    known = {field.name for field in found.schema().fields}
    later = [field for field in delta.Schema.from_arrow(schema).fields if field.name not in known]
    if later:  # columns that a version before this one did not write; in its files they are null
        found.alter.add_columns(later)
        found = delta.DeltaTable(str(table))
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
    properties = delta.CommitProperties(app_transactions=[delta.Transaction(APPLICATION, entry)])
    found.create_write_transaction(
        actions, mode="append", schema=found.schema(), partition_by=[DAY], commit_properties=properties
    )


def optimize(table: Path, end: str, target: int) -> tuple[int, int]:
    """Put the small files of days before `end` together, and remove those that no reader of the last week can be reading.

    How many there were, and how many there are instead. Landings may go on meanwhile: they only add.
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


def opened(table: Path, schema: pa.Schema) -> "DeltaTable":
    delta = import_deltalake()
    if not delta.DeltaTable.is_deltatable(str(table)):
        return delta.DeltaTable.create(str(table), schema, partition_by=[DAY])
    return delta.DeltaTable(str(table))
