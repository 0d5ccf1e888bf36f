# SPDX-License-Identifier: Apache-2.0
"""Tables -> one HTML page that needs nothing else: `zenlake report`.

    html = zenlake.report.page("robots.pcapng")          # one recording
    html = zenlake.report.page("robot.pcap", "base.pcap")  # two: what the first sent, what the second saw

`recording` gathers the tables of a capture, a lake or whatever else `zenlake.tables` reads in DuckDB. The chapters of `figures` ask
them, in SQL, for a bounded number of figures; `comparison` asks two recordings at once. `html` puts figures, style, script and the
chart library into one file. Nothing here decodes, and nothing in the page computes more than where a mark goes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from zenlake.log import Damaged
from zenlake.report import comparison
from zenlake.report.figures import figures
from zenlake.report.html import render
from zenlake.report.recording import recordings

__all__ = ["data", "page"]


def page(
    first: str | Path, second: str | Path | None = None, said: Callable[[str], None] = lambda _: None,
    damaged: Damaged | None = None,
) -> str:  # fmt: skip
    """The page about one recording, or about two and how they differ. `said` is told what is being done, `damaged` what cannot
    be read of a log; without it that is an error."""
    return render(data(first, second, said, damaged))


def data(
    first: str | Path, second: str | Path | None = None, said: Callable[[str], None] = lambda _: None,
    damaged: Damaged | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The figures of that page, as they are embedded in it."""
    paths = [first] if second is None else [first, second]
    with recordings(paths, said, damaged) as (engine, found):
        told: dict[str, Any] = {"recordings": [figures(each, said) for each in found]}
        if second is not None:
            said("comparing the two")
            told["comparison"] = comparison.figures(engine, *told["recordings"])
    return told
