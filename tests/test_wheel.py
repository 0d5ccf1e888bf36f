# SPDX-License-Identifier: Apache-2.0
"""A wheel, built and installed as a user would: without extras, without a compiler, it reports and explains.

The quick test makes an environment that has the wheel and the packages that it declares, linked from this one; the slow one lets
pip fetch them by name.
"""

import os
import pty
import subprocess
import sys
import venv
from importlib.metadata import distribution, distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from release.wheels import build_sdist

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
    """Return the dependencies of a package, recursively, without extras."""
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


def test_a_wheel_runs_with_its_declared_dependencies(wheel, tmp_path):
    site, python = environment(tmp_path / "venv")
    install(python, "--no-deps", "--no-index", wheel)
    [ours] = distributions(path=[str(site)])
    for package in needs(ours, {}).values():
        for top in {Path(file).parts[0] for file in package.files or () if ".." not in Path(file).parts}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))
    try_it(python.with_name("zenlake"), tmp_path)
    assert call(python, "-c", "import zenlake; print(zenlake.__file__)").startswith(str(site))


def test_a_wheel_built_without_a_compiler_is_for_any_machine(tmp_path):
    output = call(
        sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", tmp_path,
        "build", "--build-base", tmp_path / "build", "bdist_wheel", "--dist-dir", tmp_path, cwd=ROOT, CC="/no/compiler",
    )  # fmt: skip
    [made] = tmp_path.glob("*.whl")
    assert made.name.endswith("-py3-none-any.whl")
    assert "zenlake is installed uncompiled and runs slower; to compile it, install a C compiler (Debian: " in output


def test_a_missing_compiler_is_an_error_of_one_line_where_compiled_modules_are_required(tmp_path):
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-base", tmp_path]
    variables = os.environ | {"CC": "/no/compiler", "ZENLAKE_BUILD": "yes"}
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "zenlake cannot be compiled: install a C compiler (Debian: apt install gcc libc6-dev)\n"


WINDOWS = """
import runpy, setuptools, sys
sys.argv, sys.platform = ["setup.py", "--quiet", "build"], "win32"
runpy.run_path("setup.py", run_name="__main__")
"""


def test_a_build_on_windows_ends_with_one_line():
    done = subprocess.run([sys.executable, "-c", WINDOWS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr == "zenlake does not run on Windows; install it on Linux, for example in WSL 2\n"


def test_an_sdist_builds_from_itself(tmp_path):
    archive = build_sdist(tmp_path)
    assert (
        archive.with_name(archive.name.removesuffix(".tar.gz")) / "src" / "zenlake" / "wire" / "cursor.pxd"
    ).exists()


UNCOMPILED = """
import os, sys, zenlake.wire.raw_memory  # the uncompiled one, because of ZENLAKE_PURE
del os.environ["ZENLAKE_PURE"]
from zenlake.cli import main
main(sys.argv[1:])
"""


def test_an_uncompiled_installation_prints_one_notice_on_a_terminal(tmp_path):
    variables = os.environ | {"ZENLAKE_PURE": "1", "ZENLAKE_CACHE": str(tmp_path)}
    command = [sys.executable, "-c", UNCOMPILED, "explain", BATCH]
    ours, theirs = pty.openpty()
    for _ in range(2):
        subprocess.run(command, env=variables, stdout=subprocess.DEVNULL, stderr=theirs, timeout=60, check=True)
    os.write(theirs, b"the end")
    said = b""
    while not said.endswith(b"the end"):
        said += os.read(ours, 1 << 16)
    os.close(theirs)
    os.close(ours)
    notice, end = said.decode().splitlines()
    assert notice.startswith("zenlake: this installation is not compiled")
    assert "install a wheel" in notice
    assert end == "the end"
    quiet = subprocess.run(
        command, env=variables | {"ZENLAKE_CACHE": "off"}, capture_output=True, timeout=60, check=True
    )
    assert quiet.stderr == b""


@pytest.mark.slow
def test_pip_installs_a_wheel_and_its_dependencies_by_name(wheel, tmp_path):
    _, python = environment(tmp_path / "venv")
    install(python, "--constraint", ROOT / "constraints.txt", wheel)
    try_it(python.with_name("zenlake"), tmp_path)
