# SPDX-License-Identifier: Apache-2.0
"""Which files a caller means."""

import glob
import os
from collections.abc import Iterable

from zenlake.errors import InvalidValue
from zenlake.log import is_log
from zenlake.log.read import was_log
from zenlake.tables.stored import is_lake

PATHS = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def files(path: PATHS) -> list[str]:
    """Paths, patterns and folders as a list of captures, logs and lakes that exist. A folder that is no log and no lake is all the
    files in it but hidden ones."""
    given = [path] if isinstance(path, str | os.PathLike) or not isinstance(path, Iterable) else list(path)
    if not given:
        raise InvalidValue("there is nothing to read: no path is given")
    for each in given:
        if not isinstance(each, str | os.PathLike):
            raise TypeError(f"a path is a text or a PathLike, or several of them, not {type(each).__name__}")
    found = []
    for each in (os.fspath(each) for each in given):
        matches = sorted(glob.glob(each)) if glob.has_magic(each) and "://" not in each else [each]
        missing = [match for match in matches if match != "-" and "://" not in match and not os.path.exists(match)]
        if not matches or missing:
            raise FileNotFoundError(f"no capture at {missing[0] if missing else each}")
        for match in matches:
            if is_log(match) or ("://" not in match and is_lake(match)):
                found.append(match)
            elif os.path.isdir(match):
                inside = sorted(e.path for e in os.scandir(match) if e.is_file() and not e.name.startswith("."))
                if was_log(match):
                    raise FileNotFoundError(
                        f"{match} was a log, and its own file is lost: `zenlake log repair` makes it again"
                    )
                if not inside:
                    raise FileNotFoundError(f"no capture in the folder {match}, and it is no log and no lake")
                found += inside
            elif "://" in match:
                raise InvalidValue(f"{match} is no log")
            else:
                found.append(match)
    return found
