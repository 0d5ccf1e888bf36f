# SPDX-License-Identifier: Apache-2.0
"""`zenlake lake`: show the tables of a lake, compact, convert and export it."""

from datetime import date
from typing import Annotated, Any, Literal

import pyarrow as pa
import typer

from zenlake.cli.decode import select_format
from zenlake.cli.formatting import escape
from zenlake.cli.lake_options import Catalog, LakePath, split_names
from zenlake.cli.network_options import Json
from zenlake.cli.table_output import write
from zenlake.lake import Lake, compact, convert, export, remove_orphans
from zenlake.lake.compaction import ORPHAN_HOURS

TABLES = Annotated[
    str | None, typer.Option("--tables", "-t", metavar="NAMES", help="Tables to process, as a,b,c. Default: all.")
]

lake = typer.Typer(
    name="lake", help="Inspect, compact, convert and export a lake.", no_args_is_help=True, add_completion=False
)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a date; expected a day like 2026-01-31") from None


@lake.command()
def info(path: LakePath, as_json: Json = False) -> int:
    """Show the tables of a lake: days, files, rows and bytes.

    $ zenlake lake info lake/tables
    """
    found = Lake(path)
    rows = [{"table": name, "format": found.format, **counts} for name, counts in found.totals().items()]
    table = pa.Table.from_pylist(rows)
    write(table.schema, table.to_batches(), select_format(None, as_json, None), None)
    return 0


@lake.command("compact")
def compact_command(
    path: LakePath,
    tables: TABLES = None,
    before: Annotated[
        Any,
        typer.Option(
            "--before",
            metavar="DAY",
            parser=_day,
            help="Compact the days before this UTC day, like 2026-01-31.",
            show_default="today",
        ),
    ] = None,
) -> int:
    """Merge small files into larger ones, sorted by key and then by time.

    Run it at any time, also while a log is landed. Readers see the old files or the new ones.

    $ zenlake lake compact lake/tables --tables samples,messages
    """
    for done in compact(Lake(path), split_names(tables), before):
        result = f"merged {done.files} files into {done.into}" if done.files else "nothing to compact"
        typer.echo(escape(f"{done.table}: {result}"))
    return 0


@lake.command("clean")
def clean_command(
    path: LakePath,
    tables: TABLES = None,
    hours: Annotated[
        float, typer.Option("--hours", metavar="HOURS", min=1.0, help="Remove only files older than this.")
    ] = ORPHAN_HOURS,
) -> int:
    """Remove files that a compaction replaced and files of failed tasks.

    A file is removed if no commit of the last HOURS names it. Do not choose a shorter time than the longest task or query runs.

    $ zenlake lake clean lake/tables
    """
    for table, count in remove_orphans(Lake(path), split_names(tables), hours).items():
        typer.echo(escape(f"{table}: removed {count} files"))
    return 0


@lake.command("convert")
def convert_command(
    path: LakePath,
    format: Annotated[
        Literal["delta", "iceberg"] | None,
        typer.Option("--format", "-f", help="Format of the converted tables.", show_default="delta"),
    ] = None,
    catalog: Catalog = None,
) -> int:
    """Convert a lake of an earlier version, without rewriting its files.

    Landing continues where it was. Parts of the log whose files are missing are landed again. Stop landings first. Stored
    derived tables are removed; refresh them again.

    $ zenlake lake convert lake/tables
    """
    for table, rows in convert(path, format, catalog).items():
        typer.echo(escape(f"{table}: {rows} rows"))
    return 0


@lake.command("export")
def export_command(
    path: LakePath,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="Folder or address to create. It must be empty.", show_default=False)
    ],
    tables: TABLES = None,
) -> int:
    """Copy the current files of a lake to folders of plain Parquet.

    $ zenlake lake export lake/tables lake/parquet
    """
    typer.echo(escape(f"copied {export(path, target, split_names(tables))} files to {target}"))
    return 0
