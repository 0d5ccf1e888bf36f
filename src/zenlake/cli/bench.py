# SPDX-License-Identifier: Apache-2.0
"""`zenlake bench`: run the benchmarks of a source checkout. Wheels do not contain them."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from zenlake.errors import InvalidValue


def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Benchmarks to run, like columns or router.", show_default="all"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run fewer repetitions, in less than three minutes.")] = False,
) -> int:
    """Run the benchmarks against comparable projects, such as zenoh-python, and print ratios with their spread.

    `make bench` runs the same benchmarks.

    $ zenlake bench --quick
    $ zenlake bench columns router
    """
    source = Path(__file__).resolve().parents[3]
    if not (source / "bench" / "__main__.py").exists():
        raise InvalidValue("the installed package has no benchmarks; clone the source and run `make bench` there")
    command = [sys.executable, "-m", "bench", *(names or ()), *(["--quick"] if quick else [])]
    return subprocess.run(command, cwd=source).returncode
