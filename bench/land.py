# SPDX-License-Identifier: Apache-2.0
"""Landing a log, against the same rows through Spark's own Parquet writer, and against landing with decoding for free.

One Spark session, the same log, runs in turn. The peer's rows come from the same source and go to the same layout (zstd, a folder a
day), but not in the order of keys: Spark sorts no stream. "Decoding free" replaces the decoder in the tasks by record batches
that were prepared before. Starting a query costs some seconds whatever it lands: the log is large enough for the rest to count.
"""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.capture import INIT_ACK, INIT_SYN, OPEN_ACK, OPEN_SYN, vle
from bench.report import Ratio, Result, show
from zenlake.log import Log, Writer
from zenlake.tables.schemas import TABLES

NOON = 1_770_000_000_000_000_000


def record(path: Path, samples: int) -> None:
    """A log of puts of 200 bytes under 500 keys, 40 to a batch."""
    with Writer(path, "tap-1", sync="sealed") as writer:
        face = writer.face("tcp", "10.0.0.1:40000", "10.0.0.2:7447")
        for side, data in ((0, INIT_SYN), (1, INIT_ACK), (0, OPEN_SYN), (1, OPEN_ACK)):
            writer.append(face, side, data, received=NOON)
        for sn in range(samples // 40):
            body = bytearray(b"\x25" + vle(sn & 0xFFFFFFF))
            for i in range(40):
                key = b"fleet/robot%03d/pose" % ((sn * 7 + i * 13) % 500)
                payload = os.urandom(100) + b"0" * 100
                body += b"\x3d\x00" + vle(len(key)) + key + b"\x01" + vle(len(payload)) + payload
            writer.append(face, 0, bytes(body), received=NOON + sn * 1000)


def run(quick: bool) -> list[Result]:
    import zenlake.spark

    samples, rounds = (300_000, 2) if quick else (4_000_000, 5)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        record(log, samples)
        size = sum(part.size for part in Log(log).plan())
        prepared = Path(folder) / "prepared"
        spark = zenlake.spark.session("local[2]")
        cores = spark.sparkContext.defaultParallelism

        def direct() -> float:
            lake = Path(folder) / "lake"
            shutil.rmtree(lake, ignore_errors=True)
            start = time.perf_counter()
            zenlake.spark.land(spark, log, lake, ["samples"]).awaitTermination()
            return time.perf_counter() - start

        def by_spark() -> float:
            lake = Path(folder) / "peer"
            shutil.rmtree(lake, ignore_errors=True)
            start = time.perf_counter()
            rows = spark.readStream.format("zenoh").option("startingOffsets", "earliest").option("minPartitions", cores)
            rows = rows.load(str(log)).selectExpr("*", "to_date(received) as day")
            writer = rows.writeStream.format("parquet").partitionBy("day").option("compression", "zstd")
            writer = writer.option("checkpointLocation", str(lake / "_checkpoint")).option(
                "path", str(lake / "samples")
            )
            writer.trigger(availableNow=True).start().awaitTermination()
            return time.perf_counter() - start

        def without_decoding() -> float:
            """The same job over a log whose tasks find their rows decoded: what is left is writing, and Spark."""
            lake = Path(folder) / "free"
            shutil.rmtree(lake, ignore_errors=True)
            start = time.perf_counter()
            free_land(spark, log, lake, prepared, cores)
            return time.perf_counter() - start

        prepare(log, prepared)
        for warm in (direct, by_spark, without_decoding):
            warm()
        faster, freer = [], []
        for _ in range(rounds):
            ours, peer, free = direct(), by_spark(), without_decoding()
            faster.append(Ratio(samples / ours, samples / peer))
            freer.append(Ratio(ours, free))
        spark.stop()
    return [
        Result(f"landing {size >> 20} MB of log", "through Spark's Parquet writer, samples", faster, 3),
        Result(f"landing {size >> 20} MB of log, seconds", "decoding free, seconds", freer, 1.3),
    ]


def prepare(log: Path, prepared: Path) -> None:
    """The rows of each block, decoded and stored as they lie in memory."""
    import pyarrow as pa

    from zenlake.tables.schemas import decode_ranges

    whole = Log(log)
    prepared.mkdir(exist_ok=True)
    for part in whole.plan(size=1):
        with pa.ipc.new_file(str(prepared / f"{part.segment}-{part.first}.arrow"), TABLES["samples"]) as writer:
            for _, batch in decode_ranges(whole, [part], {"samples": None}):
                writer.write_batch(batch)


def free_land(spark: Any, log: Path, lake: Path, prepared: Path, cores: int) -> None:
    """`land`, with tasks that read prepared record batches, mapped into memory, where it would decode."""
    from zenlake.lake import Lake
    from zenlake.spark.lake_sink import LakeSink, LakeWriter

    class FreeWriter(LakeWriter):
        def _decode(self, iterator, batch, task):
            import json
            from pathlib import Path

            import pyarrow as pa

            from zenlake.lake import replanned, staging
            from zenlake.log import Log

            log = Log(self.log)
            wanted = replanned(log, [json.loads(row["piece"]) for each in iterator for row in each.to_pylist()])
            source = {"log": log.id, "pieces": [piece.plain() for piece in wanted]}

            def rows():
                for part in (piece.range for piece in wanted):
                    for block in range(part.first, part.last):
                        with pa.memory_map(str(prepared / f"{part.segment}-{block}.arrow")) as file:
                            reader = pa.ipc.open_file(file)
                            for i in range(reader.num_record_batches):
                                yield "samples", reader.get_batch(i)

            return staging.write(Path(self.lake), rows(), {"samples": staging.TABLES["samples"]}, batch, task, source)

    class FreeSink(LakeSink):
        @classmethod
        def name(cls):
            return "zenlake_free"

        def streamWriter(self, schema, overwrite):
            return FreeWriter(self.options["path"], self.options["log"], ["samples"], False)

    Lake(lake, create="parquet")
    spark.dataSource.register(FreeSink)
    rows = spark.readStream.format("zenoh").option("startingOffsets", "earliest").option("minPartitions", cores)
    writer = rows.option("output", "ranges").load(str(log)).writeStream.format("zenlake_free")
    writer = writer.option("log", str(log)).option("checkpointLocation", str(lake / "_checkpoints"))
    writer.trigger(availableNow=True).start(str(lake)).awaitTermination()


if __name__ == "__main__":
    show(run("--quick" in sys.argv))
