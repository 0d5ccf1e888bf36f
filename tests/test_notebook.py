# SPDX-License-Identifier: Apache-2.0
"""The example notebook runs completely, and was saved with the output of its cells."""

import json
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif("ZENLAKE_PURE" in os.environ, reason="the same either way: run once, compiled")
NOTEBOOK = Path(__file__).parent.parent / "examples" / "notebook" / "fleet.ipynb"


def test_the_notebook_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names = {}
    for number, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        kinds = {output["output_type"] for output in cell["outputs"]}
        assert kinds == (set() if number == 0 else {"execute_result"}), cell["source"]
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!DOCTYPE html>")
    assert names["publications"].num_rows == 898
    assert names["poses"]["x"].notna().all()
