# SPDX-License-Identifier: Apache-2.0
"""`zenlake report`: a recording, or two of them, as one HTML page."""

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from zenlake.cli.lines import LeftOut, escaped, writing
from zenlake.examples import or_sample


def report(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH",
            help="A capture (or a quoted pattern, or a folder of captures), a log or a lake; a second one is compared with it.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="OUT", help="The page to write.")] = Path("report.html"),
    open_it: Annotated[
        bool | None,
        typer.Option("--open/--no-open", help="Open it in the browser.", show_default="on a terminal with a desktop"),
    ] = None,
) -> int:
    """Make one HTML page of a recording, which needs nothing else: throughput, keys, sessions, queries, losses, errors, liveliness.

    With two paths the page also tells what the first sent and the second saw. The files of a rotation are one recording: give
    them as a quoted pattern, 'robot-*.pcap'. Where there is no file of that name, `sample.pcap` is the capture that comes with
    Zenlake. Of a damaged log the page tells what can be read, a line says what was left out, and the exit code is 1.

    $ zenlake report sample.pcap
    $ zenlake report robots.pcap base.pcap -o compared.html
    $ zenlake report lake/log --no-open
    """
    if len(paths) > 2:
        raise typer.BadParameter(
            f"{len(paths)} recordings; a report is about one or two. Files of one rotation go into one quoted pattern"
        )
    from zenlake.report import page  # DuckDB and Arrow take a while: not for `--help`

    found = or_sample(paths)
    if out.is_dir():
        raise IsADirectoryError(f"{out} is a folder; -o names the page to write")
    if not out.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {out.parent} for {out.name}")
    console = Console(stderr=True, highlight=False)
    damaged = LeftOut()
    with console.status("reading") as status:
        text = page(found[0], found[1] if found[1:] else None, lambda said: status.update(Text(escaped(said))), damaged)
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    try:
        with writing(out, by_way_of=fresh):
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(out)  # whoever has the page open never sees half of it
    finally:
        fresh.unlink(missing_ok=True)
    typer.echo(f"{escaped(str(out))}  {len(text.encode()) / 1e6:.1f} MB  {out.resolve().as_uri()}", err=True)
    if open_it or (open_it is None and _somebody_looks()):
        opened = webbrowser.open(out.resolve().as_uri())
        if open_it and not opened:
            typer.echo("no browser was found; open the file by hand", err=True)
    return damaged.status


def _somebody_looks() -> bool:
    """A person at a desktop: neither a script nor a shell on another machine."""
    desktop = sys.platform == "darwin" or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return sys.stdout.isatty() and sys.stderr.isatty() and desktop and "SSH_CONNECTION" not in os.environ
