# SPDX-License-Identifier: Apache-2.0
"""How far each robot drove, by windows of time: from a wire log to Parquet, as a stream."""

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

import zenlake.spark

POSE = "x double, y double"


def tracks(samples: DataFrame, window: str = "10 seconds") -> DataFrame:
    """Rows of `samples` -> robot, begin, poses, and the width and height of where it was. What is no pose is left out."""
    poses = zenlake.spark.values(samples, "json", schema=POSE).where("value is not null")
    return (
        poses.withColumn("robot", f.split("key", "/")[1])
        .withWatermark("received", window)  # later than that, and it is not waited for
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
    parser.add_argument("log", help="the folder of a wire log")
    parser.add_argument("out", help="where the Parquet files go, and the checkpoint")
    parser.add_argument("--every", help="go on, as often as this, like '10 seconds'")
    given = parser.parse_args(arguments)
    spark = zenlake.spark.session()
    samples = (
        spark.readStream.format("zenoh")
        .option("keyExpr", "fleet/*/pose")
        .option("columns", "received,key,payload")  # nothing else is decoded
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
