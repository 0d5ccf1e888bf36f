# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README and quick starts that use Spark, in the session of the tests."""

import shutil

import pytest

from tests.report.given import log_of
from tests.test_quickstarts import PAGES, ROOT, blocks
from zenlake.examples import sample

PROGRAMS = {page.relative_to(ROOT).as_posix(): list(blocks(page, "python", with_spark=True)) for page in PAGES}


@pytest.mark.spark
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", [name for name, programs in PROGRAMS.items() if programs])
def test_code_blocks_run(spark, tmp_path, name, capfd):
    shutil.copy(sample(), tmp_path / "robots.pcap")
    log_of(sample(), tmp_path / "lake" / "log")
    for code in PROGRAMS[name]:
        # Spark's own folder is the one in which it was started: the pages' paths become whole ones.
        whole = code.replace("captures/*", str(tmp_path / "*")).replace('"lake/', f'"{tmp_path}/lake/')
        exec(compile(whole, name, "exec"), {})
    assert "|" in capfd.readouterr().out
