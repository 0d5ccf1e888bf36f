# SPDX-License-Identifier: Apache-2.0
"""A stream from a wire log to Parquet: the extent of the track of each robot, per time window."""

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import zenlake.spark

POSE = "x double, y double"


def tracks(samples: DataFrame, window: str = "10 seconds") -> DataFrame:
    """Return robot, begin, number of poses, and the width and height of the track. Other payloads are left out."""
    poses = zenlake.spark.values(samples, "json", schema=POSE).where("value is not null")
    return (
        poses.withColumn("robot", f.split("key", "/")[1])
        .withWatermark("received", window)  # later rows are dropped
        .groupBy("robot", f.window("received", window).alias("w"))
        .agg(
            f.count("*").alias("poses"),
            (f.max("value.x") - f.min("value.x")).alias("width"),
            (f.max("value.y") - f.min("value.y")).alias("height"),
        )
        .select("robot", f.col("w.start").alias("begin"), "poses", "width", "height")
    )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("log", help="folder of a wire log")
    parser.add_argument("out", help="output folder for the Parquet files and the checkpoint")
    parser.add_argument("--every", help="run continuously at this interval, like '10 seconds'")
    given = parser.parse_args(arguments)
    spark = zenlake.spark.session()
    samples = (
        spark.readStream.format("zenoh")
        .option("keyExpr", "fleet/*/pose")
        .option("columns", "received,key,payload")  # other columns are not decoded
        .option("startingOffsets", "earliest")
        .load(given.log)
    )
    query = (
        tracks(samples)
        .writeStream.format("parquet")
        .option("path", f"{given.out}/tracks")
        .option("checkpointLocation", f"{given.out}/checkpoint")
        .trigger(**({"processingTime": given.every} if given.every else {"availableNow": True}))
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
