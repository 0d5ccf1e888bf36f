# SPDX-License-Identifier: Apache-2.0
"""Options that all network commands share, and the configuration that results from them."""

import inspect
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import typer

from zenlake.config import Config
from zenlake.core.endpoint import EndPoint
from zenlake.core.peer_limits import parse_limits
from zenlake.errors import ClosedError, ConfigError, EndpointError, LinkError

if TYPE_CHECKING:
    from zenlake.api.session import Session

__all__ = [
    "ConfigFile",
    "Connect",
    "Count",
    "Json",
    "Limit",
    "Listen",
    "NetworkOptions",
    "PasswordFile",
    "Seconds",
    "Set",
    "Timeout",
    "expect_one",
    "configuration",
    "follow",
    "limits",
    "on_network",
    "StopRequest",
    "until_stopped",
]

POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD

NETWORK = "Network"  # panel of these options in the help
LOOK = 0.2  # seconds between two checks for a stop request

Connect = Annotated[
    list[str] | None,
    typer.Option(
        "--connect",
        "-e",
        metavar="ENDPOINT",
        help="Endpoint to connect to, like tcp/localhost:7447. Repeatable. Default of clients and peers: nodes found by multicast.",
        rich_help_panel=NETWORK,
    ),
]
Listen = Annotated[
    list[str] | None,
    typer.Option(
        "--listen",
        "-l",
        metavar="ENDPOINT",
        help="Endpoint to listen on, like tcp/[::]:7447. Repeatable.",
        rich_help_panel=NETWORK,
    ),
]
Mode = Annotated[
    Literal["client", "peer", "router"] | None,
    typer.Option(
        "--mode",
        "-m",
        help="Mode of the session.",
        rich_help_panel=NETWORK,
        show_default="client with --connect and without --listen, else peer",
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="FILE", help="Zenoh configuration file (JSON5 or YAML).", rich_help_panel=NETWORK
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Set one configuration value, like transport/link/tx/lease=5000. Repeatable.",
        rich_help_panel=NETWORK,
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="NAME=SIZE",
        help="Limit the memory of each neighbour for one resource, like routes=16MiB. Repeatable. See docs/design/limits.md.",
        rich_help_panel=NETWORK,
    ),
]
PasswordFile = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="FILE",
        help="Read the password from the first line of FILE; `-` prompts for it. The user is transport/auth/usrpwd/user.",
        show_default="$ZENLAKE_PASSWORD",
        rich_help_panel=NETWORK,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")]
Count = Annotated[
    int | None, typer.Option("--count", "-n", metavar="N", help="Stop after N items. Default: no limit.", min=1)
]
Seconds = Annotated[
    float | None,
    typer.Option(
        "--seconds", "-s", metavar="SECONDS", help="Stop after this time. Default: run until Ctrl-C.", min=0.0
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", metavar="SECONDS", help="Time to wait for replies.", min=0.001)]


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
    password_file: Path | None = None,
) -> Config:
    """Return the configuration file with the options of the command line applied."""
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
            raise typer.BadParameter("expected KEY=VALUE, like transport/link/tx/lease=5000", param_hint="--set")
        try:
            json.loads(text)
        except ValueError:
            text = json.dumps(text)
        found.insert_json5(key, text)
    if password_file is not None:
        found.insert_json5("transport/auth/usrpwd/password", json.dumps(_read_password(password_file)))
    return found


def _read_password(path: Path) -> str:
    """Return the first line of the file. For `-`, prompt on a terminal, or read a line of the standard input."""
    if str(path) != "-":
        lines = path.read_text(encoding="utf-8").splitlines()
        return lines[0] if lines else ""
    if sys.stdin.isatty():
        from getpass import getpass

        return getpass("Zenoh password: ")
    return sys.stdin.readline().rstrip("\r\n")


def _check(endpoint: str) -> None:
    """Validate an endpoint before it becomes part of a configuration, for a clearer error.

    Raises:
        EndpointError: The text is not an endpoint.
    """
    try:
        EndPoint.parse(endpoint)
    except EndpointError as error:
        try:
            hint = f"did you mean {EndPoint.parse(f'tcp/{endpoint}')}?"
        except EndpointError:
            hint = "expected an endpoint like tcp/localhost:7447"
        raise EndpointError(str(error) if "/" in endpoint else f"invalid endpoint `{endpoint}`; {hint}") from None


class StopRequest(threading.Event):
    """An event that a signal handler may set.

    Safety: `threading.Event.set` takes a lock. In a handler that interrupts `wait` on the same thread, it would block forever.
    """

    by_ctrl_c: ClassVar[bool] = False
    """Whether the last request was a SIGINT. The exit code is then 130, also after an orderly shutdown."""

    def __init__(self) -> None:
        super().__init__()
        self._requests = SimpleQueue[None]()

    def set(self) -> None:
        self._requests.put(None)

    def is_set(self) -> bool:
        return not self._requests.empty()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to `timeout` seconds. Return whether the event is set."""
        try:
            self._requests.get(timeout=timeout)
        except Empty:
            return False
        self.set()
        return True


@contextmanager
def until_stopped() -> Iterator[StopRequest]:
    """Yield an event that SIGINT and SIGTERM set, for an orderly shutdown."""
    stop = StopRequest()
    StopRequest.by_ctrl_c = False

    def request(number: int, _: object) -> None:
        StopRequest.by_ctrl_c = number == signal.SIGINT
        stop.set()

    before = {number: signal.signal(number, request) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass(frozen=True)
class NetworkOptions:
    """The network options of the command line."""

    connect: list[str] | None = None
    listen: list[str] | None = None
    mode: str | None = None
    config: Path | None = None
    set: list[str] | None = field(default=None, repr=False)
    password_file: Path | None = None

    def configure(self) -> Config:
        """Return the configuration. With --connect and without --listen, the mode is client."""
        mode = self.mode
        if mode is None and self.config is None and self.connect and not self.listen:
            mode = "client"
        return configuration(self.config, mode, self.connect, self.listen, self.set, self.password_file)

    def open(self, config: Config | None = None) -> "Session":
        """Open a session with this configuration. Default: the one of the options."""
        from zenlake.api._open import open

        return open(config or self.configure())

    def join(self) -> "Session":
        """Open a session for a command that waits for other nodes, and print a line if no node is connected yet."""
        session = self.open()
        if expect_one(session):
            typer.echo("waiting: no node is connected yet; name one with -e tcp/HOST:7447", err=True)
        return session


def on_network(verb: Callable[..., int]) -> Callable[..., int]:
    """Add the network options to a command, and pass them to it as a `NetworkOptions`."""
    own = list(inspect.signature(verb).parameters.values())[1:]
    every = {
        "connect": Connect,
        "listen": Listen,
        "mode": Mode,
        "config": ConfigFile,
        "set": Set,
        "password_file": PasswordFile,
    }
    options = [inspect.Parameter(name, POSITIONAL, default=None, annotation=of) for name, of in every.items()]

    def command(**given: Any) -> int:
        return verb(NetworkOptions(**{name: given.pop(name) for name in every}), **given)

    command.__name__, command.__doc__ = verb.__name__, verb.__doc__
    vars(command)["__signature__"] = inspect.Signature([*own, *options])
    command.__annotations__ = {each.name: each.annotation for each in (*own, *options)}
    return command


def expect_one(session: "Session") -> LinkError | None:
    """Return the error to raise if the session has no transport, or None."""
    if session.info.transports():
        return None
    return LinkError("the network", "no node found; name one with -e tcp/HOST:7447, or run `zenlake scout`")


def follow(channel: Any, stop: StopRequest, count: int | None = None, seconds: float | None = None) -> Iterator[Any]:
    """Yield the items of a channel or subscriber until it closes, `count` or `seconds` is reached, or `stop` is set.

    The standard output is flushed whenever the channel is empty.
    """
    end = None if seconds is None else time.monotonic() + seconds
    handler = getattr(channel, "handler", channel)
    received = 0
    while not stop.is_set() and (count is None or received < count):
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
        received += 1
        yield item
