# SPDX-License-Identifier: Apache-2.0
"""A log as a stream: offsets, limits, partitions. Spark makes this object several times and keeps none of its state for long.

Nothing here may rely on being called: Spark asks twice for the first offset, never for it after a restart, and does not tell of
the last commit.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from zenlake.log import Log, Offsets, Range, register
from zenlake.spark.live import began, ended, recorded
from zenlake.spark.log_reader import PARTITION, ns, rows, shares
from zenlake.spark.offsets import admitted, continued, of, planned, refuse_unknown, told

if TYPE_CHECKING:
    from zenlake.spark.log_source import Wanted

__all__ = ["LogStream"]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]  # PySpark is not checked
    """What has been appended to a log since."""

    largest = PARTITION  # bytes of a log that one task reads

    def __init__(self, wanted: "Wanted", trouble: str | None = None) -> None:
        self.wanted = wanted
        self.trouble = trouble
        self._target: Offsets | None = None
        self._registered: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        log = self._begun()
        if self.wanted.since is not None:
            return told(log, log.at(ns(self.wanted.since)))
        if isinstance(self.wanted.starting, dict):
            start = of(log, self.wanted.starting)
            refuse_unknown(log, start)
            return told(log, start)
        if self.wanted.starting == "earliest":
            return told(log, log.earliest())
        # Asked for twice: what is recorded meanwhile is not to be left out.
        return told(log, log.latest() if self.wanted.recording is None else began(self.wanted.path))

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._begun().latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.wanted.max_bytes is not None:
            return ReadMaxBytes(self.wanted.max_bytes)
        if self.wanted.max_offsets is not None:
            return ReadMaxRows(self.wanted.max_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        log = self._begun()
        latest = log.latest()
        begin = continued(log, of(log, start), latest, self.wanted.fail_on_data_loss)
        self._read_up_to(begin)
        end = {
            **begin,
            **{name: offset for name, offset in (self._target or latest).items() if offset > begin.get(name, [])},
        }
        if not isinstance(limit, ReadAllAvailable) and (self.wanted.max_bytes or self.wanted.max_offsets):
            end = admitted(log, begin, end, self.wanted.max_offsets, self.wanted.max_bytes)
        return told(log, end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """What there is, read or not: a query's progress shows both."""
        log = self._log()
        return told(log, log.latest())

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        log = self._log()
        stop = of(log, end)
        begin = continued(log, of(log, start), stop, self.wanted.fail_on_data_loss)
        blocks = planned(log, begin, stop, self.wanted.fail_on_data_loss)
        found = shares(blocks, self.wanted.min_partitions, self.largest)
        return self.partitioned(log, found, begin, stop)

    def partitioned(
        self, log: Log, shares: list[tuple[Range, ...]], begin: Offsets, stop: Offsets
    ) -> list[InputPartition]:
        """What each task is told of its share of what is between these offsets."""
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from rows(self.wanted, partition.value or ())

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        """Not called when a query is stopped, which is why a recorder watches this process."""
        if self.wanted.recording is not None:
            ended(self.wanted.path)

    def _read_up_to(self, offsets: Offsets) -> None:
        """Let the log know what need not be kept for us any more: a batch is planned when those before it are done."""
        if self.wanted.reader is not None and offsets != self._registered:
            register(self.wanted.path, self.wanted.reader, offsets)
            self._registered = offsets

    def _begun(self) -> Log:
        """The log, with a recorder at work if one is wanted."""
        if self.trouble is None and self.wanted.recording is not None:
            recorded(self.wanted.path, self.wanted.recording)
        return self._log()

    def _log(self) -> Log:
        if self.trouble is not None:
            raise ValueError(self.trouble)
        return Log(self.wanted.path)
