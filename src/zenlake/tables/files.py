# SPDX-License-Identifier: Apache-2.0
"""Which files a caller means."""

import glob
import os
from collections.abc import Iterable

from zenlake.errors import InvalidValue
from zenlake.log import is_log

PATHS = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def files(path: PATHS) -> list[str]:
    """Paths and patterns as a list of captures and logs that exist."""
    given = [path] if isinstance(path, str | os.PathLike) else list(path)
    found = []
    for each in (os.fspath(each) for each in given):
        matches = sorted(glob.glob(each)) if glob.has_magic(each) else [each]
        missing = [match for match in matches if match != "-" and "://" not in match and not os.path.exists(match)]
        if not matches or missing:
            raise FileNotFoundError(f"no capture at {missing[0] if missing else each}")
        for match in matches:
            if (os.path.isdir(match) or "://" in match) and not is_log(match):
                raise InvalidValue(f"{match} is neither a capture nor a log: name the files in it")
        found += matches
    return found
