# SPDX-License-Identifier: Apache-2.0
"""The dashboard and the alerts of docs/howto/grafana.md use metrics and labels that router and tap serve."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from zenlake.api.session_node import open_node
from zenlake.cli import tap
from zenlake.cli.network_options import configuration
from zenlake.cli.router import figures
from zenlake.tap.tap import Stats

DOCS = Path(__file__).parents[2] / "docs"
ASKED = re.compile(r"zenlake_\w+")


@pytest.fixture(scope="module")
def served():
    """Return the names of metrics, each with the names of its labels."""
    router = open_node(configuration(None, "router", None, ["tcp/127.0.0.1:0"], ["scouting/multicast/enabled=false"]))
    client = open_node(configuration(None, "client", list(router.locators), None, None))
    try:
        with pytest.MonkeyPatch.context() as patch:  # nothing was refused yet
            patch.setattr(type(router), "counters", lambda self: {"denied": 1})
            found = list(figures(router, SimpleNamespace(bytes=1, lost=0, waiting_bytes=0)))
    finally:
        client.close()
        router.close()
    found += tap._figures(Stats(*[0] * len(Stats.__annotations__)), "tap")
    return {name: set(labels) for name, _, labels, _ in found}


def test_the_dashboard_uses_served_metrics(served):
    panels = json.loads((DOCS / "grafana" / "zenlake.json").read_text())["panels"]
    asked = [target for panel in panels for target in panel.get("targets", ())]
    assert {name for target in asked for name in ASKED.findall(target["expr"])} == set(served) - {
        "zenlake_tap_batches_total"
    }
    for target in asked:
        [name] = ASKED.findall(target["expr"])
        by = re.search(r"by \(([^)]*)\)", target["expr"])
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"])) | set(by[1].split(", ") if by else ())
        assert labels <= served[name], target


def test_the_pages_name_figures_that_are_served(served):
    for page in ("grafana.md", "router.md", "security.md", "tap.md"):
        assert set(ASKED.findall((DOCS / "howto" / page).read_text())) <= set(served), page
