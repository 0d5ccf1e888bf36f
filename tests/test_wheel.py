# SPDX-License-Identifier: Apache-2.0
"""A wheel, built and installed as a user would: without extras, without a compiler, it reports and explains.

The quick test makes an environment that has the wheel and the packages that it declares, linked from this one; the slow one lets
pip fetch them by name.
"""

import os
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from zenlake.sample_captures import captures

pytestmark = pytest.mark.skipif("ZENLAKE_PURE" in os.environ, reason="the same either way: run once, compiled")
ROOT = Path(__file__).parent.parent
BATCH = "25df93af4f7d000e64656d6f2f7075742f706c61696e010568656c6c6f"


def call(*command, cwd="/", **environment):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**clean, **environment}, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    place = tmp_path_factory.mktemp("wheel")
    call(
        sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", place,
        "build", "--build-base", place / "build", "bdist_wheel", "--dist-dir", place, cwd=ROOT, ZENLAKE_BUILD="no",
    )  # fmt: skip
    [made] = place.glob("*.whl")
    assert made.name.endswith("-py3-none-any.whl")
    return made


def needs(package, found):
    """What a package needs, and what that needs, extras left aside."""
    for need in map(Requirement, package.requires or ()):
        if need.name not in found and (need.marker is None or need.marker.evaluate({"extra": ""})):
            found[need.name] = distribution(need.name)
            needs(found[need.name], found)
    return found


def environment(place):
    venv.create(place, with_pip=False, symlinks=True)
    [site] = place.glob("lib/python*/site-packages")
    return site, place / "bin" / "python"


def install(python, *what):
    call(sys.executable, "-m", "pip", "--quiet", "--python", python, "install", *what)


def try_it(program, place):
    output = call(program, "--version", HOME=str(place))
    assert output.startswith("zenlake ")
    assert "(compiled: no)" in output
    page = place / "report.html"
    smallest = min(captures(), key=os.path.getsize)
    call(program, "report", smallest, "-o", page)
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    assert "demo/put/plain" in call(program, "explain", BATCH)


def test_a_wheel_and_what_it_declares_are_enough(wheel, tmp_path):
    site, python = environment(tmp_path / "venv")
    install(python, "--no-deps", "--no-index", wheel)
    [ours] = distributions(path=[str(site)])
    for package in needs(ours, {}).values():
        for top in {Path(file).parts[0] for file in package.files or () if ".." not in Path(file).parts}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))
    try_it(python.with_name("zenlake"), tmp_path)
    assert call(python, "-c", "import zenlake; print(zenlake.__file__)").startswith(str(site))


@pytest.mark.slow
def test_pip_installs_a_wheel_with_what_it_needs_by_name(wheel, tmp_path):
    _, python = environment(tmp_path / "venv")
    install(python, "--constraint", ROOT / "constraints.txt", wheel)
    try_it(python.with_name("zenlake"), tmp_path)
