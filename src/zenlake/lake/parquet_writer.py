# SPDX-License-Identifier: Apache-2.0
"""Parquet files of a lake, written by tasks under their final, unique names.

Rows are buffered up to a row group, sorted by key (rows of equal keys stay in received order), and written. A task therefore
needs memory for one row group per table and for the current block, however much it lands. A file belongs to a table when a
commit names it. Files of failed tasks are orphans, which `TableFormat.remove_orphans` removes.
"""

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zenlake.lake.landed_intervals import Piece
from zenlake.lake.layout import DAY, NO_DAY, DataFile, LandingBatch, fault_point
from zenlake.log.reader import BlockRange, Log
from zenlake.tables.lake_location import Location
from zenlake.tables.schemas import TABLES, decode_ranges

__all__ = ["ROW_GROUP", "TARGET", "ParquetFile", "cluster_rows", "write_parts", "write_rows"]

TARGET = 256 << 20  # bytes of a file; `compact` merges files of less than half this size
ROW_GROUP = 64 << 20  # bytes in memory, for each table
MAX_ROWS = 1 << 20
MAX_BYTES = 1 << 30  # a column chunk must have less than 2 GB, and a single batch of large messages may be large
PAGE_ROWS = 4096  # rows of a page: the unit that a reader of one key skips
MAX_TEXT = 64  # characters of a text in the statistics of a commit
DAY_NS = 86_400 * 1_000_000_000

Decode = Callable[[Log, Sequence[BlockRange], Mapping[str, Sequence[str] | None]], Iterator[tuple[str, pa.RecordBatch]]]


def write_parts(
    lake: Location, log: Log, groups: Iterable[tuple[Sequence[Piece], Sequence[str]]], batch: LandingBatch, task: str,
    decode: Decode = decode_ranges,
) -> list[DataFile]:  # fmt: skip
    """Decode parts of a log, and write one file for each table and day.

    Args:
        lake: Location of the lake.
        log: The log.
        groups: Pieces of the log, each with the tables that lack them.
        batch: The landing, for the names of the files.
        task: Name of the task.
        decode: Decoder of block ranges.

    Returns:
        The files. A table without rows gets a record without a file, so that its pieces are marked as landed too.
    """
    found: list[DataFile] = []
    for pieces, names in groups:
        source = {"log": log.id, "pieces": [piece.plain() for piece in pieces]}
        ranges = [piece.range for piece in pieces if piece.range.last > piece.range.first]
        rows = decode(log, ranges, dict.fromkeys(names))
        found += write_rows(lake, rows, {name: TABLES[name] for name in names}, batch, task, source)
    return found


def write_rows(
    lake: Location, rows: Iterable[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema], batch: LandingBatch,
    task: str, source: Mapping[str, Any] | None = None, partitioned: bool = True, target: int = TARGET,
) -> list[DataFile]:  # fmt: skip
    """Write rows of several tables, each batch with the name of its table.

    Args:
        lake: Location of the lake.
        rows: Batches of rows.
        schemas: Columns of the tables. Default of a table: those of its first batch.
        batch: The landing, for the names of the files.
        task: Name of the task.
        source: Part of the log in the files.
        partitioned: Whether each day has files of its own.
        target: Size in bytes at which another file is begun.
    """
    files: dict[tuple[str, str | None], ParquetFile] = {}
    found: list[DataFile] = []
    try:
        for table, each in rows:
            for day, part in split_by_day(each) if partitioned else [(None, each)]:
                file = files.get((table, day))
                if file is None:
                    name = f"{batch.query}-{batch.number}-{task}"
                    schema = schemas.get(table, part.schema)
                    file = ParquetFile(lake, table, schema, name, day, source or {}, partitioned)
                    files[table, day] = file
                file.add(part)
                fault_point("write")
                if file.size() >= target:
                    found.append(files.pop((table, day)).finish())
        found += [file.finish() for file in files.values()]
    except BaseException:
        for file in files.values():
            file.discard()
        raise
    with_rows = {file.table for file in found}
    if source:
        found += [DataFile(table, "", 0, 0, None, source) for table in schemas if table not in with_rows]
    fault_point("written")
    return found


class ParquetFile:
    """One Parquet file that is being written. `day` is None for rows without a received time."""

    def __init__(
        self, lake: Location, table: str, schema: pa.Schema, name: str, day: str | None, source: Mapping[str, Any],
        partitioned: bool = True,
    ) -> None:  # fmt: skip
        # The name is unique: two attempts of a task may run at the same time.
        file = f"{name}-{uuid.uuid4().hex[:12]}.parquet"
        self.path = f"{DAY}={NO_DAY if day is None else day}/{file}" if partitioned else file
        self.lake, self.table, self.day, self.source = lake, table, day, source
        # A reader has the comments of columns from Zenlake; here they would take most of a small file.
        self.schema = pa.schema([field.remove_metadata() for field in schema])
        self._at = lake.at(table, self.path)
        self._metadata: list[pq.FileMetaData] = []
        if lake.is_local:
            os.makedirs(os.path.dirname(self._at), exist_ok=True)
        text = [field.name for field in schema if not pa.types.is_binary(field.type)]
        # Payloads are rarely repeated, and their minimum and maximum are of no use.
        self._file = lake.filesystem.open_output_stream(self._at)
        self._writer = pq.ParquetWriter(
            self._file, self.schema, compression="zstd", use_dictionary=text, write_statistics=text, store_schema=False,
            write_page_index=True, max_rows_per_page=PAGE_ROWS, metadata_collector=self._metadata,
        )  # fmt: skip
        self._held: list[pa.RecordBatch] = []
        self._size = self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        size = rows.nbytes
        if self._size + size > MAX_BYTES:
            self.flush()
        self._held.append(rows)
        self._size += size
        self._count += rows.num_rows
        if self._size >= ROW_GROUP or self._count >= MAX_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        table = pa.Table.from_batches(self._held, schema=self._held[0].schema).replace_schema_metadata()
        self._held.clear()
        self._writer.write_table(cluster_rows(table).cast(self.schema), row_group_size=MAX_ROWS)
        self._size = self._count = 0

    def size(self) -> int:
        """Return the bytes of the row groups that are written."""
        return int(self._file.tell())

    def finish(self) -> DataFile:
        """Close the file durably, and describe it."""
        self.flush()
        self._writer.close()
        self._file.close()
        [metadata] = self._metadata
        if self.lake.is_local:
            sync(self._at)
        size = self.lake.filesystem.get_file_info(self._at).size
        return DataFile(
            self.table, self.path, metadata.num_rows, size, self.day, self.source, collect_statistics(metadata)
        )

    def discard(self) -> None:
        """Remove the file. If that fails too, it is an orphan."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
            self._file.close()
            self.lake.filesystem.delete_file(self._at)


def sync(path: str) -> None:
    for each in (path, os.path.dirname(path)):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def collect_statistics(metadata: pq.FileMetaData) -> dict[str, dict[str, Any]]:
    """Return minima, maxima and null counts of the columns, in the form of a Delta add action.

    Nested columns and long texts are omitted.
    """
    found: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for i in range(metadata.num_columns):
        name = metadata.schema.column(i).path
        groups = [metadata.row_group(j).column(i).statistics for j in range(metadata.num_row_groups)]
        if "." in name or not groups or any(each is None or not each.has_null_count for each in groups):
            continue
        found["nullCount"][name] = sum(each.null_count for each in groups)
        held = [each for each in groups if each.num_values]
        if held and all(each.has_min_max for each in held):
            kind = metadata.schema.column(i).logical_type
            raw = min(e.min_raw for e in held), max(e.max_raw for e in held)
            bounds = [plain_value(value, kind.type, kind.to_json()) for value in raw]
            if None not in bounds:
                found["minValues"][name], found["maxValues"][name] = bounds
    return found


def plain_value(value: Any, kind: str, about: str) -> Any:
    """Return a physical value of Parquet as Delta's statistics contain it, or None.

    Performance: pyarrow would import pandas to convert a time.
    """
    if kind == "TIMESTAMP":
        if "microseconds" not in about:
            return None
        return (datetime(1970, 1, 1) + timedelta(microseconds=value)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if kind == "DATE":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind == "STRING":
        text = value.decode(errors="replace") if isinstance(value, bytes) else value
        return text if len(text) <= MAX_TEXT else None
    if kind in ("INT", "NONE") and isinstance(value, bool | int | float) and value == value:
        return value
    return None


def cluster_rows(table: pa.Table) -> pa.Table:
    """Sort rows by key.

    Performance: rows are sorted by the rank of the key among the distinct keys. This takes a third of the time of a sort by text.
    Columns are taken one by one, because `Table.take` of columns in several chunks takes three times as long. A column with only
    nulls needs no sort.
    """
    if "key" not in table.column_names or table.num_rows < 2:
        return table
    encoded = pc.dictionary_encode(_combine_chunks(table["key"]))
    if len(encoded.dictionary) < 2 and encoded.null_count == 0:
        return table
    places = pc.rank(encoded.dictionary, tiebreaker="first")
    order = pc.sort_indices(places.take(encoded.indices))
    columns = [
        column if column.null_count == table.num_rows else _combine_chunks(column).take(order)
        for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _combine_chunks(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def split_by_day(rows: pa.RecordBatch) -> Iterator[tuple[str | None, pa.RecordBatch]]:
    """Split rows by day of received time, in UTC."""
    if rows.num_rows == 0:
        return
    if "received" not in rows.schema.names:
        yield None, rows
        return
    received = rows.column("received")
    times = pc.min_max(received.cast(pa.int64())).as_py()
    if received.null_count == 0 and times["min"] // (DAY_NS // 1000) == times["max"] // (DAY_NS // 1000):
        yield day_of(times["min"]), rows
        return
    days = pc.cast(received, pa.date32())
    for day in pc.unique(days):
        if day.is_valid:
            yield day.as_py().isoformat(), rows.filter(pc.equal(days, day))
        else:
            yield None, rows.filter(pc.is_null(days))


def day_of(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, UTC).date().isoformat()
