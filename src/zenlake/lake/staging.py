# SPDX-License-Identifier: Apache-2.0
"""Staging by tasks: decode a part of a log and write it as Parquet into the staging folder.

Rows are buffered up to a row group, sorted by key (rows of equal keys stay in received order), and written. A task therefore
needs memory for one row group per table and for the current block, however much it lands.
"""

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zenlake.errors import LakeError
from zenlake.lake.landed_intervals import Piece
from zenlake.lake.layout import DAY, STAGING, LandingBatch, Staged, fault_point
from zenlake.lake.ledger import Ledger
from zenlake.log.reader import BlockRange, Log
from zenlake.tables.schemas import TABLES, decode_ranges

__all__ = ["ROW_GROUP", "SOURCE", "File", "cluster_rows", "stage", "stage_rows"]

SOURCE = b"zenlake.source"  # in a file's metadata: the part of the log with its rows

ROW_GROUP = 64 << 20  # bytes in memory, of one table
MAX_ROWS = 1 << 20
MAX_BYTES = 1 << 30  # a column chunk must have less than 2 GB, and one batch of large messages may be large alone
NO_DAY = "__HIVE_DEFAULT_PARTITION__"  # name that Spark and Hive give to the folder of rows without a value
DAY_NS = 86_400 * 1_000_000_000

Decode = Callable[[Log, Sequence[BlockRange], Mapping[str, Sequence[str] | None]], Iterator[tuple[str, pa.RecordBatch]]]


def stage(
    lake: str | os.PathLike[str], log: Log, wanted: Sequence[Piece], tables: Iterable[str], batch: LandingBatch, task: str,
    refuse: bool = False, decode: Decode = decode_ranges,
) -> list[Staged]:  # fmt: skip
    """Decode the pieces and write each table's rows as one file per day.

    Landed parts are skipped, or with `refuse` are an error.
    """
    before = Ledger(Path(lake)).last()
    is_repeated = before.queries.get(batch.query, -1) >= batch.number
    missing: dict[tuple[Piece, ...], list[str]] = {}
    for table in tables:
        left = tuple(before.coverage(table).missing(log.id, wanted))
        if refuse and not is_repeated and left != tuple(wanted):
            raise LakeError(
                f"{os.fspath(lake)}/{table} has rows of this part of the log already: another query landed them"
            )
        if left:
            missing.setdefault(left, []).append(table)
    found: list[Staged] = []
    for i, (left, names) in enumerate(missing.items()):
        source = {"log": log.id, "pieces": [piece.plain() for piece in left]}
        ranges = [piece.range for piece in left if piece.range.last > piece.range.first]
        rows = decode(log, ranges, dict.fromkeys(names))
        found += write(Path(lake), rows, {name: TABLES[name] for name in names}, batch, f"{task}-{i}", source)
    return found


def stage_rows(
    lake: str | os.PathLike[str],
    table: str,
    rows: Iterable[pa.RecordBatch],
    schema: pa.Schema,
    batch: LandingBatch,
    task: str,
) -> list[Staged]:
    """Write transformed rows."""
    return write(Path(lake), ((table, each) for each in rows), {table: schema}, batch, task, {})


def write(
    lake: Path, rows: Iterable[tuple[str, pa.RecordBatch]], schemas: Mapping[str, pa.Schema], batch: LandingBatch, task: str,
    source: Mapping[str, Any],
) -> list[Staged]:  # fmt: skip
    """Write rows of several tables as files.

    A table without rows gets a record without a file, so that its pieces are marked as landed too.
    """
    folder = Path(STAGING) / batch.query
    (lake / folder).mkdir(parents=True, exist_ok=True)
    attempt = uuid.uuid4().hex[:12]  # two attempts of a task may run at the same time
    files: dict[tuple[str, str], File] = {}
    try:
        for table, each in rows:
            for day, part in by_day(each):
                file = files.get((table, day))
                if file is None:
                    name = f"{batch.query}-{batch.number}-{task}-{table}"
                    path = lake / folder / f"{name}-{day}-{attempt}.parquet"
                    file = files[table, day] = File(path, schemas[table], source, f"{table}/{DAY}={day}/{name}.parquet")
                file.add(part)
                fault_point("write")
        found = [file.finish(lake, table, day, source) for (table, day), file in files.items()]
    except BaseException:
        for file in files.values():
            file.discard()
        raise
    with_rows = {table for table, _ in files}
    found += [Staged(table, "", "", "", 0, 0, source) for table in schemas if table not in with_rows]
    fault_point("staged")
    return found


class File:
    """One Parquet file that is being written."""

    def __init__(self, path: Path, schema: pa.Schema, source: Mapping[str, Any], final: str) -> None:
        self.path = path
        self.final = final
        metadata = {**(schema.metadata or {}), SOURCE: json.dumps(dict(source)).encode()}
        self.schema = schema.with_metadata(metadata)
        self.rows = 0
        self.since: int | None = None
        self.until = 0
        text = [field.name for field in schema if not pa.types.is_binary(field.type)]
        # Payloads are rarely repeated, and their minimum and maximum are of no use.
        self._writer = pq.ParquetWriter(
            path, self.schema, compression="zstd", use_dictionary=text, write_statistics=text
        )
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
        table = pa.Table.from_batches(self._held, schema=self._held[0].schema).replace_schema_metadata(
            self.schema.metadata
        )
        self._record_times(table)
        self._held.clear()
        self.rows += table.num_rows
        self._writer.write_table(cluster_rows(table).cast(self.schema), row_group_size=MAX_ROWS)
        self._size = self._count = 0

    def _record_times(self, table: pa.Table) -> None:
        if "received_ns" in table.column_names:
            times = pc.min_max(table["received_ns"]).as_py()
            if times["min"] is not None:
                self.since = times["min"] if self.since is None else min(self.since, times["min"])
                self.until = max(self.until, times["max"])

    def finish(self, lake: Path, table: str, day: str, source: Mapping[str, Any]) -> Staged:
        self.flush()
        self._writer.close()
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        size = self.path.stat().st_size
        staged = self.path.relative_to(lake).as_posix()
        return Staged(table, day, staged, self.final, self.rows, size, source, self.since or 0, self.until)

    def discard(self) -> None:
        self._writer.close()
        self.path.unlink(missing_ok=True)


def cluster_rows(table: pa.Table) -> pa.Table:
    """Sort rows by key.

    Performance: rows are sorted by the rank of the key among the distinct keys, which takes a third of the time of sorting by
    text. Columns are taken one by one: `Table.take` of columns in several chunks takes three times as long. A column with only
    nulls needs no sorting.
    """
    if "key" not in table.column_names or table.num_rows < 2:
        return table
    encoded = pc.dictionary_encode(_whole(table["key"]))
    if len(encoded.dictionary) < 2 and encoded.null_count == 0:
        return table
    places = pc.rank(encoded.dictionary, tiebreaker="first")
    order = pc.sort_indices(places.take(encoded.indices))
    columns = [
        column if column.null_count == table.num_rows else _whole(column).take(order) for column in table.columns
    ]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def by_day(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Split rows by day of received time, in UTC."""
    if rows.num_rows == 0:
        return
    if "received" not in rows.schema.names:
        yield NO_DAY, rows
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
            yield NO_DAY, rows.filter(pc.is_null(days))


def day_of(us: int) -> str:
    return datetime.fromtimestamp(us // 1_000_000, UTC).date().isoformat()
