# SPDX-License-Identifier: Apache-2.0
"""What the commands that go on the network share: their options, and from those a configuration."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from zenlake.config import Config

__all__ = ["ConfigFile", "Connect", "Listen", "Mode", "Set", "configuration", "until_stopped"]

Connect = Annotated[
    list[str] | None,
    typer.Option(
        "--connect", "-e", metavar="ENDPOINT", help="Connect there, like tcp/localhost:7447; may be repeated."
    ),
]
Listen = Annotated[
    list[str] | None,
    typer.Option("--listen", "-l", metavar="ENDPOINT", help="Listen there, like tcp/[::]:7447; may be repeated."),
]
Mode = Annotated[str | None, typer.Option("--mode", "-m", help="client, peer or router.")]
ConfigFile = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="A configuration of Zenoh's (JSON5).")
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="One value of the configuration, like transport/link/tx/lease=5000."
    ),
]


def configuration(
    config: Path | None = None,
    mode: str | None = None,
    connect: list[str] | None = None,
    listen: list[str] | None = None,
    values: list[str] | None = None,
) -> Config:
    """The file, and over it what the command line says."""
    found = Config.from_file(str(config)) if config is not None else Config()
    if mode is not None:
        found.insert_json5("mode", json.dumps(mode))
    if connect:
        found.insert_json5("connect/endpoints", json.dumps(connect))
    if listen:
        found.insert_json5("listen/endpoints", json.dumps(listen))
    for value in values or ():
        key, equals, text = value.partition("=")
        if not equals:
            raise typer.BadParameter(f"`{value}` is not like transport/link/tx/lease=5000", param_hint="--set")
        try:
            json.loads(text)
        except ValueError:
            text = json.dumps(text)
        found.insert_json5(key, text)
    return found


@contextmanager
def until_stopped() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set, so that everything can be ended in order."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
