# SPDX-License-Identifier: Apache-2.0
"""Figures of one recording: one module for each section of the page, with a few SQL queries.

Times are milliseconds since 1970 (UTC). Lists have a maximum length and include the total count, so the size of the page is
bounded for any recording. A list is `{"rows": [...], "total": n}`.
"""

from collections.abc import Callable
from typing import Any

from zenlake.report.dataset import Dataset
from zenlake.report.sections import (
    deliveries,
    gets,
    liveliness,
    losses,
    overview,
    sessions,
    timing,
    traffic,
    unmatched_declarations,
)  # fmt: skip
from zenlake.report.sections.summary import findings
from zenlake.report.sections.time_window import TimeWindow

SECTIONS: dict[str, Callable[[Dataset, TimeWindow], dict[str, Any]]] = {
    "overview": overview.figures,
    "traffic": traffic.figures,
    "deliveries": deliveries.figures,
    "declared": unmatched_declarations.figures,
    "sessions": sessions.figures,
    "gets": gets.figures,
    "losses": losses.figures,
    "timing": timing.figures,
    "liveliness": liveliness.figures,
}


def figures(recording: Dataset, progress: Callable[[str], None]) -> dict[str, Any]:
    """Return all figures of a recording, by section of the page."""
    window = TimeWindow.measure(recording)
    result: dict[str, Any] = {"name": recording.name, "kind": recording.kind, "window": window.as_dict()}
    for name, section in SECTIONS.items():
        progress(f"{recording.name}: {name}")
        result[name] = section(recording, window)
    result["findings"] = findings(result)
    return result
