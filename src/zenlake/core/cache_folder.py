# SPDX-License-Identifier: Apache-2.0
"""The user's cache: `ZENLAKE_CACHE`, else `~/.cache/zenlake`."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path | None:
    """Create a folder of the cache. Return None if the cache is off or another user could have written to it.

    Raises:
        OSError: The folder cannot be created.
    """
    given = os.environ.get("ZENLAKE_CACHE")
    if given == "off":
        return None
    base = Path(given) if given else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "zenlake"
    where = base / name
    where.mkdir(mode=0o700, parents=True, exist_ok=True)
    stat = where.stat()
    return where if stat.st_uid == os.getuid() and not stat.st_mode & 0o022 else None
