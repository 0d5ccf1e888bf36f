# SPDX-License-Identifier: Apache-2.0
"""Refuse interpreters and machines that Zenlake does not run on, with one clear line.

Every version of Python 3 must be able to compile this module.
"""

OLDEST_PYTHON = (3, 11)


def check_platform(byteorder: str, platform: str, python: "tuple[int, ...]") -> None:
    """Check the values of `sys.byteorder`, `sys.platform` and `sys.version_info`.

    Raises:
        ImportError: Zenlake does not run there.
    """
    if python < OLDEST_PYTHON:
        raise ImportError(
            "Zenlake needs Python {}.{} or newer, and this is Python {}.{}: install a newer Python, "
            "for example with pyenv or uv, and install zenlake there".format(*OLDEST_PYTHON, *python[:2])
        )
    if byteorder != "little":
        raise ImportError(
            "Zenlake does not run on big-endian processors: it reads and writes memory in little-endian order; "
            "use an x86-64 or aarch64 machine"
        )
    if platform in ("win32", "cygwin"):
        raise ImportError(
            "Zenlake does not run on Windows: it needs POSIX sockets and file locks; use Linux, for example in WSL 2"
        )
    if platform in ("emscripten", "wasi"):
        raise ImportError("Zenlake does not run in WebAssembly: it needs threads and sockets; use Linux")
