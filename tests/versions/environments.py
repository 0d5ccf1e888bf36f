# SPDX-License-Identifier: Apache-2.0
"""Environments of eclipse-zenoh: the last wheel of each minor version, each in a virtual environment in build/versions."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "versions"
VERSIONS = (
    "1.0.4",
    "1.1.1",
    "1.2.1",
    "1.3.4",
    "1.4.0",
    "1.5.1",
    "1.6.2",
    "1.7.2",
    "1.9.0",
    "1.10.2",
)  # 1.8.0 has no wheel
YARDSTICK = "1.10.2"
SMOKE = ("1.0.4", "1.6.2")
"""Versions that `make test` runs."""


class InstallationError(Exception):
    """A wheel cannot be installed."""


def install(version: str) -> Path:
    """Create the environment of a version if it does not exist. Return its Python.

    Raises:
        InstallationError: The wheel cannot be installed, for example without a network.
    """
    folder = FOLDER / version
    if not folder.exists():
        temporary = folder.with_suffix(f".{os.getpid()}")  # another process may create the same environment
        try:
            _run(sys.executable, "-m", "venv", "--without-pip", temporary)
            pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", temporary / "bin" / "python")
            _run(*pip, "install", "--quiet", "--only-binary", ":all:", f"eclipse-zenoh=={version}")
            if not folder.exists():
                temporary.rename(folder)
        except subprocess.CalledProcessError as error:
            reason = (error.stderr.strip().splitlines() or ["no reason"])[-1]
            raise InstallationError(f"cannot install eclipse-zenoh=={version} into {folder}: {reason}") from None
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder / "bin" / "python"


def _run(*command: str | Path) -> None:
    subprocess.run([*map(str, command)], check=True, capture_output=True, text=True)
