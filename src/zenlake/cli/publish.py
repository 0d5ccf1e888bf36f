# SPDX-License-Identifier: Apache-2.0
"""`zenlake put` and `zenlake pub`: publish one value, or values at a rate."""

import sys
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from zenlake.cli.network_options import Count, NetworkOptions, expect_one, on_network, until_stopped
from zenlake.core.encoding import Encoding
from zenlake.core.enums import CongestionControl, Priority
from zenlake.core.keyexpr import KeyExpr
from zenlake.errors import KeyExprError

__all__ = ["Attachment", "EncodingName", "File", "Key", "Value", "as_member", "check_key", "read_value", "pub", "put"]

E = TypeVar("E", bound=Enum)
NUMBER = "{n}"
MESSAGE = "Message"  # panel of the help


def as_member(kind: type[E], text: str) -> E:
    """Return a member of an enum by its name, like best-matching."""
    names = {each.name.lower().replace("_", "-"): each for each in kind}
    chosen = names.get(text.lower().replace("_", "-"))
    if chosen is None:
        raise typer.BadParameter(f"unknown name {text!r}; expected {', '.join(names)}")
    return chosen


def _priority(text: str) -> Priority:
    """Return a priority by name, like data-high, or by number."""
    return Priority(int(text)) if text in {str(int(each)) for each in Priority} else as_member(Priority, text)


def check_key(text: str) -> str:
    """Validate a key expression or selector, as the callback of an option."""
    try:
        KeyExpr(text.partition("?")[0])
    except KeyExprError as error:
        raise typer.BadParameter(str(error)) from None
    return text


Key = Annotated[
    str,
    typer.Argument(metavar="KEY", help="Key expression, like fleet/r1/pose.", callback=check_key, show_default=False),
]
Value = Annotated[str | None, typer.Argument(metavar="VALUE", help="Value, as text.", show_default=False)]
File = Annotated[
    Path | None,
    typer.Option("--file", "-f", metavar="FILE", help="Read the value from this file. `-` reads the standard input."),
]
EncodingName = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of the value, like application/json.",
        show_default="zenoh/string for text, else zenoh/bytes",
        rich_help_panel=MESSAGE,
    ),
]
Attachment = Annotated[
    str | None,
    typer.Option("--attachment", metavar="TEXT", help="Attachment of the message, as text.", rich_help_panel=MESSAGE),
]
Importance = Annotated[
    Any,
    typer.Option(
        "--priority",
        help="Priority: real-time, interactive-high, interactive-low, data-high, data, data-low or background; or 1 to 7.",
        parser=_priority,
        metavar="PRIORITY",
        rich_help_panel=MESSAGE,
    ),
]
Express = Annotated[
    bool,
    typer.Option(
        "--express", help="Send immediately, without waiting for other messages of a batch.", rich_help_panel=MESSAGE
    ),
]
Drop = Annotated[
    bool, typer.Option("--drop", help="Drop the message if a queue is full. Default: wait.", rich_help_panel=MESSAGE)
]


def read_value(value: str | None, file: Path | None, encoding: str | None) -> tuple[bytes, Encoding]:
    """Return the value of the command line, from text or a file, and its encoding."""
    if (value is None) == (file is None):
        raise typer.BadParameter("expected either VALUE or --file")
    if value is not None:
        return value.encode(), Encoding(encoding or "zenoh/string")
    if str(file) == "-":
        return sys.stdin.buffer.read(), Encoding(encoding)
    assert file is not None
    return file.read_bytes(), Encoding(encoding)


@on_network
def put(
    network: NetworkOptions,
    key: Key,
    value: Value = None,
    file: File = None,
    delete: Annotated[bool, typer.Option("--delete", help="Publish a deletion of the key instead of a value.")] = False,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    priority: Importance = "data",
    express: Express = False,
    drop: Drop = False,
) -> int:
    """Publish one value on a key, or its deletion.

    $ zenlake put fleet/r1/goal '{"x": 1}' --encoding application/json -e tcp/localhost:7447
    $ zenlake put fleet/r1/map --file map.png --encoding image/png
    $ zenlake put fleet/r1/goal --delete
    """
    if delete and (value is not None or file is not None):
        raise typer.BadParameter("--delete conflicts with VALUE and --file")
    payload, kind = (b"", Encoding()) if delete else read_value(value, file, encoding)
    quality: dict[str, Any] = {
        "priority": priority,
        "express": express,
        "congestion_control": CongestionControl.DROP if drop else CongestionControl.BLOCK,
        "attachment": attachment,
    }
    with network.open() as node:
        error = expect_one(node)
        if error is not None:
            raise error
        if delete:
            node.delete(key, **quality)
        else:
            node.put(key, payload, encoding=kind, **quality)
    return 0


@on_network
def pub(
    network: NetworkOptions,
    key: Key,
    value: Annotated[
        str | None,
        typer.Argument(
            metavar="VALUE",
            help=f"Value, as text. {NUMBER} is replaced by the number of the value. Default: lines of the standard input.",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option("--rate", "-r", metavar="HZ", help="Values per second. 0: as fast as possible.", min=0)
    ] = 1.0,
    count: Count = None,
    encoding: EncodingName = None,
    attachment: Attachment = None,
    priority: Importance = "data",
    express: Express = False,
    drop: Drop = False,
) -> int:
    """Publish a value repeatedly, or one value per line of the standard input, until Ctrl-C.

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
