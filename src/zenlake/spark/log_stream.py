# SPDX-License-Identifier: Apache-2.0
"""Stream of a log: offsets, limits, partitions.

Spark creates this object several times and keeps no state in it. No method may rely on being called: Spark requests the first
offset twice, never after a restart, and does not report the last commit.
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

from zenlake.log import BlockRange, Log, Offsets, register
from zenlake.spark.log_reader import PARTITION, ns, plan_shares, rows
from zenlake.spark.offsets import (
    BEHIND,
    continue_from,
    encode_offsets,
    limit_offsets,
    measure_lag,
    of,
    plan_range,
    refuse_other_table,
    refuse_unknown,
)
from zenlake.spark.recorder_process import start_recording, starting_offsets, stop_recording

if TYPE_CHECKING:
    from zenlake.spark.log_source import LogOptions

__all__ = ["LogStream"]


class LogStream(DataSourceStreamReader, SupportsTriggerAvailableNow):  # PySpark is not checked
    """Stream of the appended blocks of a log."""

    largest = PARTITION  # bytes of a log that one task reads

    def __init__(self, settings: "LogOptions", option_error: str | None = None) -> None:
        self.settings = settings
        self.option_error = option_error
        self.table: str | None = ",".join(sorted(settings.needs)) or settings.table
        self._target: Offsets | None = None
        self._end: Offsets | None = None  # of the newest planned batch
        self._registered: Offsets | None = None

    def initialOffset(self) -> dict[str, Any]:
        log = self._open_log()
        if self.settings.since is not None:
            return self._encode(log, log.at(ns(self.settings.since)))
        if isinstance(self.settings.starting, dict):
            start = of(log, self.settings.starting)
            refuse_unknown(log, start)
            return self._encode(log, start)
        if self.settings.starting == "earliest":
            return self._encode(log, log.earliest())
        # Requested twice: data recorded in between must not be skipped.
        return self._encode(
            log, log.latest() if self.settings.recording is None else starting_offsets(self.settings.path)
        )

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._open_log().latest()

    def getDefaultReadLimit(self) -> ReadLimit:
        if self.settings.max_bytes is not None:
            return ReadMaxBytes(self.settings.max_bytes)
        if self.settings.max_offsets is not None:
            return ReadMaxRows(self.settings.max_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        log = self._open_log()
        refuse_other_table(start, self.table)
        latest = log.latest()
        begin = continue_from(log, of(log, start), latest, self.settings.fail_on_data_loss)
        self._read_up_to(begin)
        end = {
            **begin,
            **{name: offset for name, offset in (self._target or latest).items() if offset > begin.get(name, [])},
        }
        if not isinstance(limit, ReadAllAvailable) and (self.settings.max_bytes or self.settings.max_offsets):
            end = limit_offsets(log, begin, end, self.settings.max_offsets, self.settings.max_bytes)
        self._end = end
        return self._encode(log, end)

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the end of the log, and the lag of the planned batch behind it.

        A query's progress shows them as `latestOffset`. A Python source of Spark cannot report metrics elsewhere.
        """
        log = self._log()
        behind = {} if self._end is None else {BEHIND: measure_lag(log, self._end)}
        return {**self._encode(log, log.latest()), **behind}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        log = self._log()
        refuse_other_table(end, self.table)  # a batch that was planned before a restart is planned again
        stop = of(log, end)
        begin = continue_from(log, of(log, start), stop, self.settings.fail_on_data_loss)
        blocks = plan_range(log, begin, stop, self.settings.fail_on_data_loss)
        return self.make_partitions(log, self.split(blocks), begin, stop)

    def split(self, blocks: list[BlockRange]) -> list[tuple[BlockRange, ...]]:
        """Return the blocks of each task."""
        return plan_shares(blocks, self.settings.min_partitions, self.largest)

    def make_partitions(
        self, log: Log, shares: list[tuple[BlockRange, ...]], begin: Offsets, stop: Offsets
    ) -> list[InputPartition]:
        """Return the task descriptions for the blocks between two offsets."""
        return [InputPartition(share) for share in shares]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from rows(self.settings, partition.value or ())

    def commit(self, end: dict[str, Any]) -> None:
        pass

    def stop(self) -> None:
        """Do nothing. Spark does not call this for a stopped query; the recorder therefore watches its parent process."""
        if self.settings.recording is not None:
            stop_recording(self.settings.path)

    def _encode(self, log: Log, offsets: Offsets) -> dict[str, Any]:
        return encode_offsets(log, offsets, self.table)

    def _read_up_to(self, offsets: Offsets) -> None:
        """Register the progress with the log. A batch is planned when earlier batches are complete."""
        if self.settings.reader is not None and offsets != self._registered:
            register(self.settings.path, self.settings.reader, offsets)
            self._registered = offsets

    def _open_log(self) -> Log:
        """Return the log, with a running recorder if one is configured."""
        if self.option_error is None and self.settings.recording is not None:
            start_recording(self.settings.path, self.settings.recording)
        return self._log()

    def _log(self) -> Log:
        if self.option_error is not None:
            raise ValueError(self.option_error)
        return Log(self.settings.path)
