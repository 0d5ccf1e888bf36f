# SPDX-License-Identifier: Apache-2.0
"""Landing: a log becomes tables in a lake, each row once.

Spark plans, schedules, retries and remembers how far it is; the lake (`zenlake.lake`) knows what is landed, whoever landed it.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming import StreamingQuery

__all__ = ["cores", "land"]

MOST_BYTES = 1 << 30  # of a log, in one micro-batch, if the caller does not say


def land(
    spark: "SparkSession",
    source: str | os.PathLike[str],
    lake: str | os.PathLike[str],
    tables: Sequence[str] | None = None,
    transform: "Callable[[DataFrame], DataFrame] | None" = None,
    format: Literal["parquet", "delta"] = "parquet",
    trigger: str = "availableNow",
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    already: Literal["skip", "refuse"] = "skip",
    options: Mapping[str, str] | None = None,
) -> "StreamingQuery":
    """Land the log at `source` in the lake, from its beginning, and return the query, which runs.

    `tables` are decoded ones; all if not given. `trigger` is "availableNow" (what is there, then stop) or an interval such as "10
    seconds". Parts of the log that another query, or this one before its checkpoint was lost, has landed are skipped, or refused.
    `options` go to the source (`maxBytesPerTrigger`, `startingOffsets`, ...); with `connect` and `subscribe` the log is recorded
    as well, for as long as the query runs. Unless they name another `reader`, the log keeps what is not landed yet.

    With `transform`, one table's rows go through an ordinary DataFrame and land under that table's name. Such rows have no identity
    but the query's: only one query may land there.
    """
    from zenlake.errors import InvalidValue
    from zenlake.lake import Lake
    from zenlake.lake.layout import CHECKPOINTS
    from zenlake.log import Log
    from zenlake.spark.lake_sink import LakeSink
    from zenlake.spark.lake_source import CHOOSING, LakeSource
    from zenlake.spark.live import made
    from zenlake.spark.zenoh_source import ZenohSource
    from zenlake.tables.schemas import TABLES

    names = list(tables) if tables is not None else list(TABLES)
    wrong = [name for name in names if name not in TABLES]
    if wrong or not names:
        raise InvalidValue(f"no decoded table {wrong[0] if wrong else ''!r}; there are {', '.join(TABLES)}")
    if transform is not None and len(names) != 1:
        raise InvalidValue("a transform is of one table: name it, as tables=['samples']")
    if already not in ("skip", "refuse"):
        raise InvalidValue(f"already is 'skip' or 'refuse', not {already!r}")
    path = os.path.abspath(source) if "://" not in os.fspath(source) else os.fspath(source)
    given = {name.lower(): value for name, value in (options or {}).items()}
    chosen = [name for name in CHOOSING if name.lower() in given]
    if transform is None and chosen:
        raise InvalidValue(
            f"option {chosen[0]!r} is for rows of one table: a landing takes whole tables, or a transform"
        )
    if "connect" not in given:
        Log(path)
    try:  # before anything is made
        (LakeSource if transform is None else ZenohSource)({**given, "path": path})
    except ValueError as error:
        raise InvalidValue(str(error)) from None
    if "connect" in given:
        made(path)
    log = Log(path)
    folder = Lake(lake, create=format).path.absolute()
    Lake(folder).recover()

    if checkpoint is None:
        kind = f"{'-'.join(names)}{'-transformed' if transform is not None else ''}"
        checkpoint = folder / CHECKPOINTS / f"{log.id[:12]}-{kind}"
    defaults = {"maxbytespertrigger": str(MOST_BYTES), "minpartitions": str(cores(spark))}
    if "startingtimestamp" not in given:
        defaults["startingoffsets"] = "earliest"
    if os.access(path, os.W_OK):
        defaults["reader"] = _reader(folder, os.fspath(checkpoint))
    registered(spark, LakeSource, LakeSink)
    wishes = {"tables": ",".join(names), "already": already}
    if transform is None:
        told = {**defaults, **given, **wishes, "lake": str(folder)}
        rows = _counted(spark.readStream.format(LakeSource.name()).options(**told).load(path))
    else:
        told = {**defaults, **given, "table": names[0]}
        rows = transform(spark.readStream.format("zenoh").options(**told).load(path))
    writer = rows.writeStream.format(LakeSink.name()).option("checkpointLocation", os.fspath(checkpoint))
    writer = writer.options(**wishes)
    if transform is None:
        writer = writer.option("log", path).option("failOnDataLoss", given.get("failondataloss", "true"))
    writer = writer.trigger(availableNow=True) if trigger == "availableNow" else writer.trigger(processingTime=trigger)
    return writer.start(str(folder))


def registered(spark: "SparkSession", *sources: "type[DataSource]") -> None:
    """Let a session know these sources, and find them in the calling thread."""
    from zenlake.spark.session import activated

    for source in sources:
        spark.dataSource.register(source)
    activated(spark)


def _reader(lake: Path, checkpoint: str) -> str:
    """Under which name the log knows a landing: the same whenever it goes on from its checkpoint, and nobody else's."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", lake.name)
    return f"land-{blake2b(checkpoint.encode(), digest_size=6).hexdigest()}-{name}"[:60]


def _counted(written: "DataFrame") -> "DataFrame":
    """With what a micro-batch lands in its progress: under observedMetrics, `landed`."""
    from pyspark.sql import functions

    from zenlake.spark.lake_source import COUNTS

    sums = [functions.coalesce(functions.sum(name), functions.lit(0)).alias(name) for name in COUNTS]
    return written.observe("landed", *sums)


def cores(spark: "SparkSession") -> int:
    """How many tasks at once; 2 where only a server knows."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return 2
