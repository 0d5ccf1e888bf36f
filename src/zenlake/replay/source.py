# SPDX-License-Identifier: Apache-2.0
"""Samples of a recording in order of time: captures, logs and lakes.

A recording is read twice. The first pass reads only the times, which gives the duration and order. The second pass reads the rows
while they are published. A relative start or end needs one more pass. Ordered rows use memory for one record batch. DuckDB sorts
other rows, and moves data to disk that does not fit in memory. The rows of a lake are ordered by key. The rows of a log with
several writers, or by the senders' clocks, may be out of order.
"""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from zenlake.errors import InvalidValue
from zenlake.tables.duckdb_engine import import_duckdb
from zenlake.tables.nearest_key import explain_no_match
from zenlake.tables.paths import PATHS
from zenlake.tables.read import batches
from zenlake.tables.schemas import select_schema

__all__ = ["By", "TimeExtent", "Moment", "SampleSource", "SentBy"]

By = Literal["received", "timestamp"]
SentBy = Literal["opener", "acceptor", "all"]
Moment = datetime | timedelta  # a time, or the time since the start of the recording

ABOUT = ["received_ns", "timestamp", "direction", "request_id", "packet", "index"]
AT, PLACE = "replayed at", "replayed as"  # due time and position: not names of columns of `samples`
ROWS = 16384


@dataclass(frozen=True)
class TimeExtent:
    """Result of the first pass."""

    samples: int
    first: int
    last: int
    """Nanoseconds since 1970."""
    in_order: bool
    sent_by: SentBy

    @property
    def seconds(self) -> float:
        return (self.last - self.first) / 1e9


class SampleSource:
    """The selected samples of a recording."""

    def __init__(
        self,
        path: PATHS,
        keys: str | None,
        since: Moment | None,
        until: Moment | None,
        by: By,
        sent_by: SentBy | None,
    ) -> None:
        self._path = path
        self._keys = keys
        self._by = by
        self._since, self._until = self._bounds(since, until)
        self.extent = self._measure(sent_by)

    def read(self, columns: list[str]) -> Iterator[tuple[pa.RecordBatch, list[int], int]]:
        """Return rows with these columns, their due times (ns), and the number of unpublishable samples before them."""
        wanted = (batch.filter(self._publication_mask(batch)) for batch in self._batches([*columns, *ABOUT]))
        for batch in wanted if self.extent.in_order else self._sort_rows(wanted, [*columns, *ABOUT]):
            has_value = pc.or_(pc.is_valid(batch.column("payload")), pc.equal(batch.column("kind"), "del"))
            sendable = batch.filter(pc.and_(pc.is_valid(batch.column("key")), has_value))
            times = self._times(sendable).to_pylist()
            yield sendable.select(columns), times, batch.num_rows - sendable.num_rows

    def _measure(self, sent_by: SentBy | None) -> TimeExtent:
        """Read times and directions (first pass)."""
        found = {0: _Extremes(), 1: _Extremes(), None: _Extremes()}
        for batch in self._batches(["received_ns", "timestamp", "direction", "request_id"]):
            published = batch.filter(pc.is_null(batch.column("request_id")))
            times = self._times(published)
            directions = published.column("direction")
            for direction in (0, 1):
                found[direction].add(times.filter(pc.equal(directions, direction)))
            found[None].add(times)
        taken: SentBy = sent_by or ("opener" if found[0].samples else "acceptor")
        extremes = found[{"opener": 0, "acceptor": 1, "all": None}[taken]]
        if not extremes.samples:
            if self._keys is not None and not found[None].samples:
                raise InvalidValue(f"nothing to replay: {explain_no_match(self._path, 'samples', self._keys)}")
            raise InvalidValue("nothing to replay: no sample matches the keys, times and side")
        return TimeExtent(extremes.samples, extremes.first, extremes.last, extremes.in_order, taken)

    def _publication_mask(self, batch: pa.RecordBatch) -> pa.Array:
        published = pc.is_null(batch.column("request_id"))
        if self.extent.sent_by == "all":
            return published
        direction = 0 if self.extent.sent_by == "opener" else 1
        return pc.and_(published, pc.equal(batch.column("direction"), direction))

    def _times(self, batch: pa.RecordBatch) -> pa.Array:
        received = batch.column("received_ns")
        if self._by == "received":
            return received
        stamped = pc.multiply(batch.column("timestamp").cast(pa.int64()), 1000)
        return pc.coalesce(stamped, received)

    def _sort_rows(self, rows: Iterator[pa.RecordBatch], columns: list[str]) -> Iterator[pa.RecordBatch]:
        """Sort by time, then by position in the recording."""
        schema = select_schema("samples", columns)
        numbered = pa.schema([*schema, pa.field(AT, pa.int64()), pa.field(PLACE, pa.int64())])

        def number() -> Iterator[pa.RecordBatch]:
            count = 0
            for batch in rows:
                places = pa.array(range(count, count + batch.num_rows), pa.int64())
                count += batch.num_rows
                yield pa.RecordBatch.from_arrays([*batch.columns, self._times(batch), places], schema=numbered)

        with tempfile.TemporaryDirectory(prefix="zenlake-replay-") as spill, import_duckdb().connect() as engine:
            engine.execute("set TimeZone = 'UTC'")
            engine.execute("set temp_directory = ?", [spill])
            engine.register("unsorted", pa.RecordBatchReader.from_batches(numbered, number()))
            found = engine.sql(f'from unsorted order by "{AT}", packet, index, "{PLACE}"').to_arrow_reader(ROWS)
            for batch in found:
                yield batch.select(schema.names)

    def _batches(self, columns: list[str]) -> Iterator[pa.RecordBatch]:
        return batches(self._path, "samples", columns=columns, keys=self._keys, since=self._since, until=self._until)

    def _bounds(self, since: Moment | None, until: Moment | None) -> tuple[datetime | None, datetime | None]:
        """Resolve times relative to the start of the recording."""
        self._since = self._until = None
        beginning: datetime | None = None
        if isinstance(since, timedelta) or isinstance(until, timedelta):
            for batch in self._batches(["received"]):
                first: datetime = pc.min(batch.column("received")).as_py()
                beginning = first if beginning is None else min(beginning, first)

        def moment(given: Moment | None) -> datetime | None:
            if not isinstance(given, timedelta):
                return given
            return (beginning or datetime.fromtimestamp(0, UTC)) + given

        return moment(since), moment(until)


class _Extremes:
    """First and last time, and whether the times never decrease."""

    def __init__(self) -> None:
        self.samples = 0
        self.first = self.last = 0
        self.in_order = True

    def add(self, times: pa.Array) -> None:
        if not len(times):
            return
        bounds = pc.min_max(times).as_py()
        self.in_order &= not self.samples or times[0].as_py() >= self.last
        self.in_order &= not pc.any(pc.less(times.slice(1), times.slice(0, len(times) - 1))).as_py()
        self.first = bounds["min"] if not self.samples else min(self.first, bounds["min"])
        self.last = bounds["max"] if not self.samples else max(self.last, bounds["max"])
        self.samples += len(times)
