# SPDX-License-Identifier: Apache-2.0
"""Refuse machines that Zenlake does not run on, with one clear line."""


def check_platform(byteorder: str, platform: str) -> None:
    """Check the values of `sys.byteorder` and `sys.platform`.

    Raises:
        ImportError: Zenlake does not run there.
    """
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
