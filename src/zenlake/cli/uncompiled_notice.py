# SPDX-License-Identifier: Apache-2.0
"""Notice on a terminal, once per installation, that Zenlake runs uncompiled and how to change that."""

import os
import sys
from pathlib import Path

NOTICE = (
    "zenlake: this installation is not compiled and is many times slower; install a wheel for this machine, "
    "or a C compiler (Debian: apt install gcc python3-dev) and reinstall zenlake"
)


def print_uncompiled_notice() -> None:
    """Print the notice if this installation is not compiled, unless it was printed before or was asked for (ZENLAKE_PURE)."""
    if not sys.stderr.isatty() or "ZENLAKE_PURE" in os.environ:
        return
    from zenlake.wire.raw_memory import COMPILED

    if COMPILED:
        return
    from zenlake.core.cache_folder import cache_folder

    try:
        folder = cache_folder("notices")
        installation = str(Path(__file__).parent)
        if folder is not None:
            with (folder / "uncompiled").open("a+", encoding="utf-8") as printed:
                printed.seek(0)
                if installation in printed.read().splitlines():
                    return
                printed.write(installation + "\n")
    except OSError:
        pass  # a cache that cannot be written: print the notice each time
    print(NOTICE, file=sys.stderr)
