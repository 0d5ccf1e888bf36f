# SPDX-License-Identifier: Apache-2.0
"""Landing a log, compared with Spark's own Parquet writer, with landing without decoding, and with larger logs.

All runs alternate in one Spark session with the same log. The peer reads the same source and writes the same layout (zstd, a folder
per day), but without sorting by key: Spark does not sort streams. "Decoding free" replaces the decoder in the tasks by prepared
record batches. The fixed cost of a query is reported too: for a million samples it is the larger part.

Each run is measured in seconds and in CPU seconds of this process, the JVM and Spark's workers. A busy machine affects CPU seconds
least. Then logs of one, two and four parts are landed: time must grow linearly, and memory must stay constant. One core lands the
log of two cores. Micro-batches of one small block show the cost of a trigger, beside the simplest stream of Spark.
"""

import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.capture import INIT_ACK, INIT_SYN, OPEN_ACK, OPEN_SYN, vle
from bench.family import Cost, largest_task
from bench.free_landing import free_land, prepare
from bench.report import Ratio, Result, show
from zenlake.log import Log, Writer

NOON = 1_770_000_000_000_000_000
A_BATCH = 40  # samples
A_SAMPLE = 226  # bytes of a log
MICRO_BATCHES = 20
SAMPLES, ROUNDS = 4_000_000, 3
PART = 1 << 30  # bytes of the log that grows


def record(path: Path, samples: int, block_size: int | None = None, keys: int = 500) -> None:
    """Write a log of puts of 200 bytes, half of which are random, 40 in each batch."""
    # 200,000 different samples are enough: fewer are sorted and compressed together.
    bodies = [_body(turn, keys) for turn in range(min(samples // A_BATCH, 5000))]
    with Writer(path, "tap-1", sync="sealed", **({"block_size": block_size} if block_size else {})) as writer:
        face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
        for side, data in ((0, INIT_SYN), (1, INIT_ACK), (0, OPEN_SYN), (1, OPEN_ACK)):
            writer.append(face, side, data, received=NOON)
        for sn in range(samples // A_BATCH):
            frame = b"\x25" + vle(sn & 0xFFFFFFF) + bodies[sn % len(bodies)]
            writer.append(face, 0, frame, received=NOON + sn * 1000)


def _body(turn: int, keys: int) -> bytes:
    body = bytearray()
    for i in range(A_BATCH):
        key = b"fleet/robot%03d/pose" % ((turn * 7 + i * 13) % keys)
        payload = os.urandom(100) + b"0" * 100
        body += b"\x3d\x00" + vle(len(key)) + key + b"\x01" + vle(len(payload)) + payload
    return bytes(body)


def land(spark: Any, log: Path, lake: Path, tables: Sequence[str] | None = ("samples",), format: str = "delta") -> None:
    import zenlake.spark

    shutil.rmtree(lake, ignore_errors=True)
    zenlake.spark.land(spark, log, lake, tables, format=format).awaitTermination()


def by_spark(spark: Any, log: Path, lake: Path, cores: int) -> None:
    """Write the same rows in the same layout through `format("zenoh")` and Spark's own Parquet writer."""
    shutil.rmtree(lake, ignore_errors=True)
    rows = spark.readStream.format("zenoh").option("startingOffsets", "earliest").option("minPartitions", cores)
    rows = rows.load(str(log)).selectExpr("*", "to_date(received) as day")
    writer = rows.writeStream.format("parquet").partitionBy("day").option("compression", "zstd")
    writer = writer.option("checkpointLocation", str(lake / "_checkpoint")).option("path", str(lake / "samples"))
    writer.trigger(availableNow=True).start().awaitTermination()


def run(quick: bool) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        growth = () if quick else growing(Path(folder))  # with little data, it would show the cost of a start
        return [*against_others(Path(folder), quick), *growth]


def against_others(folder: Path, quick: bool) -> Iterator[Result]:
    import zenlake.spark

    samples, rounds = (250_000, 1) if quick else (SAMPLES, ROUNDS)
    log, prepared = folder / "log", folder / "prepared"
    record(log, samples)
    prepare(log, prepared)
    size = f"landing {sum(part.size for part in Log(log).plan()) >> 20} MB of log"
    # For a second of work, the JVM's second compiler costs more than it saves, for the peer too.
    spark = zenlake.spark.session("local[2]", quick=quick)
    cores = spark.sparkContext.defaultParallelism
    works = (
        lambda: land(spark, log, folder / "lake"),
        lambda: by_spark(spark, log, folder / "peer", cores),
        lambda: free_land(spark, log, folder / "free", prepared, cores),
    )
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda work: work(), works))  # warm-up: the JVM loads the same classes for all three
    costs = [[Cost(work) for work in works] for _ in range(rounds)]
    if not quick:
        yield starting(spark, folder, cores, rounds)
    spark.stop()
    shutil.rmtree(log)
    shutil.rmtree(prepared)
    for measure, of in (("seconds", ""), ("processor", ", by processor time")):
        ours, peer, free = ([getattr(row[i], measure) for row in costs] for i in range(3))
        faster = [Ratio(samples / a, samples / b) for a, b in zip(ours, peer, strict=True)]
        yield Result(f"{size}{of}", "through Spark's Parquet writer, samples", faster, 3)
        freer = [Ratio(a, b) for a, b in zip(ours, free, strict=True)]
        yield Result(f"{size}, seconds{of}", "decoding free, seconds", freer, 1.3)


def starting(spark: Any, folder: Path, cores: int, rounds: int) -> Result:
    """Measure the fixed cost of a query, with a log of one batch."""
    log = folder / "log-of-nothing"
    record(log, A_BATCH)
    works = (lambda: land(spark, log, folder / "lake"), lambda: by_spark(spark, log, folder / "peer", cores))
    times = [[Cost(work).seconds * 1000 for work in works] for _ in range(rounds)]
    return Result(
        "the start of a landing, of next to nothing, ms",
        "through Spark's Parquet writer, ms",
        [Ratio(*row) for row in times],
    )


def growing(folder: Path) -> Iterator[Result]:
    import zenlake.spark

    logs = {parts: folder / f"log-{parts}" for parts in (1, 2, 4)}
    for parts, log in logs.items():
        record(log, parts * PART // A_SAMPLE)
    spark = zenlake.spark.session("local[2]")
    land(spark, logs[1], folder / "lake")  # warm-up
    costs, memory = {}, {}
    for parts, log in logs.items():
        costs[parts] = Cost(lambda log=log: land(spark, log, folder / "lake"))
        memory[parts] = largest_task()
    for parts in (2, 4):
        name = f"landing {parts * PART >> 20} MB"
        once, more = costs[1], costs[parts]
        yield Result(
            f"{name}, seconds", f"{parts} times {PART >> 20} MB", [Ratio(more.seconds, parts * once.seconds)], 1.1
        )
        yield Result(
            f"{name}, largest task, MB", f"{PART >> 20} MB", [Ratio(memory[parts] / 1e6, memory[1] / 1e6)], 1.1
        )
    yield floor(spark, folder)
    spark.stop()
    alone = zenlake.spark.session("local[1]")
    land(alone, logs[1], folder / "lake")  # warm-up
    one = Cost(lambda: land(alone, logs[1], folder / "lake"))
    alone.stop()
    together = Ratio(PART / costs[1].seconds, PART / one.seconds)
    yield Result(f"landing {PART >> 20} MB on two cores, bytes", "on one core", [together], 1.7)


def floor(spark: Any, folder: Path) -> Result:
    """Measure the cost of a trigger that lands one small block."""
    import zenlake.spark

    log, lake = folder / "log-small", folder / "lake-small"
    record(log, MICRO_BATCHES * A_BATCH, block_size=1)
    ours = zenlake.spark.land(spark, log, lake, ["samples"], options={"maxOffsetsPerTrigger": "1"})
    ours.awaitTermination()
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    theirs = rows.writeStream.format("noop").option("checkpointLocation", str(folder / "rate")).start()
    while len(theirs.recentProgress) < MICRO_BATCHES:
        time.sleep(0.1)
    theirs.stop()
    times = [
        statistics.median(each["durationMs"]["triggerExecution"] for each in query.recentProgress[2:])
        for query in (ours, theirs)
    ]
    return Result("a micro-batch that lands one block, ms", "Spark's rate source into nothing, ms", [Ratio(*times)])


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
