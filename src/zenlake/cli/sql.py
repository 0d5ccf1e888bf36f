# SPDX-License-Identifier: Apache-2.0
"""`zenlake sql`: ask a capture, a log or a lake in SQL."""

import re
from typing import Annotated

import typer

from zenlake.cli.decode import NAMES, AsFormat, Json, Out, Threads, as_what
from zenlake.cli.lines import LeftOut
from zenlake.cli.show import write
from zenlake.cli.terminal import working
from zenlake.errors import InvalidValue
from zenlake.examples import or_sample
from zenlake.tables import query


def sql(
    text: Annotated[str, typer.Argument(metavar="SQL", help="A query in DuckDB's SQL.", show_default=False)],
    paths: Annotated[list[str], typer.Argument(metavar="PATH", help="Captures, logs, lakes.", show_default=False)],
    format: AsFormat = None,
    as_json: Json = False,
    threads: Threads = None,
    out: Out = None,
) -> int:
    """Ask a capture, a log or a lake in SQL: every decoded and derived table is a view, and only those that you name are computed.

    Of a damaged log you get what can be read, a line says what was left out, and the exit code is 1.

    $ zenlake sql "select key, count(*) from samples group by key" robots.pcap
    $ zenlake sql "from queries where outcome <> 'answered'" lake/tables -o late.csv
    """
    if not text.strip():
        raise typer.BadParameter("an empty text asks nothing", param_hint="SQL")
    shown = as_what(format, as_json, out)
    damaged = LeftOut()
    try:
        with working("reading"):
            answer = query(text, or_sample(paths), threads, damaged)
    except InvalidValue as error:
        unknown = re.match(r"Catalog Error: Table with name (.+) does not exist", str(error))
        if unknown is None:
            raise
        if unknown[1].lower() in NAMES:
            raise InvalidValue(
                f"{unknown[1].lower()} can be asked, but not changed: begin with select or from"
            ) from None
        raise InvalidValue(f"there is no table {unknown[1]}: there are {', '.join(NAMES)}") from None
    write(answer.schema, answer.to_batches(), shown, out)
    return damaged.status
