# SPDX-License-Identifier: Apache-2.0
"""`zenlake report`: write an HTML report of one or two recordings."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zenlake.cli.formatting import SkippedParts, escape, open_output


def report(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="Capture (or quoted pattern, or folder of captures), log or lake. A second PATH is compared with the first.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="Output file.")] = Path("report.html"),
    open_it: Annotated[
        bool | None,
        typer.Option(
            "--open/--no-open",
            help="Open the report in a browser when it is complete.",
            show_default="on a terminal with a desktop",
        ),
    ] = None,
) -> int:
    """Write a self-contained HTML report: throughput, keys, sessions, queries, losses, errors and liveliness.

    With two paths, the report also compares the publications of the first recording with those of the second. The files of a
    rotation are one recording: use a quoted pattern, 'robot-*.pcap'. If no file is named `sample.pcap`, that name selects the
    capture that is included in Zenlake. For a damaged log or a truncated capture, the report covers the readable part. A message
    on the standard error names the rest, and the exit code is 1.

    $ zenlake report sample.pcap
    $ zenlake report robots.pcap base.pcap -o compared.html
    $ zenlake report lake/log --no-open
    """
    if len(paths) > 2:
        raise typer.BadParameter(
            f"{len(paths)} recordings; expected one or two. Use one quoted pattern for the files of a rotation"
        )
    from zenlake.report import page  # DuckDB and Arrow are slow to import: not for `--help`

    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; expected the name of a file after -o")
    if not out.parent.is_dir():
        raise FileNotFoundError(
            f"the folder {out.parent} of {out.name} does not exist; create it, or choose another with -o"
        )
    console = Console(stderr=True, highlight=False)
    with SkippedParts() as damaged, console.status("reading") as status:
        text = page(
            paths[0], paths[1] if paths[1:] else None, lambda message: status.update(Text(escape(message))), damaged
        )
    with open_output(out) as target:
        assert target is not None
        target.write_text(text, encoding="utf-8")
    typer.echo(f"{escape(str(out))}  {len(text.encode()) / 1e6:.1f} MB  {out.resolve().as_uri()}", err=True)
    if open_it or (open_it is None and _has_display()):
        opened = webbrowser.open(out.resolve().as_uri())
        if open_it and not opened:
            typer.echo("no browser found; open the file manually", err=True)
    return damaged.status


def _has_display() -> bool:
    """Return whether the command runs on a terminal with a desktop, not in a script or over SSH."""
    desktop = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return sys.stdout.isatty() and sys.stderr.isatty() and desktop and "SSH_CONNECTION" not in os.environ
