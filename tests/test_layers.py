# SPDX-License-Identifier: Apache-2.0
"""Permitted imports between layers: no import upward or sideways, and no IO in sans-IO layers."""

import ast
import re
from pathlib import Path

import pytest

import zenlake

ROOT = Path(zenlake.__file__).parent
LEAVES = {"errors", "config", "core", "_compat", "_platform_check", "sample_captures"}

# The imports of each layer besides the leaves and itself. The imports of those are included, recursively.
IMPORTS = {
    "wire": set(), "session": {"wire"}, "columns": {"session"}, "transport": {"session"}, "network": {"transport"},
    "shared_memory": {"transport"}, "link": set(), "runtime": {"network", "link", "shared_memory"}, "api": {"runtime", "columns"},
    "aio": {"api"}, "log": {"columns"}, "capture": {"columns"},
    "payloads": {"columns"}, "tables": {"capture", "log", "payloads"}, "lake": {"tables"}, "tap": {"runtime", "log"},
    "spark": {"replay", "tap"}, "report": {"tables"}, "replay": {"lake", "api"},
    "zenoh_alias": {"api"}, "cli": {"spark", "report", "tap", "replay", "aio", "zenoh_alias"},
}  # fmt: skip

SANS_IO = {"wire", "session", "columns", "transport", "network"}
FACES = {"handlers", "ext", "shm"}  # `import zenlake.handlers`: what `api` holds under the names that users know
WORLD = {"socket", "asyncio", "threading", "time", "random", "secrets", "selectors", "ssl", "multiprocessing"}
THREADS = {"zenlake._compat.rlock"}  # leaves that sans-IO layers may not import
SPARK = {"spark", "pyspark_zenoh", "pyspark_zenoh_capture"}


def below(layer):
    return {layer}.union(*map(below, IMPORTS[layer]))


def imported(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{name.name}" for name in node.names)


SOURCES = sorted(ROOT.parent.glob("zenlake/**/*.py")) + sorted(ROOT.parent.glob("*.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.relative_to(ROOT.parent).as_posix())
def test_imports_go_down(source):
    parts = source.relative_to(ROOT.parent).with_suffix("").parts
    layer = parts[1] if parts[0] == "zenlake" else parts[0]
    layer = "api" if layer in FACES else layer
    if parts == ("zenlake", "__init__"):
        return  # the root package exports names of every layer
    allowed = LEAVES | (set() if layer in LEAVES else below(layer if parts[0] == "zenlake" else "spark"))
    for name in imported(source):
        path = name.removeprefix("cython.cimports.").split(".")
        if path[0] == "zenlake" and path[1:]:
            assert path[1] in allowed or path[1].startswith("__"), f"{layer} imports {name}"
        sans_io = layer in SANS_IO | LEAVES and ".".join(parts) not in THREADS
        assert not (sans_io and path[0] in WORLD), f"{layer} imports {name}"
        assert not (sans_io and ".".join(path[:3]) in THREADS), f"{layer} imports {name}"
        assert path[0] != "pyspark" or layer in SPARK, f"{layer} imports {name}"


def test_the_page_on_layers_lists_the_imports_of_each():
    page = (ROOT.parents[1] / "docs" / "design" / "layers.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)/` \|.*\| ([^|]*) \|$", page, re.MULTILINE))
    found = {layer: set(re.findall(r"`(\w+)`", imports)) for layer, imports in rows.items()}
    assert found == IMPORTS | {"cli": set()}  # which may import all
    order = list(rows)
    assert all(order.index(lower) < order.index(layer) for layer, imports in found.items() for lower in imports)
