# SPDX-License-Identifier: Apache-2.0
"""Several tables of a recording in one pass: rows with one struct per table, of which one is not null.

A source has one schema, and decoding a capture again for each table would multiply the cost. The columns of such rows are the
tables: `select("messages.*").where("messages is not null")`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from zenlake.spark.schema_conversion import spark_schema
from zenlake.tables.schemas import decode, select_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def schema(needs: Mapping[str, Sequence[str]]) -> StructType:
    return StructType(
        [StructField(table, spark_schema(select_schema(table, columns))) for table, columns in needs.items()]
    )


def batches(path: list[str], needs: Mapping[str, Sequence[str]]) -> Iterator[pa.RecordBatch]:
    return join_tables(decode(path, needs), needs)


def join_tables(
    decoded: Iterable[tuple[str, pa.RecordBatch]], needs: Mapping[str, Sequence[str]]
) -> Iterator[pa.RecordBatch]:
    """Return decoded rows of several tables as rows of one."""
    plain = {table: [pa.field(each.name, each.type) for each in select_schema(table, needs[table])] for table in needs}
    whole = pa.schema([pa.field(table, pa.struct(fields)) for table, fields in plain.items()])
    for met, batch in decoded:
        columns = [
            pa.StructArray.from_arrays(batch.columns, fields=plain[table])
            if table == met
            else pa.nulls(batch.num_rows, pa.struct(fields))
            for table, fields in plain.items()
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=whole)


def select_table(rows: "DataFrame", table: str) -> "DataFrame":
    """Return one of the tables, as if it was read alone."""
    return rows.where(f"{table} is not null").select(f"{table}.*")
