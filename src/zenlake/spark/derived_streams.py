# SPDX-License-Identifier: Apache-2.0
"""Derived tables as streams in append mode: a row is emitted once, when it can no longer change.

Both use the definition of their table. `rates` is that query, grouped by a second with a watermark. `queries` ranks
rows, which streams do not support. A session window gathers the messages of one query instead, and DuckDB runs the
definition over them in the tasks.
"""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["STREAMED", "stream"]

STREAMED = ("queries", "rates")
SECOND = "date_trunc('second', received)"  # the grouping expression of rates

# The query of a message, or of a forwarding event in the log of a recording router.
SESSION = """coalesce(messages.session, regexp_extract(events.detail, '"to_session": "([^"]*)"', 1))"""
ASKER = """coalesce(
    if(messages.type = 'REQUEST', messages.direction, 1 - messages.direction),
    cast(regexp_extract(events.detail, '"to_direction": ([01])', 1) as int)
)"""
ID = """coalesce(messages.id, cast(regexp_extract(events.detail, '"to_id": ([0-9]+)', 1) as bigint))"""
CONVERSATION = {"session": SESSION, "asker": ASKER, "id": ID}
SAID = "messages.type in ('REQUEST', 'RESPONSE', 'RESPONSE_FINAL') or events.kind = 'forwarded'"
CLOSED = "events.kind in ('closed', 'disconnected') and events.generation is not null"
REMEMBERED = "interval 1 day"  # duration for which the end of a session is known to unfinished queries


def stream(
    spark: "SparkSession",
    log: str | os.PathLike[str],
    table: str,
    *,
    watermark: str = "10 seconds",
    patience: str = "30 seconds",
    options: Mapping[str, str] | None = None,
) -> "DataFrame":
    """Return the derived table `queries` or `rates` of a log as a stream: `stream(spark, "lake/log", "rates")`.

    Args:
        spark: The Spark session.
        log: Path of the wire log.
        table: "rates" or "queries".
        watermark: Maximum delay of rows, in received time. Later rows are omitted.
        patience: A query without a message for this time is complete. Later messages are ignored.
        options: Options of the source (`startingOffsets`, `connect` ...).

    Returns:
        A streaming DataFrame in append mode.

    Raises:
        InvalidValue: The table is not available as a stream.
    """
    from zenlake.errors import InvalidValue

    if table not in STREAMED:
        raise InvalidValue(f"table {table!r} is not available as a stream; expected one of {', '.join(STREAMED)}")
    reader = spark.readStream.format("zenoh").options(**(options or {}))
    if table == "rates":
        return _rates(
            spark, reader.option("columns", ",".join(_needs("rates")["samples"])).load(os.fspath(log)), watermark
        )
    return _queries(reader.option("needs", json.dumps(_needs("queries"))).load(os.fspath(log)), watermark, patience)


def _rates(spark: "SparkSession", samples: "DataFrame", watermark: str) -> "DataFrame":
    from pyspark.sql import functions

    from zenlake.spark.dataframes import derive_table

    samples = samples.withColumn("second", functions.expr(SECOND)).withWatermark("second", watermark)
    return derive_table(spark, "rates", {"samples": samples}, {SECOND: "second"})


def _queries(both: "DataFrame", watermark: str, patience: str) -> "DataFrame":
    from pyspark.sql import functions

    from zenlake.spark.queries_udf import queries_column
    from zenlake.tables.derived import definition

    both = both.withColumn("received", functions.expr("coalesce(messages.received, events.received)"))
    both = both.withWatermark("received", watermark)
    said = both.where(_behind(SAID)).select(
        "received", "messages", "events", *(functions.expr(sql).alias(name) for name, sql in CONVERSATION.items())
    )
    over = (
        said.groupBy(*CONVERSATION, functions.session_window("received", patience))
        .agg(functions.collect_list("messages").alias("messages"), functions.collect_list("events").alias("events"))
        .withColumn("over", functions.window_time("session_window"))
    )
    closed = both.where(_behind(CLOSED)).selectExpr(
        "received as closed", "events.session as closed_session", "events.generation as closed_generation"
    )
    closed = closed.dropDuplicatesWithinWatermark(["closed_session"])
    during = f"session = closed_session and closed <= over and closed >= over - {REMEMBERED}"
    known = over.join(closed, functions.expr(during), "leftOuter")
    rows = known.select(
        functions.explode(queries_column(*CONVERSATION, "messages", "events", "closed_generation")).alias("row")
    )
    comments = definition("queries").comments
    return rows.select(
        *(functions.col(f"row.{name}").alias(name, metadata={"comment": comments[name]}) for name in comments)
    )


def _behind(condition: str) -> str:
    """Return a condition that Spark does not move before the watermark, where rare rows would hold back the time."""
    return f"case when received is not null then {condition} end"


def _needs(table: str) -> dict[str, list[str]]:
    from zenlake.tables.derived import definition

    return definition(table).needs
