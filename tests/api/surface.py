# SPDX-License-Identifier: Apache-2.0
"""The public surface of a module as data: names, members, parameters, values.

`python -m tests.api.surface zenoh > tests/api/surface.json` wrote the reference from eclipse-zenoh 1.10.2. Signatures come
from the running module. Signatures of constructors come from its type stubs, because programs are written against these.
"""

import ast
import importlib
import inspect
import json
import sys
from enum import Enum
from pathlib import Path

MODULES = ("", ".handlers", ".ext", ".shm")
PLAIN = set(dir(object)) | {
    "__module__",
    "__weakref__",
    "__dict__",
    "__annotations__",
    "__orig_bases__",
    "__parameters__",
    "__slots__",
}


def parameters(function):
    """Return [name, kind, has a default] of each parameter, or None where Python has no signature."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in signature.parameters.values()]


def member_of(cls, name):
    static, value = inspect.getattr_static(cls, name), getattr(cls, name)
    if isinstance(value, cls):
        return {"kind": "value", "text": str(value)} if " at 0x" not in str(value) else {"kind": "value"}
    if inspect.isdatadescriptor(static):
        return {"kind": "property"}
    if callable(value):
        return {"kind": "special"} if name.startswith("__") else {"kind": "method", "parameters": parameters(value)}
    return {"kind": "value", "text": str(value)}


def surface(module):
    """Return the functions of a module, and its classes with their members."""
    found = {}
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or inspect.ismodule(value) or not callable(value):
            continue
        if not inspect.isclass(value):
            found[name] = {"kind": "function", "parameters": parameters(value)}
        elif issubclass(value, (BaseException, int, float)) and not issubclass(value, Enum):
            found[name] = {
                "kind": "class",
                "base": next(b for b in (Exception, int, float) if issubclass(value, b)).__name__,
            }
        else:
            names = sorted(set(dir(value)) - PLAIN - {"__pyx_vtable__"})
            found[name] = {"kind": "class", "members": {each: member_of(value, each) for each in names}}
    return found


def constructors(stub):
    """Return from a stub the parameters of each `__new__`, as (name, kind, has a default)."""
    found = {}
    for node in ast.parse(stub.read_text()).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for function in node.body:
            if isinstance(function, ast.FunctionDef) and function.name == "__new__":
                a = function.args
                positional = [
                    *((p, "POSITIONAL_ONLY") for p in a.posonlyargs),
                    *((p, "POSITIONAL_OR_KEYWORD") for p in a.args),
                ]
                bare = len(positional) - len(a.defaults)
                rows = [[p.arg, kind, i >= bare] for i, (p, kind) in enumerate(positional)][1:]
                rows += [
                    [p.arg, "KEYWORD_ONLY", d is not None] for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True)
                ]
                found[node.name] = rows
    return found


def reference(package):
    whole = {}
    for suffix in MODULES:
        module = importlib.import_module(package + suffix)
        whole[suffix] = surface(module)
        folder = Path(importlib.import_module(package).__path__[0])
        for name, rows in constructors(folder / f"{suffix[1:] or '__init__'}.pyi").items():
            whole[suffix][name]["new"] = rows
    return whole


if __name__ == "__main__":
    print(json.dumps(reference(sys.argv[1]), indent=1, sort_keys=True))
