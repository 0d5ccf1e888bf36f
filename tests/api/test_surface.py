# SPDX-License-Identifier: Apache-2.0
"""Compare the public surface with that of zenoh-python, name by name and signature by signature."""

import importlib
import json
from pathlib import Path

import pytest

from tests.api.surface import MODULES, member_of, parameters, surface

REFERENCE = json.loads((Path(__file__).parent / "surface.json").read_text())
CLASSES = [(m, name) for m in MODULES for name, about in REFERENCE[m].items() if about["kind"] == "class"]

# Intended differences. docs/api.md lists each.
MORE_PARAMETERS = {"recv": [["timeout", "POSITIONAL_OR_KEYWORD", True]], "get": [["budget", "KEYWORD_ONLY", True]]}
MORE_OF = {"Callback": [["capacity", "KEYWORD_ONLY", True], ["full", "KEYWORD_ONLY", True]]}
OURS = {
    ("Reliability", "DEFAULT"): "Reliability.RELIABLE",  # eclipse-zenoh has BEST_EFFORT here, but does not use it
}
WITHOUT_SIGNATURE = {"KeyExpr": "a/b", "ZBytes": b"a"}  # compiled: a call with this argument is tried instead
# Their running module differs from its stub, and so do we.
STUB_LACKS_DEFAULTS = {"MissDetectionConfig", "RecoveryConfig", "Deallocate", "GarbageCollect", "MemoryLayout"}


def ours(module):
    return importlib.import_module("zenlake" + module)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_is_there(module):
    missing = [name for name in REFERENCE[module] if not hasattr(ours(module), name)]
    assert missing == []


@pytest.mark.parametrize(("module", "name"), CLASSES, ids=[f"{m or 'zenlake'}:{n}" for m, n in CLASSES])
def test_class_has_the_same_members(module, name):
    theirs = REFERENCE[module][name]
    mine = getattr(ours(module), name)
    if "base" in theirs:
        assert issubclass(mine, {"Exception": Exception, "int": int, "float": float}[theirs["base"]])
        return
    members = surface(ours(module))[name]["members"]
    for member, about in theirs["members"].items():
        # (In uncompiled modules, only instances show the attributes that a compiled class declares.)
        there = hasattr(mine, member) or (name == "Sample" and hasattr(mine("key"), member))
        assert member in members or there, f"{name}.{member} is missing"
        if about["kind"] == "special" or not hasattr(mine, member):
            continue
        found = members.get(member) or member_of(mine, member)  # the aliases of an enum are in no list
        if name == "QueryConsolidation" and member == "mode":
            continue  # a method at run time, a property in the stub: ours is the property
        assert found["kind"] == about["kind"], f"{name}.{member}"
        if about["kind"] == "value" and "text" in about:
            assert found["text"] == OURS.get((name, member), about["text"])
        if about["kind"] == "method":
            extra = MORE_PARAMETERS.get(member, [])
            assert [p for p in found["parameters"] if p not in extra or p in about["parameters"]] == about[
                "parameters"
            ], member
    if "new" in theirs and name not in STUB_LACKS_DEFAULTS:
        found = parameters(mine)
        if found is None:
            assert_made_of(mine, theirs["new"], WITHOUT_SIGNATURE[name])
        else:
            assert [p for p in found if p not in MORE_OF.get(name, [])] == theirs["new"], f"{name}()"


def assert_made_of(cls, signature, value):
    """A class accepts its one argument by position and by its name only. The argument is optional if it has a default."""
    [(name, kind, has_default)] = signature
    assert kind == "POSITIONAL_OR_KEYWORD"
    assert cls(value) == cls(**{name: value})
    with pytest.raises(TypeError):
        cls(**{f"another_{name}": value})
    if has_default:
        cls()
    else:
        with pytest.raises(TypeError):
            cls()


@pytest.mark.parametrize("module", MODULES)
def test_functions_take_the_same(module):
    for name, about in REFERENCE[module].items():
        if about["kind"] == "function":
            found = parameters(getattr(ours(module), name))
            if name == "open":
                found[0][2] = False  # ours needs no config
            assert found == about["parameters"], name


def test_the_submodules_are_the_same_objects():
    import zenlake
    import zenlake.ext
    import zenlake.handlers

    assert zenlake.Handler is zenlake.handlers.Handler
    assert zenlake.ext.z_serialize(1) == zenlake.ZBytes(b"\1" + bytes(3))
