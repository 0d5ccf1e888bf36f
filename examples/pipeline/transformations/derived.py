# SPDX-License-Identifier: Apache-2.0
"""The derived tables: the definitions of Zenlake, with the tables of the pipeline as sources."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from zenlake.tables import definition


def derived(table: str) -> None:
    @dp.materialized_view(name=table, comment=definition(table).row)
    def rows() -> DataFrame:
        return SparkSession.active().sql(definition(table).sql)


for table in ("sessions", "queries", "latest", "rates"):
    derived(table)
