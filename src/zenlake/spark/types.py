# SPDX-License-Identifier: Apache-2.0
"""Arrow schemas as Spark's, with the comments that Spark shows in DESCRIBE."""

import pyarrow as pa
from pyspark.sql.types import (
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

# The types that the decoded tables use; Spark's contract with a source knows no others of the same width.
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
            StructField(field.name, TYPES[field.type], field.nullable, {"comment": field.metadata[b"comment"].decode()})
            for field in schema
        ]
    )
