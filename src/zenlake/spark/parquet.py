# SPDX-License-Identifier: Apache-2.0
"""Write a table as Parquet files, with Spark's own writer."""

from pathlib import Path

from pyspark.sql import DataFrame, Observation, functions


def write(table: DataFrame, folder: Path, *, by_day: bool) -> int:
    """Replace the content of a folder by a table. Return the number of rows, counted while writing.

    With `by_day`, rows are stored in one folder per day of received time, `day=2026-01-31`.
    """
    written = Observation()
    table = table.observe(written, functions.count(functions.lit(1)).alias("rows"))
    if by_day:
        table = table.withColumn("day", functions.to_date("received"))
    writer = table.write.mode("overwrite").option("compression", "zstd")
    (writer.partitionBy("day") if by_day else writer).parquet(str(folder))
    return int(written.get["rows"])
