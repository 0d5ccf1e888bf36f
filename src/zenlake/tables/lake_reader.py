# SPDX-License-Identifier: Apache-2.0
"""Decoded tables in a lake: a folder for each table, with Parquet files or a Delta table."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.columns.schemas import TABLES, select_schema
from zenlake.errors import LakeError

__all__ = ["MARKER", "delta_files", "import_deltalake", "is_lake", "read", "table_files"]

MARKER = "zenlake-lake.json"
ROWS = 16384


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Return whether a folder is a lake: written by `land`, or with a Parquet folder named after a decoded table."""
    folder = Path(path)
    return (folder / MARKER).is_file() or any(any((folder / name).rglob("*.parquet")) for name in TABLES)


def table_files(lake: Path, table: str) -> list[str]:
    """Return the paths of a table's files, or None if it has no rows. A Delta table is read at its newest snapshot."""
    folder = lake / table
    if (folder / "_delta_log").is_dir():
        return delta_files(folder)
    return sorted(str(file) for file in folder.rglob("*.parquet") if not _skip(file.relative_to(folder)))


def read(
    lake: str, tables: Mapping[str, Sequence[str] | None], since: int | None = None, until: int | None = None
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of these tables in stored order, received from `since` to `until` (ns)."""
    from pyarrow import (
        dataset,
    )  # imported here because it imports pandas if that is installed, which pure decoding does not need

    for table, columns in tables.items():
        files = table_files(Path(lake), table)
        if files:
            schema = select_schema(table, None if columns is None else list(columns))
            needed = pa.schema([*schema, *([] if "received" in schema.names else [TABLES[table].field("received")])])
            found = dataset.dataset(files, schema=needed, format="parquet")
            batches = found.to_batches(
                columns=schema.names, filter=_within(since, until), batch_size=ROWS, batch_readahead=2, fragment_readahead=1
            )  # fmt: skip
            for batch in batches:
                if batch.num_rows:
                    yield table, pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _within(since: int | None, until: int | None) -> pc.Expression | None:
    found = None
    for bound, compared in ((since, pc.Expression.__ge__), (until, pc.Expression.__lt__)):
        if bound is not None:
            each = compared(pc.field("received"), pa.scalar(bound // 1000, TABLES["samples"].field("received").type))
            found = each if found is None else found & each
    return found


def _skip(file: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in file.parts)


def delta_files(table: str | Path) -> list[str]:
    """Return the paths of the files in a Delta table's newest snapshot."""
    if not import_deltalake().DeltaTable.is_deltatable(str(table)):
        return []
    found = sorted(uri.removeprefix("file://") for uri in import_deltalake().DeltaTable(str(table)).file_uris())
    root = Path(table).resolve()
    for path in found:
        if not Path(path).resolve().is_relative_to(root):
            raise LakeError(
                f"the Delta log of {table} names {path}, which is outside of the table; the file is not read"
            )
    return found


def import_deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise ImportError(
            "lakes of format delta need deltalake, which is not installed: pip install 'zenlake[delta]'"
        ) from None
    return deltalake
