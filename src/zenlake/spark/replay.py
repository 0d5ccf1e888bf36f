# SPDX-License-Identifier: Apache-2.0
"""Replay as a Spark job, for recordings that one machine cannot sort or send.

The samples of a key go to one task, in order of receipt. The sink of `format("zenoh")` publishes them when they are
due. A single process (`zenlake replay`) keeps time more exactly and also keeps the order between keys.
"""

import json
import math
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from zenlake.tables.paths import PATHS

__all__ = ["ReplayResult", "replay"]

LEAD = 3.0  # seconds until all tasks must have started
NEXT_LEAD = 1.0  # the same with running worker processes
FASTEST = 1e12  # speed-up factor: without delays


@dataclass(frozen=True)
class ReplayResult:
    """Number of published samples."""

    samples: int
    seconds: float
    """Planned duration in seconds: that of the recording divided by the speed, per repetition."""


def replay(
    spark: "SparkSession",
    path: "PATHS",
    *,
    connect: Sequence[str],
    config: str | None = None,
    keys: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    sent_by: Literal["opener", "acceptor", "all"] | None = None,
    speed: float = 1.0,
    rename: Sequence[tuple[str, str]] = (),
    keep_timestamps: bool = False,
    times: float = 1,
    partitions: int | None = None,
) -> ReplayResult:
    """Publish the samples of a capture, a log or a lake again, with their original timing, by several tasks.

    Args:
        spark: The Spark session.
        path: Capture, log or lake.
        connect: Endpoints of the sink.
        config: Zenoh configuration of the sink.
        keys: Key expression of the samples.
        since: Start, in received time.
        until: End, in received time.
        sent_by: Side whose samples are published, as in `zenlake.replay.Replay`.
        rename: Pairs (old, new) of key prefixes.
        keep_timestamps: Whether to send the recorded timestamps.
        speed: Speed-up factor. inf for no delays.
        times: Number of repetitions. inf to repeat until Ctrl-C.
        partitions: Number of tasks. Default: the cores of the session. All must run at the same time, or they start late.

    The clocks of the executors must agree. A failed task is repeated: its samples are sent again, late and with the
    same `SourceInfo`.

    Returns:
        The number of published samples.

    Raises:
        InvalidValue: An argument is invalid, or no sample matches.
    """
    from pyspark import StorageLevel
    from pyspark.sql import functions

    from zenlake.errors import InvalidValue
    from zenlake.replay.player import SENT, STAMPS, prefixes
    from zenlake.spark.dataframes import tables
    from zenlake.spark.land import cores
    from zenlake.spark.session import activate

    if not speed > 0:
        raise InvalidValue(f"invalid speed={speed:g}; expected a number above 0, or inf for no delays")
    if not times >= 1:
        raise InvalidValue(f"invalid times={times:g}; expected at least 1, or inf to repeat")
    activate(spark)
    pairs = tuple(prefixes(old, new) for old, new in rename)
    samples = tables(spark, path)["samples"].where("request_id is null and key is not null and shm is null")
    if since is not None:
        samples = samples.where(functions.col("received") >= functions.lit(since))
    if until is not None:
        samples = samples.where(functions.col("received") < functions.lit(until))
    if keys is not None:
        samples = samples.where(_intersects_column(keys))
    if sent_by != "all":
        samples = samples.where(functions.col("direction") == _direction(samples, sent_by))
    columns = SENT + (STAMPS if keep_timestamps else [])
    ordered = (
        samples.withColumn("key", _rename_column(pairs) if pairs else functions.col("key"))
        .repartition(partitions or cores(spark), "key")
        .sortWithinPartitions("received_ns", "packet", "index")
        .select(*columns, "received_ns")
        .persist(StorageLevel.DISK_ONLY)  # all rows are sorted before the first is published
    )
    try:
        extent = ordered.agg(functions.count("*"), functions.min("received_ns"), functions.max("received_ns")).first()
        count, first, last = extent
        if not count:
            raise InvalidValue("nothing to replay: no sample matches the keys, times and side")
        rate = FASTEST if math.isinf(speed) else speed
        writer = ordered.write.format("zenoh").option("connect", ",".join(connect)).mode("append")
        if config is not None:
            writer = writer.option("config", os.fspath(config))
        lead, done = LEAD, 0
        while done < times:
            pace = {"first": first, "start": time.time() + lead, "speed": rate}
            writer.option("pace", json.dumps(pace)).save()
            lead, done = NEXT_LEAD, done + 1
    finally:
        ordered.unpersist()
    return ReplayResult(count * done, (last - first) / 1e9 / rate)


def _direction(samples: "DataFrame", sent_by: str | None) -> int:
    """Select the samples of the openers, unless they published nothing."""
    if sent_by is not None:
        return 0 if sent_by == "opener" else 1
    return 0 if samples.where("direction = 0").limit(1).count() else 1


def _intersects_column(keys: str) -> "Column":
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyspark.sql import functions

    from zenlake.core.keyexpr import KeyExpr

    selected_keys = KeyExpr(keys)

    def intersects(column: pa.Array) -> pa.Array:
        known = pc.dictionary_encode(column)
        return pa.array([selected_keys.intersects(key) for key in known.dictionary.to_pylist()], pa.bool_()).take(
            known.indices
        )

    return functions.arrow_udf(intersects, "boolean")("key")


def _rename_column(pairs: Sequence[tuple[str, str]]) -> "Column":
    import pyarrow as pa
    from pyspark.sql import functions

    from zenlake.replay.player import rename_key

    def names(column: pa.Array) -> pa.Array:
        return rename_key(pa.record_batch({"key": column}), pairs).column("key")

    return functions.arrow_udf(names, "string")("key")
