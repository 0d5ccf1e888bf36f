# SPDX-License-Identifier: Apache-2.0
"""The figures of one recording: a chapter a section of the page, each a few questions in SQL.

Times are milliseconds since 1970 (UTC), lists are cut at a length that is told beside the true one, so the page's size has a
bound whatever the recording's. A list is `{"rows": [...], "total": n}`.
"""

from collections.abc import Callable
from typing import Any

from zenlake.report.figures import liveliness, losses, overview, queries, sessions, timing, traffic
from zenlake.report.figures.findings import findings
from zenlake.report.figures.window import Window
from zenlake.report.recording import Recording

CHAPTERS: dict[str, Callable[[Recording, Window], dict[str, Any]]] = {
    "overview": overview.figures,
    "traffic": traffic.figures,
    "sessions": sessions.figures,
    "queries": queries.figures,
    "losses": losses.figures,
    "timing": timing.figures,
    "liveliness": liveliness.figures,
}


def figures(recording: Recording, said: Callable[[str], None]) -> dict[str, Any]:
    """All figures of a recording, by the page's sections."""
    window = Window.of(recording)
    told: dict[str, Any] = {"name": recording.name, "kind": recording.kind, "window": window.told()}
    for name, chapter in CHAPTERS.items():
        said(f"{recording.name}: {name}")
        told[name] = chapter(recording, window)
    told["findings"] = findings(told)
    return told
