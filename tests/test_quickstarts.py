# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README and quick starts run as they stand.

A page's `sh` blocks run line after line, its `python` blocks as one program, in a folder that holds the files that the pages speak
of. A block is left out only behind a comment that says why: `<!-- not run: why -->`. Blocks of other languages are for reading.
Programs with Spark run in tests/spark, where a session is at hand.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.report.given import halves
from zenlake.examples import sample

pytestmark = pytest.mark.skipif("ZENLAKE_PURE" in os.environ, reason="the same either way: run once, compiled")
ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "quickstart").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<why>[^>]+) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)


def blocks(page, language):
    """The blocks of a page that run."""
    found = BLOCK.finditer(page.read_text())
    return [each["code"] for each in found if each["language"] == language and each["why"] is None]


def programs():
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for language in ("sh", "python"):
            code = "".join(code for code in blocks(page, language) if "spark" not in code)
            if code:
                yield pytest.param(language, code, id=f"{name} {language}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the pages take for granted: captures under the names that they use."""
    place = tmp_path_factory.mktemp("reader")
    (place / "captures").mkdir()
    halves(place)  # robots.pcap and base.pcap
    shutil.copy(sample(), place / "captures" / "robots.pcap")
    return place


@pytest.mark.parametrize(("language", "code"), list(programs()))
def test_code_blocks_run(language, code, folder):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"


def test_every_quick_start_has_something_that_runs_and_blocks_left_out_say_why():
    for page in PAGES:
        assert "howto" in page.parts or blocks(page, "sh") or blocks(page, "python"), page
    text = "".join(page.read_text() for page in PAGES)
    assert text.count("<!-- not run") == sum(each["why"] is not None for each in BLOCK.finditer(text))
    assert {each["language"] for each in BLOCK.finditer(text)} <= {"sh", "python", "text", "ini", "json5", "yaml"}
