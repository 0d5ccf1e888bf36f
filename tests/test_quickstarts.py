# SPDX-License-Identifier: Apache-2.0
"""The code blocks of README, quick starts and how-tos run unchanged.

A page's `sh` blocks run line after line, its `python` blocks as one program, in a folder that holds the files that the pages speak
of. A `json5` block that begins with a comment that is a file's name is that file. Port 7447 becomes one that is free. A block is
left out only behind a comment that says why: `<!-- not run: why -->`. Blocks of other languages are for reading. Programs with
Spark run in tests/spark, where a session is at hand. A line of `zenlake` that an earlier page has as well is run there.
"""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import deltalake
import pytest

from tests.report.fixtures import halves, log_of, tables_of_sample
from zenlake.sample_captures import sample

pytestmark = [
    pytest.mark.skipif("ZENLAKE_PURE" in os.environ, reason="the same either way: run once, compiled"),
    pytest.mark.timeout(300),
]
ROOT = Path(__file__).parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs" / "quickstart").glob("*.md")),
    *sorted((ROOT / "docs" / "howto").glob("*.md")),
]
BLOCK = re.compile(
    r"(?:<!-- (?:not run: (?P<why>[^>]+)|run with Spark: (?P<spark>[^>]+)) -->\n)?^```(?P<language>\w*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"// (\S+\.json5)\n")


def blocks(page, language, with_spark):
    """Return the blocks of a page that run, with Spark or without."""
    for each in BLOCK.finditer(page.read_text()):
        if each["language"] == language and each["why"] is None:
            needs_spark = each["spark"] is not None or (language == "python" and "spark" in each["code"])
            if needs_spark == with_spark:
                yield each["code"]


def programs():
    seen = set()
    for page in PAGES:
        name = page.relative_to(ROOT).as_posix()
        for language in ("sh", "python"):
            code = "".join(blocks(page, language, with_spark=False))
            if language == "sh" and "&\n" not in code:
                lines = [line.partition("  #")[0].strip() for line in code.splitlines()]
                code = "".join(f"{line}\n" for line in lines if line not in seen)
                seen.update(line for line in lines if line.startswith("zenlake "))
            if code.strip():
                yield pytest.param(page, language, code, id=f"{name} {language}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Create the files that the pages assume: captures, a lake and a log with the names of the pages."""
    place = tmp_path_factory.mktemp("reader")
    (place / "captures").mkdir()
    halves(place)  # robots.pcap and base.pcap
    shutil.copy(sample(), place / "captures" / "robots.pcap")
    for name, table in tables_of_sample().items():
        deltalake.write_deltalake(str(place / "lake" / "tables" / name), table.replace_schema_metadata())
    for log in ("lake/log", "base/log", "spare/log"):
        log_of(sample(), place / log)
    return place


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


@pytest.mark.parametrize(("page", "language", "code"), list(programs()))
def test_code_blocks_run(page, language, code, folder):
    port = free_port()
    for text in blocks(page, "json5", with_spark=False):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text.replace("7447", port))
    code = code.replace("7447", port)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = ["bash", "-euo", "pipefail", "-c", code] if language == "sh" else [sys.executable, "-c", code]
    with (folder / "printed").open("w+") as printed:
        program = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdout=printed,
            stderr=printed,
            start_new_session=True,
        )
        try:
            status = program.wait(280)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)  # also its remaining children
            program.wait()
        printed.seek(0)
        assert status == 0, f"{code}\n{printed.read()}"


def test_every_quick_start_has_something_that_runs_and_blocks_left_out_say_why():
    for page in PAGES:
        runs = [*blocks(page, "sh", False), *blocks(page, "python", False), *blocks(page, "python", True)]
        assert runs or "howto" in page.parts, page
    text = "".join(page.read_text() for page in PAGES)
    assert text.count("<!-- not run") == sum(each["why"] is not None for each in BLOCK.finditer(text))
    assert text.count("<!-- run with Spark") == sum(each["spark"] is not None for each in BLOCK.finditer(text))
    assert {each["language"] for each in BLOCK.finditer(text)} <= {"sh", "python", "text", "ini", "json5", "yaml"}
