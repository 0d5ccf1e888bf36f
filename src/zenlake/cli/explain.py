# SPDX-License-Identifier: Apache-2.0
"""`zenlake explain`: a batch as an annotated hexdump."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from zenlake.cli.lines import escaped
from zenlake.cli.terminal import Printer
from zenlake.errors import InvalidValue
from zenlake.wire.explain import Explanation
from zenlake.wire.explain import explain as explained

STYLES = {"message": "bold cyan", "field": "", "note": "magenta", "error": "bold red"}


def explain(
    batch: Annotated[
        str | None,
        typer.Argument(
            metavar="HEX", help="A batch without its stream prefix; `-` reads it from stdin.", show_default=False
        ),
    ] = None,
    stream: Annotated[bool, typer.Option("--stream", help="Batches with their length before them.")] = False,
    scouting: Annotated[bool, typer.Option("--scouting", help="A SCOUT or HELLO datagram.")] = False,
    low_latency: Annotated[bool, typer.Option("--low-latency", help="One bare message; 4-byte lengths.")] = False,
    compressed: Annotated[bool, typer.Option("--compressed", help="Batches with a compression header.")] = False,
    file: Annotated[Path | None, typer.Option("--file", help="Take the bytes from a binary file.")] = None,
) -> int:
    """Show what each byte of a batch says, up to the first that says nothing.

    Spaces, colons and 0x may stand anywhere in HEX. The exit code is 1 if anything could not be read.

    $ zenlake explain 25df93af4f7d000e64656d6f2f7075742f706c61696e010568656c6c6f
    $ zenlake explain --stream --file batches.bin
    """
    if (batch is None) == (file is None):
        raise typer.BadParameter("give either HEX (or `-`) or --file")
    if scouting and (stream or low_latency or compressed):
        raise typer.BadParameter("a scouting datagram is neither framed nor compressed: use --scouting alone")
    if file is not None:
        data = file.read_bytes()
    else:
        data = parsed(sys.stdin.read() if batch == "-" else batch or "")
    told = explained(data, stream=stream, scouting=scouting, low_latency=low_latency, compressed=compressed)
    show(told)
    return 1 if told.error else 0


def parsed(text: str) -> bytes:
    """Hex as people paste it."""
    digits = re.sub(r"0[xX]|[\s:]", "", text)
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise InvalidValue(f"{wrong[0]!r} is not a hex digit; is it a file? then use --file")
    if len(digits) % 2:
        raise InvalidValue(f"{len(digits)} hex digits are no whole bytes; the last may be missing")
    return bytes.fromhex(digits)


def show(told: Explanation) -> None:
    """Coloured on a terminal, plain elsewhere."""
    console = Printer(highlight=False, soft_wrap=True)
    for row in told.rows:
        for at, data, name, words in row.lines():
            line = Text(f"{at:>6}  ", style="dim")
            line.append(f"{data:<23}  ", style="not dim")
            line.append(f"{name:<26}  ", style=f"not dim {STYLES[row.kind]}")
            line.append(escaped(words), style="not dim bold red" if row.kind == "error" else "not dim green")
            line.rstrip()
            console.print(line)
