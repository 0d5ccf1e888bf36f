# SPDX-License-Identifier: Apache-2.0
"""A real browser for the tests, Debian's chromium: `python -m tests.report.browser` installs it where it can."""

import os
import shutil
import subprocess

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def found() -> str | None:
    """The browser's program, if there is one."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


def install() -> str:
    """What was done about the browser, in words. Where it cannot be installed the tests that need it are skipped."""
    if found():
        return f"browser: {found()}"
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return (
            "browser: none, and no apt-get as root to install chromium with; the tests of the report's page are skipped"
        )
    quiet = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "env": {**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    }
    command = ["apt-get", "install", "--yes", "--no-install-recommends", "chromium"]
    for before in ([], ["apt-get", "update"]):
        if before:
            subprocess.run(before, timeout=300, **quiet)
        if subprocess.run(command, timeout=900, **quiet).returncode == 0:
            break
    return f"browser: {found() or 'none, chromium could not be installed; the tests of the page are skipped'}"


if __name__ == "__main__":
    print(install())
