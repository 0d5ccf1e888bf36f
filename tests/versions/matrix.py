# SPDX-License-Identifier: Apache-2.0
"""Run scenarios in topologies, and record what passed."""

import itertools
import json
import subprocess
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tests.versions.environments import ROOT, YARDSTICK
from tests.versions.scenarios import Scenario
from tests.versions.topologies import Ends, Network, Topology

RECORD = ROOT / "docs" / "versions.json"
OURS = "zenlake"
PLACES = (OURS, YARDSTICK)
"""Implementations in our place: the results of the second are what can be expected."""
ATTEMPTS = 2  # a scenario has a deadline, and the machine may be busy

_roots = itertools.count()


@dataclass
class Cell:
    """The result of all scenarios of one topology with one version."""

    version: str
    topology: str
    place: str
    passed: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons by scenario and direction."""

    @property
    def total(self) -> int:
        return self.passed + len(self.failed)


def run_topology(topology: Topology, network: Callable[[], Network], version: str, place: str) -> Cell:
    """Run every scenario of a topology in both directions. Scenarios that the Python API of a version lacks are left out."""
    cell = Cell(version, topology.name, place)
    try:
        with topology.opened(network()) as ends:
            for scenario in topology.scenarios():
                if scenario.exists_in(version):
                    for direction in ("there", "back"):
                        _run_scenario(cell, scenario, direction, ends)
    except Exception as error:
        cell.failed["open"] = _describe(error)
    return cell


def _run_scenario(cell: Cell, scenario: Scenario, direction: str, ends: Ends) -> None:
    a, b = ends if direction == "there" else ends[::-1]
    for attempt in range(ATTEMPTS):
        root = f"m{next(_roots)}"
        try:
            scenario.run(a, b, root)
            cell.passed += 1
            return
        except Exception as error:
            if attempt == ATTEMPTS - 1:
                cell.failed[f"{scenario.name}, {direction}"] = _describe(error)


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def write(cells: list[Cell], seconds: float) -> None:
    """Write docs/versions.json. Results of the same version, topology and place replace the previous ones."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    new = {(cell.version, cell.topology, cell.place) for cell in cells}
    previous = [each for each in read() if (each.version, each.topology, each.place) not in new]
    found = {"date": datetime.now(UTC).date().isoformat(), "commit": commit, "minutes": round(seconds / 60)}
    rows = sorted((*previous, *cells), key=lambda cell: (cell.topology, cell.version, cell.place))
    lines = ",\n".join(json.dumps(asdict(cell)) for cell in rows)
    RECORD.write_text(json.dumps(found)[:-1] + f', "cells": [\n{lines}\n]}}\n')


def about() -> dict[str, object]:
    """Return date, commit and duration of the last run."""
    found: dict[str, object] = json.loads(RECORD.read_text())
    return {name: value for name, value in found.items() if name != "cells"}


def read(path: Path = RECORD) -> list[Cell]:
    """Return the recorded cells."""
    return [Cell(**each) for each in json.loads(path.read_text())["cells"]] if path.exists() else []
