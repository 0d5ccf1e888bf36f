# SPDX-License-Identifier: Apache-2.0
"""Small scripts that stand before a program which Spark starts and change how it starts it, where no setting does.

They lie in a folder for this user only, under the system's folder for temporary files.
"""

import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

__all__ = ["python", "written"]

# Spark puts its library before everything else on the path, as a zip file, in which nothing is compiled: Python would compile
# it anew in every process, which takes four times as long as all else until a worker works.
_PYTHON = """\
#!/bin/sh
# Python for Spark's workers, with the PySpark that is installed rather than a copy in a zip. Written by zenlake.spark.launcher.
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
    """What Spark is to start as Python on this machine: this one, a second earlier."""
    if os.name != "posix":
        return sys.executable
    return str(written("python", "python", _PYTHON.format(python=sys.executable)))


def written(folder: str, name: str, text: str) -> Path:
    """The script with this text, in `folder`; one with another text, of another environment at work, lies elsewhere."""
    home = Path(tempfile.gettempdir()) / f"zenlake-{folder}-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    if home.stat().st_uid != os.getuid():
        raise FileNotFoundError(f"{home} belongs to somebody else: remove it, or set TMPDIR to a folder of your own")
    script = home / blake2b(text.encode(), digest_size=6).hexdigest() / name
    script.parent.mkdir(parents=True, exist_ok=True)
    if not script.exists() or script.read_text() != text:
        fresh = script.with_name(f"{script.name}.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o700)
        fresh.replace(script)
    return script
