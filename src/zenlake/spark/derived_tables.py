# SPDX-License-Identifier: Apache-2.0
"""A derived table as a DataFrame: its definition over DataFrames of the decoded tables."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["derive_table"]


def derive_table(
    spark: "SparkSession", name: str, sources: Mapping[str, "DataFrame"], instead: Mapping[str, str] | None = None
) -> "DataFrame":
    """Return the DataFrame. `instead` maps parts of the query to columns that contain their values."""
    from zenlake.tables.derived import definition

    defined = definition(name)
    sql = defined.sql
    for part, column in (instead or {}).items():
        sql = sql.replace(part, column)
    # The query's names of the decoded tables. Spark replaces {table} by a view that lives as long as this call.
    views = ", ".join(f"{table} as (select * from {{{table}}})" for table in sources)
    query = sql.replace("{", "{{").replace("}", "}}")
    found = spark.sql(f"with {views} select * from ({query})", **sources)
    comments = defined.comments
    return found.select(*(found[each].alias(each, metadata={"comment": comments[each]}) for each in found.columns))
