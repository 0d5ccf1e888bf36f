# SPDX-License-Identifier: Apache-2.0
"""Measure the installation of each extra: `python -m docs.extras` prints a table of size and time.

Each extra is installed into an empty environment. Downloads count: run it with an empty cache of pip for the first time.
"""

import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent


def install(requirements: list[str]) -> tuple[float, float]:
    """Install into an empty environment. Return the size in MB and the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=False)
        pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python", "install", "--quiet"]
        start = time.monotonic()
        subprocess.run([*pip, "--disable-pip-version-check", *requirements], check=True)
        taken = time.monotonic() - start
        size = sum(path.lstat().st_size for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink())
    return size / 1e6, taken


def main() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    base, seconds = install(project["dependencies"])
    print("| installed | packages | size | time |\n|---|---|---:|---:|")
    print(f"| `zenlake` | {_names(project['dependencies'])} | {base:.0f} MB | {seconds:.0f} s |")
    for extra, requirements in project["optional-dependencies"].items():
        size, seconds = install(requirements)
        print(f"| `zenlake[{extra}]` adds | {_names(requirements)} | {size:.0f} MB | {seconds:.0f} s |")


def _names(requirements: list[str]) -> str:
    return ", ".join(each.partition(">")[0].partition("[")[0] for each in requirements)


if __name__ == "__main__":
    main()
