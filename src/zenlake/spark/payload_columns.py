# SPDX-License-Identifier: Apache-2.0
"""Payload columns on Spark: `zenlake.payloads` as an Arrow function, so that only payloads and keys are sent to Python.

Unlike `mapInArrow`, an Arrow function needs neither pandas nor the other columns of a row. It works on streams and on Spark
Connect.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def values(
    df: "DataFrame", format: str, *, column: str = "payload", into: str = "value", **options: Any
) -> "DataFrame":
    """Add a column with decoded payloads, and a column with decoding errors.

    A missing schema is inferred from the first rows, which runs the query up to them. Streams need an explicit schema.

    Args:
        df: DataFrame with payloads, such as `samples`.
        format: Format of the payloads, as for `zenlake.tables.values`: `json`, `cbor`, `text`, `serialized`, `protobuf` or `cdr`.
        column: Name of the column with payloads.
        into: Name of the new column. Errors are in the column `{into}_error`.
        options: Options of the format, as for `zenlake.tables.values`. A schema may also be a Spark type or DDL text.

    Returns:
        The DataFrame with two more columns.

    Raises:
        InvalidValue: An argument is invalid.

    Example:
        ```python
        zenlake.spark.values(tables["samples"], "json", schema="battery double, state string")
        ```
    """
    import pyarrow as pa
    from pyspark.sql import functions
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    from zenlake.errors import InvalidValue
    from zenlake.payloads import check_format, make_plan

    check_format(df.columns, column, into)
    key = functions.col("key") if "key" in df.columns else functions.lit(None).cast("string")

    def sample(rows: int) -> list[tuple[bytes, str | None]]:
        if df.isStreaming:
            name = "type" if format == "cdr" else "schema"
            raise InvalidValue(f"{name} cannot be inferred from a stream; pass {name}=")
        some = df.where(functions.col(column).isNotNull()).select(functions.col(column), key).limit(rows).collect()
        return [(bytes(row[0]), row[1]) for row in some]

    if options.get("schema") is not None:
        options["schema"] = _arrow(options["schema"])
    plan = make_plan(format, sample, options)
    result = StructType([StructField("value", from_arrow_type(plan.type)), StructField("error", StringType())])

    def decode(payloads: pa.Array, keys: pa.Array) -> pa.Array:
        decoded, errors = plan.decode(payloads, keys)
        return pa.StructArray.from_arrays([decoded, errors], ["value", "error"])

    both = functions.arrow_udf(decode, result)(functions.col(column), key)
    whole = df.withColumn(f"{into}_both", both)
    parts = {into: functions.col(f"{into}_both.value"), f"{into}_error": functions.col(f"{into}_both.error")}
    return whole.withColumns(parts).drop(f"{into}_both")


def value_errors(df: "DataFrame", *, column: str = "payload", into: str = "value") -> "DataFrame":
    """Return the rows whose payload could not be decoded, with the columns of the table `errors`.

    Args:
        df: Result of `values`.
        column: Name of the column with payloads, as passed to `values`.
        into: Name of the column with values, as passed to `values`.

    Raises:
        InvalidValue: The DataFrame is not a result of `values`.
    """
    from pyspark.sql import functions

    from zenlake.columns.schemas import ERRORS
    from zenlake.errors import InvalidValue
    from zenlake.payloads import MAX_ERROR_BYTES
    from zenlake.spark.schema_conversion import spark_schema

    why = f"{into}_error"
    if why not in df.columns:
        raise InvalidValue(f"missing column {why!r}; call values() first")
    known = {
        "field": functions.lit(into),
        "at": functions.lit(None),
        "why": functions.col(why),
        "bytes": functions.substring(column, 1, MAX_ERROR_BYTES),
    }
    columns = {**{name: functions.col(name) for name in df.columns}, **known}
    return df.where(functions.col(why).isNotNull()).select([
        columns.get(field.name, functions.lit(None)).cast(field.dataType).alias(field.name)
        for field in spark_schema(ERRORS)
    ])  # fmt: skip


def ros_keys(df: "DataFrame") -> "DataFrame":
    """Add a column `ros`: domain, topic, type and hash of rmw_zenoh keys. It is null for other keys.

    Args:
        df: DataFrame with the column `key`.

    Returns:
        The DataFrame with one more column.
    """
    from pyspark.sql import functions

    from zenlake.payloads import check_format
    from zenlake.payloads.ros2 import KEY, PARTS

    check_format(df.columns, "key", "ros")
    java = KEY
    for name in PARTS.names:
        java = java.replace(f"?P<{name}>", "")  # Spark needs numbered groups
    domain, topic, kind, hash_ = (functions.regexp_extract("key", java, group) for group in (1, 2, 3, 4))
    kind = functions.regexp_replace(functions.regexp_replace(kind, "::dds_::|::", "/"), "_$", "")
    parts = [domain.cast("int"), functions.concat(functions.lit("/"), topic), kind, hash_]
    named = functions.struct(*(part.alias(name) for part, name in zip(parts, PARTS.names, strict=True)))
    return df.withColumn("ros", functions.when(functions.col("key").rlike(java), named))


def _arrow(schema: Any) -> Any:
    """Convert a Spark type to an Arrow type."""
    from pyspark.sql.pandas.types import to_arrow_type
    from pyspark.sql.types import DataType

    from zenlake.errors import InvalidValue

    if isinstance(schema, str):
        try:
            schema = DataType.fromDDL(schema)
        except Exception as error:
            reason = " ".join(str(error).split("\n\n")[0].split())
            raise InvalidValue(f"schema: {reason}") from None
    return to_arrow_type(schema, timezone="UTC") if isinstance(schema, DataType) else schema
