# SPDX-License-Identifier: Apache-2.0
"""`format("zenoh_capture")`: the decoded tables of capture files as a Spark source.

All files of one `load` are one capture (those of a rotation may be given in any order): what a session declared in one file
counts in the next. A capture is one partition, unless `minPartitions` asks for more: then the driver reads it once, without
decoding, to find what each part must know of those before it.

Options are checked in `DataSource.__init__`, the only place that Spark calls on every path, so that a mistake is told at `load`.
Every Spark session of an environment in which Zenlake is installed imports this: what is heavy is imported where it is used.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

OPTIONS = {
    "path": "the capture files; given by load()",
    "paths": "several of them; given by load([...])",
    "table": "a decoded table; samples if not given",
    "columns": "the columns wanted, separated by commas; all if not given",
    "keyExpr": "a key expression that a row's key must intersect",
    "startingTimestamp": "rows received at this time or later",
    "endingTimestamp": "rows received before this time",
    "minPartitions": "in how many parts the capture is decoded, about; 1 if not given",
}


class CaptureSource(DataSource):  # type: ignore[misc]  # PySpark is not checked
    """The decoded tables of capture files."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self.chosen = chosen_by(options)
        self.count = partitions_by(options)

    @classmethod
    def name(cls) -> str:
        return "zenoh_capture"

    def schema(self) -> "StructType":
        from zenlake.columns.schemas import chosen
        from zenlake.spark.types import spark_schema

        return spark_schema(chosen(self.chosen["table"], self.chosen["columns"]))

    def reader(self, schema: "StructType") -> "CaptureReader":
        """A reader of the columns in `schema`, which is the user's own if there is one."""
        from zenlake.columns.schemas import TABLES
        from zenlake.spark.types import spark_schema

        table = self.chosen["table"]
        whole = {field.name: field for field in spark_schema(TABLES[table])}
        for field in schema.fields:
            if field.name not in whole:
                refuse(f"{table} has no column {field.name!r}; it has {', '.join(whole)}")
            if field.dataType != whole[field.name].dataType or not field.nullable:
                given = field.dataType.simpleString() + ("" if field.nullable else " not null")
                refuse(f"{table}.{field.name} is {whole[field.name].dataType.simpleString()}, not {given}")
        return CaptureReader({**self.chosen, "columns": schema.fieldNames()}, self.count)


class CaptureReader(DataSourceReader):  # type: ignore[misc]
    """Decodes where Spark runs it; only the choice travels there."""

    def __init__(self, choice: dict[str, Any], count: int) -> None:
        self.choice = choice
        self.count = count

    def partitions(self) -> list[InputPartition]:
        from zenlake.tables import parts

        if self.count == 1:
            return [InputPartition(None)]
        return [InputPartition(part) for part in parts(self.choice["path"], self.choice["table"], self.count)]

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        import pyarrow as pa

        from zenlake.tables import batches, part_batches

        if partition.value is None:
            found = batches(**self.choice, processes=1)
        else:
            found = part_batches(partition.value, **{name: self.choice[name] for name in self.choice if name != "path"})
        for batch in found:
            # Spark compares the schema with its own, which has no metadata.
            yield pa.RecordBatch.from_arrays(batch.columns, schema=batch.schema.remove_metadata())


def chosen_by(options: dict[str, str]) -> dict[str, Any]:
    """What the options ask for, as arguments of `zenlake.tables.batches`; one line about the first mistake."""
    from zenlake.columns.schemas import TABLES, chosen
    from zenlake.errors import InvalidValue
    from zenlake.keyexpr import KeyExpr
    from zenlake.tables.derived import DERIVED
    from zenlake.tables.files import files

    valid = {name.lower(): name for name in OPTIONS}
    for name in options:
        if name.lower() not in valid:
            named = ", ".join(name for name in OPTIONS if name != "paths")
            refuse(f"no option {name!r}; there are {named}")
    table = options.get("table", "samples")
    if table in DERIVED:
        refuse(f"{table!r} is derived from several tables: zenlake.spark.tables(spark, path)[{table!r}] gives it")
    if table not in TABLES:
        refuse(f"option 'table': no table {table!r}; there are {', '.join(TABLES)}")
    columns = None
    if "columns" in options:
        columns = [name.strip() for name in options["columns"].split(",")]
        try:
            chosen(table, columns)
        except ValueError as error:
            refuse(f"option 'columns': {error}")
        if len(set(columns)) < len(columns):
            refuse(f"option 'columns': a column is named twice in {options['columns']!r}")
    keys = options.get("keyExpr")
    if keys is not None:
        if "key" not in TABLES[table].names:
            refuse(f"option 'keyExpr': {table} has no keys to choose by")
        try:
            KeyExpr(keys)
        except InvalidValue as error:
            refuse(f"option 'keyExpr': {error}")
    since = instant("startingTimestamp", options.get("startingTimestamp"))
    until = instant("endingTimestamp", options.get("endingTimestamp"))
    if since is not None and until is not None and until <= since:
        refuse("option 'endingTimestamp' is not after 'startingTimestamp': no row can be between them")
    given = json.loads(options["paths"]) if "paths" in options else options.get("path")
    if not given:
        refuse("no capture given; load('captures/*.pcapng') takes files and patterns")
    try:
        path = files(given)
    except OSError as error:
        refuse(str(error))
    if "-" in path:
        refuse("a Spark task has no standard input; save the capture to a file")
    return {"path": path, "table": table, "columns": columns, "keys": keys, "since": since, "until": until}


def partitions_by(options: dict[str, str]) -> int:
    text = options.get("minPartitions", "1").strip()
    if not text.isdigit() or not 1 <= int(text) <= 10_000:
        refuse(f"option 'minPartitions': {text!r} is not a number from 1 to 10000")
    return int(text)


def instant(option: str, text: str | None) -> datetime | None:
    """Milliseconds since 1970, as Spark's Kafka source has it, or ISO 8601; without an offset it is UTC."""
    if text is None:
        return None
    try:
        if text.strip().lstrip("-").isdigit():
            return datetime.fromtimestamp(int(text) / 1000, UTC)
        time = datetime.fromisoformat(text.strip())
    except (ValueError, OverflowError, OSError):
        refuse(
            f"option {option!r}: {text!r} is neither milliseconds since 1970 nor a time such as 2026-01-31T12:00:00Z"
        )
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def refuse(why: str) -> NoReturn:
    raise ValueError(f"zenoh_capture: {why}")
