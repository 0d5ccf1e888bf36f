# SPDX-License-Identifier: Apache-2.0
"""Small scripts that start a program for Spark with changes for which Spark has no setting.

They are stored in a folder of the user, in the system's folder for temporary files.
"""

import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

__all__ = ["python", "write_script"]

# Spark puts its library first on the path, as a zip file without bytecode. Python would compile it in every
# process, which takes four times as long as the rest of a worker's start.
_PYTHON = """\
#!/bin/sh
# Run Python for Spark's workers with the installed PySpark, not with the copy in a zip file. Written by
# zenlake.spark.launcher_scripts.
set -f
IFS=:
path=
for each in $PYTHONPATH; do
    case $each in */pyspark.zip | */py4j-*-src.zip) ;; *) path=$path${{path:+:}}$each ;; esac
done
unset IFS
export PYTHONPATH="$path"
exec "{python}" "$@"
"""


def python() -> str:
    """Return the Python that Spark starts on this machine: this one, without the zipped library."""
    if os.name != "posix":
        return sys.executable
    return str(write_script("python", "python", _PYTHON.format(python=sys.executable)))


def write_script(folder: str, name: str, text: str) -> Path:
    """Return the path of a script with this text. A different text of another environment has another path."""
    home = Path(tempfile.gettempdir()) / f"zenlake-{folder}-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise FileNotFoundError(f"{home} belongs to another user; remove it, or set TMPDIR to a folder of your own")
    script = home / blake2b(text.encode(), digest_size=6).hexdigest() / name
    script.parent.mkdir(parents=True, exist_ok=True)
    if not script.exists() or script.read_text() != text:
        fresh = script.with_name(f"{script.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.replace(script)
    return script
