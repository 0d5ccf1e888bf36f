# SPDX-License-Identifier: Apache-2.0
"""Machines that Zenlake does not run on are refused at import, with one line."""

import subprocess
import sys

import pytest

from zenlake._platform_check import check_platform


@pytest.mark.parametrize("platform", ["linux", "darwin", "freebsd14"])
def test_little_endian_posix_systems_are_accepted(platform):
    check_platform("little", platform)


@pytest.mark.parametrize(
    ("attribute", "value", "reason"),
    [
        ("byteorder", "big", "Zenlake does not run on big-endian processors: "),
        ("platform", "win32", "Zenlake does not run on Windows: "),
        ("platform", "emscripten", "Zenlake does not run in WebAssembly: "),
    ],
)
def test_importing_zenlake_elsewhere_fails_with_one_line(attribute, value, reason):
    program = f"import os, typing, sys; sys.{attribute} = {value!r}; import zenlake"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {reason}")
