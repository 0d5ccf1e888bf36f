# SPDX-License-Identifier: Apache-2.0
"""The `zenlake` command: thin. Each command is a file beside this one that parses, calls and prints.

A command that fails says why in one line, with a hint; `--debug` shows the traceback instead. Exit codes: 0 well,
1 it could not be done, 2 it was not asked properly.
"""

import sys
from typing import Annotated

import typer

from zenlake import __version__
from zenlake.cli.decode import decode
from zenlake.cli.demo import demo
from zenlake.cli.doctor import doctor
from zenlake.cli.explain import explain
from zenlake.cli.log import log
from zenlake.cli.report import report
from zenlake.cli.router import router
from zenlake.cli.sql import sql
from zenlake.cli.tap import tap
from zenlake.errors import ZenlakeError
from zenlake.wire.memory import COMPILED

__all__ = ["app", "main"]

app = typer.Typer(
    name="zenlake",
    help="Every Zenoh message, as a table.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (report, demo, tap, router, decode, sql, explain, doctor):
    app.command()(command)
app.add_typer(log)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"zenlake {__version__} (compiled: {'yes' if COMPILED else 'no'})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        status = app(args=arguments, prog_name="zenlake", standalone_mode=False)
    except typer.TyperException as error:
        if "--debug" in arguments:
            raise
        typer.echo(f"zenlake: {error.format_message()} (`zenlake --help` lists what there is)", err=True)
        sys.exit(error.exit_code)
    except (ZenlakeError, OSError, ImportError) as error:
        if "--debug" in arguments:
            raise
        typer.echo(f"zenlake: {error} (`zenlake --debug ...` shows where)", err=True)
        sys.exit(1)
    sys.exit(status if isinstance(status, int) else 0)
