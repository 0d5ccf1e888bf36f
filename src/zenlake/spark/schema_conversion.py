# SPDX-License-Identifier: Apache-2.0
"""Conversion of Arrow schemas to Spark, with the comments that DESCRIBE shows."""

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from zenlake.tables.schemas import TABLES

# The types of the decoded tables; Spark's interface for sources has no others of the same width.
TYPES: dict[pa.DataType, DataType] = {
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.timestamp("us", tz="UTC"): TimestampType(),
}


def spark_schema(schema: pa.Schema) -> StructType:
    return StructType(
        [
            StructField(
                field.name, spark_type(field.type), field.nullable, {"comment": field.metadata[b"comment"].decode()}
            )
            for field in schema
        ]
    )


def spark_type(type_: pa.DataType) -> DataType:
    if pa.types.is_list(type_):
        return ArrayType(spark_type(type_.value_type))
    if pa.types.is_struct(type_):
        return StructType([StructField(field.name, spark_type(field.type)) for field in type_])
    return TYPES[type_]


def check_schema(source: str, table: str, schema: StructType) -> None:
    """Check that a user's schema names columns of the table with their types. Raise one line about the first error."""
    whole = {field.name: field for field in spark_schema(TABLES[table])}
    for field in schema.fields:
        if field.name not in whole:
            raise ValueError(f"{source}: {table} has no column {field.name!r}; expected one of {', '.join(whole)}")
        if field.dataType != whole[field.name].dataType or not field.nullable:
            given = field.dataType.simpleString() + ("" if field.nullable else " not null")
            is_ = whole[field.name].dataType.simpleString()
            raise ValueError(f"{source}: column {table}.{field.name} has type {is_}, not {given}; use that type")
