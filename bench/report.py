# SPDX-License-Identifier: Apache-2.0
"""The result format of benchmarks: a ratio to a peer in the same run, with its spread.

Every run writes its results to `bench/results`, which is not in git. Figures of a busy machine are not comparable. The figures of
`docs/bench.json`, the source of the pages, were measured on an otherwise idle machine.
"""

import json
import os
import platform
import statistics
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from zenlake import __version__
from zenlake.wire.raw_memory import COMPILED

RESULTS = Path(__file__).parent / "results"
PUBLISHED = Path(__file__).parent.parent / "docs" / "bench.json"
PACKAGES = ("pyarrow", "eclipse-zenoh", "dpkt", "pyspark")


@dataclass
class Ratio:
    ours: float
    peer: float

    @property
    def value(self) -> float:
        return self.ours / self.peer


@dataclass
class Result:
    name: str
    peer: str  # what the peer does, such as "callback" or "dpkt"
    ratios: list[Ratio] = field(default_factory=list)
    aim: float | None = None

    @property
    def median(self) -> float:
        return statistics.median(r.value for r in self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        return min(r.value for r in self.ratios), max(r.value for r in self.ratios)

    @property
    def middle(self) -> Ratio:
        """Return the repetition with the median ratio."""
        return sorted(self.ratios, key=lambda ratio: ratio.value)[len(self.ratios) // 2]


@dataclass
class Measured:
    """Results of one benchmark."""

    name: str
    machine: dict[str, str]
    results: list[Result]


def busy() -> str:
    """Return a description of other work on this machine, or an empty text."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"{load:.1f} of {cores} cores are already busy" if load > cores / 2 else ""


def machine() -> dict[str, str]:
    record = {
        "zenlake": __version__,
        "compiled": "yes" if COMPILED else "no",
        "python": platform.python_version(),
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
    }
    for name in PACKAGES:
        try:
            record[name] = version(name)
        except PackageNotFoundError:
            record[name] = "not installed"
    return record


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown processor"
    return next(
        (line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown processor"
    )


def rows(results: Iterable[Result]) -> Iterable[tuple[str, ...]]:
    """Yield the cells of each result: ratio, spread, aim, name, and the two figures of the ratio."""
    for result in results:
        low, high = result.spread
        aim = "" if result.aim is None else f"{result.aim:g}x"
        figures = f"{result.middle.ours:,.0f}", f"{result.middle.peer:,.0f}"
        yield f"{result.median:.3g}x", f"{low:.3g}-{high:.3g}", aim, f"{result.name} / {result.peer}", *figures


def show(results: list[Result]) -> None:
    """Print all results as one table, with the ratio in the first column."""
    table = Table(box=box.SIMPLE_HEAD, caption=", ".join(f"{name} {value}" for name, value in machine().items()))
    for title in ("ratio", "spread", "aim", "what / its peer", "ours/s", "peer/s"):
        table.add_column(
            title, justify="left" if title.startswith("what") else "right", no_wrap=not title.startswith("what")
        )
    for row in rows(results):
        table.add_row(*row)
    (Console() if sys.stdout.isatty() else Console(width=150)).print(table)


def save(name: str, results: list[Result], quick: bool) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(_to_json(results, quick), indent=1) + "\n")
    return path


def publish(measured: dict[str, list[Result]], quick: bool) -> Path:
    """Write results into docs/bench.json, the source of the pages. Results of other benchmarks are kept."""
    record = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
    record |= {name: _to_json(results, quick) for name, results in measured.items()}
    PUBLISHED.write_text(json.dumps(record, indent=1) + "\n")
    return PUBLISHED


def published() -> dict[str, Measured]:
    record = json.loads(PUBLISHED.read_text()) if PUBLISHED.exists() else {}
    return {name: _measured(name, each) for name, each in record.items()}


def _to_json(results: list[Result], quick: bool) -> dict[str, Any]:
    how = {"when": datetime.now(UTC).strftime("%Y-%m-%d"), "how": "quick" if quick else "full"}
    rows = [{**asdict(result), "median": result.median, "spread": result.spread} for result in results]
    return {"machine": machine() | how, "results": rows}


def _measured(name: str, record: dict[str, Any]) -> Measured:
    results = [
        Result(row["name"], row["peer"], [Ratio(**ratio) for ratio in row["ratios"]], row["aim"])
        for row in record["results"]
    ]
    return Measured(name, record["machine"], results)
