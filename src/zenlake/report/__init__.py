# SPDX-License-Identifier: Apache-2.0
"""HTML report: tables -> one self-contained page (`zenlake report`).

    html = zenlake.report.page("robots.pcapng")          # one recording
    html = zenlake.report.page("robot.pcap", "base.pcap")  # two: sent in the first, received in the second

`dataset` loads the tables of a capture, a lake or any other source of `zenlake.tables` into DuckDB. The modules of
`sections` query them in SQL for a bounded number of figures. `recording_comparison` queries two recordings. `html` combines
figures, style, scripts and the chart library into one file. This package does not decode messages. The scripts of the page
compute only the positions of marks.
"""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from zenlake.log import Damaged
from zenlake.report import recording_comparison as comparison
from zenlake.report.dataset import recordings
from zenlake.report.html import render
from zenlake.report.sections import figures

__all__ = ["data", "page"]


Progress = Callable[[str], None]


def page(
    first: str | Path, second: str | Path | None = None, progress: Progress | None = None, damaged: Damaged | None = None,
    *, said: Progress | None = None,
) -> str:  # fmt: skip
    """Return the page about one recording, or about two recordings and their differences.

    Args:
        first: The recording, or the sending one of two.
        second: The receiving one of two recordings.
        progress: Callback for progress messages.
        damaged: Callback for unreadable blocks of a log. Without it they are an error.
        said: Deprecated name of `progress`.
    """
    return render(data(first, second, progress, damaged, said=said))


def data(
    first: str | Path, second: str | Path | None = None, progress: Progress | None = None, damaged: Damaged | None = None,
    *, said: Progress | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Return the figures that are embedded in the page. The arguments are those of `page`."""
    if said is not None:
        warnings.warn("`said` is deprecated; use `progress`", DeprecationWarning, stacklevel=2)
    report = progress or said or (lambda _: None)
    paths = [first] if second is None else [first, second]
    with recordings(paths, report, damaged) as (engine, datasets):
        result: dict[str, Any] = {"recordings": [figures(each, report) for each in datasets]}
        if second is not None:
            report("comparing the two")
            result["comparison"] = comparison.figures(engine, *result["recordings"])
    return result
