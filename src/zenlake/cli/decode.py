# SPDX-License-Identifier: Apache-2.0
"""`zenlake decode`: a table of a capture, a log or a lake, on the terminal or as a file."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from zenlake.cli.lines import LeftOut, escaped
from zenlake.cli.show import Format, write
from zenlake.cli.terminal import counted, working
from zenlake.errors import InvalidValue
from zenlake.examples import or_sample
from zenlake.tables import DERIVED, batches, read
from zenlake.tables.read import checked
from zenlake.tables.schemas import TABLES, chosen

NAMES = [*TABLES, *DERIVED]
SUFFIXES = {
    ".jsonl": Format.jsonl, ".json": Format.jsonl, ".ndjson": Format.jsonl, ".csv": Format.csv, ".parquet": Format.parquet,
    ".arrow": Format.arrow, ".arrows": Format.arrow, ".feather": Format.feather, ".ipc": Format.feather, ".txt": Format.table,
    "": Format.table,
}  # fmt: skip

# What `zenlake sql` takes as well.
AsFormat = Annotated[
    Format | None, typer.Option("--format", "-f", help="As what; else by the name of OUT.", show_default="table")
]
Threads = Annotated[
    int | None,
    typer.Option("--threads", "-j", min=1, help="How many decode a large capture.", show_default="cores"),
]
Out = Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT", help="Write to this file.")]
Json = Annotated[bool, typer.Option("--json", help="A line of JSON for each row, as --format jsonl.")]


def as_what(format: Format | None, as_json: bool, out: Path | None) -> Format:
    """What the options ask for; else what the name of the file says; else a table."""
    if as_json and format not in (None, Format.jsonl):
        raise typer.BadParameter(f"--json and --format {format} are two things")
    if format is not None or as_json:
        return format or Format.jsonl
    if out is None:
        return Format.table
    if out.suffix.lower() not in SUFFIXES:
        known = ", ".join(filter(None, SUFFIXES))
        raise typer.BadParameter(f"{out.name} does not say which format it is: end it in {known}, or give --format")
    return SUFFIXES[out.suffix.lower()]


def decode(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH", help="Captures, logs, lakes; `-` is the standard input.", show_default=False),
    ],
    table: Annotated[
        str, typer.Option("--table", "-t", help=f"{', '.join(NAMES)}.", autocompletion=lambda: NAMES)
    ] = "samples",
    columns: Annotated[str | None, typer.Option("--columns", help="Only these, as a,b,c.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="Rows whose key this expression intersects.")] = None,
    since: Annotated[datetime | None, typer.Option("--since", help="Rows received from then on, UTC.")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Rows received before then, UTC.")] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Each published sample once, however many taps or sessions recorded it.")
    ] = False,
    format: AsFormat = None,
    as_json: Json = False,
    threads: Threads = None,
    out: Out = None,
) -> int:
    """Show a table of a capture, a log or a lake, or write it to a file.

    All captures given are one: files of a rotation may come in any order. Logs and lakes are folders. Of a damaged log you get what
    can be read, a line says what was left out, and the exit code is 1.

    $ zenlake decode robots.pcap --key "fleet/*/pose" --columns received,key,payload
    $ zenlake decode lake/log --table queries -o queries.parquet
    $ zenlake decode robots.pcap --json | jq .key
    """
    format = as_what(format, as_json, out)
    paths = or_sample(paths)
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    try:
        checked(table, wanted, key, since, until, once)
    except InvalidValue as error:
        raise typer.BadParameter(str(error)) from None
    damaged = LeftOut()
    if table in TABLES and not once:
        rows = batches(
            paths, table, columns=wanted, keys=key, since=since, until=until, threads=threads, damaged=damaged
        )
        schema = chosen(table, wanted)
    else:
        with working(f"reading {table}"):
            whole: pa.Table = read(
                paths, table, columns=wanted, keys=key, since=since, until=until, threads=threads, once=once,
                damaged=damaged,
            )  # fmt: skip
        if "received" in whole.column_names:
            whole = whole.sort_by("received")
        rows, schema = iter(whole.to_batches()), whole.schema
    if out is not None or (
        format is Format.table and sys.stdout.isatty()
    ):  # else rows go by, or whoever gets them tells
        rows = counted(rows, f"reading {table}")
    count = write(schema, rows, format, out)
    if out is not None:
        typer.echo(escaped(f"{count} rows of {table} in {out}"), err=True)
    return damaged.status
