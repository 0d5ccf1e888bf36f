# SPDX-License-Identifier: Apache-2.0
"""`zenlake explain`: print a batch as an annotated hexdump."""

import re
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from zenlake.cli.console import Printer
from zenlake.cli.formatting import escape
from zenlake.errors import InvalidValue
from zenlake.wire.explain import Explanation
from zenlake.wire.explain import explain as explained

STYLES = {"message": "bold cyan", "field": "", "note": "magenta", "error": "bold red"}


def explain(
    batch: Annotated[
        str | None,
        typer.Argument(
            metavar="HEX",
            help="Batch in hexadecimal, without its length prefix. `-` reads it from the standard input.",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool,
        typer.Option(
            "--stream", help="The input is a stream of batches, each with a length prefix of 2 bytes (low latency: 4)."
        ),
    ] = False,
    scouting: Annotated[bool, typer.Option("--scouting", help="The input is a SCOUT or HELLO datagram.")] = False,
    low_latency: Annotated[
        bool,
        typer.Option("--low-latency", help="Each batch is one message of a low-latency session, without a FRAME."),
    ] = False,
    compressed: Annotated[
        bool,
        typer.Option("--compressed", help="The session negotiated compression: each batch has a compression header."),
    ] = False,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="Read the bytes from this binary file instead of HEX.")
    ] = None,
) -> int:
    """Show the meaning of each byte of a batch, up to the first byte that cannot be decoded.

    HEX may contain spaces, colons and 0x. The exit code is 1 if any byte could not be decoded.

    $ zenlake explain 25df93af4f7d000e64656d6f2f7075742f706c61696e010568656c6c6f
    $ zenlake explain --stream --file batches.bin
    """
    if (batch is None) == (file is None):
        raise typer.BadParameter("expected either HEX (or `-`) or --file")
    if scouting and (stream or low_latency or compressed):
        raise typer.BadParameter("--scouting conflicts with --stream, --low-latency and --compressed; use it alone")
    if file is not None:
        data = file.read_bytes()
    else:
        data = parse_hex(sys.stdin.read() if batch == "-" else batch or "")
    explanation = explained(data, stream=stream, scouting=scouting, low_latency=low_latency, compressed=compressed)
    show(explanation)
    return 1 if explanation.error else 0


def parse_hex(text: str) -> bytes:
    """Return the bytes of hexadecimal text, ignoring spaces, colons and 0x."""
    digits = re.sub(r"0[xX]|[\s:]", "", text)
    wrong = re.search(r"[^0-9a-fA-F]", digits)
    if wrong:
        raise InvalidValue(f"{wrong[0]!r} is not a hexadecimal digit; use --file for a file")
    if len(digits) % 2:
        raise InvalidValue(f"{len(digits)} hexadecimal digits; expected an even number")
    return bytes.fromhex(digits)


def show(explanation: Explanation) -> None:
    """Print an explanation, coloured on a terminal and plain elsewhere."""
    console = Printer(highlight=False, soft_wrap=True)
    for row in explanation.rows:
        for at, data, name, words in row.lines():
            line = Text(f"{at:>6}  ", style="dim")
            line.append(f"{data:<23}  ", style="not dim")
            line.append(f"{name:<26}  ", style=f"not dim {STYLES[row.kind]}")
            line.append(escape(words), style="not dim bold red" if row.kind == "error" else "not dim green")
            line.rstrip()
            console.print(line)
