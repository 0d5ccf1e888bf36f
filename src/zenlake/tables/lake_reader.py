# SPDX-License-Identifier: Apache-2.0
"""Decoded tables in a lake, local or in a store: the current files of a table, and their rows.

A lake contains Delta or Iceberg tables. A folder with a folder of Parquet files for each table is read too.
"""

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs

from zenlake.columns.schemas import TABLES, select_schema
from zenlake.errors import LakeError
from zenlake.tables.lake_location import (
    DAY,
    MARKER,
    Location,
    first_line,
    import_catalogs,
    import_deltalake,
    is_inside,
    read_marker,
)

__all__ = [
    "MARKER", "SnapshotFile", "TableSnapshot", "is_lake", "open_catalog", "open_delta", "open_iceberg", "read",
    "read_snapshot", "table_files",
]  # fmt: skip

ROWS = 16384
READER_FEATURES = {"timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"}  # of Delta; others change which rows exist
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # name that Spark and Hive give to the folder of rows without a value


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """One Parquet file of a table."""

    path: str
    """Absolute local path, or path in the file system of the store."""
    uri: str
    """Absolute local path, or address in the store."""
    size: int
    rows: int | None
    """Number of rows, or None if only the file contains it."""
    day: str | None
    """Day of received time, such as `2026-01-31`, or None."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The files of a table at one moment, in any format."""

    files: list[SnapshotFile]
    filesystem: pafs.FileSystem | None
    """File system of a store, or None for local files."""

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    def dataset(self, schema: pa.Schema | None = None) -> Any:
        """Return a dataset of the files, for projection and filters. Columns that old files lack are null."""
        from pyarrow import dataset  # imports pandas if that is installed, which pure decoding does not need

        return dataset.dataset(
            self.paths, schema=schema, format="parquet", filesystem=self.filesystem or pafs.LocalFileSystem()
        )


def is_lake(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a lake: written by `land`, or with a Parquet folder named after a decoded table."""
    if "://" in os.fspath(path):
        return Location(path).read(MARKER) is not None
    folder = Path(path)
    return (folder / MARKER).is_file() or any(any((folder / name).rglob("*.parquet")) for name in TABLES)


def read_snapshot(lake: str | os.PathLike[str], table: str) -> TableSnapshot:
    """Return the current files of a decoded or stored derived table of a lake; an empty list if it has no rows.

    Args:
        lake: Folder or address of the lake.
        table: Name of the table.

    Raises:
        LakeError: The table cannot be read.
    """
    location = Location(lake)
    about = read_marker(location) or {}
    if about.get("format") == "iceberg":
        found = open_iceberg(location, about, table)
        files = [] if found is None else iceberg_files(location, found)
    elif about.get("format") == "delta" or (location.is_local and os.path.isdir(location.at(table, "_delta_log"))):
        opened = open_delta(location, table)
        files = [] if opened is None else list_delta(location, table, opened)
    else:
        files = folder_files(location, table)
    return TableSnapshot(files, None if location.is_local else location.filesystem)


def table_files(lake: str | os.PathLike[str], table: str) -> list[str]:
    """Return the paths of a table's current files, or an empty list if it has no rows."""
    return read_snapshot(lake, table).paths


def read(
    lake: str,
    tables: Mapping[str, Sequence[str] | None],
    since: int | None = None,
    until: int | None = None,
    filter: pc.Expression | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of these tables in stored order, received from `since` to `until` (ns), that a filter of their columns keeps.

    Row groups whose statistics contradict the filter are not read.
    """
    for table, columns in tables.items():
        snapshot = read_snapshot(lake, table)
        if snapshot.files:
            schema = select_schema(table, None if columns is None else list(columns))
            needed = pa.schema([*schema, *([] if "received" in schema.names else [TABLES[table].field("received")])])
            batches = snapshot.dataset(needed).to_batches(
                columns=schema.names, filter=_within(since, until, filter), batch_size=ROWS, batch_readahead=2, fragment_readahead=1
            )  # fmt: skip
            for batch in batches:
                if batch.num_rows:
                    yield table, pa.RecordBatch.from_arrays(batch.columns, schema=schema)


def _within(since: int | None, until: int | None, found: pc.Expression | None) -> pc.Expression | None:
    for bound, compared in ((since, pc.Expression.__ge__), (until, pc.Expression.__lt__)):
        if bound is not None:
            each = compared(pc.field("received"), pa.scalar(bound // 1000, TABLES["samples"].field("received").type))
            found = each if found is None else found & each
    return found


# Parquet folders


def folder_files(location: Location, table: str) -> list[SnapshotFile]:
    selector = pafs.FileSelector(location.at(table), recursive=True, allow_not_found=True)
    found = []
    for info in location.filesystem.get_file_info(selector):
        relative = info.path.removeprefix(location.at(table)).strip("/").split("/")
        hidden = any(part.startswith(("_", ".")) for part in relative)
        if info.type == pafs.FileType.File and info.path.endswith(".parquet") and not hidden:
            day = relative[0].removeprefix(f"{DAY}=") if relative[0].startswith(f"{DAY}=") else None
            uri = location.uri(table, *relative)
            found.append(SnapshotFile(info.path, uri, info.size, None, None if day == NO_DAY else day))
    return sorted(found, key=lambda file: file.path)


# Delta


def open_delta(location: Location, table: str) -> Any | None:
    """Return the Delta table at its newest version, or None if it does not exist."""
    delta = import_deltalake()
    uri, options = location.uri(table), location.storage_options
    try:
        if not delta.DeltaTable.is_deltatable(uri, options):
            return None
        opened = delta.DeltaTable(uri, storage_options=options)
    except Exception as error:  # of deltalake, which has no common base class
        raise LakeError(f"cannot read the Delta table {uri}: {first_line(error)}") from None
    foreign = {*(opened.protocol().reader_features or ())} - READER_FEATURES
    if opened.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        foreign.add("columnMapping")
    if foreign:
        raise LakeError(
            f"the Delta table {uri} has the features {', '.join(sorted(foreign))}, which Zenlake does not read; another program "
            "has enabled them: rewrite the table without them"
        )
    return opened


def list_delta(location: Location, table: str, opened: Any) -> list[SnapshotFile]:
    """Return the files of a Delta table. Raise if one is outside of the table."""
    uris = opened.file_uris()
    # Performance: `pa.table` would import pandas.
    actions = pa.RecordBatchReader.from_stream(opened.get_add_actions(flatten=True)).read_all()
    sizes, rows = actions["size_bytes"].to_pylist(), [None] * len(actions)
    if "num_records" in actions.column_names:
        rows = actions["num_records"].to_pylist()
    days: list[Any] = [None] * len(actions)
    if f"partition.{DAY}" in actions.column_names:
        days = actions[f"partition.{DAY}"].to_pylist()
    by_path = dict(zip(actions["path"].to_pylist(), zip(sizes, rows, days, strict=True), strict=True))
    found = []
    for uri in sorted(uris):
        path = location.strip(uri)
        if location.is_local and not is_inside(location.at(table), path):
            raise LakeError(
                f"the Delta log of {location.uri(table)} names {path}, which is outside of the table; the file is not read"
            )
        relative = path.removeprefix(location.at(table)).strip("/")
        size, count, day = by_path.get(relative) or by_path.get(uri) or (0, None, None)
        where = path if location.is_local else location.uri(table, relative)
        found.append(SnapshotFile(path, where, size, count, None if day is None else str(day)))
    return found


# Iceberg


def open_catalog(location: Location, about: Mapping[str, Any]) -> Any:
    """Return the catalog of a lake: the configured one, or SQLite beside the lake."""
    catalogs = import_catalogs()
    try:
        if about.get("catalog"):
            catalog = catalogs.load_catalog(about["catalog"])
        else:
            file = catalog_file(location, about)
            file.parent.mkdir(parents=True, exist_ok=True)
            properties = {"uri": f"sqlite:///{file}", "warehouse": location.address, **location.iceberg_properties}
            catalog = _open_sqlite_catalog(catalogs.sql, properties)
    except Exception as error:  # of pyiceberg or SQLAlchemy
        name = about.get("catalog") or catalog_file(location, about)
        raise LakeError(f"cannot open the Iceberg catalog {name}: {first_line(error)}") from None
    if isinstance(
        catalog, catalogs.sql.SqlCatalog
    ):  # tables refer to their catalog, so it has no scope in which it can be closed
        weakref.finalize(catalog, catalog.engine.dispose)
    return catalog


def _open_sqlite_catalog(sql: Any, properties: Mapping[str, Any]) -> Any:
    """Open a catalog in SQLite. If two programs create its tables at the same time, one of them fails and tries again."""
    from sqlalchemy.exc import OperationalError

    catalog = sql.SqlCatalog("zenlake", **properties, init_catalog_tables="false")
    try:
        catalog.create_tables()  # those that are missing
    except OperationalError:
        catalog.create_tables()
    return catalog


def catalog_file(location: Location, about: Mapping[str, Any]) -> Path:
    """Return the SQLite file that is the catalog of a lake without a configured one. A lake in a store names it."""
    return Path(location.path, "_catalog.db") if location.is_local else Path(about["catalog_file"])


def open_iceberg(location: Location, about: Mapping[str, Any], table: str) -> Any | None:
    """Return the Iceberg table, or None if it does not exist."""
    catalog = open_catalog(location, about)
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table((about["namespace"], table))
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        raise LakeError(
            f"cannot read the Iceberg table {about['namespace']}.{table} of {location.address}: {first_line(error)}"
        ) from None


def iceberg_files(location: Location, opened: Any) -> list[SnapshotFile]:
    """Return the files of the current snapshot. Raise if rows of them are deleted, because they would reappear."""
    found = []
    for task in opened.scan().plan_files():
        if task.delete_files:
            raise LakeError(
                f"the Iceberg table {'.'.join(opened.name())} has delete files of another program; compact it with that program"
            )
        file = task.file
        path = location.strip(file.file_path)
        uri = path if location.is_local else file.file_path
        day = partition_day(file.partition[0]) if len(file.partition) == 1 else None
        found.append(SnapshotFile(path, uri, file.file_size_in_bytes, file.record_count, day))
    return sorted(found, key=lambda file: file.path)


def partition_day(value: Any) -> str | None:
    """Return the day of a partition, which `pyiceberg` gives as a date or as days since 1970."""
    if isinstance(value, int):
        value = date(1970, 1, 1) + timedelta(days=value)
    return None if value is None else str(value)
