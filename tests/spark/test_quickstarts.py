# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README and quick starts that use Spark, in the session of the tests."""

import re
import shutil
from collections import Counter

import pytest

import zenlake
from tests.report.fixtures import log_of
from tests.test_quickstarts import PAGES, ROOT, blocks
from zenlake.sample_captures import sample

TAPS, SINKS = "docs/howto/tap.md", "docs/howto/sinks.md"
PROGRAMS = {page.relative_to(ROOT).as_posix(): list(blocks(page, "python", with_spark=True)) for page in PAGES}


pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def run(name, folder, since=0):
    """Run the programs of a page from a number on. Return the variables of the last one."""
    left = {}
    for code in PROGRAMS[name][since:]:
        # The working folder of Spark is the one of its start, so relative paths of the pages become absolute.
        whole = re.sub(r'"(lake|base|spare)/', rf'"{folder}/\1/', code.replace("captures/*", str(folder / "*")))
        exec(compile(whole, name, "exec"), left := {})
    return left


@pytest.mark.parametrize(
    "name", [name for name, programs in PROGRAMS.items() if programs and name not in (TAPS, SINKS)]
)
def test_code_blocks_run(spark, tmp_path, name, capfd):
    shutil.copy(sample(), tmp_path / "robots.pcap")
    log_of(sample(), tmp_path / "lake" / "log")
    run(name, tmp_path)
    assert "|" in capfd.readouterr().out


def test_the_recipe_for_two_taps_gives_each_sample_once(spark, tmp_path):
    logs = [log_of(sample(), tmp_path / name / "log") for name in ("base", "spare")]
    once = run(TAPS, tmp_path)["once"]
    names = ["request_id", "key", "ntp64", "timestamp_id"]
    samples = zenlake.read(logs, columns=names).select(names).to_pylist()
    published = {tuple(row.values()) for row in samples if row["ntp64"] is not None and row["request_id"] is None}
    assert once.count() == len(published) > 500


def test_the_iceberg_page_stores_each_row_once_after_a_repeated_batch(spark, tmp_path, capfd):
    log = log_of(sample(), tmp_path / "lake" / "log")
    for since in (0, -1):
        table = run(SINKS, tmp_path, since)["table"]
        assert "|" in capfd.readouterr().out
        found, expected = table.scan().to_arrow(), zenlake.read(log)
        assert found.schema.names == expected.schema.names
        assert Counter(found["key"].to_pylist()) == Counter(expected["key"].to_pylist())
        for file in (tmp_path / "lake" / "iceberg" / "_checkpoints").glob("*/commits/*"):
            file.unlink()  # as if it was killed after the commit
    assert len(table.snapshots()) == 1
