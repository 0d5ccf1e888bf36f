# SPDX-License-Identifier: Apache-2.0
"""Every public name is on a page of the reference, with its arguments, results and errors."""

import ast
import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import zenlake
from zenlake.wire.raw_memory import COMPILED

SRC = Path(zenlake.__path__[0]).parent
PAGES = Path(__file__).parent.parent / "docs" / "reference"
MODULES = [
    "zenlake",
    "zenlake.aio",
    "zenlake.aio.ext",
    "zenlake.ext",
    "zenlake.handlers",
    "zenlake.shm",
    "zenlake.spark",
]
# Members for other modules of the package; `filters` in mkdocs.yml hides them.
INTERNAL = {
    "add", "check", "clock", "discard", "ended", "from_wire", "has_room_for", "hold", "is_put", "ntp64", "push",
    "push_several", "qos", "release_held", "source", "take", "to_wire", "utf8", "value", "wait", "wake", "whole",
}  # fmt: skip
RESULT_IN_FIRST_LINE = ("Return ", "Yield ")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def page_of(module: str) -> Path:
    return PAGES / f"{module.removeprefix('zenlake.')}.md"


def public_names(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    return [name for name in loaded.__all__ if not inspect.ismodule(getattr(loaded, name))]


@pytest.mark.parametrize("module", MODULES)
def test_the_page_of_a_module_has_every_public_name_once(module: str) -> None:
    directives = re.findall(r"^::: ([\w.]+)", page_of(module).read_text(), re.MULTILINE)
    assert sorted(each.split(".")[-1] for each in directives) == sorted(public_names(module))


def test_every_page_is_in_the_navigation() -> None:
    navigation = (PAGES.parent.parent / "mkdocs.yml").read_text()
    assert {page.stem for page in PAGES.glob("*.md")} == {"index", *(page_of(module).stem for module in MODULES)}
    assert all(f"reference/{page.name}" in navigation for page in PAGES.glob("*.md"))


def documented(module: str) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Return each public function and method that the reference shows."""
    loaded = importlib.import_module(module)
    for name in public_names(module):
        found = getattr(loaded, name)
        if not inspect.isclass(found):
            yield name, found
        elif not issubclass(found, enum.Enum):
            for owner in (base for base in found.__mro__ if base.__module__.startswith("zenlake")):
                for key, member in vars(owner).items():
                    member = member.__func__ if isinstance(member, classmethod | staticmethod) else member
                    if not key.startswith("_") and key not in INTERNAL and inspect.isroutine(member):
                        yield f"{name}.{key}", member


def section(text: str, name: str) -> str:
    """Return the text of a section. It is empty for a section without text."""
    match = re.search(rf"^{name}:\n((?: .*\n?|\n)*)", text, re.MULTILINE)
    return match[1].strip("\n") if match and match[1].strip() else ""


def described(text: str, name: str) -> set[str]:
    """Return the items of a section that have a description."""
    items = re.findall(r"^ +([\w*., ]+): *\S", section(text, name), re.MULTILINE)
    return {word.strip("*") for each in items for word in each.split(", ")}


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Do it.\n\nArgs:\n    x: The number.\n    *y, z: Others.\n", {"x", "y", "z"}),
        ("Do it.\n\nArgs:\n    x:\n", set()),
        ("Do it.\n\nArgs:\n\nReturns:\n    x: A number.\n", set()),
        ("Do it.\n\nArgs:\n\n", set()),
    ],
)
def test_an_empty_section_has_no_description(text: str, items: set[str]) -> None:
    assert described(text, "Args") == items
    assert bool(section(text, "Args")) == ("x:" in text.partition("Returns")[0])


@pytest.mark.skipif(not COMPILED, reason="uncompiled classes also show internal members")
@pytest.mark.parametrize("module", MODULES)
def test_public_functions_describe_arguments_and_results(module: str) -> None:
    missing = []
    for name, function in documented(module):
        text = inspect.getdoc(function) or ""
        try:
            signature = inspect.signature(function)
        except ValueError:
            continue  # a method of a C type
        known = described(text, "Args") | {"self", "cls"}
        missing += [f"{name}({each})" for each in signature.parameters if each not in known]
        has_result = signature.return_annotation not in (None, "None", inspect.Signature.empty)
        if not text or (has_result and not section(text, "Returns") and not text.startswith(RESULT_IN_FIRST_LINE)):
            missing.append(f"{name}: result")
    assert missing == []


@cache
def tree_of(module: str) -> ast.Module:
    file = SRC.joinpath(*module.split("."))
    file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    return ast.parse(file.read_text())


def definition(member: Any) -> Any:
    """Return the source of a function or class, which may be compiled."""
    found: Any = tree_of(member.__module__)
    # Methods of mixins are renamed after the public class. Their code has the name of the source.
    name = member.__code__.co_qualname if isinstance(member, FunctionType) else member.__qualname__
    for part in name.split("."):
        named = [each for each in found.body if getattr(each, "name", None) == part]
        found = named[-1]  # the first ones are overloads
    return found


def raised(function: Function) -> set[str]:
    """Return the names of the errors that a function raises itself."""
    found, nodes = set(), list[ast.AST](function.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            name = ast.unparse(node.exc.func).split(".")[-1]
            found |= {name} if name[0].isupper() else set()
        nodes += ast.iter_child_nodes(node)
    return found


@pytest.mark.skipif(not COMPILED, reason="uncompiled classes also show internal members")
@pytest.mark.parametrize("module", MODULES)
def test_public_functions_describe_their_errors(module: str) -> None:
    missing = [
        f"{name}: {error}"
        for name, function in documented(module)
        for error in raised(definition(function)) - described(inspect.getdoc(function) or "", "Raises")
    ]
    assert missing == []


@pytest.mark.parametrize("module", MODULES)
def test_public_classes_describe_their_arguments_and_errors(module: str) -> None:
    page, missing = page_of(module).read_text(), []
    for name in public_names(module):
        found = getattr(importlib.import_module(module), name)
        if not inspect.isclass(found) or issubclass(found, enum.Enum):
            continue
        text = inspect.getdoc(found) or ""
        missing += [] if text.strip() else [name]
        made_by_users = not re.search(rf"^::: .*\b{name}\n(?: .*\n)* +merge_init_into_class: false", page, re.MULTILINE)
        init = vars(found).get("__init__")
        if made_by_users and getattr(init, "__module__", None) == found.__module__:
            known = described(text, "Args") | described(text, "Attributes")  # the latter for records
            missing += [f"{name}({each})" for each in inspect.signature(found).parameters if each not in known]
            source = definition(found)
            steps = [each for each in source.body if getattr(each, "name", None) in ("__init__", "__post_init__")]
            errors = {error for each in steps if isinstance(each, Function) for error in raised(each)}
            missing += [f"{name}: {error}" for error in errors - described(text, "Raises")]
    assert missing == []
