# SPDX-License-Identifier: Apache-2.0
"""Stand-in for the module `cython` where modules run uncompiled and Cython is not installed.

Reason: a compiled module has no import of `cython`, but an uncompiled one needs it for types, casts and decorators. Only these
are here, as Zenlake uses them: types convert their argument, decorators return the function. Cython's own module is used where
it is installed.
"""

import sys
from collections.abc import Callable
from contextlib import nullcontext
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
    """A C type: a call converts a value; an index makes an array or a const type."""

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


def install() -> None:
    """Provide `import cython`, unless Cython is installed or loaded."""
    sys.modules.setdefault("cython", sys.modules[__name__])
