# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh")`: the decoded tables of a wire log as a Spark source, whole or as a stream.

    spark.read.format("zenoh").option("table", "messages").load("lake/log")
    spark.readStream.format("zenoh").option("startingOffsets", "earliest").load("lake/log")

Every Spark session of an environment in which Zenlake is installed imports this: what is heavy is imported where it is used.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource

from zenlake.spark.options import Options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

OPTIONS = {
    "path": "the log; given by load()",
    "paths": "what load([...]) gives",
    "table": "a decoded table; samples if not given",
    "columns": "the columns wanted, separated by commas; all if not given",
    "keyExpr": "a key expression that a row's key must intersect",
    "startingOffsets": 'earliest, latest or {"tap-1": [7, 0]}; earliest for a batch, latest for a new stream',
    "endingOffsets": "latest or offsets; batch only",
    "startingTimestamp": "rows received at this time or later",
    "endingTimestamp": "rows received before this time; batch only",
    "minPartitions": "at least so many tasks, where there are so many blocks",
    "pushdown": "true: Spark's filters are applied here; batch only; needs spark.sql.python.filterPushdown.enabled",
    "maxOffsetsPerTrigger": "batches of the network in one micro-batch, rounded to blocks; stream only",
    "maxBytesPerTrigger": "bytes of the log in one micro-batch, rounded to blocks; stream only",
    "failOnDataLoss": "false: go on where blocks of the log are gone or damaged; true if not given",
    "failOnGap": "true: stop where something was lost before it was recorded",
    "output": "ranges: where the rows are, for a writer that decodes them itself; rows if not given; stream only",
    "connect": "record from this node while reading; needs subscribe and a path",
    "subscribe": "the key expressions to record, separated by commas; needs connect and a path",
}
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "pushdown")
STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "output")

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True)
class Wanted:
    """What the options ask for. Travels to the tasks."""

    path: str
    table: str
    columns: list[str] | None
    keys: str | None
    since: datetime | None
    until: datetime | None
    starting: str | dict[str, Any] | None
    ending: str | dict[str, Any] | None
    min_partitions: int
    max_offsets: int | None
    max_bytes: int | None
    fail_on_data_loss: bool
    fail_on_gap: bool
    output: str


class LogSource(DataSource):  # type: ignore[misc]  # PySpark is not checked
    """The decoded tables of a wire log."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.given = Options(self.name(), options, OPTIONS)
        self.wanted = wanted_by(self.given)

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    def schema(self) -> "StructType | str":
        from zenlake.spark.types import spark_schema
        from zenlake.tables.schemas import chosen

        if self.wanted.output == "ranges":
            from zenlake.spark.log_stream import RANGES

            return RANGES
        return spark_schema(chosen(self.wanted.table, self.wanted.columns))

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from zenlake.spark.log_reader import LogReader, PushdownReader

        for name in STREAM_ONLY:
            if name in self.given:
                self.given.refuse_option(name, "only a stream (readStream) has it")
        wanted = self._with_columns(schema)
        return PushdownReader(wanted) if self.given.flag("pushdown") else LogReader(wanted)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from zenlake.spark.log_stream import LogStream

        wrong = [name for name in BATCH_ONLY if name in self.given]
        # What is raised here, Spark hides behind an error of its own: the stream says it when it starts.
        trouble = f"zenoh: option {wrong[0]!r}: a stream has none; leave it out" if wrong else None
        ranges = self.wanted.output == "ranges"
        return LogStream(self.wanted if ranges else self._with_columns(schema), trouble)

    def _with_columns(self, schema: "StructType") -> Wanted:
        """With the columns in `schema`, which is the user's own if there is one."""
        from zenlake.spark.types import checked

        checked(self.name(), self.wanted.table, schema)
        return replace(self.wanted, columns=schema.fieldNames())


def wanted_by(options: Options) -> Wanted:
    """What the options ask for; one line about the first mistake."""
    from zenlake.tables.derived import DERIVED
    from zenlake.tables.schemas import TABLES, chosen

    table = options.text("table") or "samples"
    if table in DERIVED:
        options.refuse(
            f"{table!r} is derived from several tables: zenlake.spark.tables(spark, path)[{table!r}] gives it"
        )
    options.choice("table", tuple(TABLES), "samples")
    columns = options.names("columns")
    try:
        chosen(table, columns)
    except ValueError as error:
        options.refuse_option("columns", error)
    keys = options.key_expr("keyExpr")
    if keys is not None and "key" not in TABLES[table].names:
        options.refuse_option("keyExpr", f"{table} has no keys to choose by")
    since, until = options.span("startingTimestamp", "endingTimestamp")
    for time, offsets in (("startingTimestamp", "startingOffsets"), ("endingTimestamp", "endingOffsets")):
        if time in options and offsets in options:
            options.refuse(f"options {offsets!r} and {time!r} contradict each other: give one of them")
    starting, ending = offsets_by(options, "startingOffsets"), offsets_by(options, "endingOffsets")
    if ending == EARLIEST:
        options.refuse_option("endingOffsets", "'earliest' is before every row; give latest or offsets")
    return Wanted(
        path_by(options),
        table,
        columns,
        keys,
        since,
        until,
        starting,
        ending,
        options.number("minPartitions", 1) or 1,
        options.number("maxOffsetsPerTrigger", 1),
        options.number("maxBytesPerTrigger", 1),
        options.flag("failOnDataLoss", True),
        options.flag("failOnGap"),
        options.choice("output", ("rows", "ranges"), "rows"),
    )


def offsets_by(options: Options, name: str) -> str | dict[str, Any] | None:
    """earliest, latest, or offsets as a query's progress shows them."""
    from zenlake.spark.offsets import parsed

    text = options.text(name)
    if text is None or text.strip().lower() in (EARLIEST, LATEST):
        return text and text.strip().lower()
    try:
        return parsed(json.loads(text))
    except (ValueError, TypeError) as error:
        why = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
        options.refuse_option(
            name, f'{text!r} is neither earliest, latest nor offsets such as {{"tap-1": [7, 0]}}{why}'
        )


def path_by(options: Options) -> str:
    """The one log, which must be there."""
    from zenlake.log import is_log

    given = options.paths()
    live = [name for name in ("connect", "subscribe") if name in options]
    if len(live) == 1 or (live and not given):
        options.refuse("recording while reading needs 'connect', 'subscribe' and, in load(), a path for the log")
    if live:
        options.refuse("recording while reading is not there yet: record the log in another process, and load it")
    if not given:
        options.refuse("no log given; load('lake/log') takes the folder of one")
    if len(given) > 1:
        options.refuse("one log at a time: load each and union them")
    if not is_log(given[0]):
        options.refuse(f"no log at {given[0]}; captures are read by format('zenoh_capture')")
    return given[0]
