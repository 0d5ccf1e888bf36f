# SPDX-License-Identifier: Apache-2.0
"""`zenlake run`: run a zenoh-python program on Zenlake, without a change to the program."""

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from zenlake import __version__, zenoh_alias
from zenlake.errors import InvalidValue

run = typer.Typer(
    add_completion=False,
    help="""Run a Python program that imports `zenoh`. Zenlake provides the module, also to child processes.

    PROGRAM is a Python file, a command on PATH, or a module with `-m`. Options of `zenlake run` come before PROGRAM.

    $ zenlake run z_sub.py --key 'demo/**'
    $ zenlake run -m pytest tests
    """,
)


@run.command(
    name="run",
    help=run.info.help,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run_program(
    program: Annotated[str, typer.Argument(metavar="PROGRAM", help="Python file, command on PATH, or module.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="ARGS", help="Arguments and options of PROGRAM.")
    ] = None,
    module: Annotated[bool, typer.Option("-m", "--module", help="PROGRAM is the name of a module.")] = False,
    quiet: Annotated[
        bool, typer.Option("-q", "--quiet", help="Do not print the line that names the implementation.")
    ] = False,
) -> None:
    command = find_command(program, module)
    if not quiet:
        typer.echo(f"zenlake {__version__} provides the module zenoh to {program}", err=True)
    paths = [str(Path(zenoh_alias.__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    sys.stderr.flush()
    os.execve(command[0], [*command, *(arguments or ())], environment)


def find_command(program: str, module: bool) -> list[str]:
    """Return the command that starts a Python file, a command on PATH or a module."""
    if module:
        return [sys.executable, "-m", program]
    if Path(program).is_file():
        return [sys.executable, program]
    path = shutil.which(program)
    if path is None:
        raise InvalidValue(f"no program {program!r}; expected a Python file, a command on PATH, or -m MODULE")
    return [path]
