# SPDX-License-Identifier: Apache-2.0
"""Landing: copy a log into the tables of a lake, each row once.

Spark plans, schedules, retries and stores progress. The lake (`zenlake.lake`) records the landed parts, of all queries.
"""

import json
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

    from zenlake.lake import Lake

__all__ = ["cores", "land"]

CHECKPOINT_NOTE = "zenlake-landing.json"  # in a checkpoint: what it was made for
MAX_BYTES = 1 << 30  # of a log, in one micro-batch, by default


def land(
    spark: "SparkSession",
    source: str | os.PathLike[str],
    lake: str | os.PathLike[str],
    tables: Sequence[str] | None = None,
    transform: "Callable[[DataFrame], DataFrame] | None" = None,
    format: Literal["delta", "iceberg"] | None = None,
    trigger: str = "availableNow",
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    catalog: str | None = None,
    already: Literal["skip", "refuse"] = "skip",
    options: Mapping[str, str] | None = None,
) -> "StreamingQuery":
    """Land a log in a lake, from its beginning. Return the running query.

    Args:
        spark: The Spark session.
        source: Path of the wire log.
        lake: Folder of the lake, or an address such as `s3://bucket/lake`.
        tables: Decoded tables to land. Default: all.
        trigger: "availableNow" (land the current content, then stop) or an interval such as "10 seconds".
        format: "delta" or "iceberg". Default: that of the lake, or "delta" for a new one.
        checkpoint: Local folder of the checkpoint. Default: in the lake; for a lake in a store, in `~/.local/state/zenlake`.
            Its loss lands no row twice.
        catalog: Name of a configured catalog of `pyiceberg`, for a new Iceberg lake. Default: a SQLite file beside the lake.
        already: "skip" or "refuse" parts of the log that are already landed.
        transform: Function from DataFrame to DataFrame, for one table. Transformed rows are identified by query and batch,
            so only one query may land them.
        options: Options of the source (`maxBytesPerTrigger`, `startingOffsets` ...). With `connect` and `subscribe`, the log is
            recorded while the query runs. Unless `reader` is set, retention keeps unlanded segments.

    Returns:
        The streaming query.

    Raises:
        InvalidValue: An argument is invalid.
        LakeError: The lake cannot be landed into.
    """
    from zenlake.errors import InvalidValue
    from zenlake.lake.layout import CHECKPOINTS
    from zenlake.log import Log
    from zenlake.spark.lake_sink import LakeSink
    from zenlake.spark.lake_source import CHOOSING, LakeSource
    from zenlake.spark.recorder_process import make_recorder
    from zenlake.spark.zenoh_source import ZenohSource
    from zenlake.tables.schemas import TABLES

    names = list(tables) if tables is not None else list(TABLES)
    wrong = [name for name in names if name not in TABLES]
    if wrong or not names:
        raise InvalidValue(f"unknown table {wrong[0] if wrong else ''!r}; expected one or more of {', '.join(TABLES)}")
    if transform is not None and len(names) != 1:
        raise InvalidValue("transform applies to one table; name it, for example tables=['samples']")
    if already not in ("skip", "refuse"):
        raise InvalidValue(f"invalid already={already!r}; expected 'skip' or 'refuse'")
    path = os.path.abspath(source) if "://" not in os.fspath(source) else os.fspath(source)
    given = {name.lower(): value for name, value in (options or {}).items()}
    chosen = [name for name in CHOOSING if name.lower() in given]
    if transform is None and chosen:
        raise InvalidValue(
            f"option {chosen[0]!r} selects rows of one table; a landing takes whole tables, use transform instead"
        )
    if "connect" not in given:
        Log(path)
    try:  # before anything is created
        (LakeSource if transform is None else ZenohSource)({**given, "path": path})
    except ValueError as error:
        raise InvalidValue(str(error)) from None
    if "connect" in given:
        make_recorder(path)
    log = Log(path)
    found = open_lake(lake, format, catalog)
    place = found.location.path if found.location.is_local else found.location.given
    if checkpoint is None:
        kind = f"{'-'.join(names)}{'-transformed' if transform is not None else ''}"
        folder = Path(place, CHECKPOINTS) if found.location.is_local else found.location.state
        checkpoint = folder / f"{log.id[:12]}-{kind}"
    if "://" in os.fspath(checkpoint):
        raise InvalidValue(
            f"checkpoint={os.fspath(checkpoint)!r} is an address; use a local folder: the progress is in the lake too, so a "
            "lost checkpoint lands no row twice"
        )
    about = {"tables": names, "transform": transform is not None, "lake": found.location.address}
    check_checkpoint(Path(checkpoint), {**about, "options": {name: given[name.lower()] for name in chosen}})
    defaults = {"maxbytespertrigger": str(MAX_BYTES), "minpartitions": str(cores(spark))}
    if "startingtimestamp" not in given:
        defaults["startingoffsets"] = "earliest"
    if os.access(path, os.W_OK):
        defaults["reader"] = _reader(found.location.path, os.fspath(checkpoint))
    register_sources(spark, LakeSource, LakeSink)
    wishes = {"tables": ",".join(names), "already": already}
    if transform is None:
        source_options = {**defaults, **given, **wishes, "lake": place}
        rows = _observe_counts(spark.readStream.format(LakeSource.name()).options(**source_options).load(path))
    else:
        source_options = {**defaults, **given, "table": names[0]}
        rows = transform(spark.readStream.format("zenoh").options(**source_options).load(path))
    writer = rows.writeStream.format(LakeSink.name()).option("checkpointLocation", os.fspath(checkpoint))
    writer = writer.options(**wishes)
    if transform is None:
        writer = writer.option("log", path).option("failOnDataLoss", given.get("failondataloss", "true"))
    writer = writer.trigger(availableNow=True) if trigger == "availableNow" else writer.trigger(processingTime=trigger)
    return writer.start(place)


def register_sources(spark: "SparkSession", *sources: "type[DataSource]") -> None:
    """Register the sources with a session and with the calling thread."""
    from zenlake.spark.session import activate

    for source in sources:
        spark.dataSource.register(source)
    activate(spark)


def open_lake(lake: str | os.PathLike[str], format: str | None, catalog: str | None) -> "Lake":
    """Open a lake, or create it."""
    from zenlake.lake import Lake
    from zenlake.tables.lake_location import Location, read_marker

    about = read_marker(Location(lake))
    return Lake(
        lake, create=format or (about["format"] if about and about["format"] != "parquet" else "delta"), catalog=catalog
    )


def check_checkpoint(checkpoint: Path, about: dict[str, object]) -> None:
    """Refuse a checkpoint of other tables, other rows or another lake: its offsets would skip rows.

    Raises:
        LakeError: The checkpoint was made with other arguments.
    """
    from zenlake.errors import LakeError

    path = checkpoint / CHECKPOINT_NOTE
    try:
        known = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        checkpoint.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(about))
        return
    for name, value in about.items():
        if known.get(name, value) != value:
            raise LakeError(
                f"the checkpoint {checkpoint} was made with {name}={known.get(name)!r}, not {value!r}; its offsets would skip "
                "rows: use another checkpoint, which lands no row twice"
            )


def _reader(lake: str, checkpoint: str) -> str:
    """Return the reader name of a landing: the same for a checkpoint, and unique."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", os.path.basename(lake))
    return f"land-{blake2b(checkpoint.encode(), digest_size=6).hexdigest()}-{name}"[:60]


def _observe_counts(written: "DataFrame") -> "DataFrame":
    """Add the counts of a micro-batch to its progress: `landed` in observedMetrics."""
    from pyspark.sql import functions

    from zenlake.spark.lake_source import COUNTS

    sums = [functions.coalesce(functions.sum(name), functions.lit(0)).alias(name) for name in COUNTS]
    return written.observe("landed", *sums)


def cores(spark: "SparkSession") -> int:
    """Return the number of parallel tasks; 2 if only a server knows it."""
    try:
        return int(spark.sparkContext.defaultParallelism)
    except Exception:  # Spark Connect has no context
        return 2
