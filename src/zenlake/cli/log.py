# SPDX-License-Identifier: Apache-2.0
"""`zenlake log`: inspect, verify, repair and export a wire log."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from zenlake.cli.console import show_wait, show_work
from zenlake.cli.decode import select_format
from zenlake.cli.formatting import escape, open_output
from zenlake.cli.network_options import Json
from zenlake.cli.table_output import write
from zenlake.errors import InvalidValue
from zenlake.log import Log, export, readers
from zenlake.log.retention import unregister
from zenlake.log.verify_repair import SegmentCheck, repair, verify

PATH = Annotated[
    str,
    typer.Argument(
        metavar="LOG", help="Wire log: a folder, or the address of a mirror like s3://bucket/log.", show_default=False
    ),
]
FOLDER = Annotated[Path, typer.Argument(metavar="LOG", help="Folder of a wire log.", show_default=False)]

log = typer.Typer(
    name="log", help="Inspect, verify, repair and export a wire log.", no_args_is_help=True, add_completion=False
)


@log.command()
def info(path: PATH, as_json: Json = False) -> int:
    """Show the writers of a log: segments, blocks, batches, bytes and time range.

    $ zenlake log info lake/log
    """
    found = Log(path)
    rows = []
    for writer in found.writers():
        parts = [part for part in found.plan(size=1 << 62) if part.writer == writer]
        rows.append(
            {
                "writer": writer,
                "segments": len(found.segments(writer)),
                "blocks": sum(part.last - part.first for part in parts),
                "rows": sum(part.rows for part in parts),
                "bytes": sum(part.size for part in parts),
                "since": _time(min(part.since for part in parts)) if parts else None,
                "until": _time(max(part.until for part in parts)) if parts else None,
                "earliest": str(found.earliest()[writer]),
                "latest": str(found.latest()[writer]),
            }
        )
    table = pa.Table.from_pylist(rows)
    write(table.schema, table.to_batches(), select_format(None, as_json, None), None)
    for name, offsets in readers(path).items() if found.files.local and not as_json else ():
        typer.echo(escape(f"reader {name} has read up to {offsets}"))
    return 0


@log.command("readers")
def readers_command(path: FOLDER) -> int:
    """Show the registered readers of a log: what they have read, and the bytes behind which they are.

    Retention keeps unread segments for a reader, up to its hard limit.

    $ zenlake log readers lake/log
    """
    found = Log(str(path))
    for name, offsets in readers(path).items():
        left = sum(part.size for part in found.plan(known_offsets(found, offsets)))
        typer.echo(escape(f"{name}: has read up to {offsets}; {left} bytes behind"))
    return 0


def known_offsets(log: Log, offsets: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return offsets, at the first existing block where retention has removed blocks."""
    return {writer: log.next(writer, offset) for writer, offset in offsets.items() if writer in log.writers()}


@log.command("forget")
def forget_command(
    path: FOLDER,
    reader: Annotated[
        str,
        typer.Argument(
            metavar="READER", help="Name of the reader, as `zenlake log readers` shows it.", show_default=False
        ),
    ],
) -> int:
    """Remove a reader that will not read again, so that retention no longer keeps segments for it.

    $ zenlake log forget lake/log land-0123456789ab-tables
    """
    known = readers(path)
    if reader not in known:
        raise InvalidValue(f"{path} has no reader {reader!r}; its readers: {', '.join(known) or 'none'}")
    unregister(path, reader)
    typer.echo(escape(f"removed the reader {reader}"))
    return 0


@log.command("verify")
def verify_command(path: PATH) -> int:
    """Compare every block with its checksum and its index, and name segments without an index.

    The exit code is 1 if any block or segment is damaged.

    $ zenlake log verify lake/log
    """
    wrong = 0
    for one in show_wait(verify(Log(path)), f"reading {path}"):
        wrong += bool(one.wrong)
        typer.echo(escape(_line(one) + (one.wrong or "ok")))
    typer.echo(
        "no damage found" if not wrong else f"{wrong} damaged; `zenlake log repair` recovers the readable blocks"
    )
    return 1 if wrong else 0


@log.command("repair")
def repair_command(path: FOLDER) -> int:
    """Seal segments that a crash left open, remove damaged blocks and rebuild missing indices.

    A row of `events` (`log cut`) counts the batches of a removed block. Later blocks are kept, unless they depend on a change
    in the damaged block that cannot be read. The removed bytes are kept in a file that ends in .cut. Stop the writer first.

    $ zenlake log repair lake/log
    """
    done = 0
    for one in show_wait(repair(path), f"repairing {path}"):
        done += 1
        typer.echo(escape(_line(one) + one.wrong))
    typer.echo("nothing to repair" if not done else f"{done} repaired")
    return 0


@log.command("export")
def export_command(
    path: PATH, pcapng: Annotated[Path, typer.Option("--pcapng", metavar="OUT", help="Output file.")]
) -> int:
    """Write a log as a capture for Wireshark.

    Samples with redacted payloads (--metadata-only) are left out and counted.

    $ zenlake log export lake/log --pcapng lake.pcapng
    """
    with show_work(f"writing {pcapng}") as say, open_output(pcapng) as target:
        assert target is not None
        done = export(Log(path), target, say)
    left_out = f"; samples left out because their payloads are redacted: {done.left_out}" if done.left_out else ""
    typer.echo(escape(f"{done.packets} packets in {pcapng}{left_out}"), err=True)
    return 0


def _line(one: SegmentCheck) -> str:
    if not one.segment:
        return f"{one.writer}: " if one.writer else ""
    return f"{one.writer} segment {one.segment}: {one.blocks} blocks, {one.rows} rows: "


def _time(ns: int) -> datetime:
    return datetime.fromtimestamp(ns / 1e9, UTC)
