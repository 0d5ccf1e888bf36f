# SPDX-License-Identifier: Apache-2.0
"""What the commands that go on the network share: their options, and from those a configuration."""

import inspect
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Literal, ParamSpec

import typer

from zenlake.config import Config
from zenlake.endpoint import EndPoint
from zenlake.errors import ClosedError, ConfigError, EndpointError, LinkError
from zenlake.limits import parse_limits

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = [
    "ConfigFile",
    "Connect",
    "Count",
    "Json",
    "Limit",
    "Listen",
    "Network",
    "Seconds",
    "Set",
    "alone",
    "configuration",
    "following",
    "limits",
    "on_network",
    "until_stopped",
]

P = ParamSpec("P")
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD

NETWORK = "Network"  # where the help shows them
LOOK = 0.2  # seconds between two looks at whether to stop

Connect = Annotated[
    list[str] | None,
    typer.Option(
        "--connect",
        "-e",
        metavar="ENDPOINT",
        help="Connect there, like tcp/localhost:7447; may be repeated.",
        rich_help_panel=NETWORK,
    ),
]
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        "-l",
        metavar="ENDPOINT",
        help="Listen there, like tcp/[::]:7447; may be repeated.",
        rich_help_panel=NETWORK,
    ),
]
Mode = Annotated[
    Literal["client", "peer", "router"] | None,
    typer.Option(
        "--mode",
        "-m",
        help="What to be there.",
        rich_help_panel=NETWORK,
        show_default="client if it only connects somewhere, else peer",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="A configuration of Zenoh's (JSON5).", rich_help_panel=NETWORK),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One value of the configuration, like transport/link/tx/lease=5000.",
        rich_help_panel=NETWORK,
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=SIZE",
        help="Memory that one neighbour may use, like routes=16MiB; may be repeated. See docs/design/limits.md.",
        rich_help_panel=NETWORK,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="A line of JSON for each.")]
Count = Annotated[int | None, typer.Option("--count", "-n", metavar="N", help="End after so many.", min=1)]
Seconds = Annotated[float | None, typer.Option("--seconds", "-s", help="End after so many seconds.", min=0.0)]


def limits(texts: list[str] | None) -> dict[str, int]:
    """Return the values of `--limit`."""
    try:
        return parse_limits(texts or ())
    except ConfigError as error:
        raise typer.BadParameter(str(error), param_hint="--limit") from None


def configuration(
    config: Path | None = None,
    mode: str | None = None,
    connect: list[str] | None = None,
    listen: list[str] | None = None,
    values: list[str] | None = None,
) -> Config:
    """The file, and over it what the command line says."""
    for endpoint in (*(connect or ()), *(listen or ())):
        _check(endpoint)
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


def _check(endpoint: str) -> None:
    """What is no endpoint is refused in the words of an endpoint, not in those of a configuration that has one."""
    try:
        EndPoint.parse(endpoint)
    except EndpointError as error:
        try:
            hint = f"did you mean {EndPoint.parse(f'tcp/{endpoint}')}?"
        except EndpointError:
            hint = "write it like tcp/localhost:7447"
        raise EndpointError(str(error) if "/" in endpoint else f"`{endpoint}` is no endpoint: {hint}") from None


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


@dataclass(frozen=True)
class Network:
    """What the command line says of the network: where to go, and as whom."""

    connect: list[str] | None = None
    listen: list[str] | None = None
    mode: str | None = None
    config: Path | None = None
    set: list[str] | None = None

    def open(self) -> "Session":
        """A session there. Who only connects somewhere is a client: it listens nowhere."""
        from zenlake.api.start import open

        mode = self.mode
        if mode is None and self.config is None and self.connect and not self.listen:
            mode = "client"
        return open(configuration(self.config, mode, self.connect, self.listen, self.set))

    def join(self) -> "Session":
        """A session for who waits for others: if nobody is there yet, that is no mistake, but worth a line."""
        session = self.open()
        if alone(session):
            typer.echo("waiting: nobody is connected yet; -e tcp/HOST:7447 says where to look", err=True)
        return session


def on_network(verb: Callable[Concatenate[Network, P], int]) -> Callable[..., int]:
    """A verb that is given a Network, made of options that every such verb has besides its own."""
    own = list(inspect.signature(verb).parameters.values())[1:]
    every = {"connect": Connect, "listen": Listen, "mode": Mode, "config": ConfigFile, "set": Set}
    options = [inspect.Parameter(name, POSITIONAL, default=None, annotation=of) for name, of in every.items()]

    def command(**given: Any) -> int:
        return verb(Network(**{name: given.pop(name) for name in every}), **given)  # type: ignore[call-arg]

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    command.__signature__ = inspect.Signature([*own, *options])  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in (*own, *options)}
    return command


def alone(session: "Session") -> LinkError | None:
    """What to raise if there is nobody to talk to."""
    if session.info.transports():
        return None
    return LinkError(
        "the network", "nobody was found: say where with -e tcp/HOST:7447; `zenlake scout` tells who is near"
    )


def following(
    channel: Any, stop: threading.Event, count: int | None = None, seconds: float | None = None
) -> Iterator[Any]:
    """What comes through a channel or a subscriber, until it ends, so many came, the time is over, or someone stops it.

    Whenever nothing waits, what was printed so far is sent on its way.
    """
    end = None if seconds is None else time.monotonic() + seconds
    handler = getattr(channel, "handler", channel)
    come = 0
    while not stop.is_set() and (count is None or come < count):
        if not len(handler):
            sys.stdout.flush()
        left = LOOK if end is None else min(LOOK, end - time.monotonic())
        if left <= 0:
            return
        try:
            item = handler.recv(left)
        except TimeoutError:
            continue
        except ClosedError:
            return
        come += 1
        yield item
