# SPDX-License-Identifier: Apache-2.0
"""Build the compiled modules. pyproject.toml has all other metadata.

A compiled module is a plain `.py` with a `.pxd` beside it that declares its C types, so no list of them is needed here. Without a
C compiler the installation succeeds and runs the same `.py` files, slower.
`ZENLAKE_BUILD=yes` makes a failed build an error, `ZENLAKE_BUILD=no` skips it, `ZENLAKE_CFLAGS` adds flags
(sanitizers).
"""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup

DIRECTIVES = {
    "language_level": 3,
    "c_string_type": "str",
    "c_string_encoding": "ascii",  # a field's name is a literal in the source and a `const char*` in C
    "annotation_typing": True,
    "auto_pickle": False,  # records are C memory; classes that can be pickled define how
    "boundscheck": False,  # Cursor and the fast paths compare lengths with the end of the buffer
    "wraparound": False,
    "cdivision": True,
    "initializedcheck": False,
    # One branch of `if cython.compiled` is never reached, and set-up code need not be fast.
    "warn.unreachable": False,
    "show_performance_hints": False,
}


# Typed memoryviews bring 20 000 lines of C with them. Kept in one module that the others share, they are compiled once.
SHARED = "zenlake._cyutility"


def shared_source() -> str:
    source = Path("build/cython/_cyutility.c")
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "cython", "-3", f"--generate-shared={source}"], check=True)
    return str(source)


def extensions() -> list[Extension]:
    build = os.environ.get("ZENLAKE_BUILD", "auto")
    if build == "no":
        return []
    from Cython.Build import cythonize

    extra = shlex.split(os.environ.get("ZENLAKE_CFLAGS", ""))
    flags = ["-O3", "-Wno-sign-compare", *(extra or ["-g0"])]  # what the debugger would need takes a third of the time

    def extension(name: str, source: str) -> Extension:
        return Extension(name, [source], extra_compile_args=flags, extra_link_args=extra, optional=build != "yes")

    modules = []
    for pxd in sorted(Path("src/zenlake").rglob("*.pxd")):
        source = pxd.with_suffix(".py")
        modules.append(extension(".".join(source.with_suffix("").relative_to("src").parts), str(source)))
    compiled: list[Extension] = cythonize(
        modules, build_dir="build/cython", compiler_directives=DIRECTIVES, shared_utility_qualified_name=SHARED
    )
    for each in compiled:
        each.optional = build != "yes"  # cythonize forgets it
    return [extension(SHARED, shared_source()), *compiled]


setup(ext_modules=extensions())
