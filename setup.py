# SPDX-License-Identifier: Apache-2.0
"""Build the compiled modules. pyproject.toml has all other metadata.

A compiled module is a plain `.py` with a `.pxd` beside it that declares its C types, so no list of them is needed here. All of them
are compiled, or none: compiled modules call each other in C. Without a C compiler the installation succeeds and runs the
same `.py` files, slower. Its wheel is then tagged `py3-none-any`.
`ZENLAKE_BUILD=yes` makes a missing compiler an error, `ZENLAKE_BUILD=no` does not compile, `ZENLAKE_CFLAGS` adds flags
(sanitizers).
"""

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
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


COMPILE = {
    "build",
    "build_ext",
    "bdist_wheel",
    "editable_wheel",
    "develop",
    "install",
}  # the commands that need the modules

# Typed memoryviews bring 20 000 lines of C with them. Kept in one module that the others share, they are compiled once.
SHARED = "zenlake._cyutility"


def shared_source() -> str:
    source = Path("build/cython/_cyutility.c")
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "cython", "-3", f"--generate-shared={source}"], check=True)
    return str(source)


def missing() -> str | None:
    """Return what this machine lacks to compile an extension module, or None."""
    from distutils.ccompiler import new_compiler
    from distutils.sysconfig import customize_compiler

    compiler = new_compiler()
    customize_compiler(compiler)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "try.c")
        for content, lack in (
            ("int one(void) { return 1; }\n", "a C compiler (Debian: apt install gcc libc6-dev)"),
            ("#include <Python.h>\n", "the headers of Python (Debian: apt install python3-dev)"),
        ):
            source.write_text(content)
            try:
                objects = compiler.compile([str(source)], output_dir="/", include_dirs=[sysconfig.get_path("include")])
                compiler.link_shared_object(objects, str(Path(folder, "try.so")))
            except Exception:  # of the compiler, which the error does not always name
                return lack
    return None


def extensions() -> list[Extension]:
    if sys.platform == "win32":
        raise SystemExit("zenlake does not run on Windows; install it on Linux, for example in WSL 2")
    build = os.environ.get("ZENLAKE_BUILD", "auto")
    if build == "no" or not COMPILE.intersection(sys.argv):
        return []
    lack = missing()
    if lack is not None and build == "yes":
        raise SystemExit(f"zenlake cannot be compiled: install {lack}")
    if lack is not None:
        print(f"zenlake is installed uncompiled and runs slower; to compile it, install {lack}", file=sys.stderr)
        return []
    from Cython.Build import cythonize

    extra = shlex.split(os.environ.get("ZENLAKE_CFLAGS", ""))
    flags = ["-O3", "-Wno-sign-compare", *(extra or ["-g0"])]  # what the debugger would need takes a third of the time

    def extension(name: str, source: str) -> Extension:
        return Extension(name, [source], extra_compile_args=flags, extra_link_args=extra)

    modules = []
    for pxd in sorted(Path("src/zenlake").rglob("*.pxd")):
        source = pxd.with_suffix(".py")
        modules.append(extension(".".join(source.with_suffix("").relative_to("src").parts), str(source)))
    compiled: list[Extension] = cythonize(
        modules, build_dir="build/cython", compiler_directives=DIRECTIVES, shared_utility_qualified_name=SHARED,
        nthreads=os.cpu_count() or 1,
    )  # fmt: skip
    return [extension(SHARED, shared_source()), *compiled]


if __name__ == "__main__":  # a process of cythonize may import this file
    setup(ext_modules=extensions())
