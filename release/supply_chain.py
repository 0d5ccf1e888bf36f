# SPDX-License-Identifier: Apache-2.0
"""List what Zenlake needs at run time, and its known vulnerabilities: `make sbom`.

    python -m release.supply_chain

It installs Zenlake with all extras, and nothing else, in a clean environment. It writes dist/zenlake-VERSION.cdx.json (CycloneDX)
and runs `pip-audit`, which asks the package index. An advisory that does not apply is listed in `ACCEPTED` with its reason.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from docs.extras import project

from release.wheels import DIST, PIP, ROOT, call, tool
from zenlake import __version__

ACCEPTED: dict[str, str] = {}  # advisory: reason


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
    """Print the known vulnerabilities of the packages in a folder, and how many packages the service knows.

    Returns:
        1 if there is a vulnerability. A service that does not answer is not an error, but nothing is then known.
    """
    ignored = [word for advisory in ACCEPTED for word in ("--ignore-vuln", advisory)]
    command = [tool("pip-audit"), "--path", folder, "--progress-spinner", "off", "--format", "json", *ignored]
    done = subprocess.run(command, capture_output=True, text=True)
    if not done.stdout:
        reason = (done.stderr.strip() or "no output").splitlines()[-1]
        print(f"pip-audit: nothing was audited, because the advisory service did not answer: {reason}")
        return 0
    packages = [each for each in json.loads(done.stdout)["dependencies"] if each["name"] != "zenlake"]
    unknown = [each["name"] for each in packages if "skip_reason" in each]
    for each in packages:
        for advisory in each.get("vulns", ()):
            fixed = ", ".join(advisory["fix_versions"]) or "no version"
            print(f"{each['name']} {each['version']}: {advisory['id']}, fixed in {fixed}")
    found = sum(len(each.get("vulns", ())) for each in packages)
    print(f"pip-audit: {len(packages) - len(unknown)} packages audited, {found} vulnerabilities")
    if unknown:
        print(
            f"pip-audit: {len(unknown)} packages not audited, because the service does not know them: {', '.join(unknown)}"
        )
    return int(found > 0)


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
            f"{source}[{','.join(filter(None, project()))}]",
            ZENLAKE_BUILD="no",
        )
        [packages] = Path(temporary).glob("lib/python*/site-packages")
        list_components(python, DIST / f"zenlake-{__version__}.cdx.json")
        return audit(packages)


if __name__ == "__main__":
    sys.exit(main())
