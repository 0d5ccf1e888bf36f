# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README and quick starts that use Spark, in the session of the tests."""

import shutil

import pytest

from tests.test_quickstarts import PAGES, ROOT, blocks
from zenlake.examples import sample

PROGRAMS = {
    page.relative_to(ROOT).as_posix(): [code for code in blocks(page, "python") if "spark" in code] for page in PAGES
}


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name, programs in PROGRAMS.items() if programs])
def test_code_blocks_run(spark, tmp_path, name, capfd):
    shutil.copy(sample(), tmp_path / "robots.pcap")
    for code in PROGRAMS[name]:
        # Spark's own folder is the one in which it was started: the pages' paths become whole ones.
        exec(compile(code.replace("captures/*", str(tmp_path / "*")), name, "exec"), {})
    assert "|" in capfd.readouterr().out
