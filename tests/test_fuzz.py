# SPDX-License-Identifier: Apache-2.0
"""A short run of `python -m fuzz`: every target with its corpus and a few inputs, the same in every run."""

import importlib
import logging
from pathlib import Path
from random import Random

import fuzz
import pytest
from fuzz.__main__ import TARGETS, run
from fuzz.engine import mutate

HERE = Path(fuzz.__file__).parent


def test_every_target_is_run_and_opens_with_its_invariant():
    modules = {path.stem for path in HERE.glob("*.py")} - {"__init__", "__main__", "engine", "guided", "guided_target"}
    assert modules == set(TARGETS)
    for name in TARGETS:
        assert (HERE / f"{name}.py").read_text().splitlines()[1].startswith(("# Any ", "# A stream "))


@pytest.mark.parametrize("name", TARGETS)
def test_the_invariant_holds(name):
    run(name, count=200 if TARGETS[name] > 1 else 20, seed=7)


def test_a_traceback_in_the_log_fails_the_input(monkeypatch):
    def check(data):
        try:
            data[10_000]
        except IndexError:
            logging.getLogger("zenlake.node").exception("a callback failed")

    monkeypatch.setattr(importlib.import_module("fuzz.websocket"), "check", check)
    with pytest.raises(AssertionError, match="a callback failed: IndexError"):
        run("websocket", count=1, seed=1)


def test_inputs_are_reproducible():
    corpus = importlib.import_module("fuzz.batch").CORPUS
    once, again = ([mutate(random, corpus) for _ in range(50)] for random in (Random("x"), Random("x")))
    assert once == again
    assert len(set(once)) > 45


def test_earlier_findings_in_segments_are_detected():
    segment = importlib.import_module("fuzz.segment")
    (whole,) = segment.CORPUS
    for at in range(8, 64):  # one of these is the byte order of numbers
        segment.check(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    place, longer = ((0x60).to_bytes(8, "little") + size.to_bytes(8, "little") for size in (0x20, 0xBE))
    assert whole.count(place) == 1  # of the offsets of a block's batches
    segment.check(whole.replace(place, longer))
