# SPDX-License-Identifier: Apache-2.0
"""`zenlake sql`: query a capture, log or lake in SQL."""

import re
from contextlib import ExitStack
from typing import Annotated

import typer

from zenlake.cli.console import show_wait, show_work
from zenlake.cli.decode import NAMES, AsFormat, Json, Out, Threads, select_format
from zenlake.cli.formatting import SkippedParts
from zenlake.cli.table_output import write
from zenlake.errors import InvalidValue
from zenlake.tables import query_batches

CHANGES = re.compile(r"\s*(alter|create|delete|drop|insert|truncate|update)\b", re.IGNORECASE)


def sql(
    text: Annotated[str, typer.Argument(metavar="SQL", help="Query in the SQL dialect of DuckDB.", show_default=False)],
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH", help="Captures, logs or lakes. Several captures are one recording.", show_default=False
        ),
    ],
    format: AsFormat = None,
    as_json: Json = False,
    threads: Threads = None,
    out: Out = None,
) -> int:
    """Query a capture, log or lake in SQL.

    The tables of `zenlake decode` are views. `show tables` lists them, and `describe samples` lists columns. Only the tables and
    columns in the query are decoded. For a damaged log or a truncated capture, the readable rows are printed. A message on
    the standard error names the rest, and the exit code is 1.

    $ zenlake sql "select key, count(*) from publications group by key" robots.pcap
    $ zenlake sql "from gets where outcome <> 'answered'" lake/tables -o late.csv
    """
    if not text.strip():
        raise typer.BadParameter("empty query; expected a SELECT or FROM statement", param_hint="SQL")
    shown = select_format(format, as_json, out)
    try:
        with ExitStack() as stack:
            damaged = stack.enter_context(SkippedParts())
            with show_work("reading"):
                found = stack.enter_context(query_batches(text, paths, threads, damaged, reject_foreign=True))
            write(found.schema, show_wait(found, "reading"), shown, out)
    except InvalidValue as error:
        if CHANGES.match(text):
            raise InvalidValue("tables are read-only; expected a SELECT or FROM statement") from None
        unknown = re.match(r"Catalog Error: Table with name (.+) does not exist", str(error))
        if unknown is None:
            raise
        raise InvalidValue(f"unknown table {unknown[1]}; expected one of {', '.join(NAMES)}") from None
    return damaged.status
