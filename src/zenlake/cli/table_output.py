# SPDX-License-Identifier: Apache-2.0
"""Output of Arrow tables to a terminal or a file, for all commands."""

import sys
from collections.abc import Callable, Iterable, Mapping
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
from rich.text import Text

from zenlake.cli.console import Printer
from zenlake.cli.formatting import escape, json_line, json_text, open_output

__all__ = ["Format", "rich_table", "write"]


class Format(StrEnum):
    table = "table"
    jsonl = "jsonl"
    csv = "csv"
    parquet = "parquet"
    arrow = "arrow"
    feather = "feather"


BINARY = (Format.parquet, Format.arrow, Format.feather)
ENDLESS = 100_000  # width of output that does not go to a terminal
SCREEN = 200  # rows shown on a terminal
WIDEST, GAP, NARROW = 40, 3, 8  # characters: largest cell on a terminal, gap between cells, smallest truncated cell
FIRST = (  # preferred columns; the others follow in schema order, and LAST (provenance) at the end
    "received", "key", "kind", "type", "body", "action", "outcome", "reason", "scope", "missing", "payload", "detail", "why",
    "replies", "final_ms", "error", "opener_role", "acceptor_role", "protocol", "payload_size", "encoding",
)  # fmt: skip
LAST = (
    "received_ns", "log", "writer", "session", "generation", "direction", "file", "segment", "block", "row", "packet", "index",
    "ntp64", "sn", "timestamp", "timestamp_id", "clock_skew", "source_zid", "source_eid", "source_sn", "request_id",
    "responder_zid", "responder_eid", "timestamp_stack",
)  # fmt: skip


def write(
    schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: Format, out: Path | None, live: bool = False
) -> int:
    """Write record batches to a file or the standard output, and return the number of rows.

    If they are `live`, a table on the standard output is printed while they arrive.
    """
    if out is None and format in BINARY and sys.stdout.isatty():
        raise typer.BadParameter(f"{format} is a binary format and cannot be printed on a terminal; use -o FILE")
    if live and format is Format.table and out is None:
        return _print_live(Printer(width=None if sys.stdout.isatty() else ENDLESS), schema, batches)
    with open_output(out) as target:
        return _print(schema, batches, target) if format is Format.table else _write(schema, batches, format, target)


def _write(schema: pa.Schema, batches: Iterable[pa.RecordBatch], format: Format, out: Path | None) -> int:
    writer: Callable[[pa.Schema, BinaryIO], Any] = {
        Format.jsonl: JsonLines, Format.csv: _csv, Format.parquet: _parquet, Format.arrow: _arrow, Format.feather: _feather,
    }[format]  # fmt: skip
    rows, seen = 0, out is None and sys.stdout.isatty()
    with out.open("wb") if out is not None else nullcontext(sys.stdout.buffer) as file, writer(schema, file) as sink:
        for batch in batches:
            rows += batch.num_rows
            sink.write_batch(_plain(batch, seen) if format is Format.csv else batch)
            if out is None:
                file.flush()  # the next rows of a pipe may come much later
    return rows


class JsonLines:
    """A writer of one JSON object per row. Bytes are text if they are UTF-8, else {"hex": ...}."""

    def __init__(self, schema: pa.Schema, file: BinaryIO) -> None:
        self.file = file

    def __enter__(self) -> "JsonLines":
        return self

    def __exit__(self, *_: object) -> None:
        self.file.flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self.file.write(json_line(row).encode() + b"\n")


def _plain(batch: pa.RecordBatch, seen: bool) -> pa.RecordBatch:
    """Replace bytes by hexadecimal and lists by JSON, which CSV needs. Escape text that goes to a terminal (`seen`)."""
    arrays, names = [], batch.schema.names
    for array in batch.columns:
        if pa.types.is_binary(array.type):
            array = pa.array([None if value is None else value.hex() for value in array.to_pylist()], pa.string())
        elif pa.types.is_list(array.type):
            array = pa.array([None if value is None else json_text(value) for value in array.to_pylist()], pa.string())
        elif seen and pa.types.is_string(array.type):
            array = pa.array([None if value is None else escape(value) for value in array.to_pylist()], pa.string())
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, names)


def _csv(schema: pa.Schema, file: BinaryIO) -> Any:
    import pyarrow.csv

    types = [
        pa.string() if pa.types.is_binary(field.type) or pa.types.is_list(field.type) else field.type
        for field in schema
    ]
    return pyarrow.csv.CSVWriter(file, pa.schema(list(zip(schema.names, types, strict=True))))


def _arrow(schema: pa.Schema, file: BinaryIO) -> Any:
    return pa.ipc.new_stream(file, schema)


def _feather(schema: pa.Schema, file: BinaryIO) -> Any:
    return pa.ipc.new_file(file, schema)


def _parquet(schema: pa.Schema, file: BinaryIO) -> Any:
    import pyarrow.parquet

    return pyarrow.parquet.ParquetWriter(file, schema, compression="zstd")


def _print(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: Path | None) -> int:
    """Print the rows and columns that fit a terminal, or everything to a file or pipe."""
    if out is not None:
        with out.open("w", encoding="utf-8") as file:
            return _print_all(Console(file=file, width=ENDLESS), schema, batches)
    if sys.stdout.isatty():
        return _print_some(Printer(), schema, batches)
    return _print_all(Printer(width=ENDLESS), schema, batches)


def _print_live(console: Console, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Print each record batch when it arrives, with the columns and widths of the first."""
    rows, widths = 0, {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        if not rows:
            used = [name for name in table.column_names if table[name].null_count < table.num_rows]
            widths = fit_columns(table.select(used), console.width)
        shown = rich_table(table.select(list(widths)), widths)
        shown.show_header = not rows
        for column, width in zip(shown.columns, widths.values(), strict=True):
            column.min_width = width
        console.print(shown)
        rows += batch.num_rows
    console.print(Text("; ".join(_count_rows(rows, [])), style="dim"))
    return rows


def _print_all(console: Console, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    table = pa.Table.from_batches(batches, schema=schema)
    empty = [name for name in table.column_names if table.num_rows and table[name].null_count == table.num_rows]
    console.print(rich_table(table.drop_columns(empty)))
    console.print(Text("; ".join(_count_rows(table.num_rows, empty)), style="dim"))
    return int(table.num_rows)


def _print_some(console: Console, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Print the first rows and the columns that fit side by side, and the number of omitted rows and columns."""
    first: list[pa.RecordBatch] = []
    rows, nulls = 0, [0] * len(schema)
    for batch in batches:
        if rows < SCREEN:
            first.append(batch.slice(0, SCREEN - rows))
        rows += batch.num_rows
        nulls = [count + column.null_count for count, column in zip(nulls, batch.columns, strict=True)]
    empty = [name for name, count in zip(schema.names, nulls, strict=True) if rows and count == rows]
    table = pa.Table.from_batches(first, schema=schema).drop_columns(empty)
    widths = fit_columns(table, console.width)
    console.print(rich_table(table.select(list(widths)), widths))
    notes = _count_rows(rows, empty)
    left = table.num_columns - len(widths)
    if rows > SCREEN:
        notes.append(f"the first {SCREEN} are shown")
    if left:
        notes.append(f"{left} more column{'s do' if left > 1 else ' does'} not fit")
    if left or rows > SCREEN:
        notes.append("use -o FILE, --json or a pipe for everything")
    console.print(Text("; ".join(notes), style="dim"))
    return rows


def _count_rows(rows: int, empty: list[str]) -> list[str]:
    return [
        f"{rows} row{'' if rows == 1 else 's'}",
        *([f"without values: {', '.join(map(escape, empty))}"] if empty else []),
    ]


def fit_columns(table: pa.Table, width: int) -> dict[str, int]:
    """Return the columns that fit side by side in `width`, with their widths.

    Preferred columns are selected first. The last column may be truncated.
    """
    room = width - 2
    chosen: dict[str, int] = {}
    for name in sorted(table.column_names, key=_rank):
        needs = min(WIDEST, max(len(name), *(len(text(value.as_py())) for value in table[name]), 0))
        cut = min(needs, room - GAP)
        if cut >= min(needs, max(NARROW, len(name))) or not chosen:
            chosen[name] = cut
        room -= needs + GAP
        if room < 0:
            break
    return {name: chosen[name] for name in table.column_names if name in chosen}


def _rank(name: str) -> int:
    return FIRST.index(name) if name in FIRST else len(FIRST) + (name in LAST)


def rich_table(rows: pa.Table, widest: int | Mapping[str, int] | None = None) -> Table:
    """Return rows as a Rich table: numbers right-aligned, times in microseconds, bytes as text or hexadecimal."""
    table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
    for name, type_ in zip(rows.column_names, rows.schema.types, strict=True):
        table.add_column(
            Text(escape(name)), no_wrap=True, max_width=widest[name] if isinstance(widest, Mapping) else widest
        )
        column = table.columns[-1]
        if pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_):
            column.justify = "right"
    for row in rows.to_pylist():
        table.add_row(*(Text(text(value)) for value in row.values()))
    return table


def text(value: Any) -> str:
    """Return a value as the text of a cell, safe for a terminal. Wrap it in `Text`: a plain `str` is markup for Rich."""
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
    if isinstance(value, list):
        value = json_text(value)
    return escape(str(value))
