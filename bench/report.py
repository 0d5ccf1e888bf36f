# SPDX-License-Identifier: Apache-2.0
"""How a benchmark tells its result: a ratio to a peer measured in the same run, with its spread."""

import json
import platform
import statistics
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from rich.console import Console
from rich.table import Table

from zenlake.wire.memory import COMPILED

RESULTS = Path(__file__).parent / "results"


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


def machine() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "compiled": "yes" if COMPILED else "no",
        "pyarrow": version("pyarrow"),
        "eclipse-zenoh": version("eclipse-zenoh"),
    }


def show(results: list[Result]) -> None:
    """A table on the terminal; ratios first."""
    table = Table(title=", ".join(f"{name} {value}" for name, value in machine().items()))
    for title in ("ratio", "spread", "aim", "what", "ours/s", "peer/s"):
        table.add_column(title, justify="left" if title == "what" else "right")
    for result in results:
        low, high = result.spread
        middle = sorted(result.ratios, key=lambda r: r.value)[len(result.ratios) // 2]
        table.add_row(
            f"{result.median:.3g}x",
            f"{low:.3g}-{high:.3g}",
            "" if result.aim is None else f"{result.aim:g}x",
            f"{result.name} / {result.peer}",
            f"{middle.ours:,.0f}",
            f"{middle.peer:,.0f}",
        )
    Console().print(table)


def save(name: str, results: list[Result]) -> Path:
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    rows = [{**asdict(result), "median": result.median, "spread": result.spread} for result in results]
    path.write_text(json.dumps({"machine": machine(), "results": rows}, indent=1))
    return path
