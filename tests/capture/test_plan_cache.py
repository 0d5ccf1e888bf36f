# SPDX-License-Identifier: Apache-2.0
"""The plan of a capture is computed once and cached. A cached plan is validated before use."""

import os
import time

import pytest

from tests.capture.test_splits import EVERYTHING, gathered, packets_of, written
from zenlake import capture
from zenlake.capture import plan_cache
from zenlake.capture.decode import decode, decode_range, select_diagnostics

SIZE = 5000


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache for one test, for captures of any size."""
    monkeypatch.setenv("ZENLAKE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(plan_cache, "MIN_CAPTURE", 0)
    return tmp_path / "cache" / "captures"


@pytest.fixture
def passes(monkeypatch):
    """Return how often the planning pass ran."""
    made = []
    real = plan_cache.SplitPlan.ranges
    monkeypatch.setattr(plan_cache.SplitPlan, "ranges", lambda self: made.append(1) or real(self))
    return made


@pytest.fixture
def paths(tmp_path):
    (tmp_path / "rotation").mkdir()
    found = written(tmp_path / "rotation", packets_of(5), 2, 5)
    for path in found:
        changed(path)
    return found


def changed(path, seconds=100):
    """Set a modification time that is old enough for the cache."""
    os.utime(path, (time.time() - seconds,) * 2)


def rows(paths):
    plan = capture.open(paths).plan(SIZE)
    found = [batch for each in plan.ranges() for batch in decode_range(each, EVERYTHING)]
    return gathered([*found, *select_diagnostics(plan, EVERYTHING)])


def test_the_second_read_makes_no_pass_and_returns_the_same(cache, passes, paths):
    whole = gathered(decode(capture.open(paths), EVERYTHING))
    assert rows(paths) == rows(paths) == rows(paths) == whole
    assert len(passes) == 1
    assert cache.stat().st_mode & 0o777 == 0o700
    assert len(list(cache.iterdir())) == 1


def test_a_file_that_changed_is_read_again(cache, passes, paths):
    rows(paths)
    changed(paths[1], 50)
    rows(paths)
    paths[1].write_bytes(paths[1].read_bytes()[:-100])
    changed(paths[1], 50)
    rows(paths)
    assert len(passes) == 3


def test_a_file_that_changed_just_now_is_not_remembered(cache, passes, paths):
    paths[0].touch()
    rows(paths)
    assert not any(cache.iterdir())


def test_an_abandoned_pass_stores_no_plan(cache, paths):
    ranges = capture.open(paths).plan(SIZE).ranges()
    next(ranges)
    ranges.close()
    assert not any(cache.iterdir())


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "foreign"])
def test_a_plan_that_is_not_whole_is_made_again(cache, passes, paths, damage):
    whole = rows(paths)
    [plan] = cache.iterdir()
    data = plan.read_bytes()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :]
    plan.write_bytes({"empty": b"", "cut": data[:middle], "flipped": flipped, "foreign": b"x" * 1000}[damage])
    assert rows(paths) == whole
    assert len(passes) == 2
    assert rows(paths) == whole
    assert len(passes) == 2


def test_an_unwritable_cache_does_not_fail(cache, passes, paths, monkeypatch):
    whole = rows(paths)
    cache.chmod(0o777)  # any user might have stored a plan there
    assert rows(paths) == whole
    monkeypatch.setenv("ZENLAKE_CACHE", "/dev/null/nowhere")
    assert rows(paths) == whole
    monkeypatch.setenv("ZENLAKE_CACHE", "off")
    assert rows(paths) == whole
    assert len(passes) == 4


def test_the_oldest_plans_make_room(cache, paths, monkeypatch):
    rows(paths[:1])
    [first] = cache.iterdir()
    changed(first)
    monkeypatch.setattr(plan_cache, "MAX_CACHE", first.stat().st_size + 100)
    rows(paths[1:])
    [second] = cache.iterdir()
    assert second != first
