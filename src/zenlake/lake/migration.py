# SPDX-License-Identifier: Apache-2.0
"""Conversion of lakes of version 1, whose commit log was a ledger of JSON files, and export to plain Parquet.

No file is rewritten: each table becomes a Delta or Iceberg table of the same files, with its landed intervals. A commit of the
old ledger may name files that do not exist, because workers did not share the folder. Its parts of the log are then removed from
the landed intervals, so that they are landed again.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from zenlake.errors import LakeError
from zenlake.lake.lake import Lake, check_format, commit_numbered, describe_lake, write_marker
from zenlake.lake.landed_intervals import LandedIntervals
from zenlake.lake.layout import VERSION, DataFile
from zenlake.lake.parquet_writer import collect_statistics
from zenlake.lake.table_format import SERIAL, TableFormat
from zenlake.tables.lake_location import Location, is_inside, read_marker
from zenlake.tables.lake_reader import NO_DAY, SnapshotFile, folder_files, read_snapshot
from zenlake.tables.schemas import TABLES

__all__ = ["convert", "export"]

LEDGER, STAGING, DERIVED = "_landed", "_staging", "_derived"


def convert(path: str | os.PathLike[str], format: str | None = None, catalog: str | None = None) -> dict[str, int]:
    """Convert a local lake of version 1. Stored derived tables are removed; `refresh` computes them again.

    Args:
        path: Folder of the lake.
        format: delta or iceberg. Default: delta.
        catalog: Configured Iceberg catalog.

    Returns:
        The number of rows of each table. An interrupted conversion is repeated. A converted lake is not changed.

    Raises:
        LakeError: The lake or its ledger is damaged, or a Delta lake is converted to Iceberg.
    """
    location = Location(path)
    about = read_marker(location)
    if about is None:
        raise LakeError(f"{location.address} is not a lake: it has no zenlake-lake.json")
    if about["version"] >= VERSION:
        return {name: counts["rows"] for name, counts in Lake(path).totals().items()}
    if not location.is_local:
        raise LakeError(f"{location.address} is in a store; convert the lake in a local folder, then copy it")
    wanted = format or "delta"
    check_format(wanted, location)
    if about["format"] == "delta" and wanted != "delta":
        raise LakeError(f"{location.address} is a Delta lake and stays one; leave out the format")
    target = describe_lake(location, wanted, catalog)
    entry = read_ledger(location)
    landed = {
        (table, log): LandedIntervals(log, ([writer, *part] for writer, parts in writers.items() for part in parts))
        for table, logs in entry["landed"].items()
        for log, writers in logs.items()
    }
    missing = settle_files(location, entry, landed)
    lake = Lake.__new__(Lake)
    lake.location, lake.about, lake.format = location, target, wanted
    found = {}
    for table in sorted({*entry["landed"], *entry["transformed"]}):
        numbers: dict[str, int] = {}
        for (name, _), held in landed.items():
            numbers |= held.numbers() if name == table else {}
        numbers |= {"transformed": 1} if table in entry["transformed"] else {"decoded": 1}
        numbers |= {f"query/{query}": batch for query, batch in entry["queries"].items()}
        found[table] = convert_table(lake, table, numbers, missing)
    for name in (DERIVED, STAGING):
        shutil.rmtree(location.at(name), ignore_errors=True)
    for each in Path(location.path).iterdir():
        if each.is_symlink():  # a stored derived table
            each.unlink()
    write_marker(location, target)
    shutil.rmtree(location.at(LEDGER), ignore_errors=True)
    return found


def read_ledger(location: Location) -> dict[str, Any]:
    """Return the newest entry of the ledger, with the landed state of all."""
    empty: dict[str, Any] = {"files": [], "landed": {}, "transformed": {}, "queries": {}, "removed": []}
    entries = sorted(Path(location.at(LEDGER)).glob("[0-9]*.json"))
    if not entries:
        return empty
    path = entries[-1]
    try:
        found = {**empty, **json.loads(path.read_bytes())}
        names = [*found["landed"], *found["transformed"], *found["removed"]]
        names += [file[part] for file in found["files"] for part in ("staged", "final")]
        if found["version"] != 1:
            raise ValueError(f"version {found['version']}")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise LakeError(f"cannot read {path} ({error}); restore it from a backup") from None
    for name in names:
        if os.path.isabs(name) or not is_inside(location.path, location.at(name)):
            raise LakeError(f"{path} names {name!r}, which is outside of the lake; the entry is damaged or malicious")
    return found


def settle_files(
    location: Location, entry: dict[str, Any], landed: Mapping[tuple[str, str], LandedIntervals]
) -> set[str]:
    """Complete the newest commit. Unmark the parts of the log with missing files, and return all files of these parts."""
    gone: set[str] = set()
    parts: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for file in entry["files"]:
        staged, final = location.at(file["staged"]), location.at(file["final"])
        if os.path.exists(staged) and not os.path.exists(final):
            os.makedirs(os.path.dirname(final), exist_ok=True)
            os.rename(staged, final)
        parts.setdefault((file["table"], json.dumps(file["source"])), []).append(file)
    for (table, _), files in parts.items():
        if all(os.path.exists(location.at(file["final"])) for file in files):
            continue
        gone |= {location.at(file["final"]) for file in files}
        for part in files[0]["source"].get("pieces", []):
            landed[table, files[0]["source"]["log"]].remove(part)
    for name in entry["removed"]:
        Path(location.at(name)).unlink(missing_ok=True)
    return gone


def convert_table(lake: Lake, table: str, numbers: Mapping[str, int], missing: set[str]) -> int:
    """Make a table of the files in its folder, or add the progress to a Delta table. Return its number of rows."""
    location = lake.location
    existing = {file.path for file in lake.files(table)} if lake.format == "delta" else set()
    files = [file for file in folder_files(location, table) if file.path not in missing]
    if existing:
        # A Delta table names its files already, except those of a commit that was not completed.
        newest = {location.at(each["final"]) for each in read_ledger(location)["files"] if each["table"] == table}
        files = [file for file in files if file.path in newest - existing]
    added, schema = [], TABLES.get(table)
    for file in files:
        metadata = pq.read_metadata(file.path)
        own = metadata.schema.to_arrow_schema().remove_metadata()
        schema = own if schema is None else pa.unify_schemas([schema, own], promote_options="permissive")
        added.append(describe_file(location, table, file, metadata))

    def attempt(opened: TableFormat) -> None:
        if opened.number(SERIAL) is None:
            gone = [file for file in opened.files() if file.path in missing]
            commit_numbered(opened, added, gone, numbers, schema if schema is not None else opened.schema())

    lake.retry(table, attempt)
    return sum(file.rows or 0 for file in lake.files(table))


def describe_file(location: Location, table: str, file: SnapshotFile, metadata: pq.FileMetaData) -> DataFile:
    path = file.path.removeprefix(location.at(table)).strip("/")
    return DataFile(table, path, metadata.num_rows, file.size, file.day, {}, collect_statistics(metadata))


def export(lake: str | os.PathLike[str], target: str | os.PathLike[str], tables: Sequence[str] | None = None) -> int:
    """Copy the current files of a lake's tables to a folder of plain Parquet, for readers of such folders.

    Args:
        lake: Folder or address of the lake.
        target: Empty or missing folder, or address.
        tables: Names of the tables. Default: all.

    Returns:
        The number of files.

    Raises:
        LakeError: A table does not exist, or the target is not empty.
    """
    source, into = Lake(lake), Location(target)
    known = source.tables()
    wrong = [name for name in tables or () if name not in known]
    if wrong:
        raise LakeError(f"unknown table {wrong[0]!r} in {source.location.address}; expected one of {', '.join(known)}")
    import pyarrow.fs as pafs

    if into.filesystem.get_file_info(pafs.FileSelector(into.path, allow_not_found=True)):
        raise LakeError(f"{into.address} is not empty; export into a new folder")
    count = 0
    for table in tables or known:
        for file in read_snapshot(lake, table).files:
            name = os.path.basename(file.path)
            day = f"day={NO_DAY if file.day is None else file.day}"
            if into.is_local:
                os.makedirs(into.at(table, day), exist_ok=True)
            pafs.copy_files(
                file.path, into.at(table, day, name), source_filesystem=source.location.filesystem,
                destination_filesystem=into.filesystem,
            )  # fmt: skip
            count += 1
    return count
