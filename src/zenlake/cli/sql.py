# SPDX-License-Identifier: Apache-2.0
"""`zenlake sql`: ask a capture, a log or a lake in SQL."""

from pathlib import Path
from typing import Annotated

import typer

from zenlake.cli.decode import Json, as_what
from zenlake.cli.show import Format, write
from zenlake.examples import or_sample
from zenlake.tables import query


def sql(
    text: Annotated[str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL.", show_default=False)],
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Captures, logs, lakes.", show_default=False)],
    format: Annotated[
        Format | None, typer.Option("--format", "-f", help="As what; else by the name of OUT.", show_default="table")
    ] = None,
    as_json: Json = False,
    threads: Annotated[
        int | None,
        typer.Option("--threads", "-j", min=1, help="How many decode a large capture.", show_default="cores"),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", metavar="OUT", help="Write to this file.")] = None,
) -> int:
    """Ask a capture, a log or a lake in SQL: every decoded and derived table is a view, and only those that you name are computed.

    zenlake sql "select key, count(*) from samples group by key" robots.pcapng
    """
    answer = query(text, or_sample(paths), threads)
    write(answer.schema, answer.to_batches(), as_what(format, as_json, out), out)
    return 0
