# SPDX-License-Identifier: Apache-2.0
"""Arrow tables on a terminal and in files, the same for every command."""

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from zenlake.cli.lines import as_json

__all__ = ["Format", "rich_table", "write"]


class Format(StrEnum):
    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"


BINARY = (Format.parquet, Format.arrow)
ENDLESS = 100_000  # columns of a page that nobody looks at directly


def write(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: Format, out: Path | None) -> int:
    """Write batches to a file, or to the standard output; how many rows there were."""
    if out is None and format in BINARY and sys.stdout.isatty():
        raise typer.BadParameter(f"{format} is not for a terminal: give a file with -o")
    if format is Format.table:
        return _print(schema, batches, out)
    writer: Callable[[pa.Schema, BinaryIO], Any] = {
        Format.jsonl: JsonLines, Format.csv: _csv, Format.parquet: _parquet, Format.arrow: _arrow,
    }[format]  # fmt: skip
    rows = 0
    with out.open("wb") if out is not None else nullcontext(sys.stdout.buffer) as file, writer(schema, file) as sink:
        for batch in batches:
            rows += batch.num_rows
            sink.write_batch(_plain(batch) if format is Format.csv else batch)
    return rows


class JsonLines:
    """A line for each row. Bytes are text where they are UTF-8, and {"hex": ...} where not."""

    def __init__(self, schema: pa.Schema, file: BinaryIO) -> None:
        self.file = file

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self.file.write(json.dumps(row, default=as_json, ensure_ascii=False).encode() + b"\n")


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """CSV has no bytes: hexadecimal instead."""
    arrays, names = [], batch.schema.names
    for array in batch.columns:
        if pa.types.is_binary(array.type):
            array = pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names)


def _csv(schema: pa.Schema, file: BinaryIO) -> Any:
    import pyarrow.csv

    types = [pa.string() if pa.types.is_binary(field.type) else field.type for field in schema]
    return pyarrow.csv.CSVWriter(file, pa.schema(list(zip(schema.names, types, strict=True))))


def _arrow(schema: pa.Schema, file: BinaryIO) -> Any:
    return pa.ipc.new_stream(file, schema)


def _parquet(schema: pa.Schema, file: BinaryIO) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")


def _print(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: Path | None) -> int:
    """A terminal gets what fits its width, a file or a pipe gets everything."""
    if out is not None:
        with out.open("w") as file:
            return _print_to(Console(file=file, width=ENDLESS), schema, batches)
    return _print_to(Console() if sys.stdout.isatty() else Console(width=ENDLESS), schema, batches)


def _print_to(console: Console, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Columns in which no row has a value are left out, and said to be."""
    table = pa.Table.from_batches(batches, schema=schema)
    empty = [name for name in table.column_names if table.num_rows and table[name].null_count == table.num_rows]
    console.print(rich_table(table.drop_columns(empty)))
    counted = f"{table.num_rows} row{'' if table.num_rows == 1 else 's'}"
    console.print(counted + (f"; without values: {', '.join(empty)}" if empty else ""), style="dim")
    return int(table.num_rows)


def rich_table(rows: pa.Table, widest: int | None = None) -> Table:
    """Rows as a table, a line for each: numbers to the right, times to the microsecond, bytes as text or hexadecimal."""
    table = Table(*rows.column_names, box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
    for column, type_ in zip(table.columns, rows.schema.types, strict=True):
        column.no_wrap = True
        column.max_width = widest
        if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
            column.justify = "right"
    for row in rows.to_pylist():
        table.add_row(*map(text, row.values()))
    return table


def text(value: Any) -> str:
    """A value in a cell. Square brackets of the data are not markup."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, bytes):
        short = value[:32]
        value = short.decode() if short.isascii() and short.decode().isprintable() else short.hex(" ", 4)
        value += "…" if len(short) == 32 else ""
    return str(value).replace("[", r"\[")
