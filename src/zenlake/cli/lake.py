# SPDX-License-Identifier: Apache-2.0
"""`zenlake lake`: show the tables of a lake, and compact its files."""

from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.parquet as pq
import typer

from zenlake.cli.decode import select_format
from zenlake.cli.formatting import escape
from zenlake.cli.network_options import Json
from zenlake.cli.table_output import write
from zenlake.lake import Lake, compact

PATH = Annotated[Path, typer.Argument(metavar="LAKE", help="Folder of a lake.", show_default=False)]

lake = typer.Typer(name="lake", help="Inspect and compact a lake.", no_args_is_help=True, add_completion=False)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date; expected a day like 2026-01-31") from None


@lake.command()
def info(path: PATH, as_json: Json = False) -> int:
    """Show the tables of a lake: days, files, rows and bytes.

    $ zenlake lake info lake/tables
    """
    found = Lake(path)
    rows = []
    for table in found.tables():
        files, days = found.files(table), sorted(found.days(table))
        rows.append(
            {
                "table": table,
                "days": len(days),
                "since": days[0] if days else None,
                "until": days[-1] if days else None,
                "files": len(files),
                "rows": sum(pq.read_metadata(file).num_rows for file in files),
                "bytes": sum(Path(file).stat().st_size for file in files),
            }
        )
    table = pa.Table.from_pylist(rows)
    write(table.schema, table.to_batches(), select_format(None, as_json, None), None)
    return 0


@lake.command("compact")
def compact_command(
    path: PATH,
    tables: Annotated[
        str | None, typer.Option("--tables", "-t", help="Tables to compact, as a,b,c. Default: all.")
    ] = None,
    before: Annotated[
        Any,
        typer.Option(
            "--before", metavar="DAY", parser=_day, help="Compact the days before this day.", show_default="today"
        ),
    ] = None,
) -> int:
    """Merge small files into larger ones.

    For Parquet, stop readers of the affected days first. For Delta, run it at any time, also while a log is landed.

    $ zenlake lake compact lake/tables --tables samples,messages
    """
    names = None if tables is None else [name.strip() for name in tables.split(",")]
    for done in compact(Lake(path), names, before):
        result = f"merged {done.files} files into {done.into}" if done.files else "nothing to compact"
        typer.echo(escape(f"{done.table}: {result}"))
    return 0
