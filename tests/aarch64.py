# SPDX-License-Identifier: Apache-2.0
"""Run tests on aarch64, emulated by qemu, and record the results for docs/pythons.md.

    python -m tests.aarch64 [--only 3.14] [--mode pure] [--prepare | --run] [PACKAGE ...]

It needs Debian packages (the emulator, CPython and its libraries) and aarch64 wheels of a package index. It extracts them into
build/aarch64 and installs nothing. `python -m release.wheels --machine aarch64` builds the wheel of Zenlake. Neither root, chroot
nor binfmt is needed: a shell script that starts the emulator takes the place of `sys.executable`.

An emulated processor is about ten times slower, so property tests try `EXAMPLES` examples, and the tests of `TIMED` are left out.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.matrix import ROOT, SUITES, Interpreter, count, describe, record

FOLDER = ROOT / "build" / "aarch64"
SUITE_OF = {"3.11": "bookworm", "3.13": "trixie", "3.14": "sid"}  # Debian's releases, and their CPython
PACKAGES = ("wire", "session", "columns", "transport", "network", "log", "capture")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
REQUIREMENTS = (
    "pytest", "pytest-timeout", "hypothesis", "packaging", "numpy", "dpkt", "eclipse-zenoh", "isal", "websockets", "aioquic",
    "cbor2", "msgspec", "protobuf",
)  # fmt: skip
PLATFORMS = [f"manylinux_2_{minor}_aarch64" for minor in (17, 28, 31, 34)] + ["manylinux2014_aarch64"]
EXAMPLES = "5"
TIMED = (  # they compare times with limits for a real processor
    "tests/network/test_large_graphs.py::test_a_large_graph_does_not_stop_the_node",
    "tests/network/test_long_routes.py::test_the_application_frees_the_lock_while_it_computes_a_route",
)


def call(*command: str | Path) -> None:
    print("+", *command, flush=True)
    subprocess.run([*map(str, command)], check=True)


def extract(folder: Path, release: str, machine: str, packages: Sequence[str]) -> Path:
    """Download Debian packages with what they need, and extract them into a folder."""
    root = folder / "root"
    if root.exists():
        return root
    state = folder / "apt"
    for each in ("lists/partial", "archives/partial", "etc"):
        (state / each).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "etc" / "sources.list").write_text(
        f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {release} main\n"
    )
    settings = {
        "Dir::Etc": state / "etc", "Dir::Etc::SourceParts": "/nonexistent", "Dir::State": state, "Dir::Cache": state,
        "Dir::State::status": state / "status", "APT::Architecture": machine, "APT::Architectures": machine,
        "APT::Install-Recommends": "no", "APT::Sandbox::User": "", "Debug::NoLocking": "1",
    }  # fmt: skip
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    call("apt-get", *options, "-qq", "update")
    call("apt-get", *options, "-qq", "--yes", "--download-only", "install", *packages)
    part = folder / "root.part"
    for package in sorted(state.glob("archives/*.deb")):
        call("dpkg-deb", "--extract", package, part)
        package.unlink()
    if not (part / "lib").exists():  # a link that a maintainer script makes
        (part / "lib").symlink_to("usr/lib")
    return part.rename(root)


def emulate(version: str) -> Path:
    """Return a script that runs CPython for aarch64."""
    script = FOLDER / version / f"python{version}"
    if not script.exists():
        emulator = extract(FOLDER / "qemu", "bookworm", "amd64", ["qemu-user-static"]) / "usr/bin/qemu-aarch64-static"
        root = extract(FOLDER / version, SUITE_OF[version], "arm64", [f"python{version}", "libstdc++6"])
        script.write_text(f'#!/bin/sh\nexec {emulator} -L {root} {root}/usr/bin/python{version} "$@"\n')
        script.chmod(0o755)
    return script


def install(version: str, script: Path) -> Path:
    """Install the packages of the tests for aarch64. Return the folder."""
    site = FOLDER / version / "site"
    if not site.exists():
        part = site.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        platforms = [f"--platform={each}" for each in PLATFORMS]
        call(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--target", part, *platforms,
             "--python-version", version, "--only-binary=:all:", "--constraint", ROOT / "constraints.txt",
             *REQUIREMENTS, *requirements())  # fmt: skip
        (part / "sitecustomize.py").write_text(f"import sys\nsys.executable = {str(script)!r}\n")
        part.rename(site)
    return site


def requirements() -> list[str]:
    """Return what Zenlake needs at run time."""
    import tomllib

    needed: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    return needed


def unpack(version: str, mode: str) -> Path:
    """Unpack the newest wheel of Zenlake. Return the folder."""
    pattern = f"*-cp{version.replace('.', '')}-*_aarch64.whl" if mode == "compiled" else "*-py3-none-any.whl"
    wheels = sorted((ROOT / "dist").glob(pattern), key=os.path.getmtime)
    if not wheels:
        raise SystemExit(f"dist/ has no {pattern}; build it with `python -m release.wheels --machine aarch64`")
    folder = FOLDER / version / mode
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheels[-1]) as wheel:
        wheel.extractall(folder)
    return folder


def run(interpreter: Interpreter, folders: Sequence[Path], mode: str, package: str) -> tuple[int, int, int]:
    """Run the tests of a package and return how many passed, were skipped, and failed."""
    report = FOLDER / f"{interpreter.name}-{mode}-{package}.xml"
    report.unlink(missing_ok=True)
    environment = {name: value for name, value in os.environ.items() if name != "ZENLAKE_PURE"} | {
        "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONDONTWRITEBYTECODE": "1", "ZENLAKE_EXAMPLES": EXAMPLES,
    }  # fmt: skip
    arguments = ("-m", "pytest", "-p", "no:cacheprovider", "--timeout", "1800", f"--junitxml={report}", *SUITES["fast"],
                 *(f"--deselect={test}" for test in TIMED))  # fmt: skip
    subprocess.run([*interpreter.command, *arguments, f"tests/{package}"], cwd=ROOT, env=environment)
    if not report.exists():
        raise SystemExit(f"pytest wrote no report for tests/{package} on {interpreter.name}")
    return count(report)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.aarch64", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", choices=SUITE_OF, help="a version of CPython; default: the oldest and the newest")
    parser.add_argument("--mode", choices=("compiled", "pure"), help="default: both")
    parser.add_argument("--prepare", action="store_true", help="download only")
    parser.add_argument("--run", action="store_true", help="use what is downloaded")
    parser.add_argument(
        "packages", nargs="*", metavar="PACKAGE", help=f"packages of tests/; default: {' '.join(PACKAGES)}"
    )
    options = parser.parse_args()
    failed = False
    for version in [options.only] if options.only else ["3.11", "3.14"]:
        script = FOLDER / version / f"python{version}" if options.run else emulate(version)
        site = FOLDER / version / "site" if options.run else install(version, script)
        if options.prepare:
            continue
        interpreter = describe([str(script)], seconds=600)
        if interpreter is None:
            raise SystemExit(f"{script} does not start")
        for mode in [options.mode] if options.mode else ["compiled", "pure"]:
            folders = [unpack(version, mode), site]
            for package in options.packages or PACKAGES:
                row = record(interpreter, mode, package, run(interpreter, folders, mode, package))
                failed = failed or row.failed > 0
                print(f"{version} {mode} {package}: {row.passed} passed, {row.skipped} skipped, {row.failed} failed")
    sys.exit(failed)


if __name__ == "__main__":
    main()
