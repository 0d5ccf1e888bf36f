# SPDX-License-Identifier: Apache-2.0
"""Every public name is on a page of the reference, with its arguments and results."""

import enum
import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zenlake.wire.raw_memory import COMPILED

PAGES = Path(__file__).parent.parent / "docs" / "reference"
MODULES = [f"zenlake{page.stem.removeprefix('zenlake') and '.' + page.stem}" for page in PAGES.glob("[!i]*.md")]
# Members for other modules of the package; `filters` in mkdocs.yml hides them.
INTERNAL = {
    "add", "check", "clock", "discard", "ended", "from_wire", "has_room_for", "hold", "is_put", "ntp64", "push",
    "push_several", "qos", "release_held", "source", "take", "to_wire", "utf8", "value", "wait", "wake", "whole",
}  # fmt: skip
RESULT_IN_FIRST_LINE = ("Return ", "Yield ")


def public_names(module: str) -> list[str]:
    loaded = importlib.import_module(module)
    return [name for name in loaded.__all__ if not inspect.ismodule(getattr(loaded, name))]


@pytest.mark.parametrize("module", MODULES)
def test_the_page_of_a_module_has_every_public_name_once(module: str) -> None:
    page = PAGES / f"{module.removeprefix('zenlake.')}.md"
    directives = re.findall(r"^::: ([\w.]+)", page.read_text(), re.MULTILINE)
    assert sorted(each.split(".")[-1] for each in directives) == sorted(public_names(module))


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
    match = re.search(rf"^{name}:\n((?: .*\n?|\n)*)", text, re.MULTILINE)
    return match[1] if match else ""


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
        described = {
            word.strip("*")
            for line in re.findall(r"^ +([\w*, ]+):", section(text, "Args"), re.M)
            for word in line.split(", ")
        }
        missing += [f"{name}({each})" for each in signature.parameters if each not in described | {"self", "cls"}]
        has_result = signature.return_annotation not in (None, "None", inspect.Signature.empty)
        if not text or (has_result and not section(text, "Returns") and not text.startswith(RESULT_IN_FIRST_LINE)):
            missing.append(f"{name}: result")
    assert missing == []
