# SPDX-License-Identifier: Apache-2.0
"""`zenlake hz` and `zenlake bw`: publication rate and bandwidth per key, like the ROS tools of these names.

Performance: samples are received as Arrow columns (key, size and time only), so that a busy network does not distort the
measurement. Each key has a window of its last samples.
"""

import math
import sys
import time
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any

import typer
from rich import box, filesize
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from zenlake.cli.formatting import escape, json_line
from zenlake.cli.network_options import Json, NetworkOptions, Seconds, follow, on_network, until_stopped
from zenlake.cli.publish import Key

AGE = 0.05  # seconds that a sample waits for others of its record batch
SILENT = 5  # periods without a sample after which a key is silent


class RateWindow:
    """The times and sizes of the last samples of one key."""

    def __init__(self, size: int) -> None:
        self.times: deque[int] = deque(maxlen=size)
        self.sizes: deque[int] = deque(maxlen=size)
        self.samples = 0

    def add(self, at: int, size: int) -> None:
        self.times.append(at)
        self.sizes.append(size)
        self.samples += 1

    def seconds(self) -> float:
        """Return the seconds between the first and the last sample of the window."""
        return (self.times[-1] - self.times[0]) / 1e9

    def rate(self, now: int) -> float:
        """Return samples per second. The rate of a silent key decreases with the time since its last sample."""
        if len(self.times) < 2 or self.seconds() <= 0:
            return 0.0
        period = self.seconds() / (len(self.times) - 1)
        since = (now - self.times[-1]) / 1e9
        over = self.seconds() + (since if since > SILENT * period else 0.0)
        return (len(self.times) - 1) / over

    def frequency(self, now: int) -> dict[str, float]:
        gaps = [(after - before) / 1e6 for before, after in pairwise(self.times)] or [0.0]
        mean = sum(gaps) / len(gaps)
        deviation = math.sqrt(sum((gap - mean) ** 2 for gap in gaps) / len(gaps))
        return {"hz": self.rate(now), "min_ms": min(gaps), "max_ms": max(gaps), "std_ms": deviation}

    def bandwidth(self, now: int) -> dict[str, float]:
        mean = sum(self.sizes) / len(self.sizes)
        return {"bytes_s": self.rate(now) * mean, "mean": mean, "min": min(self.sizes), "max": max(self.sizes)}


Figures = Callable[[RateWindow, int], dict[str, float]]

WindowSize = Annotated[
    int, typer.Option("--window", "-w", metavar="N", help="Measure the last N samples of each key.", min=2)
]
Every = Annotated[float, typer.Option("--every", metavar="SECONDS", help="Time between two updates.", min=0.05)]
Samples = Annotated[
    int | None, typer.Option("--count", "-n", metavar="N", help="Stop after N samples. Default: no limit.", min=1)
]


@on_network
def hz(
    network: NetworkOptions,
    key: Key,
    window: WindowSize = 1000,
    every: Every = 1.0,
    count: Samples = None,
    seconds: Seconds = None,
    as_json: Json = False,
) -> int:
    """Show the publication rate of each key, and the shortest and longest interval, until Ctrl-C.

    The exit code is 1 if nothing was received.

    $ zenlake hz 'fleet/*/pose' -e tcp/localhost:7447
    """
    with network.join() as node:
        return _watch(node, key, RateWindow.frequency, window, every, count, seconds, as_json)


@on_network
def bw(
    network: NetworkOptions,
    key: Key,
    window: WindowSize = 1000,
    every: Every = 1.0,
    count: Samples = None,
    seconds: Seconds = None,
    as_json: Json = False,
) -> int:
    """Show the payload bytes per second of each key, and the sizes of its samples, until Ctrl-C.

    The exit code is 1 if nothing was received.

    $ zenlake bw 'fleet/**' -e tcp/localhost:7447 --seconds 10 --json
    """
    with network.join() as node:
        return _watch(node, key, RateWindow.bandwidth, window, every, count, seconds, as_json)


def _watch(
    node: Any,
    key: str,
    figures: Figures,
    window: int,
    every: float,
    count: int | None,
    seconds: float | None,
    as_json: bool,
) -> int:
    from zenlake.api.arrow import ArrowChannel

    windows: dict[str, RateWindow] = {}
    left = count
    with until_stopped() as stop, RatesTable() if sys.stdout.isatty() and not as_json else RateLines(as_json) as page:
        declared = node.declare_subscriber(key, ArrowChannel(age=AGE, columns=["key", "received_ns", "payload_size"]))
        ends = None if seconds is None else time.monotonic() + seconds
        while not stop.is_set() and left != 0 and (ends is None or time.monotonic() < ends):
            turn = every if ends is None else min(every, max(0.0, ends - time.monotonic()))
            for batch in follow(declared, stop, None, turn):
                if left is not None:
                    batch = batch.slice(0, left)
                    left -= batch.num_rows
                for name, at, size in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    if name not in windows:
                        windows[name] = RateWindow(window)
                    windows[name].add(at, size or 0)
                if left == 0:
                    break
            now = time.time_ns()
            page.show({name: (each.samples, figures(each, now)) for name, each in windows.items()})
    return 0 if windows else 1


Rows = dict[str, tuple[int, dict[str, float]]]  # per key: the total of samples, and the figures of its window

HEADS = {
    "hz": "Hz", "min_ms": "shortest ms", "max_ms": "longest ms", "std_ms": "deviation ms",
    "bytes_s": "per second", "mean": "mean size", "min": "smallest", "max": "largest",
}  # fmt: skip


def _select_busiest(rows: Rows) -> list[tuple[str, int, dict[str, float]]]:
    found = [(name, samples, figures) for name, (samples, figures) in rows.items()]
    return sorted(found, key=lambda row: (-next(iter(row[2].values())), row[0]))


def _text(figure: str, value: float) -> str:
    if figure == "hz" or figure.endswith("_ms"):
        return f"{value:.3f}"
    return filesize.decimal(round(value))


class RateLines:
    """Output for pipes and files: one line per key and update."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json

    def __enter__(self) -> "RateLines":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, rows: Rows) -> None:
        for name, samples, figures in _select_busiest(rows):
            if self._as_json:
                rounded = {figure: round(value, 3) for figure, value in figures.items()}
                print(json_line({"key": name, **rounded, "samples": samples}))
            else:
                text = "  ".join(f"{HEADS[figure]} {_text(figure, value)}" for figure, value in figures.items())
                print(f"{escape(name)}  {text}  samples {samples}")
        sys.stdout.flush()


class RatesTable:
    """Output for a terminal: one table, redrawn at each update. It stays when the command ends."""

    def __init__(self) -> None:
        self._console = Console(highlight=False)
        self._live = Live("waiting for samples", console=self._console, auto_refresh=False)

    def __enter__(self) -> "RatesTable":
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, rows: Rows) -> None:
        if not rows:
            return
        busiest = _select_busiest(rows)
        fitting = max(1, self._console.height - 5)
        table = Table(box=box.SIMPLE_HEAD, header_style="bold cyan", pad_edge=False)
        table.add_column("key", no_wrap=True)
        for figure in busiest[0][2]:
            table.add_column(HEADS[figure], justify="right", no_wrap=True)
        table.add_column("samples", justify="right", no_wrap=True)
        for name, samples, figures in busiest[:fitting]:
            cells = [_text(figure, value) for figure, value in figures.items()]
            table.add_row(Text(escape(name)), *cells, str(samples))
        if len(busiest) > fitting:
            table.caption = f"and {len(busiest) - fitting} more keys"
        self._live.update(table, refresh=True)
