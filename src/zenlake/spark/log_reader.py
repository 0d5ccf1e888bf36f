# SPDX-License-Identifier: Apache-2.0
"""Batch reader of a log: block ranges on the driver, rows in tasks."""

import logging
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceReader, InputPartition

from zenlake.errors import LogError
from zenlake.log import BlockRange, Log, is_log
from zenlake.spark.filter_pushdown import time_bounds
from zenlake.spark.multi_table_scan import join_tables
from zenlake.spark.offsets import of, plan_range, refuse_unknown
from zenlake.spark.source_base import PushdownMixin
from zenlake.tables.read import Choice
from zenlake.tables.schemas import decode_ranges

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

    from zenlake.spark.log_source import LogOptions

__all__ = ["LogReader", "LogPushdownReader", "open_log", "rows", "plan_shares"]

logger = logging.getLogger("zenlake.spark")

PARTITION = 16 << 20  # bytes of a log that one task reads, by default
LOSSES = ("gap", "lost", "log lost", "log torn", "log cut", "log removed", "log retired")
LANE = ("session", "generation", "direction", "priority", "reliable")


class LogReader(DataSourceReader):  # PySpark is not checked
    """Reader of a log at the time of planning."""

    def __init__(self, settings: "LogOptions") -> None:
        self.settings = settings

    def partitions(self) -> list[InputPartition]:
        settings, log = self.settings, Log(self.settings.path)
        start = log.earliest()
        if settings.starting == "latest":
            start = log.latest()
        elif isinstance(settings.starting, dict):
            start = of(log, settings.starting)
            refuse_unknown(log, start)
        end = log.latest()
        if isinstance(settings.ending, dict):
            end_offsets = of(log, settings.ending)
            refuse_unknown(log, end_offsets)
            end = {**end, **end_offsets}
        since, until = (None if time is None else ns(time) for time in (settings.since, settings.until))
        blocks = plan_range(log, start, end, settings.fail_on_data_loss, since, until)
        return [InputPartition(share) for share in plan_shares(blocks, settings.min_partitions, PARTITION)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows(self.settings, partition.value or ())


class LogPushdownReader(PushdownMixin, LogReader):
    """Reader that applies Spark's filters."""

    def add_filter(self, filter_: "Filter") -> None:
        """Skip whole blocks outside a bound on the received time."""
        after, before = time_bounds(filter_)
        since, until = self.settings.since, self.settings.until
        if after is not None:
            since = after if since is None else max(since, after)
        if before is not None and isinstance(filter_, datasource.LessThan):  # the end is exclusive
            until = before if until is None else min(until, before)
        self.settings = replace(self.settings, since=since, until=until)


def plan_shares(blocks: Sequence[BlockRange], least: int, most: int) -> list[tuple[BlockRange, ...]]:
    """Split blocks into tasks, in order: `least` shares of similar size, or a multiple if they would exceed `most`.

    An idle core waits for other tasks, and a small share makes a small file. Consecutive blocks of a segment form one range.
    """
    whole = sum(block.size for block in blocks)
    count = least * max(-(-whole // (least * most)), 1)
    found: dict[int, list[BlockRange]] = {}
    before = 0
    for block in blocks:
        share = found.setdefault((2 * before + block.size) * count // (2 * whole), [])  # the offset of its middle
        before += block.size
        last = share[-1] if share else None
        if last is not None and (last.writer, last.segment, last.last) == (block.writer, block.segment, block.first):
            share[-1] = replace(
                last, last=block.last, size=last.size + block.size, rows=last.rows + block.rows,
                since=min(last.since, block.since), until=max(last.until, block.until),
            )  # fmt: skip
        else:
            share.append(block)
    return [tuple(share) for share in found.values()]


def open_log(path: str) -> Log:
    """Open the log in a task, which may run on another machine."""
    if not is_log(path):
        raise LogError(
            f"zenoh: {path} is not a log on the executor {socket.gethostname()}; use a path that the driver and all executors see"
        )
    return Log(path)


def rows(settings: "LogOptions", ranges: Sequence[BlockRange]) -> Iterator[pa.RecordBatch]:
    """Return the rows of blocks, with Spark's schema without metadata."""
    log = open_log(settings.path)
    if settings.fail_on_gap:
        refuse_gaps(log, ranges)
    if settings.needs:
        yield from join_tables(decode_share(log, ranges, settings.needs, settings.fail_on_data_loss), settings.needs)
        return
    columns = settings.columns or []
    choice = Choice(settings.keys, settings.since, settings.until)
    needed = columns + [name for name in choice.needs if name not in columns]
    found = decode_share(log, ranges, {settings.table: needed}, settings.fail_on_data_loss)
    for batch in choice.rows(batch for _, batch in found):
        batch = batch.select(columns)
        yield pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema.remove_metadata())


def decode_share(
    log: Log, ranges: Sequence[BlockRange], tables: Mapping[str, Sequence[str] | None], fail_on_data_loss: bool
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Return the rows of blocks, without rows that depend on missing or damaged blocks, if that is allowed."""
    if fail_on_data_loss:
        try:
            yield from decode_ranges(log, ranges, tables)
        except LogError as error:
            raise LogError(f"zenoh: {error}; failOnDataLoss=false skips the rest of that segment") from None
        return
    for part in ranges:
        try:
            yield from decode_ranges(log, filter_readable(log, part), tables)
        except (LogError, OSError) as error:
            logger.warning("zenoh: %s/%d: %s; skipped, as failOnDataLoss is false", part.writer, part.segment, error)


def filter_readable(log: Log, part: BlockRange) -> list[BlockRange]:
    """Return the blocks before the first missing or damaged one. Later blocks of the segment depend on it."""
    segment = log.segment(part)
    block = part.first
    try:
        for block in range(part.first, part.last):
            segment.rows(block)
    except LogError as error:
        logger.warning("zenoh: %s; the rest of the segment is skipped, as failOnDataLoss is false", error)
        part = replace(part, last=block)
    return [part] if part.last > part.first else []


def refuse_gaps(log: Log, ranges: Sequence[BlockRange]) -> None:
    """Raise if data was lost before it was recorded.

    Zenoh skips one sequence number after a fragmented message, which is not a loss. A single missing number whose
    predecessor is not visible here is not reported either.
    """
    tables = {"events": ["kind", "sn", "count", "detail", *LANE], "messages": ["type", "sn", "fragments", *LANE]}
    events: list[dict[str, Any]] = []
    whole: set[tuple[Any, ...]] = set()  # sequence numbers of unfragmented messages
    for table, batch in decode_ranges(log, ranges, tables):
        if table == "events":
            events += [row for row in batch.to_pylist() if row["kind"] in LOSSES]
        else:
            of_lanes = batch.filter(pc.and_(batch.column("sn").is_valid(), batch.column("fragments").is_null()))
            of_lanes = of_lanes.filter(pc.not_equal(of_lanes.column("type"), "FRAGMENT"))
            whole.update((row["sn"], *(row[name] for name in LANE)) for row in of_lanes.to_pylist())
    for row in events:
        before = (row["sn"] - 1, *(row[name] for name in LANE)) if row["kind"] == "gap" else None
        if row["kind"] == "gap" and row["count"] == 1 and before not in whole:
            continue
        what = (
            f"{row['count'] or 'some'} numbers from {row['sn']} on are missing"
            if row["kind"] == "gap"
            else row["detail"]
        )
        raise LogError(f"zenoh: {row['kind']} in {row['session'] or 'the recording'}: {what}; failOnGap is true")


def ns(time: datetime) -> int:
    return int(time.timestamp()) * 1_000_000_000 + time.microsecond * 1000
