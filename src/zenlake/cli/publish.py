# SPDX-License-Identifier: Apache-2.0
"""`zenlake put` and `zenlake pub`: a value once, or again and again."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from zenlake.choices import CongestionControl, Priority
from zenlake.cli.network import Count, Network, alone, on_network, until_stopped
from zenlake.encoding import Encoding
from zenlake.errors import KeyExprError
from zenlake.keyexpr import KeyExpr

__all__ = ["Attachment", "EncodingName", "File", "Key", "Value", "checked_key", "given_value", "pub", "put"]

NUMBER = "{n}"


def _priority(text: str) -> Priority:
    """By name, as data-high, or by number."""
    names = {each.name.lower().replace("_", "-"): each for each in Priority}
    chosen = names.get(text.lower().replace("_", "-")) or next(
        (each for each in Priority if str(int(each)) == text), None
    )
    if chosen is None:
        raise typer.BadParameter(f"{text!r} is not a priority: {', '.join(names)}, or 1 to 7")
    return chosen


def checked_key(text: str) -> str:
    """A key expression, before anybody is bothered with it."""
    try:
        KeyExpr(text.partition("?")[0])
    except KeyExprError as error:
        raise typer.BadParameter(str(error)) from None
    return text


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="The key expression.", callback=checked_key, show_default=False)
]
Value = Annotated[str | None, typer.Argument(metavar="VALUE", help="The value, as text.", show_default=False)]
File = Annotated[Path | None, typer.Option("--file", "-f", help="The value is in this file; - is the standard input.")]
EncodingName = Annotated[
    str | None,
    typer.Option("--encoding", help="What it is, like application/json.", show_default="zenoh/string for text"),
]
Attachment = Annotated[str | None, typer.Option("--attachment", help="Sent along with it, as text.")]
Importance = Annotated[
    Any, typer.Option("--priority", help="real-time to background, or 1 to 7.", parser=_priority, metavar="PRIORITY")
]
Express = Annotated[bool, typer.Option("--express", help="Do not wait for others in a batch.")]
Drop = Annotated[bool, typer.Option("--drop", help="Where a queue is full, drop it rather than wait.")]


def given_value(value: str | None, file: Path | None, encoding: str | None) -> tuple[bytes, Encoding]:
    """The value that the command line gives, as text or in a file, and what it is."""
    if (value is None) == (file is None):
        raise typer.BadParameter("give a VALUE or --file, one of them")
    if value is not None:
        return value.encode(), Encoding(encoding or "zenoh/string")
    if str(file) == "-":
        return sys.stdin.buffer.read(), Encoding(encoding)
    assert file is not None
    return file.read_bytes(), Encoding(encoding)


@on_network
def put(
    network: Network,
    key: Key,
    value: Value = None,
    file: File = None,
    delete: Annotated[bool, typer.Option("--delete", help="Say that the key has no value any more.")] = False,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    priority: Importance = "data",
    express: Express = False,
    drop: Drop = False,
) -> int:
    """Send a value to whoever listens to a key, or the news that it was deleted.

    $ zenlake put fleet/r1/goal '{"x": 1}' --encoding application/json -e tcp/localhost:7447
    $ zenlake put fleet/r1/map --file map.png --encoding image/png
    $ zenlake put fleet/r1/goal --delete
    """
    if delete and (value is not None or file is not None):
        raise typer.BadParameter("--delete sends no value")
    payload, kind = (b"", Encoding()) if delete else given_value(value, file, encoding)
    quality: dict[str, Any] = {
        "priority": priority,
        "express": express,
        "congestion_control": CongestionControl.DROP if drop else CongestionControl.BLOCK,
        "attachment": attachment,
    }
    with network.open() as node:
        nobody = alone(node)
        if nobody is not None:
            raise nobody
        if delete:
            node.delete(key, **quality)
        else:
            node.put(key, payload, encoding=kind, **quality)
    return 0


@on_network
def pub(
    network: Network,
    key: Key,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help=f"The value, as text, with {NUMBER} as the count; else each line of the standard input is one.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", "-r", help="So many each second; 0 as fast as it goes.", min=0)
    ] = 1.0,
    count: Count = None,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    priority: Importance = "data",
    express: Express = False,
    drop: Drop = False,
) -> int:
    """Publish a value on a key again and again, or a value for each line of the standard input, until Ctrl-C.

    $ zenlake pub demo/count "hello {n}" --rate 10 -e tcp/localhost:7447
    $ zenlake pub demo/lines < notes.txt
    """
    kind = Encoding(encoding or "zenoh/string")
    sent = 0
    with until_stopped() as stop, network.join() as node:
        publisher = node.declare_publisher(
            key,
            encoding=kind,
            priority=priority,
            express=express,
            congestion_control=CongestionControl.DROP if drop else CongestionControl.BLOCK,
        )
        began = time.monotonic()
        for text in _values(value):
            if rate and value is not None and stop.wait(max(0.0, began + sent / rate - time.monotonic())):
                break
            publisher.put(text.replace(NUMBER, str(sent)) if value is not None else text, attachment=attachment)
            sent += 1
            if stop.is_set() or sent == count:
                break
    seconds = time.monotonic() - began
    typer.echo(f"{sent} published in {seconds:.1f} s", err=True)
    return 0


def _values(value: str | None) -> Iterator[str]:
    if value is None:
        yield from (line.removesuffix("\n") for line in sys.stdin)
    else:
        while True:
            yield value
