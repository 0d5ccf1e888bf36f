# SPDX-License-Identifier: Apache-2.0
"""Zenoh traffic on Spark: a configured session, and tables as DataFrames.

    spark = zenlake.spark.session()
    spark.read.format("zenoh_capture").option("table", "messages").load("captures/*.pcapng")
    zenlake.spark.tables(spark, "captures/*.pcapng")["queries"]
    zenlake.spark.land(spark, "lake/log", "lake/tables").awaitTermination()
    zenlake.spark.values(samples, "json")

The import is cheap: PySpark is imported when a session is created.
"""

from zenlake.spark.compaction import compact
from zenlake.spark.dataframes import read_delta, read_iceberg, tables
from zenlake.spark.derived_streams import stream
from zenlake.spark.land import land
from zenlake.spark.payload_columns import ros_keys, value_errors, values
from zenlake.spark.refresh import kept, refresh
from zenlake.spark.replay import replay
from zenlake.spark.session import session

__all__ = [
    "compact",
    "kept",
    "land",
    "read_delta",
    "read_iceberg",
    "refresh",
    "replay",
    "ros_keys",
    "session",
    "stream",
    "tables",
    "value_errors",
    "values",
]
