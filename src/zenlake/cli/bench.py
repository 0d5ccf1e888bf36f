# SPDX-License-Identifier: Apache-2.0
"""`zenlake bench`: the benchmarks, which come with the source and not with a wheel."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from zenlake.errors import InvalidValue


def bench(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these.", show_default="all")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions: less than three minutes.")] = False,
) -> int:
    """Measure everything against its peer, zenoh-python first of all: ratios, with their spread. `make bench` is the same.

    $ zenlake bench --quick
    $ zenlake bench columns router
    """
    source = Path(__file__).resolve().parents[3]
    if not (source / "bench" / "__main__.py").exists():
        raise InvalidValue(
            "the benchmarks are not in the installed package: clone the source, and run `make bench` there"
        )
    command = [sys.executable, "-m", "bench", *(names or ()), *(["--quick"] if quick else [])]
    return subprocess.run(command, cwd=source).returncode
