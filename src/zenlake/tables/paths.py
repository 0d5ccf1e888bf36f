# SPDX-License-Identifier: Apache-2.0
"""Expansion of paths, patterns and folders."""

import glob
import os
from collections.abc import Iterable

from zenlake.errors import InvalidValue
from zenlake.log import is_log
from zenlake.log.reader import had_log
from zenlake.sample_captures import or_sample
from zenlake.tables.lake_reader import is_lake

PATHS = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def files(path: PATHS) -> list[str]:
    """Expand paths, patterns and folders into a list of existing captures, logs and lakes.

    A folder that is neither a log nor a lake stands for all files in it, except hidden ones. If no file is named `sample.pcap`,
    that name selects the capture that is included in Zenlake.
    """
    given = [path] if isinstance(path, str | os.PathLike) or not isinstance(path, Iterable) else list(path)
    if not given:
        raise InvalidValue("no path is given; expected at least one capture, log or lake")
    for each in given:
        if not isinstance(each, str | os.PathLike):
            raise TypeError(f"invalid path of type {type(each).__name__}; expected str, PathLike or several of them")
    found = []
    for each in or_sample([os.fspath(path) for path in given]):
        matches = sorted(glob.glob(each)) if glob.has_magic(each) and "://" not in each else [each]
        missing = [match for match in matches if match != "-" and "://" not in match and not os.path.exists(match)]
        if not matches or missing:
            raise FileNotFoundError(
                f"{missing[0] if missing else each} does not exist; expected a capture, a log or a lake"
            )
        for match in matches:
            if is_log(match) or is_lake(match):
                found.append(match)
            elif os.path.isdir(match):
                inside = sorted(e.path for e in os.scandir(match) if e.is_file() and not e.name.startswith("."))
                if had_log(match):
                    raise FileNotFoundError(
                        f"{match} is a log, but its file `zenlake-log.json` is missing; run `zenlake log repair` to recreate it"
                    )
                if not inside:
                    raise FileNotFoundError(f"{match} has no files; expected captures, a log or a lake")
                found += inside
            elif "://" in match:
                raise InvalidValue(f"{match} is not the address of a log or a lake")
            else:
                found.append(match)
    return found
