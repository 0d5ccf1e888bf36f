# SPDX-License-Identifier: Apache-2.0
"""Lake: its tables, and exactly-once commits of batches.

Each table has its own commit log, of Delta or Iceberg. A commit adds the files of a batch and the landed intervals of the log in
one transaction. If another driver committed first, the intervals are read again, and rows that it has landed are omitted. A
repeated commit after a crash or a lost response of the store skips committed rows in the same way.
"""

import json
import logging
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from zenlake.errors import InvalidValue, LakeError
from zenlake.lake.landed_intervals import LandedIntervals, Piece
from zenlake.lake.layout import FORMATS, DataFile, LandingBatch, fault_point
from zenlake.lake.table_format import SERIAL, NotCommitted, TableFormat
from zenlake.log.disk import Disk
from zenlake.log.reader import Log
from zenlake.tables.lake_location import MARKER, VERSION, Location, first_line, read_marker
from zenlake.tables.lake_reader import SnapshotFile, catalog_file, open_catalog
from zenlake.tables.schemas import TABLES

__all__ = ["Lake"]

logger = logging.getLogger("zenlake.lake")

TURNS = 30  # attempts of one commit; one fails if another driver committed first, or if the store fails
PAUSE = 0.05  # seconds before the second attempt; doubled up to MAX_PAUSE
MAX_PAUSE = 5.0

Restage = Callable[[str, list[list[Any]]], list[DataFile]]  # of a table; pieces in the form of `Piece.plain`


class Lake:
    """A lake of one format.

    Args:
        path: Local folder, or address such as `s3://bucket/lake`.
        create: Format of a missing lake, which is then created.
        catalog: Configured Iceberg catalog of a lake that is created.

    Raises:
        LakeError: The path is not a lake, has another format, or is from an earlier version.
    """

    def __init__(self, path: str | os.PathLike[str], create: str | None = None, catalog: str | None = None) -> None:
        self.location = Location(path)
        about = read_marker(self.location)
        if create is not None:
            check_format(create, self.location)
        if about is None and create is not None:
            about = self._create(create, catalog)
        if about is None:
            raise LakeError(f"{self.location.address} is not a lake: it has no {MARKER}")
        if about["version"] < VERSION:
            raise LakeError(
                f"{self.location.address} is a lake of an earlier version; convert it: zenlake lake convert {self.location.address}"
            )
        self.about: dict[str, Any] = about
        self.format: str = about["format"]
        if create is not None and create != self.format:
            raise LakeError(
                f"{self.location.address} is a lake of format {self.format}; land into it with that format, or into another folder"
            )
        if catalog is not None and catalog != about.get("catalog"):
            raise LakeError(
                f"{self.location.address} is in the catalog {self.catalog}, not {catalog}; leave out the catalog, or land into "
                "another folder"
            )

    def _create(self, format: str, catalog: str | None) -> dict[str, Any]:
        from zenlake.lake.store_check import check_conditional_writes

        if not self.location.is_local:
            check_conditional_writes(self.location)
        about = describe_lake(self.location, format, catalog)
        if format == "iceberg":
            open_catalog(self.location, about)  # a lake stays in its catalog, so a wrong name must not create it
        write_marker(self.location, about)
        return about

    @property
    def catalog(self) -> str | None:
        """Return the configured catalog of an Iceberg lake, or the SQLite file that is its catalog."""
        if self.format != "iceberg":
            return None
        return self.about.get("catalog") or str(catalog_file(self.location, self.about))

    def table(self, name: str) -> TableFormat:
        """Open a table at its newest version."""
        if self.format == "iceberg":
            from zenlake.lake.iceberg_format import IcebergFormat

            return IcebergFormat(self.location, name, self.about)
        from zenlake.lake.delta_format import DeltaFormat

        return DeltaFormat(self.location, name)

    def tables(self) -> list[str]:
        """Return the names of the decoded tables that were landed."""
        return [name for name in sorted(TABLES) if self.table(name).exists]

    def files(self, table: str) -> list[SnapshotFile]:
        """Return the current files of a table."""
        return self.table(table).files()

    def totals(self) -> dict[str, dict[str, Any]]:
        """Return the days, files, rows and bytes of each table."""
        found = {}
        for name in self.tables():
            files = self.files(name)
            days = list(count_days(files))
            found[name] = {
                "days": len(days),
                "since": days[0] if days else None,
                "until": days[-1] if days else None,
                "files": len(files),
                "rows": sum(file.rows or 0 for file in files),
                "bytes": sum(file.size for file in files),
            }
        return found

    def landed_intervals(self, table: str, log: str, writers: Iterable[str]) -> LandedIntervals:
        """Return the landed intervals of some writers of a log."""
        return LandedIntervals.from_numbers(self.table(table).number, log, writers)

    def plan(self, log: Log, pieces: Sequence[Piece], tables: Iterable[str]) -> list[tuple[list[Piece], list[str]]]:
        """Return the parts of these pieces that are not landed, each with the tables that lack it."""
        missing: dict[tuple[Piece, ...], list[str]] = {}
        for table in tables:
            writers = {piece.writer for piece in pieces}
            left = tuple(self.landed_intervals(table, log.id, writers).find_missing(pieces))
            if left:
                missing.setdefault(left, []).append(table)
        return [(list(left), names) for left, names in missing.items()]

    def commit(
        self, files: Iterable[DataFile], batch: LandingBatch, restage: Restage | None = None, refuse: bool = False
    ) -> int:
        """Land these files and return their number of rows. A batch that is already landed is not landed again.

        Args:
            files: Files that tasks have written.
            batch: The query and batch number, which identify a retry.
            restage: Callback that writes the remaining rows again if another query has landed part of them in the meantime.
            refuse: Treat that case as an error instead.

        Raises:
            LakeError: A file is missing, a column has another type, or the store refuses the commit.
        """
        by_table: dict[str, list[DataFile]] = {}
        for file in files:
            by_table.setdefault(file.table, []).append(file)
        self._verify(file for group in by_table.values() for file in group if file.path)
        return sum(self._commit(table, group, batch, restage, refuse) for table, group in by_table.items())

    def _commit(
        self, table: str, files: list[DataFile], batch: LandingBatch, restage: Restage | None, refuse: bool
    ) -> int:
        query = f"query/{batch.query}"
        groups = list(group_by_source(files).values())

        def attempt(opened: TableFormat) -> int:
            known = opened.number(query)
            if known is not None and known >= batch.number:
                return 0  # a retry
            numbers = {query: batch.number}
            if files[0].source:
                numbers |= self._claim(opened, table, files[0].source["log"], groups, restage, refuse)
            else:
                numbers |= self._check_ownership(opened, table, known is not None)
            added = [file for group in groups for file in group if file.path]
            schema = TABLES[table] if files[0].source else None
            if schema is None:
                schema = self._read_schema(added[0]) if added else opened.schema()
            fault_point("commit")
            commit_numbered(opened, added, [], numbers, schema)
            fault_point("committed")
            return sum(file.rows for file in added)

        rows: int = self.retry(table, attempt)
        return rows

    def retry(self, table: str, attempt: "Callable[[TableFormat], Any]") -> Any:
        """Run a transaction until it is committed. Each attempt opens the table again and decides again."""
        for turn in range(TURNS):
            if turn:
                time.sleep(random.uniform(0.5, 1.0) * min(PAUSE * 2 ** min(turn, 10), MAX_PAUSE))
            try:
                return attempt(self.table(table))
            except NotCommitted as error:
                logger.info("%s/%s: %s; reading its progress again", self.location.address, table, error)
                last = error
        raise LakeError(
            f"{self.location.uri(table)} was not committed in {TURNS} attempts: {first_line(last)}. The table is unchanged; "
            "run the landing again"
        )

    def replace(
        self, table: str, made: Sequence[DataFile], choose: Callable[[TableFormat], Sequence[SnapshotFile]],
        schema: pa.Schema | None, numbers: Mapping[str, int], is_change: bool = True,
    ) -> None:  # fmt: skip
        """Replace files of a table in one transaction.

        Args:
            table: Name of the table.
            made: The new files.
            choose: Function that returns the replaced files. It may refuse with a LakeError.
            schema: Columns of the new files. Default: those of the first one.
            numbers: Numbers to set.
            is_change: Whether the rows of the table change.
        """

        def attempt(opened: TableFormat) -> None:
            if made and any(file.path == self.location.at(table, made[0].path) for file in opened.files()):
                return  # committed, although the store did not confirm it
            old = choose(opened)
            if not made and not opened.exists:
                return
            columns = schema or (self._read_schema(made[0]) if made else opened.schema())
            fault_point("commit")
            commit_numbered(opened, made, old, numbers, columns, is_change)
            fault_point("committed")

        self.retry(table, attempt)

    def _claim(
        self, opened: TableFormat, table: str, log: str, groups: list[list[DataFile]], restage: Restage | None,
        refuse: bool,
    ) -> dict[str, int]:  # fmt: skip
        """Return the numbers that mark the parts of these files as landed.

        Groups with landed rows are replaced, in place. No group remains if other queries have landed all of them.
        """
        if opened.number("transformed") is not None:
            raise LakeError(f"{self.location.uri(table)} has transformed rows of another query; choose another folder")
        writers = {part[0] for group in groups for part in group[0].source["pieces"]}
        landed = LandedIntervals.from_numbers(opened.number, log, writers)
        for group in list(groups):
            parts = group[0].source["pieces"]
            if any(map(landed.overlaps, parts)):
                if refuse or restage is None:
                    raise LakeError(
                        f"{self.location.uri(table)} has rows of this part of the log already: another query has landed them"
                    )
                groups.remove(group)
                again = list(group_by_source(restage(table, parts)).values())
                groups += again
                parts = [part for each in again for part in each[0].source["pieces"]]
                if any(map(landed.overlaps, parts)):
                    raise NotCommitted("another query has landed more in the meantime")
            for part in parts:
                landed.add(part)
        return {"decoded": 1, **landed.numbers()}

    def _check_ownership(self, opened: TableFormat, table: str, mine: bool) -> dict[str, int]:
        """Check that a table of transformed rows belongs to this query."""
        if opened.exists and not mine and opened.number(SERIAL) is not None:
            other = "decoded rows" if opened.number("decoded") is not None else "rows of another query"
            raise LakeError(
                f"{self.location.uri(table)} has {other}; rows that a second query repeats cannot be detected: "
                "choose another folder"
            )
        return {"transformed": 1}

    def _read_schema(self, file: DataFile) -> pa.Schema:
        schema = pq.read_schema(self.location.at(file.table, file.path), filesystem=self.location.filesystem)
        return schema.remove_metadata()

    def _verify(self, files: Iterable[DataFile]) -> None:
        """Reject local files that the driver does not see as the task has described them. Nothing is committed then."""
        for file in files if self.location.is_local else ():
            path = self.location.at(file.table, file.path)
            info = self.location.filesystem.get_file_info(path)
            if info.type == pafs.FileType.File and info.size == file.size:
                continue
            problem = (
                "is missing" if info.type == pafs.FileType.NotFound else f"has {info.size} bytes, not {file.size},"
            )
            raise LakeError(
                f"{path} was written by a task, and {problem} for the driver. The batch is not landed and the lake is "
                "unchanged. Driver and workers need one file system: mount the lake under the same path on each, or use "
                "an object store, and run the query again"
            )


def commit_numbered(
    opened: TableFormat, add: Sequence[DataFile], remove: Sequence[SnapshotFile], numbers: Mapping[str, int],
    schema: pa.Schema, is_change: bool = True,
) -> None:  # fmt: skip
    """Commit with the next serial number, so that two commits of Zenlake on one version conflict."""
    serial = (opened.number(SERIAL) or 0) + 1
    opened.commit(add, remove, {SERIAL: serial, **numbers}, schema, is_change)


def group_by_source(files: Iterable[DataFile]) -> dict[str, list[DataFile]]:
    """Group the files of a table by part of the log: files of several days from the same pieces."""
    found: dict[str, list[DataFile]] = {}
    for file in files:
        found.setdefault(json.dumps(file.source), []).append(file)
    return found


def count_days(files: Iterable[SnapshotFile]) -> dict[str, int]:
    """Return the number of rows of each day."""
    found: dict[str, int] = {}
    for file in files:
        if file.day is not None:
            found[file.day] = found.get(file.day, 0) + (file.rows or 0)
    return dict(sorted(found.items()))


def describe_lake(location: Location, format: str, catalog: str | None) -> dict[str, Any]:
    """Return the content of the marker of a new lake."""
    about: dict[str, Any] = {"version": VERSION, "format": format}
    if format == "iceberg":
        name = re.sub(r"[^A-Za-z0-9_]", "_", location.path.rstrip("/").rpartition("/")[2]) or "lake"
        about |= {"catalog": catalog, "namespace": name}
        if catalog is None and not location.is_local:
            about["catalog_file"] = str(location.state / "catalog.db")
    elif catalog is not None:
        raise InvalidValue("a catalog is of format iceberg; leave it out, or create the lake with that format")
    return about


def check_format(format: str, location: Location) -> None:
    if format == "parquet":
        raise LakeError(
            "plain Parquet has no transactions, so it is not a format of `land`; use delta or iceberg (an existing lake: "
            f"zenlake lake convert {location.address}), or write Parquet from a lake: zenlake lake export"
        )
    if format not in FORMATS:
        raise LakeError(f"invalid lake format {format!r}; expected {' or '.join(FORMATS)}")


def write_marker(location: Location, about: Mapping[str, Any]) -> None:
    data = json.dumps(about).encode()
    try:
        if location.is_local:
            os.makedirs(location.path, exist_ok=True)
            Disk().replace(Path(location.at(MARKER)), data)
            return
        with location.filesystem.open_output_stream(location.at(MARKER)) as file:
            file.write(data)
    except (pa.ArrowException, OSError) as error:
        raise LakeError(f"cannot write {location.uri(MARKER)}: {first_line(error)}") from None
