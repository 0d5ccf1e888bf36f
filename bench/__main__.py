# SPDX-License-Identifier: Apache-2.0
"""`make bench`: every benchmark against its peer in one table, ratios first.

    python -m bench [--quick] [--publish] [NAME ...]

`--quick` measures everything with fewer and smaller repetitions, in less than three minutes on a quiet machine. Results are
written to `bench/results`. `--publish` also writes them to `docs/bench.json`, from which `make docs` generates the pages. It
refuses to measure on a busy machine.
"""

import importlib
import os
import sys
import time

from rich.console import Console
from rich.markup import escape

from bench.report import Result, busy, publish, save, show

NAMES = [
    "columns",
    "capture",
    "log",
    "tap",
    "transport",
    "shm",
    "router",
    "crowd",
    "blocked",
    "hostile",
    "api",
    "land",
    "lake",
]


def main() -> None:
    quick, to_publish = "--quick" in sys.argv, "--publish" in sys.argv
    wrong = [name for name in sys.argv[1:] if name not in (*NAMES, "--quick", "--publish")]
    if wrong:
        sys.exit(f"unknown benchmark {wrong[0]!r}; expected one of {', '.join(NAMES)}, --quick, --publish")
    console = Console(stderr=True, highlight=False)
    others = busy()
    if others and to_publish:
        sys.exit(f"{others}: figures to publish are measured on a quiet machine")
    if others:
        console.print(f"[yellow]{others}: the ratios may be right, the figures are not[/]")
    began = time.monotonic()
    found: dict[str, list[Result]] = {}
    failed: list[str] = []
    for name in [name for name in NAMES if name in sys.argv[1:]] or NAMES:
        start = time.monotonic()
        try:
            with console.status(f"measuring {name}"):
                found[name] = importlib.import_module(f"bench.{name}").run(quick)
        except Exception as error:  # the other benchmarks are still measured
            failed.append(name)
            console.print(f"[red]✗[/] {name:<10} {escape(str(error).partition(chr(10))[0])}")
            continue
        where = os.path.relpath(save(name, found[name], quick))
        console.print(f"[green]✓[/] {name:<10} [dim]{time.monotonic() - start:4.0f} s[/]  {where}")
    show([result for results in found.values() for result in results])
    console.print(f"[dim]{time.monotonic() - began:.0f} s in all[/]")
    if to_publish:
        console.print(f"{os.path.relpath(publish(found, quick))} is written; `make docs` makes the pages of it")
    sys.exit(f"could not be measured: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
