# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh")`: the decoded tables of a wire log as a Spark source, batch or stream.

    spark.read.format("zenoh").option("table", "messages").load("lake/log")
    spark.readStream.format("zenoh").option("startingOffsets", "earliest").load("lake/log")

Every Spark session of an environment with Zenlake imports this module. Expensive imports are inside functions.
"""

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zenlake.spark import source_base
from zenlake.spark.options import Options
from zenlake.spark.source_base import SourceOptions, TableSource, parse_source_options

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader
    from pyspark.sql.types import StructType

    from zenlake.spark.recorder_process import RecordingOptions

OPTIONS = {
    "path": "folder of the log; set by load()",
    "paths": "list of logs; set by load([...])",
    **source_base.OPTIONS,
    "startingOffsets": 'earliest, latest or offsets such as {"tap-1": [7, 0]}; default: earliest (batch), latest (stream)',
    "endingOffsets": "latest or offsets; batch only",
    "maxOffsetsPerTrigger": "maximum number of Zenoh batches in a micro-batch, rounded to blocks; stream only",
    "maxBytesPerTrigger": "maximum bytes of log in a micro-batch, rounded to blocks; stream only",
    "failOnDataLoss": "false: continue if blocks of the log were removed or are damaged; default true",
    "failOnGap": "true: stop where data was lost before it was recorded; default false",
    "reader": "reader name; retention keeps unread segments for it; stream only",
    "connect": "endpoints to record from while reading, separated by commas; needs subscribe and a path; stream only",
    "subscribe": "key expressions to record, separated by commas; needs connect and a path; stream only",
    "config": "Zenoh configuration of the recording: JSON5 text or a file; needs connect",
    "keepHours": "age in hours at which recorded segments are removed; default: no limit; needs connect",
}
BATCH_ONLY = ("endingOffsets", "endingTimestamp", "pushdown")
LIVE_ONLY = ("config", "keepHours")
STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "reader", "connect", "subscribe", *LIVE_ONLY)

EARLIEST, LATEST = "earliest", "latest"


@dataclass(frozen=True)
class LogOptions(SourceOptions):
    """Validated options. Sent to the tasks."""

    path: str
    starting: str | dict[str, Any] | None
    ending: str | dict[str, Any] | None
    max_offsets: int | None
    max_bytes: int | None
    fail_on_data_loss: bool
    fail_on_gap: bool
    reader: str | None
    recording: "RecordingOptions | None"


class LogSource(TableSource):
    """Source of the decoded tables of a wire log."""

    settings: LogOptions

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.validated_options = Options(self.name(), options, OPTIONS)
        self.settings = parse_options(self.validated_options)
        self.pushdown = self.validated_options.flag("pushdown")

    @classmethod
    def name(cls) -> str:
        return "zenoh"

    def reader(self, schema: "StructType") -> "DataSourceReader":
        from zenlake.spark.log_reader import LogPushdownReader, LogReader

        for name in STREAM_ONLY:
            if name in self.validated_options:
                self.validated_options.refuse_option(name, "valid only for readStream; remove it")
        return (LogPushdownReader if self.pushdown else LogReader)(self.with_columns(schema))

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":
        from zenlake.spark.log_stream import LogStream

        wrong = [name for name in BATCH_ONLY if name in self.validated_options]
        # Spark hides errors raised here behind its own. The stream raises them when it starts.
        option_error = f"zenoh: option {wrong[0]!r}: valid only for spark.read; remove it" if wrong else None
        return LogStream(self.with_columns(schema), option_error)


def parse_options(options: Options) -> LogOptions:
    """Validate the options. Raise one line about the first error."""
    common = parse_source_options(options)
    for time, offsets in (("startingTimestamp", "startingOffsets"), ("endingTimestamp", "endingOffsets")):
        if time in options and offsets in options:
            options.refuse(f"options {offsets!r} and {time!r} are both set; set only one of them")
    starting, ending = parse_offsets(options, "startingOffsets"), parse_offsets(options, "endingOffsets")
    if ending == EARLIEST:
        options.refuse_option(
            "endingOffsets", "invalid value 'earliest', because no row is before it; expected latest or offsets"
        )
    recording = parse_recording(options)
    return LogOptions(
        **common,
        path=parse_path(options, recording is not None),
        starting=starting,
        ending=ending,
        max_offsets=options.number("maxOffsetsPerTrigger", 1),
        max_bytes=options.number("maxBytesPerTrigger", 1),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        fail_on_gap=options.flag("failOnGap"),
        reader=parse_reader(options),
        recording=recording,
    )


def parse_offsets(options: Options, name: str) -> str | dict[str, Any] | None:
    """Parse earliest, latest, or offsets in the form of a query's progress."""
    from zenlake.spark.offsets import parse_offsets

    text = options.text(name)
    if text is None or text.strip().lower() in (EARLIEST, LATEST):
        return text and text.strip().lower()
    try:
        return parse_offsets(json.loads(text))
    except (ValueError, TypeError) as error:
        why = "" if isinstance(error, json.JSONDecodeError) else f" ({error})"
        options.refuse_option(
            name, f'invalid value {text!r}; expected earliest, latest or offsets such as {{"tap-1": [7, 0]}}{why}'
        )


def parse_path(options: Options, is_live: bool) -> str:
    """Return the absolute path of the log. It must exist unless it is recorded by this stream."""
    from zenlake.log import is_log

    given = options.paths()
    if not given:
        options.refuse(
            "no path; pass the folder of a log to load(), or set the option 'connect' to write rows or to send a query"
        )
    if len(given) > 1:
        options.refuse(f"{len(given)} paths; expected one log. Load each log and union the DataFrames")
    [path] = given
    if is_live and "://" in path:
        options.refuse(f"{path} is an address, but a stream records into a local folder; use a path")
    if is_live and os.path.isdir(path) and os.listdir(path) and not is_log(path):
        options.refuse(f"{path} is neither a log nor empty; record into a new folder")
    if not is_live and not is_log(path):
        options.refuse(f"{path} is not a wire log; read captures with format('zenoh_capture')")
    return path if "://" in path else os.path.abspath(path)


def parse_reader(options: Options) -> str | None:
    from zenlake.errors import InvalidValue
    from zenlake.log.layout import check_name

    name = options.text("reader")
    try:
        return name and check_name(name)
    except InvalidValue as error:
        options.refuse_option("reader", error)


def parse_recording(options: Options) -> "RecordingOptions | None":
    """Return the settings of the recording, or None."""
    live = [name for name in ("connect", "subscribe") if name in options]
    if len(live) == 1 or (live and not options.paths()):
        options.refuse("recording needs the options 'connect' and 'subscribe', and a path in load()")
    if not live:
        for name in LIVE_ONLY:
            if name in options:
                options.refuse_option(name, "valid only with 'connect' and 'subscribe'; remove it")
        return None
    from zenlake.core.keyexpr import KeyExpr
    from zenlake.errors import ZenlakeError
    from zenlake.spark.network_sink import make_config
    from zenlake.spark.recorder_process import RecordingOptions

    keys = options.names("subscribe") or []
    try:
        for key in keys:
            KeyExpr(key)
    except ZenlakeError as error:
        options.refuse_option("subscribe", error)
    connect, config = options.names("connect") or [], options.text("config")
    try:
        make_config(connect, config)
    except ZenlakeError as error:
        options.refuse(str(error))
    return RecordingOptions(connect, keys, config, options.above_zero("keepHours", "hours"))
