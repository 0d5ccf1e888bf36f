# SPDX-License-Identifier: Apache-2.0
"""HTML report: tables -> one self-contained page (`zenlake report`).

    html = zenlake.report.page("robots.pcapng")          # one recording
    html = zenlake.report.page("robot.pcap", "base.pcap")  # two: sent in the first, received in the second

`dataset` loads the tables of a capture, a lake or any other source of `zenlake.tables` into DuckDB. The modules of
`sections` query them in SQL for a bounded number of figures. `comparison` queries two recordings. `html` combines figures,
style, scripts and the chart library into one file. This package does not decode, and the page only computes the positions
of marks.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zenlake.log import Damaged
from zenlake.report import comparison
from zenlake.report.dataset import recordings
from zenlake.report.html import render
from zenlake.report.sections import figures

__all__ = ["data", "page"]


def page(
    first: str | Path, second: str | Path | None = None, said: Callable[[str], None] = lambda _: None,
    damaged: Damaged | None = None,
) -> str:  # fmt: skip
    """Return the page about one recording, or about two recordings and their differences.

    Args:
        first: The recording, or the sending one of two.
        second: The receiving one of two recordings.
        said: Callback for progress messages.
        damaged: Callback for unreadable blocks of a log. Without it they are an error.
    """
    return render(data(first, second, said, damaged))


def data(
    first: str | Path, second: str | Path | None = None, said: Callable[[str], None] = lambda _: None,
    damaged: Damaged | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the figures that are embedded in the page."""
    paths = [first] if second is None else [first, second]
    with recordings(paths, said, damaged) as (engine, found):
        result: dict[str, Any] = {"recordings": [figures(each, said) for each in found]}
        if second is not None:
            said("comparing the two")
            result["comparison"] = comparison.figures(engine, *result["recordings"])
    return result
