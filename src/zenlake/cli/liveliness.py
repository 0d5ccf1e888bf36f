# SPDX-License-Identifier: Apache-2.0
"""`zenlake liveliness`: list, watch and declare liveliness tokens."""

from typing import Annotated

import typer

from zenlake.cli.formatting import escape, json_line
from zenlake.cli.network_options import Count, Json, NetworkOptions, Seconds, Timeout, follow, on_network, until_stopped
from zenlake.cli.publish import Key
from zenlake.core.enums import SampleKind

liveliness = typer.Typer(
    name="liveliness", help="List, watch and declare liveliness tokens.", no_args_is_help=True, add_completion=False
)


@liveliness.command("get")
@on_network
def get_command(
    network: NetworkOptions,
    key: Key = "**",
    timeout: Timeout = 10.0,
    as_json: Json = False,
) -> int:
    """Print the key of each token that is alive now. The exit code is 1 if no token is alive.

    $ zenlake liveliness get 'fleet/**' -e tcp/localhost:7447
    """
    alive = 0
    with until_stopped() as stop, network.open() as node:
        for reply in follow(node.liveliness().get(key, timeout=timeout), stop):
            if reply.ok is None:
                typer.echo(f"timeout after {timeout:g} s; the list may be incomplete", err=True)
                continue
            alive += 1
            name = str(reply.ok.key_expr)
            print(json_line({"key": name, "alive": True}) if as_json else escape(name))
    return 0 if alive else 1


@liveliness.command("sub")
@on_network
def sub_command(
    network: NetworkOptions,
    key: Key = "**",
    history: Annotated[
        bool, typer.Option("--history/--no-history", help="First print the tokens that are already alive.")
    ] = True,
    count: Count = None,
    seconds: Seconds = None,
    as_json: Json = False,
) -> int:
    """Print a line for each token that appears or disappears, until Ctrl-C.

    $ zenlake liveliness sub 'fleet/**' -e tcp/localhost:7447
    """
    with until_stopped() as stop, network.join() as node:
        declared = node.liveliness().declare_subscriber(key, history=history)
        for sample in follow(declared, stop, count, seconds):
            name, alive = str(sample.key_expr), sample.kind is SampleKind.PUT
            if as_json:
                print(json_line({"key": name, "alive": alive}))
            else:
                print(f"{'alive' if alive else 'gone '}  {escape(name)}")
    return 0


@liveliness.command("token")
@on_network
def token_command(
    network: NetworkOptions,
    key: Key,
    seconds: Seconds = None,
) -> int:
    """Declare a liveliness token on a key, until Ctrl-C.

    $ zenlake liveliness token fleet/r1 -e tcp/localhost:7447
    """
    with until_stopped() as stop, network.join() as node:
        token = node.liveliness().declare_token(key)
        typer.echo(f"{escape(key)} is alive (Ctrl-C to stop)", err=True)
        stop.wait(seconds)
        token.undeclare()
    return 0
