# SPDX-License-Identifier: Apache-2.0
"""Which files a caller means."""

import glob
import os
from collections.abc import Iterable

PATHS = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def files(path: PATHS) -> list[str]:
    """Paths, patterns and folders as a list of files that exist. Of a folder, all that it holds but hidden ones."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = []
    for each in (os.fspath(each) for each in given):
        matches = sorted(glob.glob(each)) if glob.has_magic(each) else [each]
        missing = [match for match in matches if match != "-" and not os.path.exists(match)]
        if not matches or missing:
            raise FileNotFoundError(f"no capture at {missing[0] if missing else each}")
        for match in matches:
            if os.path.isdir(match):
                inside = sorted(e.path for e in os.scandir(match) if e.is_file() and not e.name.startswith("."))
                if not inside:
                    raise FileNotFoundError(f"no capture in the folder {match}")
                found += inside
            else:
                found.append(match)
    return found
