# SPDX-License-Identifier: Apache-2.0
"""A compiled module has two files: its `.py` defines every name that its `.pxd` declares, and it is compiled."""

import ast
import importlib
import os
import re
import shutil
from pathlib import Path

import pytest

import zenlake

ROOT = Path(zenlake.__file__).parent.parent
MODULES = sorted(ROOT.glob("zenlake/**/*.pxd"))

FUNCTION = re.compile(r"^(?:cdef|cpdef)\s[^(=]*?(\w+)\((.*)\)")
ATTRIBUTE = re.compile(r"^cdef\s.*[\s*\]](\w+)(?:\[\d+\])?$")
CLASS = re.compile(r"^cdef class (\w+)")

each_module = pytest.mark.parametrize("pxd", MODULES, ids=lambda pxd: pxd.relative_to(ROOT).with_suffix("").as_posix())


def declared(pxd):
    """(class or None, name, argument names or None for an attribute) of each declaration."""
    text = re.sub(r"([,(])\s*\n\s*|\n\s*(?=\))", r"\1", pxd.read_text())
    scope = None
    body = 1000  # the depth of an inline function whose body is being passed over
    for line in text.splitlines():
        code = line.partition("#")[0].rstrip()
        depth = len(code) - len(code.lstrip())
        if not code or depth > body:
            continue
        body = depth if code.lstrip().startswith("cdef inline ") and code.endswith(":") else 1000
        if depth == 0:
            scope = None
        code = code.strip()
        if match := CLASS.match(code):
            scope = match[1]
        elif match := FUNCTION.match(code):
            arguments = [one.partition("=")[0].strip() for one in match[2].split(",") if one.strip()]
            yield scope, match[1], [re.findall(r"\w+", one)[-1] for one in arguments if one != "self"]
        elif match := ATTRIBUTE.match(code):
            yield scope, match[1], None
        else:
            known = ("cdef struct", "cdef extern", "cdef enum", "cpdef enum")
            assert not code.startswith(("cdef ", "cpdef ")) or code.startswith(known), f"not understood: {code}"


def statements(node):
    """Yield the statements of a module or class, including those of one mode only (`if not cython.compiled:`)."""
    for part in node.body:
        if isinstance(part, ast.If):
            yield from statements(part)
        else:
            yield part


def defined(source):
    """Return the same for the `.py`. Attributes are those that a method assigns or the class body names."""
    for node in statements(ast.parse(source.read_text())):
        if isinstance(node, ast.FunctionDef):
            yield None, node.name, [argument.arg for argument in node.args.args]
        elif isinstance(node, ast.Assign):
            yield from ((None, target.id, None) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.ClassDef):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef):
                    yield node.name, part.name, [argument.arg for argument in part.args.args if argument.arg != "self"]
                elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    if isinstance(part.value, ast.Name) and part.value.id == "self":
                        yield node.name, part.attr, None
                elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                    yield node.name, part.target.id, None
            methods = {part.name: part for part in statements(node) if isinstance(part, ast.FunctionDef)}
            for part in statements(node):  # another name for a method
                if isinstance(part, ast.Assign) and isinstance(part.value, ast.Name) and part.value.id in methods:
                    arguments = [one.arg for one in methods[part.value.id].args.args if one.arg != "self"]
                    yield from ((node.name, target.id, arguments) for target in part.targets)


def test_there_are_compiled_modules():
    assert len(MODULES) >= 12


@each_module
def test_declared_functions_are_defined(pxd):
    there = [*defined(pxd.with_suffix(".py"))]
    for declaration in declared(pxd):
        assert declaration in there, f"{pxd.name} declares {declaration}"


@each_module
def test_its_constants_have_the_same_value_in_both(pxd):
    twice = re.findall(r"^    ([A-Z_]+ = -?\w+)$", pxd.read_text(), re.M)
    assert {*twice} <= {*re.findall(r"^    ([A-Z_]+ = -?\w+)\b", pxd.with_suffix(".py").read_text(), re.M)}


@each_module
def test_it_is_compiled_where_it_can_be(pxd):
    module = importlib.import_module(".".join(pxd.relative_to(ROOT).with_suffix("").parts))
    pure = bool(os.environ.get("ZENLAKE_PURE"))
    can = any(map(shutil.which, ("cc", "gcc", "clang")))
    assert module.__file__.endswith(".py") == (pure or not can)


def test_a_difference_would_be_seen(tmp_path):
    """The checks of this test find differences."""
    (tmp_path / "x.pxd").write_text(
        "cdef int f(int a,\n           const char* b) except -1\ncdef class C:\n    cdef readonly unsigned int[::1] n\n"
        "    cdef int sns[16]\n    cpdef int g(self, Py_ssize_t size) except -1 nogil\n"
    )
    (tmp_path / "x.py").write_text(
        "def f(a, b): pass\nclass C:\n    def __init__(self):\n        self.n = 1\n        self.sns = []\n"
        "    def g(self, size): pass\n"
    )
    assert {*map(str, declared(tmp_path / "x.pxd"))} <= {*map(str, defined(tmp_path / "x.py"))}
    assert [*declared(tmp_path / "x.pxd")] == [
        (None, "f", ["a", "b"]),
        ("C", "n", None),
        ("C", "sns", None),
        ("C", "g", ["size"]),
    ]
