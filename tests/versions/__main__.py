# SPDX-License-Identifier: Apache-2.0
"""Run the version matrix: `make matrix`, or `python -m tests.versions [--only VERSION] [--topology TEXT]`.

It writes docs/versions.json, from which `make docs` generates docs/versions.md. The exit code is 1 if Zenlake fails where
the yardstick in its place passes.
"""

import argparse
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import NoReturn

from tests import certificates
from tests.interop.conftest import MULTICAST, apart
from tests.versions.captures import CAPTURE, run_capture
from tests.versions.environments import VERSIONS, YARDSTICK, InstallationError, install
from tests.versions.matrix import OURS, PLACES, Cell, run_topology, write
from tests.versions.pico import run_programs
from tests.versions.topologies import TOPOLOGIES, Network, Topology


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", choices=VERSIONS, metavar="VERSION", help="a version; default: all")
    parser.add_argument("--topology", default="", metavar="TEXT", help="only topologies whose name contains TEXT")
    parser.add_argument("--jobs", type=int, default=2, help="topologies that run at the same time")
    parser.add_argument("--pico", type=Path, metavar="FOLDER", help="only the programs in a build folder of zenoh-pico")
    parser.add_argument("--prepare", action="store_true", help="create the environments only")
    options = parser.parse_args()
    versions = options.only or list(VERSIONS)
    try:
        for version in {*versions, YARDSTICK}:
            install(version)
    except InstallationError as error:
        sys.exit(str(error))
    if options.prepare:
        return
    started = time.monotonic()
    if options.pico is not None:
        judge([run_programs(options.pico, place, options.jobs) for place in PLACES], started)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        certificates.make(folder)
        prefix = stack.enter_context(apart(MULTICAST))  # no other node interferes

        def run(topology: Topology, version: str, place: str) -> Cell:
            cell = run_topology(topology, lambda: Network(place, version, prefix, folder), version, place)
            print(
                f"{version:7} {place:8} {topology.name}: {cell.passed} of {cell.total}", cell.failed or "", flush=True
            )
            return cell

        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [
                pool.submit(run, topology, version, place)
                for version in versions
                for topology in TOPOLOGIES
                if options.topology in topology.name and topology.exists_in(version)
                for place in PLACES
            ]
            cells = [future.result() for future in futures]
        for version in versions if options.topology in CAPTURE else ():  # alone: tcpdump records the whole interface
            cell = run_capture(version, folder, prefix, OURS)
            print(f"{version:7} {CAPTURE}: {cell.passed} of {cell.total}", cell.failed or "", flush=True)
            cells.append(cell)
    judge(cells, started)


def judge(cells: list[Cell], started: float) -> NoReturn:
    """Record the results, and exit with 1 if Zenlake fails where the yardstick passes."""
    write(cells, time.monotonic() - started)
    expected = {(cell.version, cell.topology): cell for cell in cells if cell.place == YARDSTICK}
    bad = [
        f"{cell.version}, {cell.topology}: {name}: {reason}"
        for cell in cells
        if cell.place == OURS
        for name, reason in cell.failed.items()
        if cell.topology == CAPTURE or name not in expected[cell.version, cell.topology].failed
    ]
    for line in bad:
        print("fails with Zenlake only:", line)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
