# SPDX-License-Identifier: Apache-2.0
"""Publish rows: `df.write.format("zenoh").option("connect", ...)`, and the same with `writeStream`.

    df.select("key", "payload").write.format("zenoh").option("connect", "tcp/localhost:7447").mode("append").save()

A task opens its own session, publishes its rows, and ends when its node has replied to a query sent after the last row. A
task whose connection broke fails, and Spark repeats it: delivery is at least once. Receivers deduplicate by the sample's
SourceInfo. It is the same for a repeated row of the same write or micro-batch, and unique otherwise. This requires the same
row order in a repeated task, which a shuffle does not guarantee.
"""

import json
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from zenlake.spark.options import Options

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from zenlake.api.session import Session

__all__ = ["OPTIONS", "NetworkWriter", "NetworkStreamWriter", "make_writer"]

OPTIONS = {
    "connect": "endpoints to connect to, separated by commas",
    "config": "Zenoh configuration: JSON5 text, or a file that exists on every executor",
    "key": "key of every row, instead of a column",
    "encoding": "encoding of every row, instead of a column",
    "attachment": "attachment of every row, instead of a column",
    "priority": "priority of every row, 1 (real-time) to 7 (background), instead of a column",
    "congestion": "congestion control of every row, instead of a column: drop, block or block_first; default block",
    "express": "true: send each row immediately, without batching; default false",
    "identity": "name of this write; a repeated write has the same SourceInfo; batch only",
    "pace": "schedule of zenlake.spark.replay, as JSON: see `SinkOptions.pace`",
    "checkpointLocation": "option of Spark: folder of the checkpoint of a stream",
    "asyncProgressTrackingEnabled": "option of Spark",
    "asyncProgressTrackingCheckpointIntervalMs": "option of Spark",
}
CONGESTION = ("drop", "block", "block_first")
TYPES = {  # allowed Spark types of each column
    "key": ("string",),
    "payload": ("binary", "string"),
    "kind": ("string",),
    "encoding": ("string",),
    "schema": ("binary",),
    "attachment": ("binary", "string"),
    "timestamp": ("timestamp",),
    "ntp64": ("bigint",),
    "timestamp_id": ("string",),
    "priority": ("tinyint", "smallint", "int", "bigint"),
    "congestion": ("string",),
    "express": ("boolean",),
    "reliable": ("boolean",),
}
END = "zenlake/written"  # a key without a queryable: the end of the query is the confirmation
PATIENCE = 60.0  # timeout in seconds


@dataclass(frozen=True)
class SinkOptions:
    """Validated options. Sent to the tasks."""

    connect: list[str]
    config: str | None
    fixed: dict[str, Any]
    identity: str
    pace: dict[str, float]
    """If not empty: rows are in the order of `received_ns` and are published when due.

    Time `first` (ns) is due at `start` (seconds since 1970). Later times follow, divided by `speed`.
    """


@dataclass
class SentRows(WriterCommitMessage):  # PySpark is not checked
    """Number of rows that a task published."""

    rows: int


def make_writer(options: Options) -> SinkOptions:
    """Validate the options. Raise one line about the first error."""
    from zenlake.core.encoding import Encoding
    from zenlake.errors import ZenlakeError

    fixed: dict[str, Any] = {}
    if (key := options.key_expr("key")) is not None:
        if "*" in key:
            options.refuse_option("key", f"invalid value {key!r} with wildcards; expected a single key")
        fixed["key"] = key
    for name in ("encoding", "attachment"):
        if (text := options.text(name)) is not None:
            fixed[name] = text if name == "encoding" else text.encode()
    if "encoding" in fixed:
        try:
            Encoding(fixed["encoding"])
        except ZenlakeError as error:
            options.refuse_option("encoding", error)
    if (priority := options.number("priority", 1)) is not None:
        if priority > 7:
            options.refuse_option("priority", f"invalid value {priority}; expected 1 (real-time) to 7 (background)")
        fixed["priority"] = priority
    if "congestion" in options:
        fixed["congestion"] = options.choice("congestion", CONGESTION, "block")
    if "express" in options:
        fixed["express"] = options.flag("express")
    identity = options.text("identity") or uuid.uuid4().hex
    pace = json.loads(options.text("pace") or "{}")
    settings = SinkOptions(options.names("connect") or [], options.text("config"), fixed, identity, pace)
    try:
        make_config(settings.connect, settings.config)
    except ZenlakeError as error:
        options.refuse(str(error))
    return settings


def make_config(connect: list[str], config: str | None) -> Any:
    """Return the configuration of a client that connects only to these endpoints."""
    from zenlake.config import Config

    if config is None:
        made = Config()
    else:
        made = Config.from_json5(config) if config.lstrip().startswith("{") else Config.from_file(config)
    made.insert_json5("mode", '"client"')
    made.insert_json5("connect/endpoints", json.dumps(connect))
    return made


def open_session(connect: list[str], config: str | None) -> "Session":
    from zenlake.api._open import open

    return open(make_config(connect, config))


def check_columns(options: Options, settings: SinkOptions, schema: "StructType", overwrite: bool) -> None:
    """Raise one line about the first column that is missing, unknown or of the wrong type."""
    from zenlake.tables.schemas import TABLES

    if overwrite:
        options.refuse("published samples cannot be overwritten; use mode('append')")
    names = schema.fieldNames()
    for name in ("key", "payload"):
        if name not in names and name not in settings.fixed:
            options.refuse(f"missing column {name!r}; the rows have {', '.join(names)}")
    for column in schema.fields:
        if column.name not in TYPES and column.name not in TABLES["samples"].names:
            options.refuse(f"unknown column {column.name!r}; select only {', '.join(TYPES)}")
        allowed = TYPES.get(column.name)
        if allowed is not None and column.dataType.simpleString() not in allowed:
            options.refuse(
                f"invalid type {column.dataType.simpleString()} of column {column.name!r}; cast it to {' or '.join(allowed)}"
            )


class NetworkWriter(DataSourceArrowWriter):
    """Writer of one `df.write`: created once, sent to every task and attempt."""

    def __init__(self, settings: SinkOptions) -> None:
        self.settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> SentRows:
        return SentRows(put_all(self.settings, iterator, self.settings.identity))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        pass


class NetworkStreamWriter(DataSourceStreamArrowWriter):
    """Writer of one micro-batch. Its identity consists of query and batch, so a repeated batch has the same."""

    def __init__(self, settings: SinkOptions) -> None:
        self.settings = settings

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> SentRows:
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId")
        batch = context.getLocalProperty("streaming.sql.batchId")
        return SentRows(put_all(self.settings, iterator, f"{query}/{batch}"))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass


def put_all(settings: SinkOptions, rows: Iterator["pa.RecordBatch"], identity: str) -> int:
    """Publish the rows of one task. Return when the node has confirmed them."""
    from zenlake.api.handlers import Callback
    from zenlake.core.enums import CongestionControl, SampleKind
    from zenlake.core.identifiers import EntityGlobalId, SourceInfo, ZenohId
    from zenlake.errors import LinkError

    first = next(rows, None)
    if first is None:
        return 0
    zid = blake2b(identity.encode(), digest_size=15).digest() + b"\x01"  # an id has no leading zero
    source = EntityGlobalId(ZenohId.from_wire(zid), TaskContext.get().partitionId())
    sent = done = 0
    lost: list[str] = []
    with open_session(settings.connect, settings.config) as session:

        def on_transport_event(event: Any) -> None:
            if event.kind is SampleKind.DELETE:
                lost.append(str(event.transport.zid))

        session.info.declare_transport_events_listener(Callback(on_transport_event, indirect=False))

        def put(table: "pa.RecordBatch") -> int:
            nonlocal done
            named = SourceInfo(source, done)
            done += table.num_rows
            return session.put_table(table, congestion_control=CongestionControl.BLOCK, source_info=named)

        for batch in _chain(first, rows):
            table = fixed_columns(batch, settings.fixed)
            sent += pace_rows(put, table, settings.pace) if settings.pace else put(table)
        confirm_received(session)
        if lost or not session.info.transports():
            raise LinkError(settings.connect[0], "the connection broke while rows were sent; the task sends them again")
    return sent


def pace_rows(put: "Callable[[pa.RecordBatch], int]", rows: "pa.RecordBatch", pace: dict[str, float]) -> int:
    """Publish each row when it is due."""
    import threading
    import time

    from zenlake.replay.player import Outcome, Pace, publish

    began = time.monotonic() + pace["start"] - time.time()
    outcome = Outcome()
    times = rows.column("received_ns").to_pylist()
    publish(put, rows, times, Pace(int(pace["first"]), began, pace["speed"]), threading.Event(), outcome)
    return outcome.sent


def confirm_received(session: "Session") -> None:
    """Wait until the node has all rows: it replies in order, and this query is sent last."""
    from zenlake.core.enums import Priority
    from zenlake.errors import LinkError

    for reply in session.get(END, priority=Priority.BACKGROUND, timeout=PATIENCE):
        if reply.err is not None:
            raise LinkError(END, f"no confirmation of the rows within {PATIENCE:g} s")


def fixed_columns(batch: "pa.RecordBatch", fixed: dict[str, Any]) -> "pa.RecordBatch":
    """Return rows with the values of options, instead of columns."""
    import pyarrow as pa

    for name, value in fixed.items():
        column = pa.repeat(pa.scalar(value), batch.num_rows)
        at = batch.schema.get_field_index(name)
        batch = batch.append_column(name, column) if at < 0 else batch.set_column(at, name, column)
    return batch


def _chain(first: "pa.RecordBatch", rest: Iterator["pa.RecordBatch"]) -> Iterator["pa.RecordBatch"]:
    yield first
    yield from rest
