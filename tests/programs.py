# SPDX-License-Identifier: Apache-2.0
"""Third-party programs that some tests run: `python -m tests.programs` installs them where it can.

A real browser shows the report's page; tcpdump and Wireshark's tools record real traffic and read what Zenlake exports. Where
one of them cannot be installed, the tests that need it are skipped, and the line that this prints says so.
"""

import os
import shutil
import subprocess
from collections.abc import Iterable

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CAPTURERS = ("tcpdump", "dumpcap", "tshark", "mergecap", "editcap")
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def browser() -> str | None:
    """Return the program of the browser, or None."""
    return next((path for path in map(shutil.which, BROWSERS) if path), None)


def missing() -> list[str]:
    """Return the Debian packages of missing programs."""
    found = [] if browser() else ["chromium"]
    lacking = {name for name in CAPTURERS if shutil.which(name) is None}
    if "tcpdump" in lacking:
        found.append("tcpdump")
    if lacking - {"tcpdump"}:
        found.append("tshark")
    return found


def install(packages: Iterable[str]) -> None:
    """Install packages by the package manager of Debian, if it exists and is permitted."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    for before in ([], ["apt-get", "update"]):
        if before:
            subprocess.run(before, timeout=300, env=environment, **QUIET)
        if subprocess.run(command, timeout=900, env=environment, **QUIET).returncode == 0:
            return


def main() -> None:
    if missing():
        install(missing())
    left = missing()
    if left:
        print(f"not here: {', '.join(left)}; tests that need them are skipped (as root on Debian they are installed)")
    else:
        print(f"browser: {browser()}; captures: {', '.join(CAPTURERS)}")


if __name__ == "__main__":
    main()
