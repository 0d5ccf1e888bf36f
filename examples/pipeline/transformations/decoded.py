# SPDX-License-Identifier: Apache-2.0
"""The decoded tables: streams of the log. Each run processes the new blocks."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

LOG = os.environ.get("ZENLAKE_LOG", "lake/log")


def decoded(table: str) -> None:
    @dp.table(name=table, comment=f"The decoded table {table} of {LOG}")
    def rows() -> DataFrame:
        reader = SparkSession.active().readStream.format("zenoh").option("table", table)
        return reader.option("startingOffsets", "earliest").load(LOG)


for table in ("messages", "samples", "events"):
    decoded(table)
