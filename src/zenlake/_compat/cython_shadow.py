# SPDX-License-Identifier: Apache-2.0
"""Stand-in for the module `cython` where modules run uncompiled.

Reason: a compiled module does not import `cython`, but an uncompiled one needs it for types, casts and decorators. This module
has only the names that Zenlake uses. Types convert their argument, and decorators return the function. If Cython is installed,
its own module is used.

An import of C declarations (`from cython.cimports.zenlake.wire.cursor import Cursor`) imports the names from the `.py` file.
Cython's own module supports this for its own library only.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["install"]

compiled = False
NULL = None


class Lock(nullcontext[None]):
    """`with cython.nogil:` and `@cython.nogil`. Neither has an effect."""

    def __call__(self, value: Any) -> Any:
        return value


gil = nogil = Lock()


class CType:
    """A C type. A call converts a value, and an index makes an array or a const type."""

    def __init__(self, convert: Callable[..., Any]) -> None:
        self._convert = convert

    def __call__(self, *value: Any) -> Any:
        return self._convert(*value)

    def __getitem__(self, item: Any) -> Any:
        return item if isinstance(item, CType) else self


def declare(kind: Any = None, value: Any = None) -> Any:
    """Return the value of a declared variable, converted to a C type."""
    return kind(value) if isinstance(kind, CType) and value is not None else value


def cast(kind: Any, value: Any) -> Any:
    """Convert to a C type. Other casts have no effect."""
    return kind(value) if isinstance(kind, CType) else value


def pointer(kind: Any) -> CType:
    """Return a pointer type. Uncompiled code has no pointers, only objects."""
    return CType(lambda value=None: value)


def _decorate(function: Any) -> Any:
    return function


def _decorate_with(*_: Any, **__: Any) -> Callable[[Any], Any]:
    return _decorate


cfunc = cclass = inline = no_gc = _decorate
exceptval = freelist = annotation_typing = _decorate_with
schar = uchar = int_ = uint = ulong = longlong = ulonglong = CType(int)
size_t = Py_ssize_t = CType(int)
double = CType(float)
bint = CType(bool)
void = const = CType(lambda value=None: value)


def __getattr__(name: str) -> Any:
    if name == "int":
        return int_
    if name.startswith(("p_", "pp_")):
        return pointer(None)
    raise AttributeError(
        f"module 'cython' has no attribute {name!r}: zenlake runs uncompiled and Cython is not installed"
    )


PREFIX = "cython.cimports."


class CimportLoader(Loader):
    """Loader of the module with the same name, without the prefix `cython.cimports`."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(spec.name.removeprefix(PREFIX))
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own_spec  # the import has just replaced it


class CimportFinder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.startswith(PREFIX + "zenlake"):
            return ModuleSpec(name, CimportLoader(), is_package=True)
        return None


def install() -> None:
    """Provide `import cython`, unless Cython is installed or loaded, and imports of C declarations."""
    cython: Any = sys.modules.setdefault("cython", sys.modules[__name__])
    cython.cimports = sys.modules.setdefault("cython.cimports", ModuleType("cython.cimports"))
    cython.cimports.__path__ = []
    cython.cimports.__spec__ = ModuleSpec("cython.cimports", None, is_package=True)  # Cython's own package has none
    sys.meta_path.insert(0, CimportFinder)
