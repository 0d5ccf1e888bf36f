# SPDX-License-Identifier: Apache-2.0
"""`zenlake decode`: print a table of a capture, log or lake, or write it to a file."""

import sys
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from zenlake.cli.console import show_count, show_work
from zenlake.cli.formatting import SkippedParts, escape
from zenlake.cli.table_output import Format, write
from zenlake.errors import InvalidValue
from zenlake.tables import DERIVED, batches, read
from zenlake.tables.nearest_key import NO_ZENOH, explain_no_match, explain_no_time, has_messages
from zenlake.tables.read import check_columns
from zenlake.tables.schemas import TABLES, select_schema

NAMES = [*TABLES, *DERIVED]
SUFFIXES = {
    ".jsonl": Format.jsonl, ".json": Format.jsonl, ".ndjson": Format.jsonl, ".csv": Format.csv, ".parquet": Format.parquet,
    ".arrow": Format.arrow, ".arrows": Format.arrow, ".feather": Format.feather, ".ipc": Format.feather, ".txt": Format.table,
    "": Format.table,
}  # fmt: skip

OUTPUT = "Output"  # panel of the help

# Options shared with `zenlake sql`.
AsFormat = Annotated[
    Format | None,
    typer.Option(
        "--format",
        "-f",
        help="Output format.",
        show_default="from the extension of OUT, else table",
        rich_help_panel=OUTPUT,
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        "-j",
        metavar="N",
        min=1,
        help="Threads that decode a capture of 64 MiB or more.",
        show_default="number of cores",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="OUT", help="Output file. Default: standard output.", rich_help_panel=OUTPUT),
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object per row, like --format jsonl.", rich_help_panel=OUTPUT),
]


def select_format(format: Format | None, as_json: bool, out: Path | None) -> Format:
    """Return the output format: from the options, else from the extension of `out`, else a table."""
    if as_json and format not in (None, Format.jsonl):
        raise typer.BadParameter(f"--json conflicts with --format {format}; use one of them")
    if format is not None or as_json:
        return format or Format.jsonl
    if out is None:
        return Format.table
    if out.suffix.lower() not in SUFFIXES:
        known = ", ".join(filter(None, SUFFIXES))
        raise typer.BadParameter(f"{out.name}: unknown extension; expected {known}, or use --format")
    return SUFFIXES[out.suffix.lower()]


def decode(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Captures, logs or lakes. `-` reads a capture from the standard input.",
            show_default=False,
        ),
    ],
    table: Annotated[
        str,
        typer.Option(
            "--table",
            "-t",
            metavar="TABLE",
            help=f"Table to decode: {', '.join(NAMES)}.",
            autocompletion=lambda: NAMES,
        ),
    ] = "samples",
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAMES", help="Columns to keep, as a,b,c. Default: all.")
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", metavar="KEYEXPR", help="Keep rows whose key intersects this key expression.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="Keep rows received at or after this UTC time, like 2026-01-31T12:00:00."
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", metavar="TIME", help="Keep rows received before this UTC time.")
    ] = None,
    once: Annotated[
        bool,
        typer.Option(
            "--once", help="Keep one row per publication of table samples, if several taps or sessions recorded it."
        ),
    ] = False,
    format: AsFormat = None,
    as_json: Json = False,
    threads: Threads = None,
    out: Out = None,
) -> int:
    """Print a table of a capture, log or lake, or write it to a file.

    Several captures are decoded as one recording. The files of a rotation may be given in any order. Logs and lakes are folders.
    For a damaged log or a truncated capture, the readable rows are printed. A message on the standard error names the rest, and
    the exit code is 1.

    `-` reads a capture from the standard input and prints rows as packets arrive: `tcpdump -U -w - | zenlake decode -`.

    $ zenlake decode robots.pcap --key "fleet/*/pose" --columns received,key,payload
    $ zenlake decode lake/log --table queries -o queries.parquet
    $ zenlake decode robots.pcap --json | jq .key
    $ zenlake decode - --columns received,key,payload
    """
    format = select_format(format, as_json, out)
    wanted = None if columns is None else [name.strip() for name in columns.split(",")]
    if once and table != "samples":
        raise typer.BadParameter(f"--once applies only to the table samples, not {table!r}", param_hint="--once")
    try:
        check_columns(table, wanted, key, since, until, once)
    except InvalidValue as error:
        raise typer.BadParameter(str(error)) from None
    with SkippedParts() as damaged:
        if table in TABLES and not once:
            rows = batches(
                paths, table, columns=wanted, keys=key, since=since, until=until, threads=threads, damaged=damaged
            )
            schema = select_schema(table, wanted)
        else:
            with show_work(f"reading {table}"):
                whole: pa.Table = read(
                    paths, table, columns=wanted, keys=key, since=since, until=until, threads=threads, once=once,
                    damaged=damaged,
                )  # fmt: skip
            if "received" in whole.column_names:
                whole = whole.sort_by("received")
            rows, schema = iter(whole.to_batches()), whole.schema
        # Rows that scroll by, or go into a pipe, need no progress display.
        if out is not None or (format is Format.table and sys.stdout.isatty()):
            rows = show_count(rows, f"reading {table}")
        count = write(schema, rows, format, out, live="-" in paths)
        if out is not None:
            typer.echo(escape(f"{count} rows of {table} written to {out}"), err=True)
        if not count and "-" not in paths and not has_messages(paths):
            raise InvalidValue(f"{', '.join(paths)}: {NO_ZENOH}")
        if key is not None and not count:
            typer.echo(escape(explain_no_match(paths, table, key)), err=True)
        elif not count and (since is not None or until is not None):
            typer.echo(escape(explain_no_time(paths, table)), err=True)
    return damaged.status
