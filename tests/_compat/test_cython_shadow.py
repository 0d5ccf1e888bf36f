# SPDX-License-Identifier: Apache-2.0
"""Imports of C declarations: uncompiled, they return the module itself. Compiled modules need no import hook."""

import os
import subprocess
import sys

import pytest

from zenlake.wire.raw_memory import COMPILED

IMPORT = """
{first}
import sys, zenlake
from zenlake._compat import cython_shadow
if not any(finder is cython_shadow.CimportFinder for finder in sys.meta_path):
    cython_shadow.install()
import cython.cimports.zenlake.core.ntp64 as one
from cython.cimports.zenlake.core.ntp64 import NTP64
import zenlake.core.ntp64
assert one is zenlake.core.ntp64, one
assert NTP64 is zenlake.core.ntp64.NTP64
assert one.__spec__.name == "zenlake.core.ntp64", one.__spec__
assert zenlake.__spec__.name == "zenlake", zenlake.__spec__
"""


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ZENLAKE_PURE": "", **environment}
    return subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("first", "pure"),
    [("", "1"), ("import Cython.Shadow, sys; sys.modules['cython'] = Cython.Shadow", "")],
    ids=["shadow", "cython"],
)
def test_an_import_of_c_declarations_gives_the_module(first, pure):
    done = run(IMPORT.format(first=first), ZENLAKE_PURE=pure)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(not COMPILED, reason="the modules are not compiled here")
def test_compiled_modules_load_no_import_hook():
    done = run(
        "import sys, zenlake.api.session, zenlake.columns\n"
        "assert 'zenlake._compat.cython_shadow' not in sys.modules and 'cython' not in sys.modules"
    )
    assert done.returncode == 0, done.stderr
