# SPDX-License-Identifier: Apache-2.0
"""The generated pages are current."""

import os
import re
import sys

import pytest
from bench import report
from bench.__main__ import NAMES
from bench.__main__ import main as bench
from bench.columns import BATCH, message
from bench.report import Ratio, Result
from docs.__main__ import HERE, PAGES
from docs.figures import TITLES, benchmarks_page, scale_page


@pytest.mark.parametrize("name", PAGES)
def test_generated_pages_are_current(name):
    assert (HERE / name).read_text() == PAGES[name](), "run `make docs`"


def test_every_benchmark_has_its_place_on_the_page():
    assert list(TITLES) == NAMES


def test_the_pages_of_benchmarks_show_the_measurements(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PUBLISHED", tmp_path / "bench.json")
    assert "Nothing is published yet" in benchmarks_page()
    assert "Nothing is published yet" in scale_page()
    log = [
        Result(
            "log to samples, 64 bytes, all columns",
            "bare decode",
            [Ratio(4e6, 5e6), Ratio(3e6, 5e6), Ratio(5e6, 5e6)],
            0.67,
        ),
        Result("batches to log, 64 bytes a sample", "plain file", [Ratio(1000, 4000)]),
    ]
    report.publish({"log": log}, quick=False)
    report.publish(
        {"land": [Result("landing 90 MB of log", "Spark's writer", [Ratio(900_000, 300_000)], 3)]}, quick=True
    )
    page = benchmarks_page()
    assert (
        "| **0.8x** | 0.6-1 | 0.67x | log to samples, 64 bytes, all columns / bare decode | 4,000,000 | 5,000,000 |"
        in page
    )
    assert "| **3x** | 3-3 | 3x | landing 90 MB of log / Spark's writer | 900,000 | 300,000 |" in page
    assert "pyspark" in page
    a_batch = BATCH // len(message(64, False))
    scale = scale_page()
    assert f"| one core, batches to log (write path of a tap) | {1000 * a_batch:,} |" in scale
    assert "| one core, log to columns | 1 | 1 | 3 |" in scale  # 4 million a second each
    assert "| one core of a Spark worker, log to Parquet (samples of 200 bytes) | 1 | 3 | 23 |" in scale  # 450,000 each
    assert "one router" not in scale  # it was not measured


def test_figures_of_a_busy_machine_are_not_published(monkeypatch):
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 9, 9))
    assert report.busy() == ""
    monkeypatch.setattr(os, "getloadavg", lambda: (os.cpu_count() * 0.7, 0, 0))
    monkeypatch.setattr(sys, "argv", ["bench", "--publish"])
    with pytest.raises(SystemExit, match="figures to publish are measured on a quiet machine"):
        bench()


def test_tests_that_pages_name_exist():
    named = {
        found
        for page in HERE.rglob("*.md")
        for found in re.findall(r"`(?:tests/)?([\w/]+\.py)::(\w+)`", page.read_text())
    }
    assert len(named) > 10
    missing = [
        f"{file}::{name}" for file, name in named if f"def {name}(" not in (HERE.parent / "tests" / file).read_text()
    ]
    assert missing == []
