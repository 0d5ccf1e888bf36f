# SPDX-License-Identifier: Apache-2.0
"""List what Zenlake needs at run time, and its known vulnerabilities: `make sbom`.

    python -m release.supply_chain

It installs Zenlake with all extras, and nothing else, in a clean environment. It writes dist/zenlake-VERSION.cdx.json (CycloneDX)
and runs `pip-audit`, which asks the package index. An advisory that does not apply is listed in `ACCEPTED` with its reason.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.matrix import EXTRAS

from release.wheels import DIST, PIP, ROOT, call, tool
from zenlake import __version__

ACCEPTED: dict[str, str] = {}  # advisory: reason
UNREACHABLE = ("ConnectionError", "Max retries", "ServiceError", "timed out")


def list_components(python: Path, output: Path) -> None:
    """Write the software bill of materials of an environment."""
    call(
        tool("cyclonedx-py"),
        "environment",
        "--pyproject",
        ROOT / "pyproject.toml",
        "--output-reproducible",
        "--output-file",
        output,
        python,
    )
    print(f"dist/{output.name}")


def audit(folder: Path) -> int:
    """Print the known vulnerabilities of the packages in a folder, or one line if there is no answer."""
    ignored = [word for advisory in ACCEPTED for word in ("--ignore-vuln", advisory)]
    done = subprocess.run(
        [tool("pip-audit"), "--path", folder, "--progress-spinner", "off", *ignored], capture_output=True, text=True
    )  # fmt: skip
    if done.returncode and any(word in done.stderr for word in UNREACHABLE):
        print(f"pip-audit: not run, the advisory service did not answer: {done.stderr.strip().splitlines()[-1]}")
        return 0
    print(done.stdout + done.stderr, end="")
    return done.returncode


def main() -> int:
    DIST.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        python = Path(temporary, "bin", "python")
        call(sys.executable, "-m", "venv", "--without-pip", temporary)
        source = Path(temporary, "source")
        shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info"))
        for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source)
        call(
            *PIP,
            "--python",
            python,
            "install",
            "--constraint",
            ROOT / "constraints.txt",
            f"{source}[{EXTRAS}]",
            ZENLAKE_BUILD="no",
        )
        [packages] = Path(temporary).glob("lib/python*/site-packages")
        list_components(python, DIST / f"zenlake-{__version__}.cdx.json")
        return audit(packages)


if __name__ == "__main__":
    sys.exit(main())
