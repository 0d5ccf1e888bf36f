# SPDX-License-Identifier: Apache-2.0
"""A landing whose tasks read prepared rows. Of the cost of `zenlake.spark.land`, only writing and Spark remain."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from zenlake.log import Log
from zenlake.tables.schemas import TABLES, decode_ranges


def prepare(log: Path, prepared: Path) -> None:
    """Decode the rows of each block and store them in the Arrow file format."""
    whole = Log(log)
    prepared.mkdir(exist_ok=True)
    for part in whole.plan(size=1):
        with pa.ipc.new_file(str(prepared / f"{part.segment}-{part.first}.arrow"), TABLES["samples"]) as writer:
            for _, batch in decode_ranges(whole, [part], {"samples": None}):
                writer.write_batch(batch)


def free_land(spark: Any, log: Path, lake: Path, prepared: Path, cores: int) -> None:
    """Land a log like `land`, but with tasks that map prepared record batches into memory instead of decoding."""
    from zenlake.lake import Lake
    from zenlake.spark.lake_sink import LakeSink
    from zenlake.spark.lake_source import LakeSource, LandStream
    from zenlake.spark.land import register_sources

    class FreeStream(LandStream):
        def decode(self, log: Log, ranges: Any, tables: Any) -> Iterator[tuple[str, pa.RecordBatch]]:
            import pyarrow as pa

            for part in ranges:
                for block in range(part.first, part.last):
                    with pa.memory_map(str(prepared / f"{part.segment}-{block}.arrow")) as file:
                        reader = pa.ipc.open_file(file)
                        for i in range(reader.num_record_batches):
                            yield "samples", reader.get_batch(i)

    class FreeSource(LakeSource):
        @classmethod
        def name(cls) -> str:
            return "zenlake_free"

        def streamReader(self, schema: Any) -> LandStream:
            return FreeStream(self.settings, str(lake), ["samples"], False)

    shutil.rmtree(lake, ignore_errors=True)
    Lake(lake, create="delta")
    register_sources(spark, FreeSource, LakeSink)
    rows = spark.readStream.format("zenlake_free").option("startingOffsets", "earliest").option("minPartitions", cores)
    writer = rows.load(str(log)).writeStream.format(LakeSink.name()).option("log", str(log))
    writer = writer.option("tables", "samples").option("checkpointLocation", str(lake / "_checkpoints"))
    writer.trigger(availableNow=True).start(str(lake)).awaitTermination()
